//! Ledger of a process: memory that the daemon makes and seals in its size, and that this process alone writes, through
//! a mapping: a write(2) would be subject to the process's file size limit. A write
//! costs the process no system call and no message; the last content stays readable when the
//! process is dead or does not answer. Each page has two copies, written in turn, each with its generation and a
//! checksum, so that after a death, or a read, in the middle of a write the previous copy is still valid.
//!
//! The reader copies and checks: the bytes are untrusted, and their process may write while the daemon reads.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use weft_sys::shared::Shared;

/// Pages of a ledger.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Page {
    /// A [`super::CountersPage`].
    Counters,
    /// An [`super::ObjectsPage`].
    Objects,
}

const COPIES: u64 = 2;
/// Generation, length, checksum.
const HEADER_BYTES: usize = 24;
const COUNTERS_BYTES: u64 = 16 << 10;
const OBJECTS_BYTES: u64 = 96 << 10;

/// Bytes of a ledger. Pages that are never written take no memory.
pub const LEDGER_BYTES: u64 = COPIES * (COUNTERS_BYTES + OBJECTS_BYTES);

impl Page {
    /// Returns the bytes of one copy, header included.
    fn bytes(self) -> u64 {
        match self {
            Page::Counters => COUNTERS_BYTES,
            Page::Objects => OBJECTS_BYTES,
        }
    }

    fn offset(self, copy: u64) -> u64 {
        let first = if self == Page::Counters { 0 } else { COPIES * COUNTERS_BYTES };
        first + copy * self.bytes()
    }
}

/// The writer's end of a ledger.
#[derive(Debug)]
pub struct Ledger {
    memory: Shared,
    /// Generation of each page.
    generations: [u64; 2],
}

impl Ledger {
    /// Opens the writer's end over memory that the daemon gave, [`LEDGER_BYTES`] of it.
    ///
    /// # Errors
    /// The memory has another size, or one that can change; no address space is left.
    pub fn new(file: &File) -> io::Result<Ledger> {
        Ok(Ledger { memory: Shared::map(file, LEDGER_BYTES as usize)?, generations: [0; 2] })
    }

    /// Writes a page.
    ///
    /// # Errors
    /// The content does not fit its page.
    pub fn write(&mut self, page: Page, content: &impl Serialize) -> io::Result<()> {
        let bytes = postcard::to_stdvec(content).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        if bytes.len() as u64 + HEADER_BYTES as u64 > page.bytes() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let generation = &mut self.generations[page as usize];
        *generation += 1;
        let mut out = Vec::with_capacity(HEADER_BYTES + bytes.len());
        out.extend(generation.to_le_bytes());
        out.extend((bytes.len() as u64).to_le_bytes());
        out.extend(checksum(*generation, &bytes).to_le_bytes());
        out.extend(&bytes);
        self.memory.store(page.offset(*generation % COPIES) as usize, &out);
        Ok(())
    }
}

/// Returns the newest complete copy of a page, if there is one and it decodes.
pub fn read_page<T: DeserializeOwned>(file: &File, page: Page) -> Option<T> {
    let copies = (0..COPIES).filter_map(|copy| read_copy(file, page, copy));
    let (_, bytes) = copies.max_by_key(|(generation, _)| *generation)?;
    match postcard::take_from_bytes(&bytes) {
        Ok((content, [])) => Some(content),
        _ => None,
    }
}

fn read_copy(file: &File, page: Page, copy: u64) -> Option<(u64, Vec<u8>)> {
    let at = page.offset(copy);
    let mut header = [0; HEADER_BYTES];
    file.read_exact_at(&mut header, at).ok()?;
    let word = |offset: usize| Some(u64::from_le_bytes(*header.get(offset..)?.first_chunk()?));
    let (generation, length, sum) = (word(0)?, word(8)?, word(16)?);
    let room = page.bytes() - HEADER_BYTES as u64;
    let length = usize::try_from(length).ok().filter(|&length| length as u64 <= room)?;
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, at + HEADER_BYTES as u64).ok()?;
    (generation != 0 && checksum(generation, &bytes) == sum).then_some((generation, bytes))
}

/// FNV-1a: its only task is to detect a write that was cut short.
fn checksum(generation: u64, bytes: &[u8]) -> u64 {
    generation
        .to_le_bytes()
        .iter()
        .chain(bytes)
        .fold(0xcbf2_9ce4_8422_2325, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stat::CountersPage;
    use proptest::prelude::*;

    fn page(posts: u64) -> CountersPage {
        let mut page = CountersPage::default();
        page.process.posts = posts;
        page
    }

    fn ledger() -> (Ledger, File) {
        let file = weft_sys::memory::sealed_file("test", LEDGER_BYTES).unwrap();
        (Ledger::new(&file).unwrap(), file)
    }

    #[test]
    fn the_last_whole_write_counts() {
        let (mut ledger, file) = ledger();
        assert_eq!(read_page::<CountersPage>(&file, Page::Counters), None);
        for n in 1..=5 {
            ledger.write(Page::Counters, &page(n)).unwrap();
            if n % 2 == 0 {
                ledger.write(Page::Objects, &page(n)).unwrap();
            }
            assert_eq!(read_page(&file, Page::Counters), Some(page(n)));
        }
        // A death in the middle of the next write.
        file.write_all_at(&6u64.to_le_bytes(), Page::Counters.offset(0)).unwrap();
        assert_eq!(read_page(&file, Page::Counters), Some(page(5)));
    }

    #[test]
    fn what_does_not_fit_is_refused_and_the_memory_keeps_its_size() {
        let (mut ledger, file) = ledger();
        assert!(ledger.write(Page::Counters, &vec![1u8; 20_000]).is_err());
        assert!(file.set_len(0).is_err());
        assert!(file.set_len(LEDGER_BYTES + 4096).is_err());
    }

    proptest! {
        #[test]
        fn hostile_bytes_are_no_page(bytes in proptest::collection::vec(any::<u8>(), 0..200), at in 0..60_000u64) {
            let (mut ledger, file) = ledger();
            ledger.write(Page::Counters, &page(1)).unwrap();
            file.write_all_at(&bytes, at).unwrap();
            let _ = read_page::<CountersPage>(&file, Page::Counters);
            let _ = read_page::<crate::stat::ObjectsPage>(&file, Page::Objects);
        }
    }
}
