//! The ring file of one process, read.

use weft_record::Record;
use weft_record::layout::{self, RECORD_WORDS, Section, WORD_BYTES, header};

/// Maximum number of records in a section of a file that is read.
const CAPACITY_MAX: u64 = 1 << 24;
/// Maximum length of a command line in a heading.
const PROGRAM_CHARS_MAX: usize = 160;

/// The reason why a file is no record.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReadError {
    /// It does not begin as one.
    #[error("it does not begin as a record of weft record")]
    NoRecord,
    /// It is shorter than it says.
    #[error("it is cut off: {have} bytes of {wanted}")]
    CutOff {
        /// Its length.
        have: usize,
        /// The length it should have.
        wanted: usize,
    },
    /// It has more than any record.
    #[error("it is longer than a record of weft record can be; the rest is not read")]
    TooLong,
    /// It cannot be decompressed.
    #[error("it cannot be decompressed: {0}")]
    Compression(String),
}

/// The end of a process by a signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Killed {
    /// When its parent saw it, by CLOCK_MONOTONIC.
    pub at: u64,
    /// The signal.
    pub signal: u8,
}

/// Whether a process lived when its record was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Life {
    /// It had ended.
    Ended,
    /// It lived.
    Running,
    /// The record was taken where the process cannot be seen: on another host, or after a boot.
    #[default]
    Unknown,
}

/// The record of one process.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Recording {
    /// Process ID.
    pub pid: u32,
    /// A number that the files of one process share.
    pub process: u64,
    /// The boot ID of its kernel; 0 if it is not known.
    pub boot: u128,
    /// Name of its host.
    pub host: String,
    /// Its command line.
    pub program: String,
    /// Start by CLOCK_MONOTONIC.
    pub started: u64,
    /// Start by CLOCK_REALTIME.
    pub started_realtime: u64,
    /// Regular end by CLOCK_MONOTONIC, if there was one.
    pub ended: Option<u64>,
    /// Whether a regular end is recorded.
    pub records_end: bool,
    /// Whether the process lived when its record was taken.
    pub life: Life,
    /// Its end by a signal, if that was seen.
    pub killed: Option<Killed>,
    /// Its records by time.
    pub records: Vec<Record>,
    /// Number of records that later ones overwrote, by section.
    pub overwritten: [u64; 3],
    /// Time of the oldest record of a section of which records were overwritten.
    pub reaches_back_to: [Option<u64>; 3],
}

impl Recording {
    /// Reads a ring file.
    ///
    /// # Errors
    /// It is none, or is cut off. Records that the process did not finish are left out.
    pub fn parse(bytes: &[u8]) -> Result<Recording, ReadError> {
        let words = Words(bytes);
        if words.at(header::MAGIC) != Some(layout::MAGIC) {
            return Err(ReadError::NoRecord);
        }
        let cut_off = |wanted| ReadError::CutOff { have: bytes.len(), wanted };
        let head = |at: usize| words.at(at).ok_or(cut_off(layout::HEADER_WORDS * WORD_BYTES));
        let mut capacities = [0; 3];
        for (nth, capacity) in capacities.iter_mut().enumerate() {
            let count = head(header::CAPACITIES + nth)?;
            if count == 0 || count > CAPACITY_MAX {
                return Err(ReadError::NoRecord);
            }
            *capacity = count as usize;
        }
        let wanted = layout::file_bytes(&capacities);
        if bytes.len() < wanted {
            return Err(cut_off(wanted));
        }
        let mut recording = Recording {
            pid: head(header::PID)? as u32,
            process: head(header::PROCESS)?,
            boot: u128::from(head(header::BOOT)?) | u128::from(head(header::BOOT + 1)?) << 64,
            records_end: head(header::RECORDS_END)? != 0,
            host: words.text(header::HOST, header::HOST_WORDS),
            program: words.text(header::PROGRAM, header::PROGRAM_WORDS),
            started: head(header::STARTED)?,
            started_realtime: head(header::STARTED_REALTIME)?,
            ended: Some(head(header::ENDED)?).filter(|at| *at != 0),
            ..Recording::default()
        };
        for section in Section::ALL {
            let (written, capacity) = (head(header::HEADS + section.index())?, capacities[section.index()] as u64);
            let first = written.saturating_sub(capacity);
            recording.overwritten[section.index()] = first;
            let start = section.start(&capacities);
            let found: Vec<Record> = (first..written).filter_map(|nth| words.record(start, nth, capacity)).collect();
            if first > 0 {
                // With none left, the record of this section begins with its end.
                let oldest = found.iter().map(|record| record.at).min();
                recording.reaches_back_to[section.index()] = Some(oldest.unwrap_or(u64::MAX));
            }
            recording.records.extend(found);
        }
        recording.records.sort_by_key(|record| record.at);
        Ok(recording)
    }

    /// Returns its command line, cut to the length of a heading.
    pub fn program_in_short(&self) -> String {
        match self.program.char_indices().nth(PROGRAM_CHARS_MAX) {
            Some((end, _)) => format!("{}...", &self.program[..end]),
            None => self.program.clone(),
        }
    }

    /// Converts a time of its monotonic clock to CLOCK_REALTIME, to compare it with another host's.
    pub fn realtime(&self, at: u64) -> u64 {
        self.started_realtime.wrapping_add(at.wrapping_sub(self.started))
    }

    /// Whether the other process has the same monotonic clock, so that their records have one order.
    pub fn shares_clock(&self, other: &Recording) -> bool {
        self.boot != 0 && self.boot == other.boot
    }

    /// Converts a time of another process's monotonic clock to this one's. It is exact if they share the clock; else it is
    /// as right as the two hosts' clocks are.
    pub fn time_of(&self, other: &Recording, at: u64) -> u64 {
        if self.shares_clock(other) {
            return at;
        }
        let after_start = i128::from(other.realtime(at)) - i128::from(self.started_realtime);
        u64::try_from((after_start + i128::from(self.started)).max(0)).unwrap_or(u64::MAX)
    }

    /// Whether all records of a section from this time on are there.
    pub fn reaches_back(&self, section: Section, to: u64) -> bool {
        self.reaches_back_to[section.index()].is_none_or(|oldest| oldest <= to)
    }
}

/// Puts the files of each process together: every library writes one of its own.
pub fn merged(files: Vec<Recording>) -> Vec<Recording> {
    let mut processes: Vec<Recording> = Vec::new();
    for file in files {
        let key = |recording: &Recording| (recording.process, recording.boot, recording.pid);
        let is_same = |other: &&mut Recording| {
            key(other) == key(&file) && (&other.host, &other.program) == (&file.host, &file.program)
        };
        match processes.iter_mut().find(is_same) {
            Some(process) => process.absorb(file),
            None => processes.push(file),
        }
    }
    processes
}

impl Recording {
    fn absorb(&mut self, other: Recording) {
        self.records.extend(other.records);
        self.records.sort_by_key(|record| record.at);
        if other.started < self.started {
            (self.started, self.started_realtime) = (other.started, other.started_realtime);
        }
        self.ended = self.ended.max(other.ended);
        self.records_end |= other.records_end;
        if self.life == Life::Unknown {
            self.life = other.life;
        }
        self.killed = self.killed.or(other.killed);
        for (sum, count) in self.overwritten.iter_mut().zip(other.overwritten) {
            *sum = sum.saturating_add(count);
        }
        for (to, other) in self.reaches_back_to.iter_mut().zip(other.reaches_back_to) {
            *to = (*to).max(other);
        }
    }
}

/// Escapes what would act on a terminal: a record may come from another user, and its text is printed.
fn printable(text: &str) -> String {
    // These reorder the text around them.
    let turns =
        |c: char| matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() || turns(c) {
            true => out.extend(c.escape_default()),
            false => out.push(c),
        }
    }
    out
}

/// A file as words.
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn at(&self, place: usize) -> Option<u64> {
        let bytes = self.0.get(place * WORD_BYTES..)?.first_chunk()?;
        Some(u64::from_le_bytes(*bytes))
    }

    fn text(&self, place: usize, count: usize) -> String {
        let bytes = self.0.get(place * WORD_BYTES..(place + count) * WORD_BYTES).unwrap_or_default();
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        printable(String::from_utf8_lossy(&bytes[..end]).trim_end())
    }

    /// Returns the `nth` record ever written, unless its writer was interrupted.
    fn record(&self, start: usize, nth: u64, capacity: u64) -> Option<Record> {
        let place = start + (nth % capacity) as usize * RECORD_WORDS;
        if self.at(place)? != nth + 1 {
            return None;
        }
        let mut words = [0; RECORD_WORDS - 1];
        for (offset, word) in words.iter_mut().enumerate() {
            *word = self.at(place + 1 + offset)?;
        }
        Record::decode(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_record::Event;

    const CAPACITIES: [usize; 3] = [4, 2, 2];

    fn file(posts: u64) -> Vec<u8> {
        let mut words = vec![0_u64; layout::file_bytes(&CAPACITIES) / WORD_BYTES];
        words[header::MAGIC] = layout::MAGIC;
        words[header::PID] = 77;
        words[header::STARTED] = 100;
        words[header::STARTED_REALTIME] = 1_000_100;
        words[header::PROGRAM] = u64::from_le_bytes(*b"ls -l\0\0\0");
        for (nth, capacity) in CAPACITIES.into_iter().enumerate() {
            words[header::CAPACITIES + nth] = capacity as u64;
        }
        let start = Section::Traffic.start(&CAPACITIES);
        for nth in 0..posts {
            let record = Record { at: 100 + nth, qpn: 9, event: Event::Posted { sends: nth as u32, recvs: 0 } };
            let place = start + (nth as usize % CAPACITIES[2]) * RECORD_WORDS;
            words[place] = nth + 1;
            words[place + 1..place + RECORD_WORDS].copy_from_slice(&record.encode());
        }
        words[header::HEADS + 2] = posts;
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn the_latest_records_survive() {
        let recording = Recording::parse(&file(5)).unwrap();
        let posted: Vec<_> = recording.records.iter().map(|record| record.event).collect();
        assert_eq!(posted, [3, 4].map(|sends| Event::Posted { sends, recvs: 0 }));
        assert_eq!((recording.pid, recording.program.as_str(), recording.overwritten), (77, "ls -l", [0, 0, 3]));
        assert_eq!((recording.ended, recording.realtime(150)), (None, 1_000_150));
        assert_eq!(recording.reaches_back_to, [None, None, Some(103)]);
        assert!(recording.reaches_back(Section::Traffic, 103) && !recording.reaches_back(Section::Traffic, 102));
        assert!(recording.reaches_back(Section::Story, 0));
    }

    #[test]
    fn times_are_exact_on_one_clock_alone() {
        let here = Recording { boot: 1, started: 100, started_realtime: 1_000, ..Recording::default() };
        let other = Recording { started: 500, started_realtime: 1_007, ..here.clone() };
        assert_eq!(here.time_of(&other, 510), 510);
        let far = Recording { boot: 2, ..other.clone() };
        assert_eq!((here.time_of(&far, 510), here.time_of(&far, 0)), (117, 0));
        let unknown = Recording { boot: 0, ..here.clone() };
        assert!(!unknown.shares_clock(&unknown.clone()) && here.shares_clock(&other));
    }

    #[test]
    fn the_files_of_a_process_are_one() {
        let (one, mut other) = (Recording::parse(&file(1)).unwrap(), Recording::parse(&file(2)).unwrap());
        other.ended = Some(900);
        let another = Recording { pid: 78, ..one.clone() };
        let same_pid = Recording { process: 5, ..one.clone() };
        let all = merged(vec![one, another, other, same_pid]);
        assert_eq!(
            all.iter().map(|process| (process.pid, process.records.len())).collect::<Vec<_>>(),
            [(77, 3), (78, 1), (77, 1)]
        );
        assert_eq!((all[0].ended, all[0].overwritten, all[1].ended), (Some(900), [0; 3], None));
    }

    #[test]
    fn a_record_that_a_kill_cut_short_is_left_out() {
        let mut bytes = file(2);
        let unfinished = (Section::Traffic.start(&CAPACITIES) + RECORD_WORDS) * WORD_BYTES;
        bytes[unfinished..unfinished + WORD_BYTES].fill(0);
        assert_eq!(Recording::parse(&bytes).unwrap().records.len(), 1);
    }

    #[test]
    fn text_cannot_act_on_a_terminal() {
        assert_eq!(printable("ls -l \u{e4}"), "ls -l \u{e4}");
        assert_eq!(printable("\u{1b}]0;x\u{7}\n\u{9b}2J\u{202e}"), "\\u{1b}]0;x\\u{7}\\n\\u{9b}2J\\u{202e}");
        let mut bytes = file(1);
        bytes[header::HOST * WORD_BYTES..][..4].copy_from_slice(b"\x1bc\xffd");
        assert_eq!(Recording::parse(&bytes).unwrap().host, "\\u{1b}c\u{fffd}d");
        let long = Recording { program: "\u{e4}".repeat(1000), ..Recording::default() };
        assert_eq!(long.program_in_short().chars().count(), PROGRAM_CHARS_MAX + 3);
    }

    #[test]
    fn files_that_are_no_records_are_refused() {
        assert_eq!(Recording::parse(b"short"), Err(ReadError::NoRecord));
        assert_eq!(Recording::parse(&[7; 10_000]), Err(ReadError::NoRecord));
        let whole = file(1);
        let half = &whole[..whole.len() / 2];
        assert_eq!(Recording::parse(half), Err(ReadError::CutOff { have: half.len(), wanted: whole.len() }));
        let mut huge = whole.clone();
        huge[header::CAPACITIES * WORD_BYTES..][..8].fill(0xff);
        assert_eq!(Recording::parse(&huge), Err(ReadError::NoRecord));
    }
}
