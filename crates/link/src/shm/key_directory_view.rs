//! A peer's key directory as this process reads it: untrusted input. A lookup returns a copy of an entry that was whole
//! at one moment.

use std::io;
use std::os::fd::OwnedFd;
use weft_sys::sync::{Ordering, fence};

use weft_sys::shared::SharedView;
use weft_verbs::{PdId, Qpn};

use super::key_directory::{COPY_COUNTER_BITS, PAGE, QpEntry};
use super::layout::{
    ASLEEP, COPYING, DIRECTORY_BYTES, DIRECTORY_MAGIC, LAYOUT, LINE, PROBES, TIERS_MAX, TIERS_USED, header, key_at,
    qp_at,
};

/// A peer's key directory.
#[derive(Debug)]
pub(super) struct KeyDirectoryView {
    memory: SharedView,
}

/// Identity of a key directory's process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Identity {
    /// Two words of its memory.
    pub secret: [u64; 2],
    /// Address of these words.
    pub address: u64,
}

/// A key's entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct KeyEntry {
    pub pd: PdId,
    pub access: u32,
    pub qpn: Option<Qpn>,
    pub base: u64,
    pub len: u64,
    pub host: u64,
    arena_offset: u64,
    pages: u64,
}

/// Location of a range of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    /// Address in its process.
    pub host: u64,
    /// Arena offset of the whole range, if it is shared.
    pub arena: Option<u64>,
}

fn pd_of(word: u64) -> PdId {
    PdId { index: (word >> 32) as u32, generation: word as u32 }
}

impl KeyEntry {
    /// Returns the location of `len` bytes at an address that the key names; `None` if those up to `whole` are not all
    /// inside.
    #[inline]
    pub fn place(&self, addr: u64, len: u64, whole: u64) -> Option<Place> {
        let offset = addr.checked_sub(self.base)?;
        if offset.checked_add(whole.max(len))? > self.len {
            return None;
        }
        let host = self.host.checked_add(offset)?;
        Some(Place { host, arena: self.arena(host, len) })
    }

    #[inline]
    fn arena(&self, host: u64, len: u64) -> Option<u64> {
        let (skipped, pages) = ((self.pages >> 32) * PAGE, (self.pages & u64::from(u32::MAX)) * PAGE);
        if pages == 0 {
            return None;
        }
        let inside = host.checked_sub((self.host & !(PAGE - 1)).checked_add(skipped)?)?;
        if inside.checked_add(len)? > pages { None } else { self.arena_offset.checked_add(inside) }
    }
}

impl KeyDirectoryView {
    /// Maps the key directory of the process with this slot and generation.
    pub fn map(file: &OwnedFd, slot: u32, generation: u64) -> io::Result<KeyDirectoryView> {
        let memory = SharedView::map(file, DIRECTORY_BYTES)?;
        let says = |at: usize| memory.word(at).load(Ordering::Acquire);
        let expected = [
            (header::MAGIC, DIRECTORY_MAGIC),
            (header::LAYOUT, LAYOUT),
            (header::SLOT, slot.into()),
            (header::GENERATION, generation),
        ];
        if expected.iter().any(|&(at, value)| says(at) != value) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a key directory of another process, or of another version",
            ));
        }
        Ok(KeyDirectoryView { memory })
    }

    /// Returns the identity of the process.
    pub fn identity(&self) -> Identity {
        let says = |at: usize| self.memory.word(at).load(Ordering::Relaxed);
        Identity { secret: [says(header::SECRET), says(header::SECRET + 8)], address: says(header::SECRET_ADDRESS) }
    }

    /// Returns the process's sleep counter.
    #[inline]
    pub fn asleep(&self) -> u64 {
        self.memory.word(ASLEEP).load(Ordering::Relaxed)
    }

    /// Returns the process's copy announcement, if it copies this slot's memory.
    #[inline]
    pub fn copying(&self, slot: u32) -> Option<u64> {
        let word = self.memory.word(COPYING).load(Ordering::SeqCst);
        (word >> COPY_COUNTER_BITS == u64::from(slot)).then_some(word)
    }

    /// Finds a queue pair.
    #[inline]
    pub fn find_qp(&self, qpn: Qpn) -> Option<QpEntry> {
        let [to, generation, pd, access] = self.read::<4>(qp_at(qpn), qpn)?;
        Some(QpEntry { dest_qpn: (to >> 32) as u32, slot: to as u32, generation, pd: pd_of(pd), access: access as u32 })
    }

    /// Finds a key.
    #[inline]
    pub fn find_key(&self, key: u32) -> Option<KeyEntry> {
        let tiers = self.memory.word(TIERS_USED).load(Ordering::Relaxed).min(TIERS_MAX as u64) as usize;
        for tier in 0..tiers {
            let first = key_at(tier, key);
            for at in (0..PROBES).map(|probe| first + probe * LINE) {
                if self.memory.word(at).load(Ordering::SeqCst) >> 32 == u64::from(key) {
                    let [pd, rights, base, len, host, arena_offset, pages] = self.read::<7>(at, key)?;
                    return Some(KeyEntry {
                        pd: pd_of(pd),
                        access: (rights >> 32) as u32,
                        qpn: (rights as u32).checked_sub(1),
                        base,
                        len,
                        host,
                        arena_offset,
                        pages,
                    });
                }
            }
        }
        None
    }

    /// Returns the words of an entry, if it has this number and did not change meanwhile.
    #[inline]
    fn read<const N: usize>(&self, at: usize, number: u32) -> Option<[u64; N]> {
        let first = self.memory.word(at);
        let before = first.load(Ordering::SeqCst);
        if before >> 32 != u64::from(number) || before & 1 != 0 || number == 0 {
            return None;
        }
        let mut words = [0; N];
        for (word, from) in words.iter_mut().zip(self.memory.words::<N>(at + 8)) {
            *word = from.load(Ordering::Relaxed);
        }
        fence(Ordering::Acquire);
        (first.load(Ordering::Relaxed) == before).then_some(words)
    }
}
