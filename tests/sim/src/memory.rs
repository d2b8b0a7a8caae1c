//! Memory of a simulated process: regions at made-up host addresses. An access outside of them is a bug of the layers
//! above, which must have checked it, and panics. `peers` has the process's access to the others on its host.

use std::cell::RefCell;
use std::rc::Rc;

use weft_transport::Memory;

use crate::rng::mix;

/// Contents of a region.
#[derive(Debug)]
enum Backing {
    /// Stored bytes.
    Bytes(Vec<u8>),
    /// Read-only bytes, a function of their offset.
    Pattern { key: u64, len: u64 },
    /// Compares written bytes with a pattern and stores nothing.
    Check { key: u64, len: u64, written: u64, wrong: u64 },
    /// Reads as zero and discards writes.
    Null { len: u64 },
}

#[derive(Debug)]
struct Region {
    base: u64,
    backing: Backing,
}

impl Region {
    fn len(&self) -> u64 {
        match &self.backing {
            Backing::Bytes(bytes) => bytes.len() as u64,
            Backing::Pattern { len, .. } | Backing::Check { len, .. } | Backing::Null { len } => *len,
        }
    }
}

/// The regions of one process.
#[derive(Debug)]
pub(crate) struct Regions {
    regions: Vec<Region>,
    next: u64,
}

/// One process's memory.
#[derive(Debug)]
pub struct SimMemory {
    pub(crate) regions: Rc<RefCell<Regions>>,
}

/// Unmapped gap between regions, so that overruns are noticed.
const GAP: u64 = 1 << 20;

/// Returns byte `offset` of a pattern.
pub fn pattern_byte(key: u64, offset: u64) -> u8 {
    mix(key ^ (offset >> 3)).to_le_bytes()[(offset & 7) as usize]
}

/// Fills `out` with the pattern from `offset` on.
pub fn pattern_fill(key: u64, offset: u64, out: &mut [u8]) {
    let mut at = offset;
    let mut rest = out;
    while !rest.is_empty() {
        let word = mix(key ^ (at >> 3)).to_le_bytes();
        let skip = (at & 7) as usize;
        let n = rest.len().min(8 - skip);
        rest[..n].copy_from_slice(&word[skip..skip + n]);
        at += n as u64;
        rest = &mut rest[n..];
    }
}

impl Regions {
    fn add(&mut self, len: u64, backing: Backing) -> u64 {
        let base = self.next;
        self.next += len.next_multiple_of(4096) + GAP;
        self.regions.push(Region { base, backing });
        base
    }

    fn place(&self, addr: u64, len: u64) -> (usize, u64) {
        let found = self.regions.iter().position(|r| addr >= r.base && addr - r.base < r.len().max(1));
        let index = found.unwrap_or_else(|| panic!("access of {len} bytes at {addr:#x}, where nothing is"));
        let offset = addr - self.regions[index].base;
        let size = self.regions[index].len();
        assert!(offset + len <= size, "access of {len} bytes at {addr:#x} runs over the end of its region");
        (index, offset)
    }

    fn find(&self, addr: u64, len: u64) -> (&Region, u64) {
        let (index, offset) = self.place(addr, len);
        (&self.regions[index], offset)
    }

    fn bytes_mut(&mut self, addr: u64, len: usize) -> &mut [u8] {
        let (index, offset) = self.place(addr, len as u64);
        match &mut self.regions[index].backing {
            Backing::Bytes(bytes) => &mut bytes[offset as usize..offset as usize + len],
            _ => panic!("address {addr:#x} is not in a region of bytes"),
        }
    }

    fn word(&mut self, addr: u64) -> &mut [u8] {
        assert_eq!(addr % 8, 0, "an atomic at {addr:#x} is not aligned");
        self.bytes_mut(addr, 8)
    }

    pub(crate) fn read(&self, addr: u64, out: &mut [u8]) {
        if out.is_empty() {
            return;
        }
        let (region, offset) = self.find(addr, out.len() as u64);
        match &region.backing {
            Backing::Bytes(bytes) => out.copy_from_slice(&bytes[offset as usize..offset as usize + out.len()]),
            Backing::Pattern { key, .. } => pattern_fill(*key, offset, out),
            Backing::Check { .. } | Backing::Null { .. } => out.fill(0),
        }
    }

    pub(crate) fn write(&mut self, addr: u64, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        let (index, offset) = self.place(addr, data.len() as u64);
        match &mut self.regions[index].backing {
            Backing::Bytes(bytes) => bytes[offset as usize..offset as usize + data.len()].copy_from_slice(data),
            Backing::Pattern { .. } => panic!("write of {} bytes at {addr:#x}, which is read-only", data.len()),
            Backing::Check { key, written, wrong, .. } => {
                let mut want = vec![0; data.len()];
                pattern_fill(*key, offset, &mut want);
                *written += data.len() as u64;
                if want != data {
                    *wrong += want.iter().zip(data).filter(|(a, b)| a != b).count() as u64;
                }
            }
            Backing::Null { .. } => {}
        }
    }

    pub(crate) fn compare_swap(&mut self, addr: u64, compare: u64, swap: u64) -> u64 {
        let word = self.word(addr);
        let old = u64::from_ne_bytes(word.try_into().expect("eight bytes"));
        if old == compare {
            word.copy_from_slice(&swap.to_ne_bytes());
        }
        old
    }

    pub(crate) fn fetch_add(&mut self, addr: u64, add: u64) -> u64 {
        let word = self.word(addr);
        let old = u64::from_ne_bytes(word.try_into().expect("eight bytes"));
        word.copy_from_slice(&old.wrapping_add(add).to_ne_bytes());
        old
    }

    pub(crate) fn store_u64(&mut self, addr: u64, value: [u8; 8]) {
        self.word(addr).copy_from_slice(&value);
    }
}

impl SimMemory {
    /// Creates memory without regions; addresses begin at `base`.
    pub fn new(base: u64) -> SimMemory {
        SimMemory { regions: Rc::new(RefCell::new(Regions { regions: Vec::new(), next: base })) }
    }

    fn add(&mut self, len: u64, backing: Backing) -> u64 {
        self.regions.borrow_mut().add(len, backing)
    }

    /// Allocates a region of ordinary bytes, initially zero.
    pub fn alloc(&mut self, len: usize) -> u64 {
        self.add(len as u64, Backing::Bytes(vec![0; len]))
    }

    /// Allocates a region that reads as a pattern.
    pub fn alloc_pattern(&mut self, len: u64, key: u64) -> u64 {
        self.add(len, Backing::Pattern { key, len })
    }

    /// Allocates a region that checks written bytes against a pattern.
    pub fn alloc_check(&mut self, len: u64, key: u64) -> u64 {
        self.add(len, Backing::Check { key, len, written: 0, wrong: 0 })
    }

    /// Allocates a region that reads as zero and discards writes.
    pub fn alloc_null(&mut self, len: u64) -> u64 {
        self.add(len, Backing::Null { len })
    }

    /// Unmaps a region, as a program may: any later access panics.
    pub fn unmap(&mut self, addr: u64) {
        self.regions.borrow_mut().regions.retain(|region| region.base != addr);
    }

    /// Returns the number of bytes written to a checking region, and how many of them were wrong.
    pub fn checked(&self, addr: u64) -> (u64, u64) {
        let regions = self.regions.borrow();
        let (region, _) = regions.find(addr, 0);
        match region.backing {
            Backing::Check { written, wrong, .. } => (written, wrong),
            _ => panic!("address {addr:#x} is not in a checking region"),
        }
    }

    /// Returns bytes of an ordinary region.
    pub fn bytes(&self, addr: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.read(addr, &mut bytes);
        bytes
    }
}

impl Memory for SimMemory {
    fn read(&self, addr: u64, out: &mut [u8]) {
        self.regions.borrow().read(addr, out);
    }

    fn write(&mut self, addr: u64, data: &[u8]) {
        self.regions.borrow_mut().write(addr, data);
    }

    fn compare_swap(&mut self, addr: u64, compare: u64, swap: u64) -> u64 {
        self.regions.borrow_mut().compare_swap(addr, compare, swap)
    }

    fn fetch_add(&mut self, addr: u64, add: u64) -> u64 {
        self.regions.borrow_mut().fetch_add(addr, add)
    }

    fn store_u64(&mut self, addr: u64, value: [u8; 8]) {
        self.regions.borrow_mut().store_u64(addr, value);
    }

    fn flush(&mut self, addr: u64, len: u64, _persistent: bool) {
        if len > 0 {
            self.regions.borrow().find(addr, len);
        }
    }
}
