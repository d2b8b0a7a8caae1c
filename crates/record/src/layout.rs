//! Layout of a ring file, in little-endian words of 64 bits: a header of one page, then three sections of records.
//!
//! Each section is a ring of its own, so that a million packets do not overwrite the few records that tell how the queue
//! pair was set up. A writer takes the next position by adding to the section's head, writes the record's words, and its
//! sequence number last: a reader that finds another number there sees a record that was not finished.

/// First word of the file.
pub const MAGIC: u64 = u64::from_le_bytes(*b"WEFTREC1");
/// Words of the header.
pub const HEADER_WORDS: usize = 512;
/// Words of a record: its sequence number, the time, kind and queue pair, and five words by kind.
pub const RECORD_WORDS: usize = 8;
/// Bytes of a word.
pub const WORD_BYTES: usize = 8;

/// Places of the header's words.
pub mod header {
    /// [`super::MAGIC`].
    pub const MAGIC: usize = 0;
    /// Process ID.
    pub const PID: usize = 1;
    /// Start of the record by CLOCK_MONOTONIC, in nanoseconds.
    pub const STARTED: usize = 2;
    /// The same by CLOCK_REALTIME.
    pub const STARTED_REALTIME: usize = 3;
    /// Regular end of the process by CLOCK_MONOTONIC; 0 if there was none.
    pub const ENDED: usize = 4;
    /// 1 if the writer records the regular end of the process.
    pub const RECORDS_END: usize = 5;
    /// A number that all ring files of one process have, and hardly another process's.
    pub const PROCESS: usize = 6;
    /// Number of records in each section.
    pub const CAPACITIES: usize = 8;
    /// Number of records ever written to each section.
    pub const HEADS: usize = 16;
    /// The kernel's boot ID, two words; 0 if it is not known. Processes with the same one have the same CLOCK_MONOTONIC.
    pub const BOOT: usize = 24;
    /// Name of the host, padded with zeroes.
    pub const HOST: usize = 32;
    /// Words of the host's name.
    pub const HOST_WORDS: usize = 32;
    /// Command line, its words separated by spaces, padded with zeroes.
    pub const PROGRAM: usize = 64;
    /// Words of the command line.
    pub const PROGRAM_WORDS: usize = 128;
}

/// A part of the file with a ring of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Section {
    /// Set-up and end of queue pairs, events, failures.
    Story,
    /// Losses, drops and errors.
    Trouble,
    /// Posts, packets and successful completions.
    Traffic,
}

impl Section {
    /// All sections, in the order of the file.
    pub const ALL: [Section; 3] = [Section::Story, Section::Trouble, Section::Traffic];
    /// Records of each section: 4 MiB together. The file system allocates all of them at once.
    pub const CAPACITIES: [usize; 3] = [8192, 8192, 49152];

    /// Returns the index of its ring.
    pub fn index(self) -> usize {
        self as usize
    }

    /// Returns the place of its first word in a file with these capacities.
    pub fn start(self, capacities: &[usize; 3]) -> usize {
        HEADER_WORDS + capacities[..self.index()].iter().sum::<usize>() * RECORD_WORDS
    }
}

/// Returns the number of bytes of a file with these capacities.
pub const fn file_bytes(capacities: &[usize; 3]) -> usize {
    let [story, trouble, traffic] = *capacities;
    (HEADER_WORDS + (story + trouble + traffic) * RECORD_WORDS) * WORD_BYTES
}
