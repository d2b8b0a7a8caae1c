//! A disk's store: a file or a block device. Its operations may wait for a disk. Offsets and lengths are bytes.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use anyhow::{Context, Result, ensure};
use rustix::fs::{FallocateFlags, OFlags, fallocate, ioctl_blksszget};
use rustix::io::{Errno, ReadWriteFlags};
use weft_client::verbs::Memory;
use weft_tool::errno;

use crate::limits::{AT_ONCE_BYTES, AT_ONCE_BYTES_FEW_PROCESSORS, COMPLAINTS_MAX, FEW_PROCESSORS, ZEROES_BYTES};
use crate::turn_budget::TurnBudget;

/// Block sizes as powers of two.
const BLOCK_512: u8 = 9;
const BLOCK_4096: u8 = 12;

/// Data of an operation, in this process.
#[derive(Debug)]
pub enum Data {
    /// The operation has none.
    None,
    /// Bytes of a capsule.
    Bytes(Vec<u8>),
    /// Registered memory, from its begin.
    Registered(Memory),
}

/// File or block device.
#[derive(Debug)]
pub struct Store {
    file: File,
    name: String,
    is_device: bool,
    /// Longest operation that needs no other thread, if its data is in memory.
    at_once: usize,
    /// Whether the file system tells what would wait, for reads and for writes; until it says that it cannot.
    tells_reads: AtomicBool,
    tells_writes: AtomicBool,
    /// Lines about failed operations.
    complaints: AtomicU32,
}

/// Size of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Number of blocks.
    pub blocks: u64,
    /// Size of a block as a power of two.
    pub block_shift: u8,
}

impl Store {
    /// Opens a file or a block device. `block_size` is a size that the user asks for.
    ///
    /// # Errors
    /// The file cannot be opened, or has no whole block.
    pub fn open(path: &Path, read_only: bool, block_size: Option<u32>) -> Result<(Store, Geometry)> {
        let name = path.display().to_string();
        let kind = std::fs::metadata(path).map_err(|error| anyhow::anyhow!("{name}: {}", errno::text(&error)))?;
        let is_device = kind.file_type().is_block_device();
        ensure!(is_device || kind.is_file(), "{name}: neither a file nor a block device");
        // A device that is mounted, or another program's, is refused.
        let flags = if is_device { OFlags::EXCL } else { OFlags::empty() };
        let mut options = OpenOptions::new();
        options.read(true).write(!read_only).custom_flags(flags.bits() as i32);
        let mut file = options.open(path).map_err(|error| anyhow::anyhow!("{name}: {}", errno::text(&error)))?;
        let bytes = file.seek(SeekFrom::End(0)).with_context(|| format!("{name}: its size"))?;
        let sector = if is_device { ioctl_blksszget(&file).ok() } else { None };
        let block_shift = block_shift(bytes, sector, block_size);
        let blocks = bytes >> block_shift;
        ensure!(blocks > 0, "{name}: it has {bytes} bytes, which is less than a block; make it larger (truncate -s)");
        let store = Store {
            file,
            name,
            is_device,
            at_once: at_once_bytes(std::thread::available_parallelism().map_or(1, usize::from)),
            tells_reads: AtomicBool::new(true),
            tells_writes: AtomicBool::new(true),
            complaints: AtomicU32::new(0),
        };
        Ok((store, Geometry { blocks, block_shift }))
    }

    /// Prints the reason of a failure, up to a number of them; `service` begins the line.
    pub fn complain(&self, service: &str, error: &io::Error) {
        if self.complaints.fetch_add(1, Ordering::Relaxed) < COMPLAINTS_MAX {
            weft_tool::errln!("{service}: {}: {}", self.name, errno::text(error));
        }
    }

    /// Whether a write failed because there is no space left.
    pub fn is_full(error: &io::Error) -> bool {
        matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }

    /// Reads into registered memory.
    ///
    /// # Errors
    /// The file cannot be read, or has become shorter.
    pub fn read(&self, mut offset: u64, length: usize, data: &Data) -> io::Result<()> {
        let Data::Registered(memory) = data else { return Err(io::ErrorKind::InvalidInput.into()) };
        let mut at = 0;
        while at < length {
            match memory.read_file(&self.file, offset, at, length - at)? {
                0 => return Err(io::Error::other("the file became shorter")),
                count => {
                    at += count;
                    offset += count as u64;
                }
            }
        }
        Ok(())
    }

    /// Writes data.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, mut offset: u64, length: usize, data: &Data) -> io::Result<()> {
        let memory = match data {
            Data::Registered(memory) => memory,
            Data::Bytes(bytes) => return self.file.write_all_at(bytes, offset),
            Data::None => return Err(io::ErrorKind::InvalidInput.into()),
        };
        let mut at = 0;
        while at < length {
            match memory.write_file(&self.file, offset, at, length - at)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                count => {
                    at += count;
                    offset += count as u64;
                }
            }
        }
        Ok(())
    }

    /// Reads a short piece if that needs no waiting. Returns whether it has; [`Store::read`] does otherwise, on a thread that may wait.
    pub fn read_at_once(&self, offset: u64, length: usize, data: &Data, budget: &mut TurnBudget) -> bool {
        let Data::Registered(memory) = data else { return false };
        self.at_once(length, budget, &self.tells_reads, || memory.read_file_at_once(&self.file, offset, 0, length))
    }

    /// Writes a short piece if that needs no waiting. Returns whether it has; [`Store::write`] does otherwise, and repeats what was
    /// written.
    pub fn write_at_once(&self, offset: u64, length: usize, data: &Data, budget: &mut TurnBudget) -> bool {
        self.at_once(length, budget, &self.tells_writes, || match data {
            Data::Registered(memory) => memory.write_file_at_once(&self.file, offset, 0, length),
            Data::Bytes(bytes) => {
                let pieces = [io::IoSlice::new(bytes)];
                Ok(rustix::io::pwritev2(&self.file, &pieces, offset, ReadWriteFlags::NOWAIT)?)
            }
            Data::None => Err(io::ErrorKind::InvalidInput.into()),
        })
    }

    fn at_once(
        &self,
        length: usize,
        budget: &mut TurnBudget,
        tells: &AtomicBool,
        work: impl FnOnce() -> io::Result<usize>,
    ) -> bool {
        if length > self.at_once || !budget.allows(length) || !tells.load(Ordering::Relaxed) {
            return false;
        }
        match work() {
            Ok(count) => {
                budget.spend(count);
                count == length
            }
            Err(error) => {
                let tells_now = Errno::from_io_error(&error) != Some(Errno::OPNOTSUPP);
                tells.store(tells_now, Ordering::Relaxed);
                false
            }
        }
    }

    /// Compares data with the file's; returns whether it is the same.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn compare(&self, offset: u64, length: usize, data: &Data) -> io::Result<bool> {
        let mut wanted = vec![0; length];
        match data {
            Data::Registered(memory) => memory.read(0, &mut wanted),
            Data::Bytes(bytes) if bytes.len() == length => wanted.copy_from_slice(bytes),
            Data::Bytes(_) | Data::None => return Err(io::ErrorKind::InvalidInput.into()),
        }
        let mut found = vec![0; length];
        self.file.read_exact_at(&mut found, offset)?;
        Ok(found == wanted)
    }

    /// Reads bytes and drops them.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn verify(&self, offset: u64, length: usize) -> io::Result<()> {
        self.file.read_exact_at(&mut vec![0; length], offset)
    }

    /// Makes all completed writes durable.
    ///
    /// # Errors
    /// They may be lost: the disk failed.
    pub fn flush(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Writes a block again and again.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn repeat(&self, offset: u64, length: u64, block: &[u8]) -> io::Result<()> {
        let run = block.repeat((ZEROES_BYTES / block.len().max(1)).max(1));
        self.write_run(offset, length, &run)
    }

    /// Writes `run` again and again; the last one may be cut.
    fn write_run(&self, offset: u64, length: u64, run: &[u8]) -> io::Result<()> {
        let mut at = 0;
        while at < length && !run.is_empty() {
            let count = (length - at).min(run.len() as u64);
            self.file.write_all_at(run.get(..count as usize).unwrap_or_default(), offset + at)?;
            at += count;
        }
        Ok(())
    }

    /// Sets bytes to zero, by the file system if it can; `deallocate`: their space may be freed.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn zero(&self, offset: u64, length: u64, deallocate: bool) -> io::Result<()> {
        let free = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let keep = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
        let flags = if deallocate { [free, keep] } else { [keep, free] };
        // A hole in a file reads as zeros, so it is better than bytes that are written. A device keeps its blocks.
        for flags in flags.into_iter().take(if self.is_device && !deallocate { 1 } else { 2 }) {
            match fallocate(&self.file, flags, offset, length) {
                Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NODEV) => {}
                done => return Ok(done?),
            }
        }
        self.write_run(offset, length, &[0; ZEROES_BYTES])
    }

    /// Frees the space of bytes, which then read as zeros.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn free(&self, offset: u64, length: u64) -> io::Result<()> {
        match fallocate(&self.file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, length) {
            // Zeros are the promise to the peer.
            Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NODEV) => self.zero(offset, length, false),
            done => Ok(done?),
        }
    }
}

/// Returns the length of the longest operation that needs no other thread.
fn at_once_bytes(processors: usize) -> usize {
    if processors <= FEW_PROCESSORS { AT_ONCE_BYTES_FEW_PROCESSORS } else { AT_ONCE_BYTES }
}

/// Returns the size of a block: the user's, the device's, or the largest one that divides the file.
fn block_shift(bytes: u64, sector: Option<u32>, asked: Option<u32>) -> u8 {
    match asked.into_iter().chain(sector).max() {
        Some(size) if size >= 4096 => BLOCK_4096,
        Some(_) => BLOCK_512,
        None if bytes.is_multiple_of(4096) => BLOCK_4096,
        None => BLOCK_512,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::AT_ONCE_BYTES_PER_TURN;

    fn store(name: &str, bytes: &[u8]) -> (Store, Geometry, std::path::PathBuf) {
        let path = std::env::temp_dir().join(format!("weft-store-{name}-{}", std::process::id()));
        std::fs::write(&path, bytes).expect("a file");
        let (store, geometry) = Store::open(&path, false, None).expect("a store");
        (store, geometry, path)
    }

    #[test]
    fn blocks_are_as_large_as_the_file_permits() {
        assert_eq!(
            [(8192, None), (8192 + 512, None), (0, None)].map(|(bytes, sector)| block_shift(bytes, sector, None)),
            [12, 9, 12]
        );
        assert_eq!((block_shift(8192, Some(512), None), block_shift(8192, None, Some(512))), (9, 9));
        // A block is never smaller than the device's.
        assert_eq!(block_shift(8192, Some(4096), Some(512)), 12);
    }

    #[test]
    fn writes_compare_and_are_zeroed() {
        let (store, geometry, path) = store("ops", &[7; 8192]);
        assert_eq!(geometry, Geometry { blocks: 2, block_shift: 12 });
        let data = Data::Bytes(vec![1; 512]);
        store.write(512, 512, &data).expect("written");
        assert!(store.compare(512, 512, &data).expect("compared"));
        assert!(!store.compare(0, 512, &data).expect("compared"));
        store.zero(1024, 512, false).expect("zeroed");
        store.free(4096, 4096).expect("freed");
        store.repeat(2048, 1024, &[9; 512]).expect("repeated");
        store.flush().expect("flushed");
        store.verify(0, 8192).expect("readable");
        assert!(store.verify(4096, 8192).is_err());
        let bytes = std::fs::read(&path).expect("the file");
        let runs: Vec<_> = bytes.chunks(512).map(|block| block[0]).collect();
        assert_eq!(runs, [7, 1, 0, 7, 9, 9, 7, 7, 0, 0, 0, 0, 0, 0, 0, 0]);
        std::fs::remove_file(path).expect("removed");
    }

    #[test]
    fn work_at_once_is_whole_or_left_to_threads() {
        let (mut store, _, path) = store("at-once", &[7; 8192]);
        store.at_once = 4096;
        let mut budget = TurnBudget::default();
        let mut at_once =
            |length, tells, work: &dyn Fn() -> io::Result<usize>| store.at_once(length, &mut budget, tells, work);
        let (reads, writes) = (&store.tells_reads, &store.tells_writes);
        assert!(at_once(4096, reads, &|| Ok(4096)));
        assert!(!at_once(4097, reads, &|| Ok(4097)), "too long");
        assert!(!at_once(4096, reads, &|| Ok(4095)), "the rest would wait");
        assert!(!at_once(4096, reads, &|| Err(io::ErrorKind::WouldBlock.into())));
        assert!(at_once(4096, reads, &|| Ok(4096)), "it may be in memory next time");
        assert!(!at_once(512, writes, &|| Err(Errno::OPNOTSUPP.into())));
        assert!(!at_once(512, writes, &|| panic!("the file system cannot tell")));
        budget.spend(AT_ONCE_BYTES_PER_TURN);
        assert!(!store.at_once(512, &mut budget, reads, || panic!("the turn has ended")));
        budget = TurnBudget::default();
        assert!(!store.write_at_once(0, 512, &Data::None, &mut budget));
        // The file system's own answer.
        let (store, _, other) = self::store("at-once-file", &[7; 8192]);
        let is_written = store.write_at_once(512, 512, &Data::Bytes(vec![2; 512]), &mut budget);
        assert!(!is_written || store.tells_writes.load(Ordering::Relaxed));
        assert_eq!(store.compare(512, 512, &Data::Bytes(vec![2; 512])).expect("compared"), is_written);
        assert_eq!([1, 2, 3].map(at_once_bytes), [1 << 20, 1 << 20, 64 << 10]);
        [path, other].iter().for_each(|path| std::fs::remove_file(path).expect("removed"));
    }

    #[test]
    fn a_file_without_a_block_is_refused() {
        let path = std::env::temp_dir().join(format!("weft-store-short-{}", std::process::id()));
        std::fs::write(&path, [0; 100]).expect("a file");
        let error = Store::open(&path, false, None).expect_err("too short").to_string();
        assert!(error.contains("less than a block"), "{error}");
        std::fs::remove_file(&path).expect("removed");
        let missing = Store::open(&path, false, None).expect_err("missing").to_string();
        assert!(missing.ends_with("No such file or directory"), "{missing}");
    }
}
