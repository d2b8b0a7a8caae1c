//! The directory of the recorded processes' ring files, and of the output file until it is complete.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// Time for processes that the program left in the background to end.
const GRACE: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Name of the output file until it is complete. It is no ring file's name.
const UNFINISHED: &str = "packed";

/// The directory. It stays until [`RingDirectory::remove`], unless no process wrote a ring file.
#[derive(Debug)]
pub struct RingDirectory(PathBuf);

impl RingDirectory {
    /// Makes a directory beside the output file that only this user may enter.
    ///
    /// # Errors
    /// The output cannot become a file; the directory exists already, from a record that was not finished; or it cannot be
    /// made.
    pub fn beside(output: &Path) -> Result<RingDirectory> {
        if fs::metadata(output).is_ok_and(|known| !known.is_file()) {
            bail!("--output: {} exists and is no regular file; name another", output.display());
        }
        let mut name = output.file_name().context("--output: no file name")?.to_owned();
        name.push(".rings");
        let parent = match output.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        // The program may change its directory.
        let parent = parent.canonicalize().with_context(|| format!("--output: {}", parent.display()))?;
        let path = parent.join(name);
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => Ok(RingDirectory(path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let path = path.display();
                bail!(
                    "{path} exists: another record is running, was killed, or left processes in the background; weft \
                       explain {path} reads it, rm -r removes it"
                )
            }
            Err(error) => Err(error).with_context(|| path.display().to_string()),
        }
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Creates the file that becomes the output. Ring files hold addresses and command lines, so that only this user may
    /// read it, as them.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create_output(&self) -> io::Result<File> {
        File::options().write(true).create_new(true).mode(0o600).open(self.0.join(UNFINISHED))
    }

    /// Gives the complete output its name; an existing file of the name is replaced.
    ///
    /// # Errors
    /// The name is a directory's by now, or the directory that has it cannot be written.
    pub fn publish_output(&self, output: &Path) -> io::Result<()> {
        fs::rename(self.0.join(UNFINISHED), output)
    }

    /// Waits a little for the end of processes that the program left in the background.
    pub fn await_ends(&self) {
        let until = Instant::now() + GRACE;
        while Instant::now() < until && files(&self.0).iter().any(|(_, pid)| is_running(*pid)) {
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Removes the directory with the ring files.
    pub fn remove(self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Drop for RingDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.0.join(UNFINISHED));
        // A directory with ring files stays.
        let _ = fs::remove_dir(&self.0);
    }
}

/// Returns the ring files in a directory, each with the process that made it, by name.
pub fn files(directory: &Path) -> Vec<(PathBuf, u32)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries
        .filter_map(|entry| {
            let path = entry.path();
            let is_ring = path.extension().is_some_and(|extension| extension == weft_recorder::EXTENSION);
            let pid = path.file_stem()?.to_str()?.split('-').next()?.parse().ok()?;
            is_ring.then_some((path, pid))
        })
        .collect();
    found.sort();
    found
}

/// Whether a process lives; a zombie does not.
pub fn is_running(pid: u32) -> bool {
    let Some(process) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return false };
    // A process of another user refuses the question, and lives.
    let exists = matches!(test_kill_process(process), Ok(()) | Err(Errno::PERM));
    exists && !is_zombie(pid)
}

/// Whether a process ended, and its parent has not asked for its status yet.
fn is_zombie(pid: u32) -> bool {
    let Ok(stat) = fs::read(format!("/proc/{pid}/stat")) else { return false };
    // The name before the state may contain parentheses and spaces of its own.
    let state = stat.iter().rposition(|byte| *byte == b')').and_then(|end| stat.get(end + 2));
    matches!(state, Some(b'Z' | b'X'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output() -> PathBuf {
        std::env::temp_dir().join(format!("weft-record-{:x}", weft_sys::random::u64()))
    }

    #[test]
    fn a_directory_is_used_once() {
        let output = output();
        let rings = RingDirectory::beside(&output).unwrap();
        fs::write(rings.path().join("17-verbs-0.ring"), "").unwrap();
        fs::write(rings.path().join("note"), "").unwrap();
        assert_eq!(files(rings.path()), [(rings.path().join("17-verbs-0.ring"), 17)]);
        let again = RingDirectory::beside(&output).unwrap_err().to_string();
        assert!(again.contains("weft explain"), "{again}");
        let path = rings.path().to_owned();
        rings.remove();
        assert!(!path.exists());
    }

    #[test]
    fn a_directory_with_rings_stays_until_it_is_removed() {
        let output = output();
        let rings = RingDirectory::beside(&output).unwrap();
        let path = rings.path().to_owned();
        rings.create_output().unwrap();
        drop(rings);
        assert!(!path.exists(), "no process wrote a ring file");
        let rings = RingDirectory::beside(&output).unwrap();
        fs::write(path.join("17-verbs-0.ring"), "").unwrap();
        drop(rings);
        assert_eq!(files(&path).len(), 1);
        fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn an_output_that_cannot_become_a_file_is_refused_at_once() {
        for output in [std::env::temp_dir(), PathBuf::from("/dev/null"), PathBuf::from("/")] {
            let refusal = format!("{:#}", RingDirectory::beside(&output).unwrap_err());
            assert!(refusal.contains("no regular file"), "{refusal}");
        }
    }

    #[test]
    fn a_zombie_does_not_run() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        while is_running(child.id()) && Instant::now() < until {
            std::thread::sleep(POLL_INTERVAL);
        }
        assert!(is_zombie(child.id()) && !is_running(child.id()) && is_running(std::process::id()));
        child.wait().unwrap();
    }
}
