//! The process's file of reports.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use weft_check::{INCOMPLETE_MODE, Line, Report};

/// Names tried for the file: an earlier process may have had the same ID.
const NAMES_MAX: u32 = 1000;
/// The descriptor's number is the first free one from here on, if the process may have so many: programs close or replace
/// low ones, and expect others to be free.
const DESCRIPTOR_MIN: RawFd = 990;

/// Appends lines; a file is made for the first.
pub struct Writer {
    dir: PathBuf,
    file: Option<ReportFile>,
}

impl Writer {
    /// Writes below `dir`.
    pub fn new(dir: PathBuf) -> Writer {
        Writer { dir, file: None }
    }

    /// The writer of a forked child.
    pub fn for_child(&self) -> Writer {
        Writer::new(self.dir.clone())
    }

    /// Whether the process has a file.
    pub fn is_open(&self) -> bool {
        self.file.is_some()
    }

    /// Makes the file.
    pub fn open(&mut self) {
        if self.file.is_none() {
            self.file = self.create();
        }
    }

    fn create(&self) -> Option<ReportFile> {
        let pid = std::process::id();
        let name = |attempt: u32| if attempt == 0 { format!("{pid}.jsonl") } else { format!("{pid}-{attempt}.jsonl") };
        for attempt in 0..NAMES_MAX {
            let path = self.dir.join(name(attempt));
            match OpenOptions::new().append(true).create_new(true).open(&path) {
                Ok(file) => return ReportFile::new(path, file),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(_) => return None,
            }
        }
        None
    }

    /// Appends a line in one write, so that a process that is killed leaves whole lines. Where that fails, on a full disk for
    /// example, the file says that it lacks lines.
    pub fn write(&mut self, line: &Line) {
        self.open();
        if let Some(file) = &mut self.file
            && file.append((line.to_json() + "\n").as_bytes()).is_err()
        {
            file.mark_incomplete();
        }
    }

    /// Appends a report.
    pub fn report(&mut self, report: Report) {
        self.write(&Line::Report(Box::new(report)));
    }
}

/// Device and inode of a file.
type FileId = (u64, u64);

/// The file. The program may close its descriptor, and open another file in its place.
struct ReportFile {
    path: PathBuf,
    id: FileId,
    descriptor: RawFd,
}

impl ReportFile {
    fn new(path: PathBuf, file: File) -> Option<ReportFile> {
        let id = id_of(&file)?;
        Some(ReportFile { path, id, descriptor: out_of_the_way(file) })
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if !self.is_ours() {
            self.descriptor = out_of_the_way(reopen(&self.path, self.id)?);
        }
        borrow(self.descriptor).write_all(bytes)
    }

    fn mark_incomplete(&self) {
        if self.is_ours() {
            let mode = Permissions::from_mode(0o600 | INCOMPLETE_MODE);
            let _ = borrow(self.descriptor).set_permissions(mode);
        }
    }

    fn is_ours(&self) -> bool {
        id_of(&borrow(self.descriptor)) == Some(self.id)
    }
}

impl Drop for ReportFile {
    fn drop(&mut self) {
        if self.is_ours() {
            // SAFETY: the descriptor is that of this file, and this was its owner.
            drop(unsafe { OwnedFd::from_raw_fd(self.descriptor) });
        }
    }
}

/// A descriptor as a file that is not closed.
fn borrow(descriptor: RawFd) -> ManuallyDrop<File> {
    // SAFETY: the number is not negative. The kernel refuses it if the program has closed the descriptor, and the file is
    // not closed here.
    ManuallyDrop::new(unsafe { File::from_raw_fd(descriptor) })
}

fn id_of(file: &File) -> Option<FileId> {
    let metadata = file.metadata().ok()?;
    Some((metadata.dev(), metadata.ino()))
}

fn reopen(path: &Path, id: FileId) -> io::Result<File> {
    let file = OpenOptions::new().append(true).open(path)?;
    if id_of(&file) == Some(id) { Ok(file) } else { Err(ErrorKind::NotFound.into()) }
}

/// Gives the file a high number.
fn out_of_the_way(file: File) -> RawFd {
    // SAFETY: numbers alone.
    let high = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, DESCRIPTOR_MIN) };
    if high < 0 { file.into_raw_fd() } else { high }
}
