//! The parts of an ELF file that the loader reads (ELF-64, System V gABI chapter 5): the interpreter and the dynamic
//! section. The input may be any file; malformed parts are skipped.

use std::os::unix::fs::FileExt;

/// The parts of an ELF file that `weft run` needs.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Elf {
    /// Whether the loader runs it (it has a PT_INTERP).
    pub has_interpreter: bool,
    /// Needed libraries (DT_NEEDED).
    pub needed: Vec<String>,
    /// Search path before LD_LIBRARY_PATH (DT_RPATH).
    pub rpath: Option<String>,
    /// Search path after LD_LIBRARY_PATH (DT_RUNPATH).
    pub runpath: Option<String>,
}

const MAGIC_64_LITTLE: &[u8] = b"\x7fELF\x02\x01";
const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const HEADER_BYTES: usize = 64;
const DYNAMIC_ENTRY_BYTES: usize = 16;
const DT_NULL: u64 = 0;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_RPATH: u64 = 15;
const DT_RUNPATH: u64 = 29;

/// Maximum number of dynamic entries read.
const DYNAMIC_ENTRIES_MAX: usize = 4096;

/// Maximum length of a string; search paths may be long.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// Random access to a file's bytes.
pub trait Source {
    /// Returns up to `length` bytes from `offset` on.
    fn bytes(&self, offset: u64, length: usize) -> Vec<u8>;
}

impl Source for std::fs::File {
    fn bytes(&self, offset: u64, length: usize) -> Vec<u8> {
        let mut buffer = vec![0; length];
        let read = self.read_at(&mut buffer, offset).unwrap_or(0);
        buffer.truncate(read);
        buffer
    }
}

/// A program header.
struct Segment {
    kind: u32,
    offset: u64,
    address: u64,
    size: u64,
}

impl Elf {
    /// Reads a file; `None` unless it is a 64-bit little-endian ELF.
    pub fn parse(file: &dyn Source) -> Option<Elf> {
        let header = file.bytes(0, HEADER_BYTES);
        if !header.starts_with(MAGIC_64_LITTLE) {
            return None;
        }
        let segments = segments(file, &header)?;
        let has_interpreter = segments.iter().any(|segment| segment.kind == PT_INTERP);
        let mut elf = Elf { has_interpreter, ..Elf::default() };
        let _ = elf.read_dynamic(file, &segments);
        Some(elf)
    }

    fn read_dynamic(&mut self, file: &dyn Source, segments: &[Segment]) -> Option<()> {
        let dynamic = segments.iter().find(|segment| segment.kind == PT_DYNAMIC)?;
        let size = usize::try_from(dynamic.size).ok()?.min(DYNAMIC_ENTRIES_MAX * DYNAMIC_ENTRY_BYTES);
        let section = file.bytes(dynamic.offset, size);
        let entries = section.chunks_exact(DYNAMIC_ENTRY_BYTES);
        let entries: Vec<_> = entries.map_while(|entry| Some((u64_at(entry, 0)?, u64_at(entry, 8)?))).collect();
        let (_, table) = entries.iter().find(|(tag, _)| *tag == DT_STRTAB)?;
        let strings = file_offset(segments, *table)?;
        let text = |at: u64| text_at(file, strings.checked_add(at)?);
        for (tag, value) in entries.into_iter().take_while(|(tag, _)| *tag != DT_NULL) {
            match tag {
                DT_NEEDED => self.needed.extend(text(value)),
                DT_RPATH => self.rpath = text(value),
                DT_RUNPATH => self.runpath = text(value),
                _ => {}
            }
        }
        Some(())
    }
}

fn segments(file: &dyn Source, header: &[u8]) -> Option<Vec<Segment>> {
    let start = u64_at(header, 32)?;
    let (size, count) = (usize::from(u16_at(header, 54)?), usize::from(u16_at(header, 56)?));
    let table = file.bytes(start, size.checked_mul(count)?);
    let segment = |entry: &[u8]| {
        let field = |at: usize| u64_at(entry, at);
        Some(Segment { kind: u32_at(entry, 0)?, offset: field(8)?, address: field(16)?, size: field(32)? })
    };
    (size > 0).then(|| table.chunks_exact(size).map_while(segment).collect())
}

/// The file offset of the byte loaded at `address`.
fn file_offset(segments: &[Segment], address: u64) -> Option<u64> {
    segments.iter().filter(|segment| segment.kind == PT_LOAD).find_map(|segment| {
        let within = address.checked_sub(segment.address).filter(|within| *within < segment.size)?;
        segment.offset.checked_add(within)
    })
}

fn text_at(file: &dyn Source, at: u64) -> Option<String> {
    let mut bytes = file.bytes(at, TEXT_BYTES_MAX);
    bytes.truncate(bytes.iter().position(|byte| *byte == 0)?);
    String::from_utf8(bytes).ok()
}

fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes_at(bytes, at).map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes_at(bytes, at).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes_at(bytes, at).map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    impl Source for Vec<u8> {
        fn bytes(&self, offset: u64, length: usize) -> Vec<u8> {
            let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.len());
            self[start..start.saturating_add(length).min(self.len())].to_vec()
        }
    }

    #[test]
    fn our_own_file_needs_libc() {
        let elf = Elf::parse(&File::open(std::env::current_exe().unwrap()).unwrap()).unwrap();
        assert!(elf.has_interpreter && elf.needed.iter().any(|name| name == "libc.so.6"));
    }

    #[test]
    fn damaged_files_are_harmless() {
        let head = File::open(std::env::current_exe().unwrap()).unwrap().bytes(0, 4096);
        for cut in 0..head.len() {
            let _ = Elf::parse(&head[..cut].to_vec());
        }
        for at in 0..head.len() {
            let mut damaged = head.clone();
            damaged[at] = 0xff;
            let _ = Elf::parse(&damaged);
        }
        assert_eq!(Elf::parse(&b"#!/bin/sh\n".to_vec()), None);
    }
}
