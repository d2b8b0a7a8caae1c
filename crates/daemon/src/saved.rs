//! State that a daemon leaves to its successor, in memory that outlives it: devices with their GID tables, and the
//! owners of slots. It exists in two copies, so that a death in the middle of a write leaves the previous state.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use serde::{Deserialize, Serialize};

use crate::devices::SavedDevice;
use crate::left::Left;
use crate::slots::SavedSlot;

/// All state for a successor.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Saved {
    /// Number of the next device.
    pub next_device: u32,
    /// Devices.
    pub devices: Vec<SavedDevice>,
    /// Slots.
    pub slots: Vec<SavedSlot>,
    /// Counters of ended processes.
    pub left: Left,
}

/// Maximum size of the state in bytes.
const STATE_BYTES_MAX: usize = 8 << 20;
const COPIES: u64 = 2;
const COPY_STRIDE: u64 = STATE_BYTES_MAX as u64 + 4096;

/// The memory for the state.
#[derive(Debug)]
pub struct SavedFile {
    file: File,
    generation: u64,
    last: Vec<u8>,
}

impl SavedFile {
    /// Makes new, empty memory.
    pub fn new() -> io::Result<SavedFile> {
        Ok(SavedFile { file: weft_sys::memory::anonymous_file("weft-daemon-state")?, generation: 0, last: Vec::new() })
    }

    /// Opens a predecessor's memory and reads the state in it.
    pub fn open(file: File) -> io::Result<(SavedFile, Saved)> {
        let copies = (0..COPIES).filter_map(|copy| read_copy(&file, copy));
        let Some((generation, bytes, saved)) = copies.max_by_key(|(generation, ..)| *generation) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "no whole copy of the state"));
        };
        Ok((SavedFile { file, generation, last: bytes }, saved))
    }

    /// Returns the descriptor, to pass it on.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Writes the state if it changed.
    pub fn write(&mut self, saved: &Saved) -> io::Result<()> {
        let bytes = postcard::to_stdvec(saved).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        if bytes == self.last { Ok(()) } else { self.write_bytes(&bytes) }
    }

    /// Writes these bytes as the next copy of the state.
    pub(crate) fn write_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() > STATE_BYTES_MAX {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        let generation = self.generation + 1;
        let mut out = Vec::with_capacity(24 + bytes.len());
        out.extend(generation.to_le_bytes());
        out.extend((bytes.len() as u64).to_le_bytes());
        out.extend(checksum(generation, bytes).to_le_bytes());
        out.extend(bytes);
        self.file.write_all_at(&out, generation % COPIES * COPY_STRIDE)?;
        (self.generation, self.last) = (generation, bytes.to_vec());
        Ok(())
    }
}

fn read_copy(file: &File, copy: u64) -> Option<(u64, Vec<u8>, Saved)> {
    let mut header = [0; 24];
    file.read_exact_at(&mut header, copy * COPY_STRIDE).ok()?;
    let word = |offset: usize| Some(u64::from_le_bytes(*header.get(offset..)?.first_chunk()?));
    let (generation, length, sum) = (word(0)?, word(8)?, word(16)?);
    let mut bytes = vec![0; usize::try_from(length).ok().filter(|&length| length <= STATE_BYTES_MAX)?];
    file.read_exact_at(&mut bytes, copy * COPY_STRIDE + 24).ok()?;
    if checksum(generation, &bytes) != sum {
        return None;
    }
    let saved = postcard::from_bytes(&bytes).ok()?;
    Some((generation, bytes, saved))
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

    fn state(next_device: u32) -> Saved {
        Saved { next_device, slots: vec![SavedSlot { slot: 3, uid: 7, owned: true }], ..Saved::default() }
    }

    #[test]
    fn the_last_whole_write_counts() {
        let mut memory = SavedFile::new().unwrap();
        for n in 1..=5 {
            memory.write(&state(n)).unwrap();
            memory.write(&state(n)).unwrap();
        }
        let (reopened, saved) = SavedFile::open(memory.file().try_clone().unwrap()).unwrap();
        assert_eq!((reopened.generation, saved), (5, state(5)));
        // A death in the middle of the sixth write.
        memory.file().write_all_at(&6u64.to_le_bytes(), 0).unwrap();
        let (_, saved) = SavedFile::open(memory.file().try_clone().unwrap()).unwrap();
        assert_eq!(saved, state(5));
        assert!(SavedFile::open(SavedFile::new().unwrap().file).is_err());
    }
}
