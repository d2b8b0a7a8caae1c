//! The parts of an ELF file that decide how a program is loaded: machine, interpreter, dynamic section, and the notes of
//! Go's linker and of Weft's libraries. The input may be any file; malformed parts are skipped.

use std::io::{Read, Seek};

use object::elf::{
    DT_NEEDED, DT_NULL, DT_RPATH, DT_RUNPATH, DT_STRTAB, FileHeader32, FileHeader64, PT_DYNAMIC, PT_INTERP, PT_LOAD,
    PT_NOTE,
};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Endianness, FileKind, ReadCache, ReadRef};
use weft_ipc::{BUILD_NOTE_NAME, Build};

/// The parts of an ELF file that `weft run` and `weft doctor` need.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Elf {
    /// Machine (`e_machine`).
    pub machine: u16,
    /// Whether addresses have 64 bits.
    pub is_64: bool,
    /// Path of the loader (PT_INTERP); `None` in statically linked programs.
    pub interpreter: Option<String>,
    /// Needed libraries (DT_NEEDED).
    pub needed: Vec<String>,
    /// Search path before LD_LIBRARY_PATH (DT_RPATH).
    pub rpath: Option<String>,
    /// Search path after LD_LIBRARY_PATH (DT_RUNPATH).
    pub runpath: Option<String>,
    /// Whether Go's linker made it.
    pub is_go: bool,
    /// The build of one of Weft's libraries.
    pub build: Option<Build>,
}

/// Maximum size of a dynamic section or a note segment that is read.
const SEGMENT_BYTES_MAX: u64 = 64 << 10;

/// Maximum length of a string; search paths may be long.
const TEXT_BYTES_MAX: u64 = 64 << 10;

/// Owner of the note with the build ID of Go's linker.
const GO_NOTE_NAME: &[u8] = b"Go";

impl Elf {
    /// Reads a file; `None` unless it is an ELF file.
    pub fn parse(file: impl Read + Seek) -> Option<Elf> {
        let cache = ReadCache::new(file);
        match FileKind::parse(&cache).ok()? {
            FileKind::Elf32 => read::<FileHeader32<Endianness>, _>(&cache),
            FileKind::Elf64 => read::<FileHeader64<Endianness>, _>(&cache),
            _ => None,
        }
    }
}

fn read<'a, H: FileHeader<Endian = Endianness>, R: ReadRef<'a>>(data: R) -> Option<Elf> {
    let header = H::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, data).ok()?;
    let size = |segment: &H::ProgramHeader| segment.p_filesz(endian).into();
    let of_kind = |kind| {
        segments.iter().filter(move |segment| segment.p_type(endian) == kind && size(segment) <= SEGMENT_BYTES_MAX)
    };
    let interpreter = of_kind(PT_INTERP).find_map(|segment| segment.interpreter(endian, data).ok()?);
    let mut elf = Elf {
        machine: header.e_machine(endian),
        is_64: header.is_class_64(),
        interpreter: interpreter.map(|path| String::from_utf8_lossy(path).into_owned()),
        ..Elf::default()
    };
    for segment in of_kind(PT_NOTE) {
        let mut notes = segment.notes(endian, data).ok().flatten();
        while let Some(Ok(Some(note))) = notes.as_mut().map(|notes| notes.next()) {
            elf.is_go |= note.name() == GO_NOTE_NAME;
            if note.name() == BUILD_NOTE_NAME {
                elf.build = Build::from_note(note.desc());
            }
        }
    }
    let dynamic = of_kind(PT_DYNAMIC).find_map(|segment| segment.dynamic(endian, data).ok()?).unwrap_or_default();
    let entries = dynamic.iter().map(|entry| (entry.d_tag(endian).into(), entry.d_val(endian).into()));
    let entries: Vec<(u64, u64)> = entries.take_while(|(tag, _)| *tag != u64::from(DT_NULL)).collect();
    let table = entries.iter().find(|(tag, _)| *tag == u64::from(DT_STRTAB)).map(|(_, address)| *address);
    let strings = table.and_then(|address| file_offset::<H>(segments, endian, address));
    let text = |at: u64| text_at(data, strings?.checked_add(at)?);
    for (tag, value) in entries {
        match u32::try_from(tag) {
            Ok(DT_NEEDED) => elf.needed.extend(text(value)),
            Ok(DT_RPATH) => elf.rpath = text(value),
            Ok(DT_RUNPATH) => elf.runpath = text(value),
            _ => {}
        }
    }
    Some(elf)
}

/// The file offset of the byte loaded at `address`.
fn file_offset<H: FileHeader>(segments: &[H::ProgramHeader], endian: H::Endian, address: u64) -> Option<u64> {
    segments.iter().filter(|segment| segment.p_type(endian) == PT_LOAD).find_map(|segment| {
        let (start, size): (u64, u64) = (segment.p_vaddr(endian).into(), segment.p_filesz(endian).into());
        let within = address.checked_sub(start).filter(|within| *within < size)?;
        Into::<u64>::into(segment.p_offset(endian)).checked_add(within)
    })
}

fn text_at<'a, R: ReadRef<'a>>(data: R, at: u64) -> Option<String> {
    // A range beyond the end of the file is refused.
    let end = at.checked_add(TEXT_BYTES_MAX)?.min(data.len().ok()?);
    let bytes = data.read_bytes_at_until(at..end, 0).ok()?;
    String::from_utf8(bytes.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Cursor;

    fn own_head() -> Vec<u8> {
        let mut head = Vec::new();
        File::open(std::env::current_exe().unwrap()).unwrap().take(4096).read_to_end(&mut head).unwrap();
        head
    }

    #[test]
    fn our_own_file_needs_libc() {
        let elf = Elf::parse(File::open(std::env::current_exe().unwrap()).unwrap()).unwrap();
        assert!(elf.interpreter.is_some_and(|path| path.contains("ld-linux")));
        assert!(elf.needed.iter().any(|name| name == "libc.so.6"));
        assert!(elf.is_64 && !elf.is_go);
    }

    #[test]
    fn a_file_shorter_than_the_longest_text_is_read() {
        let path = "/bin/true";
        assert!(std::fs::metadata(path).unwrap().len() < TEXT_BYTES_MAX);
        let elf = Elf::parse(File::open(path).unwrap()).unwrap();
        assert!(elf.needed.iter().any(|name| name == "libc.so.6"), "{elf:?}");
    }

    #[test]
    fn damaged_files_are_harmless() {
        let head = own_head();
        for cut in 0..head.len() {
            let _ = Elf::parse(Cursor::new(&head[..cut]));
        }
        for at in 0..head.len() {
            let mut damaged = head.clone();
            damaged[at] = 0xff;
            let _ = Elf::parse(Cursor::new(damaged));
        }
        assert_eq!(Elf::parse(Cursor::new(b"#!/bin/sh\n")), None);
    }
}
