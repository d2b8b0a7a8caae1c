//! Pages of a range by the kernel's list of mappings: those that are in the file, those that move, and those that do not.

use std::fs::File;
use std::io;

use super::failure::{Immovable, MoveError};
use crate::mapping::Mapping;

/// A file, as the list of mappings names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileName {
    device: (u64, u64),
    inode: u64,
}

impl FileName {
    /// Returns the name of a file.
    pub fn of(file: &File) -> io::Result<FileName> {
        let stat = rustix::fs::fstat(file)?;
        let device = (rustix::fs::major(stat.st_dev).into(), rustix::fs::minor(stat.st_dev).into());
        Ok(FileName { device, inode: stat.st_ino })
    }

    /// Whether a mapping is of this file.
    fn is_of(&self, mapping: &Mapping<'_>) -> bool {
        self.device == mapping.device && self.inode == mapping.inode
    }

    /// Whether a mapping is of this file, each page where it belongs.
    fn holds(&self, mapping: &Mapping<'_>) -> bool {
        self.is_of(mapping) && mapping.offset == mapping.start && mapping.rights.ends_with('s')
    }
}

/// Pages that move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// First address.
    pub start: u64,
    /// Address behind the last page.
    pub end: u64,
    /// They belong to no file, not even privately.
    pub is_anonymous: bool,
}

fn page_size() -> u64 {
    rustix::param::page_size() as u64
}

/// Returns the pages of a range that are not in the file.
pub fn runs(file: &FileName, address: u64, length: u64) -> Result<Vec<Run>, MoveError> {
    let page = page_size();
    let end = address.checked_add(length).and_then(|end| end.checked_next_multiple_of(page)).ok_or(Immovable::Hole)?;
    let start = address - address % page;
    let table = std::fs::read_to_string("/proc/self/maps")?;
    if own_stack().is_some_and(|(first, last)| start < last && first < end) {
        return Err(Immovable::Stack.into());
    }
    Ok(runs_of(&table, file, start, end)?)
}

fn runs_of(table: &str, file: &FileName, start: u64, end: u64) -> Result<Vec<Run>, Immovable> {
    let mut found = Vec::new();
    let is_displaced = |mapping: &Mapping<'_>| file.is_of(mapping) && !file.holds(mapping);
    // mremap(2) has moved pages of the file: their places in it are in use.
    let displaced: Vec<_> = table.lines().filter_map(Mapping::parse).filter(is_displaced).map(place).collect();
    let mut at = start;
    for mapping in table.lines().filter_map(Mapping::parse).filter(|mapping| mapping.end > start) {
        if at >= end || mapping.start > at {
            break;
        }
        let until = mapping.end.min(end);
        if !file.holds(&mapping) {
            judge(&mapping)?;
            if displaced.iter().any(|(first, last)| *first < until && at < *last) {
                return Err(Immovable::Shared);
            }
            found.push(Run { start: at, end: until, is_anonymous: mapping.inode == 0 });
        }
        at = until;
    }
    if at < end { Err(Immovable::Hole) } else { Ok(found) }
}

/// Returns a mapping's part of its file.
fn place(mapping: Mapping<'_>) -> (u64, u64) {
    (mapping.offset, mapping.offset + (mapping.end - mapping.start))
}

fn judge(mapping: &Mapping<'_>) -> Result<(), Immovable> {
    match mapping.rights {
        _ if mapping.name == "[stack]" => Err(Immovable::Stack),
        rights if rights.ends_with('s') => Err(Immovable::Shared),
        "rw-p" => Ok(()),
        _ => Err(Immovable::ReadOnly),
    }
}

/// Returns the ranges that are mapped from the file where they belong.
pub fn mapped(file: &FileName) -> io::Result<Vec<(u64, u64)>> {
    let table = std::fs::read_to_string("/proc/self/maps")?;
    let own = table.lines().filter_map(Mapping::parse).filter(|mapping| file.holds(mapping));
    Ok(own.map(|mapping| (mapping.start, mapping.end)).collect())
}

/// Returns the parts of the file that are mapped anywhere, in their order.
pub fn used(file: &FileName) -> io::Result<Vec<(u64, u64)>> {
    let table = std::fs::read_to_string("/proc/self/maps")?;
    let own = table.lines().filter_map(Mapping::parse).filter(|mapping| file.is_of(mapping));
    let mut parts: Vec<_> = own.map(place).collect();
    parts.sort_unstable();
    Ok(parts)
}

/// Returns the stack of the calling thread.
fn own_stack() -> Option<(u64, u64)> {
    // SAFETY: the attributes are initialised by the first call, read by the second and released by the third.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes) != 0 {
            return None;
        }
        let (mut start, mut length) = (std::ptr::null_mut(), 0);
        let done = libc::pthread_attr_getstack(&raw const attributes, &raw mut start, &raw mut length);
        libc::pthread_attr_destroy(&raw mut attributes);
        let start = start.expose_provenance() as u64;
        (done == 0).then_some((start, start + length as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileName = FileName { device: (0, 1), inode: 7 };
    const TABLE: &str = "1000-3000 rw-p 0 00:00 0 [heap]\n3000-4000 rw-s 3000 00:01 7 /memfd:x (deleted)\n\
        4000-5000 rw-p 2000 08:01 9 /bin/x\n5000-6000 rw-s 0 00:01 7 /memfd:x (deleted)\n\
        7000-8000 r--p 0 00:00 0\n8000-9000 rw-p 0 00:00 0 [stack]\n";

    #[test]
    fn a_range_is_taken_apart_by_its_mappings() {
        let run = |start, end, is_anonymous| Run { start, end, is_anonymous };
        let of = |start, end| runs_of(TABLE, &FILE, start, end);
        assert_eq!(of(0x2000, 0x5000), Ok(vec![run(0x2000, 0x3000, true), run(0x4000, 0x5000, false)]));
        assert_eq!(of(0x3000, 0x4000), Ok(vec![]));
        // The file itself, in another place.
        assert_eq!(of(0x4000, 0x6000), Err(Immovable::Shared));
        // The place in the file of what is mapped at 0x5000.
        assert_eq!(
            runs_of(&TABLE.replace("5000-6000 rw-s 0 ", "5000-6000 rw-s 2000 "), &FILE, 0x2000, 0x3000),
            Err(Immovable::Shared)
        );
        assert_eq!(of(0x6000, 0x7000), Err(Immovable::Hole));
        assert_eq!(of(0, 0x2000), Err(Immovable::Hole));
        assert_eq!(of(0x7000, 0x8000), Err(Immovable::ReadOnly));
        assert_eq!(of(0x8000, 0x9000), Err(Immovable::Stack));
    }
}
