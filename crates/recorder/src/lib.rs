//! Writer of a process's record: a ring in a mapped file, which survives the process however it ends. A record costs one
//! atomic addition and nine stores; there is no lock and no system call. The layout is `weft_record::layout`'s.
#![forbid(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::atomic::fence;

use rustix::time::{ClockId, clock_gettime};
use weft_record::Record;
use weft_record::layout::{self, RECORD_WORDS, Section, WORD_BYTES, header};
use weft_sys::shared::Shared;
use weft_sys::sync::Ordering;

/// The variable that names the directory of ring files.
pub const VARIABLE: &str = "WEFT_RECORD";
/// Ending of a ring file's name.
pub const EXTENSION: &str = "ring";
/// Attempts to find a name that no other ring file of the process has.
const NAMES_MAX: u32 = 1000;

/// The library that writes a ring file. Each has one of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Library {
    /// Verbs. It records the process's regular end, too.
    Verbs,
    /// The connection manager.
    Cm,
}

impl Library {
    fn name(self) -> &'static str {
        match self {
            Library::Verbs => "verbs",
            Library::Cm => "cm",
        }
    }
}

/// The record of this process.
#[derive(Debug)]
pub struct Recorder {
    pages: Shared,
    pid: u32,
}

impl Recorder {
    /// Makes a ring file in a directory.
    ///
    /// # Errors
    /// The directory cannot be written, or has no room.
    pub fn create(directory: &Path, library: Library) -> io::Result<Recorder> {
        let pid = std::process::id();
        let file = create_file(directory, library.name(), pid)?;
        let pages = Shared::map_own(&file, layout::file_bytes(&Section::CAPACITIES))?;
        let recorder = Recorder { pages, pid };
        recorder.write_header(library);
        Ok(recorder)
    }

    /// Returns the process that made it. A forked child does not have its pages.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Appends a record; in a full section it replaces the oldest.
    #[inline]
    pub fn write(&self, record: &Record) {
        let section = record.section();
        let nth = self.word(header::HEADS + section.index()).fetch_add(1, Ordering::Relaxed);
        let capacity = Section::CAPACITIES[section.index()];
        let place = section.start(&Section::CAPACITIES) + (nth as usize % capacity) * RECORD_WORDS;
        let [sequence, words @ ..] = self.pages.words::<RECORD_WORDS>(place * WORD_BYTES);
        // A process that is killed in between leaves a record that readers skip.
        sequence.store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        for (to, word) in words.iter().zip(record.encode()) {
            to.store(word, Ordering::Relaxed);
        }
        sequence.store(nth + 1, Ordering::Release);
    }

    /// Records the regular end of the process.
    pub fn end(&self) {
        self.word(header::ENDED).store(now(), Ordering::Release);
    }

    fn write_header(&self, library: Library) {
        let set = |place: usize, value: u64| self.word(place).store(value, Ordering::Relaxed);
        set(header::PID, self.pid.into());
        set(header::RECORDS_END, u64::from(library == Library::Verbs));
        set(header::PROCESS, weft_sys::process::identity());
        let boot = boot_id();
        set(header::BOOT, boot as u64);
        set(header::BOOT + 1, (boot >> 64) as u64);
        set(header::STARTED, now());
        set(header::STARTED_REALTIME, read(ClockId::Realtime));
        for (nth, capacity) in Section::CAPACITIES.into_iter().enumerate() {
            set(header::CAPACITIES + nth, capacity as u64);
        }
        let name = rustix::system::uname();
        self.write_text(header::HOST, header::HOST_WORDS, name.nodename().to_bytes());
        let mut program = std::fs::read("/proc/self/cmdline").unwrap_or_default();
        program.iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = b' ');
        self.write_text(header::PROGRAM, header::PROGRAM_WORDS, &program);
        // Last: a file without it is no record yet.
        self.word(header::MAGIC).store(layout::MAGIC, Ordering::Release);
    }

    fn write_text(&self, place: usize, words: usize, text: &[u8]) {
        for (nth, bytes) in text.chunks(WORD_BYTES).take(words).enumerate() {
            let mut word = [0; WORD_BYTES];
            word[..bytes.len()].copy_from_slice(bytes);
            self.word(place + nth).store(u64::from_le_bytes(word), Ordering::Relaxed);
        }
    }

    fn word(&self, place: usize) -> &weft_sys::sync::AtomicU64 {
        self.pages.word(place * WORD_BYTES)
    }
}

/// Makes a file of a new name that only this user may read: a program that executes another one keeps its process ID.
fn create_file(directory: &Path, label: &str, pid: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600);
    for nth in 0..NAMES_MAX {
        let path = directory.join(format!("{pid}-{label}-{nth}.{EXTENSION}"));
        match options.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            opened => return opened,
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Returns the kernel's boot ID; 0 if it is not known.
pub fn boot_id() -> u128 {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    u128::from_str_radix(&text.trim().replace('-', ""), 16).unwrap_or(0)
}

/// Returns the name of this host.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Returns the time of a record: CLOCK_MONOTONIC in nanoseconds.
pub fn now() -> u64 {
    read(ClockId::Monotonic)
}

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_explain::Recording;
    use weft_record::Event;

    struct Directory(std::path::PathBuf);

    impl Directory {
        fn new() -> Directory {
            let path = std::env::temp_dir().join(format!("weft-recorder-{:x}", weft_sys::random::u64()));
            std::fs::create_dir(&path).unwrap();
            Directory(path)
        }

        fn recordings(&self) -> Vec<Recording> {
            let mut files: Vec<_> = std::fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path()).collect();
            files.sort();
            files.iter().map(|path| Recording::parse(&std::fs::read(path).unwrap()).unwrap()).collect()
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn readers_see_what_was_written_until_the_last_moment() {
        let directory = Directory::new();
        let recorder = Recorder::create(&directory.0, Library::Verbs).unwrap();
        let posted = |sends: u32| Record { at: sends.into(), qpn: 7, event: Event::Posted { sends, recvs: 0 } };
        let made = Record { at: 0, qpn: 7, event: Event::Created { qp_type: 2, device: 0 } };
        recorder.write(&made);
        let many = Section::CAPACITIES[Section::Traffic.index()] as u32 + 10;
        (0..many).for_each(|nth| recorder.write(&posted(nth)));
        let read = &directory.recordings()[0];
        assert_eq!(read.records[0], made, "traffic does not overwrite the story");
        assert_eq!((read.records[1], *read.records.last().unwrap()), (posted(10), posted(many - 1)));
        assert_eq!((read.overwritten, read.ended, read.pid), ([0, 0, 10], None, std::process::id()));
        assert!(!read.host.is_empty() && read.program.contains("recorder"), "{read:?}");
        recorder.end();
        assert!(directory.recordings()[0].ended.is_some());
    }

    #[test]
    fn threads_write_at_once() {
        let directory = Directory::new();
        let recorder = Recorder::create(&directory.0, Library::Verbs).unwrap();
        std::thread::scope(|scope| {
            for qpn in 1..5 {
                let recorder = &recorder;
                scope.spawn(move || {
                    (0..1000).for_each(|at| recorder.write(&Record { at, qpn, event: Event::Destroyed }));
                });
            }
        });
        let read = &directory.recordings()[0];
        let of = |qpn| read.records.iter().filter(|record| record.qpn == qpn).count();
        assert_eq!((1..5).map(of).collect::<Vec<_>>(), [1000; 4]);
    }

    #[test]
    fn a_process_may_make_several() {
        let directory = Directory::new();
        let first = Recorder::create(&directory.0, Library::Verbs).unwrap();
        let second = Recorder::create(&directory.0, Library::Verbs).unwrap();
        assert_eq!((first.pid(), directory.recordings().len()), (second.pid(), 2));
        assert!(Recorder::create(&directory.0.join("none"), Library::Verbs).is_err());
    }

    #[test]
    fn the_files_of_a_process_have_its_identity() {
        let directory = Directory::new();
        let verbs = Recorder::create(&directory.0, Library::Verbs).unwrap();
        let _cm = Recorder::create(&directory.0, Library::Cm).unwrap();
        verbs.end();
        let recordings = directory.recordings();
        let [cm, verbs] = &recordings[..] else { panic!("two files") };
        assert!(cm.process == verbs.process && cm.boot == verbs.boot && cm.boot == boot_id());
        assert!(cm.process != 0 && cm.boot != 0 && cm.host == host_name());
        assert_eq!((cm.records_end, verbs.records_end), (false, true));
        assert_eq!(weft_explain::merged(recordings.clone()).len(), 1);
    }
}
