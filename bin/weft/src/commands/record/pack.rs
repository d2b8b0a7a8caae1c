//! The ring files of a run, packed into one file.

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result};
use weft_explain::{Killed, Life, Recording, archive, merged, render, stories};

use super::rings::{RingDirectory, files, is_running};

/// The packed file in numbers, and the reasons to keep the ring files.
#[derive(Debug, Default)]
pub struct Packed {
    bytes: u64,
    processes: usize,
    queue_pairs: usize,
    failed: usize,
    /// Processes that live, and record.
    running: usize,
    /// Ring files that are not in the packed file, and why.
    left_out: Vec<String>,
}

/// Packs the ring files of a directory into `file`, and gives it the output's name; `killed` is the process that was seen to
/// end by a signal.
///
/// # Errors
/// The output cannot be written. The ring files are as they were.
pub fn pack(rings: &RingDirectory, file: File, output: &Path, killed: Option<(u32, Killed)>) -> Result<Packed> {
    let named = || format!("--output {}", output.display());
    let mut writer = archive::Writer::new(BufWriter::new(file)).with_context(named)?;
    let mut packed = Packed::default();
    let mut recordings = Vec::new();
    let mut running = Vec::new();
    for (path, pid) in files(rings.path()) {
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) => {
                packed.left_out.push(format!("{}: {error}", path.display()));
                continue;
            }
        };
        // A process that was killed before it wrote its header recorded nothing.
        let Ok(recording) = Recording::parse(&bytes) else { continue };
        let killed = killed.filter(|(of, _)| *of == pid).map(|(_, killed)| killed);
        let life = if is_running(pid) { Life::Running } else { Life::Ended };
        if !writer.add(&bytes, life, killed).with_context(named)? {
            packed.left_out.push(format!("{}: no room for the records of so many processes", path.display()));
            continue;
        }
        running.extend((life == Life::Running).then_some(pid));
        recordings.push(recording);
    }
    let mut out = writer.finish().with_context(named)?;
    out.flush().with_context(named)?;
    packed.bytes = out.get_ref().metadata().with_context(named)?.len();
    rings.publish_output(output).with_context(named)?;
    running.dedup();
    let recordings = merged(recordings);
    let stories = stories(&recordings);
    packed.running = running.len();
    packed.processes = recordings.len();
    packed.queue_pairs = stories.len();
    packed.failed = stories.iter().filter(|story| render::has_failed(story, &stories, &recordings)).count();
    Ok(packed)
}

impl Packed {
    /// Whether the packed file has all that the ring files have, and will have.
    pub fn is_complete(&self) -> bool {
        self.running == 0 && self.left_out.is_empty()
    }

    /// The lines that the command prints at its end.
    pub fn lines(&self, output: &Path, rings: &Path) -> Vec<String> {
        let mut lines = self.left_out.clone();
        let (output, rings) = (output.display(), rings.display());
        if self.processes == 0 {
            lines.push(format!(
                "{output}: no process of the program left a record: none opened a device, or the directory has no room \
                 for one (WEFT_LOG=stderr prints the reason)"
            ));
        } else {
            let processes = counted(self.processes, "process", "processes");
            let queue_pairs = counted(self.queue_pairs, "queue pair", "queue pairs");
            lines.push(format!("{output}: {processes}, {queue_pairs}, {} bytes", self.bytes));
            lines.push(match self.failed {
                0 => format!("no queue pair failed; weft explain {output} --all prints what happened"),
                count => {
                    format!("{} failed; weft explain {output} tells why", counted(count, "queue pair", "queue pairs"))
                }
            });
        }
        if self.running > 0 {
            let processes = counted(self.running, "process runs and records", "processes run and record");
            lines.push(format!("{processes} on; weft explain {rings} reads that, too, and rm -r {rings} removes it"));
        } else if !self.is_complete() {
            lines.push(format!("{rings} is kept; rm -r {rings} removes it"));
        }
        lines
    }
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;
    use weft_recorder::{Library, Recorder};

    #[test]
    fn the_last_lines_say_how_to_go_on() {
        let (output, rings) = (Path::new("x"), Path::new("x.rings"));
        let lines = |packed: &Packed| packed.lines(output, rings);
        assert!(lines(&Packed::default())[0].contains("no room"));
        let packed = Packed { bytes: 10, processes: 1, queue_pairs: 2, failed: 1, ..Packed::default() };
        let expected = ["x: 1 process, 2 queue pairs, 10 bytes", "1 queue pair failed; weft explain x tells why"];
        assert_eq!(lines(&packed), expected);
        let running = Packed { running: 2, ..packed };
        assert!(lines(&running)[2].starts_with("2 processes run and record on; weft explain x.rings"));
        let unread = Packed { left_out: vec!["y: no".to_owned()], ..Packed::default() };
        assert!(
            !unread.is_complete() && lines(&unread)[0] == "y: no" && lines(&unread)[2].starts_with("x.rings is kept")
        );
    }

    #[test]
    fn rings_outlive_a_failure_to_pack_them() {
        let output = std::env::temp_dir().join(format!("weft-pack-{:x}", weft_sys::random::u64()));
        let rings = RingDirectory::beside(&output).unwrap();
        let _recorder = Recorder::create(rings.path(), Library::Verbs).unwrap();
        fs::create_dir(&output).unwrap();
        let file = rings.create_output().unwrap();
        assert!(pack(&rings, file, &output, None).is_err(), "the output became a directory");
        assert_eq!(files(rings.path()).len(), 1);
        fs::remove_dir(&output).unwrap();
        let path = rings.path().to_owned();
        drop(rings);
        assert_eq!(files(&path).len(), 1);
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn a_packed_file_is_its_users_alone_and_says_that_a_process_lives() {
        let output = std::env::temp_dir().join(format!("weft-pack-{:x}", weft_sys::random::u64()));
        let rings = RingDirectory::beside(&output).unwrap();
        let _recorder = Recorder::create(rings.path(), Library::Verbs).unwrap();
        fs::create_dir(rings.path().join("18-verbs-0.ring")).unwrap();
        let packed = pack(&rings, rings.create_output().unwrap(), &output, None).unwrap();
        assert_eq!((packed.processes, packed.running, packed.left_out.len()), (1, 1, 1));
        assert_eq!(fs::metadata(&output).unwrap().permissions().mode() & 0o777, 0o600);
        rings.remove();
        fs::remove_file(output).unwrap();
    }
}
