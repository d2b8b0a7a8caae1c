//! A survey of mappings: the memory that may be shared, and the current places of shared memory.
//!
//! Only plain memory is shared: private, anonymous, readable and writable, and without any property that another
//! mapping in its place would lose (locked, excluded from children or core dumps, merged by KSM, watched by the
//! program's own userfaultfd, huge pages of hugetlbfs, a stack that grows). `smaps` is the kernel's only report of
//! those properties.

use std::fs::File;
use std::io::{self, BufRead, BufReader};

use crate::mapping::Mapping;

/// Flags that a shareable mapping may have; a mapping with any other flag is left alone.
const PLAIN_FLAGS: [&str; 10] = ["rd", "wr", "mr", "mw", "me", "ac", "sd", "nr", HUGE, NOT_HUGE];
const HUGE: &str = "hg";
const NOT_HUGE: &str = "nh";

/// A part of a range that may be shared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Plain {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Whether the program asked for huge pages or against them; `None` if neither.
    pub(super) huge: Option<bool>,
    /// Offset of `start` in the arena, if this is a private mapping of it, which restoring in place has left behind.
    pub(super) leftover: Option<u64>,
}

impl Plain {
    /// Returns a part of it.
    pub(super) fn part(&self, start: u64, end: u64) -> Plain {
        Plain { start, end, huge: self.huge, leftover: self.leftover.map(|offset| offset + (start - self.start)) }
    }
}

/// A file, identified by the numbers of the kernel's tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FileId {
    pub(super) device: u64,
    pub(super) inode: u64,
}

/// Returns the shareable parts of a range of pages, lowest address first. A private mapping of `arena` is a leftover of
/// some ways of restoring: every page of it is the program's own.
pub(super) fn plain(start: u64, end: u64, arena: Option<FileId>) -> io::Result<Vec<Plain>> {
    let table = BufReader::with_capacity(64 << 10, File::open("/proc/self/smaps")?);
    plain_in(table, start, end, arena, stack_pointer())
}

/// Returns the resident memory of this process, which determines the time to read `smaps`; 0 if it cannot be read.
pub fn resident_bytes() -> u64 {
    let table = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = table.split_ascii_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0).saturating_mul(super::page_size())
}

/// Returns an address on the stack of the calling thread.
fn stack_pointer() -> u64 {
    let here = 0u8;
    std::hint::black_box(&raw const here).addr() as u64
}

fn plain_in(
    mut table: impl BufRead,
    start: u64,
    end: u64,
    arena: Option<FileId>,
    stack: u64,
) -> io::Result<Vec<Plain>> {
    let mut found = Vec::new();
    let mut current: Option<Plain> = None;
    let mut line = String::new();
    loop {
        line.clear();
        if table.read_line(&mut line)? == 0 {
            return Ok(found);
        }
        if let Some(mapping) = Mapping::parse(&line) {
            if mapping.start >= end {
                return Ok(found);
            }
            let leftover = mapping.rights == "rw-p" && arena.is_some_and(|id| mapping.is_of(id));
            let private = leftover || mapping.is_anonymous();
            let wanted = mapping.end > start && private && !mapping.holds(stack);
            let leftover = leftover.then_some(mapping.offset);
            let whole = Plain { start: mapping.start, end: mapping.end, huge: None, leftover };
            current = wanted.then(|| whole.part(mapping.start.max(start), mapping.end.min(end)));
        } else if let Some(plain) = current
            && let Some(flags) = line.strip_prefix("VmFlags:")
            && let Some(huge) = if_plain(flags)
        {
            found.push(Plain { huge, ..plain });
        }
    }
}

/// Returns the huge page advice in a mapping's flags if all flags are harmless, else `None`.
fn if_plain(flags: &str) -> Option<Option<bool>> {
    let mut huge = None;
    for flag in flags.split_ascii_whitespace() {
        if !PLAIN_FLAGS.contains(&flag) {
            return None;
        }
        if flag == HUGE {
            huge = Some(true);
        } else if flag == NOT_HUGE {
            huge = Some(false);
        }
    }
    Some(huge)
}

impl Mapping<'_> {
    /// Whether this is private memory without a file, of a kind that programs allocate.
    fn is_anonymous(&self) -> bool {
        let usual = self.name.is_empty() || self.name == "[heap]" || self.name.starts_with("[anon:");
        self.rights == "rw-p" && self.inode == 0 && self.device == (0, 0) && usual
    }

    fn is_of(&self, file: FileId) -> bool {
        let (major, minor) = (libc::major(file.device), libc::minor(file.device));
        self.inode == file.inode && self.device == (u64::from(major), u64::from(minor))
    }
}

/// A place where a piece of a file is mapped and shared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) addr: u64,
    pub(super) len: u64,
    pub(super) offset: u64,
    /// PROT_READ and so on.
    pub(super) rights: libc::c_int,
}

impl Place {
    /// Returns the part that shows a range of the file.
    pub(super) fn within(&self, offset: u64, len: u64) -> Option<Place> {
        let start = self.offset.max(offset);
        let end = (self.offset + self.len).min(offset + len);
        let addr = self.addr + start.checked_sub(self.offset)?;
        (start < end).then(|| Place { addr, len: end - start, offset: start, ..*self })
    }
}

/// Returns the shared mappings of a file in a table like /proc/self/maps.
pub(super) fn places(table: &str, file: FileId) -> Vec<Place> {
    let mappings = table.lines().filter_map(Mapping::parse);
    let ours = mappings.filter(|m| m.is_of(file) && m.rights.ends_with('s'));
    ours.map(|m| Place { addr: m.start, len: m.end - m.start, offset: m.offset, rights: rights(m.rights) }).collect()
}

fn rights(text: &str) -> libc::c_int {
    let bits = [('r', libc::PROT_READ), ('w', libc::PROT_WRITE), ('x', libc::PROT_EXEC)];
    bits.into_iter().filter(|(letter, _)| text.contains(*letter)).fold(libc::PROT_NONE, |all, (_, bit)| all | bit)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
1000-5000 rw-p 00000000 00:00 0                          [heap]
Size:                 16 kB
VmFlags: rd wr mr mw me ac sd 
5000-9000 rw-p 00000000 00:00 0 
VmFlags: rd wr mr mw me ac hg sd 
9000-a000 rw-p 00000000 00:00 0 
VmFlags: rd wr mr mw me lo ac sd 
a000-b000 rw-s 00000000 00:01 77                         /memfd:x (deleted)
VmFlags: rd wr sh mr mw me ms sd 
b000-c000 r--p 00000000 00:00 0 
VmFlags: rd mr mw me ac sd 
c000-d000 rw-p 00000000 00:00 0 
VmFlags: rd wr mr mw me dc ac sd 
d000-e000 rw-p 00000000 00:0f 9                          /anon_hugepage (deleted)
VmFlags: rd wr mr mw me ac sd 
e000-f000 rw-p 00000000 00:00 0                          [anon:a name with spaces]
VmFlags: rd wr mr mw me nh ac sd 
f000-10000 rw-p 00000000 00:00 0 
VmFlags: rd wr mr mw me ac sd 
11000-12000 rw-p 00000000 00:01 78                       /memfd:weft (deleted)
VmFlags: rd wr mr mw me ac sd 
12000-13000 rw-s 00000000 00:01 78                       /memfd:weft (deleted)
VmFlags: rd wr mr mw me ac sd 
7ff0000-8000000 rw-p 00000000 00:00 0                    [stack]
VmFlags: rd wr mr mw me gd ac 
";

    fn plain_of(start: u64, end: u64) -> Vec<(u64, u64, Option<bool>)> {
        let arena = FileId { device: libc::makedev(0, 1), inode: 78 };
        let found = plain_in(SMAPS.as_bytes(), start, end, Some(arena), 0xf800).unwrap();
        found.into_iter().map(|p| (p.start, p.end, p.huge)).collect()
    }

    #[test]
    fn a_part_of_a_leftover_knows_its_place_in_the_arena() {
        let arena = FileId { device: libc::makedev(0, 1), inode: 78 };
        let table = "11000-15000 rw-p 00002000 00:01 78 /memfd:weft (deleted)\nVmFlags: rd wr mr mw me ac sd \n";
        let found = plain_in(table.as_bytes(), 0x12000, 0x14000, Some(arena), 0).unwrap();
        assert_eq!(found, [Plain { start: 0x12000, end: 0x14000, huge: None, leftover: Some(0x3000) }]);
        assert_eq!(found[0].part(0x13000, 0x14000).leftover, Some(0x4000));
    }

    #[test]
    fn only_plain_memory_is_found_and_only_within_the_range() {
        let all = [(0x1000, 0x5000, None), (0x5000, 0x9000, Some(true)), (0xe000, 0xf000, Some(false))];
        let all = [&all[..], &[(0x11000, 0x12000, None)]].concat();
        assert_eq!(plain_of(0, u64::MAX), all, "what is locked, a file's, a stack's, not for children is left alone");
        assert_eq!(plain_of(0x2000, 0x6000), [(0x2000, 0x5000, None), (0x5000, 0x6000, Some(true))]);
        assert_eq!(plain_of(0x9000, 0xe000), []);
    }

    #[test]
    fn our_file_is_found_by_its_numbers() {
        let table = "a000-b000 rw-s 00002000 00:01 77 /memfd:weft (deleted)\n\
                     b000-c000 rw-p 00003000 00:01 77 /memfd:weft (deleted)\n\
                     c000-d000 rw-s 00003000 00:02 77 /memfd:weft (deleted)\n\
                     d000-f000 r--s 00004000 00:01 77 /memfd:weft (deleted)\n";
        let found = places(table, FileId { device: libc::makedev(0, 1), inode: 77 });
        let place = |addr, len, offset, rights| Place { addr, len, offset, rights };
        let both = libc::PROT_READ | libc::PROT_WRITE;
        assert_eq!(found, [place(0xa000, 0x1000, 0x2000, both), place(0xd000, 0x2000, 0x4000, libc::PROT_READ)]);
        assert_eq!(found[1].within(0x4800, 0x100), Some(place(0xd800, 0x100, 0x4800, libc::PROT_READ)));
        assert_eq!(found[1].within(0, 0x4001), Some(place(0xd000, 1, 0x4000, libc::PROT_READ)));
        assert_eq!(found[1].within(0, 0x4000), None);
        assert_eq!(found[1].within(0x6000, 0x1000), None);
    }

    #[test]
    fn this_process_can_be_looked_at() {
        let memory = vec![1u8; 1 << 20];
        let start = memory.as_ptr() as u64;
        let found = plain(start, start + memory.len() as u64, None).unwrap();
        assert_eq!(found.iter().map(|p| p.end - p.start).sum::<u64>(), 1 << 20);
        let on_stack = [0u8; 64];
        let start = std::hint::black_box(&on_stack).as_ptr() as u64;
        assert_eq!(plain(start, start + 64, None).unwrap(), []);
    }
}
