//! This process's key directory: the keys and queue pairs that peers may use directly. Only this process writes it.
//! Peers read it meanwhile, so each entry carries a version that is odd while the entry changes.
//!
//! ```text
//! queue pair  qpn version | dest_qpn slot | generation of the peer | pd | access
//! key         key version | pd | access, qpn+1 (0: any) | base | len | host | arena offset | pages skipped, pages
//! ```
//!
//! Removing an entry races with announcing a copy: the owner erases the entry and then checks for copies; the peer
//! announces its copy and then checks for the entry. All four accesses are sequentially consistent, so at least one of
//! the two sees the other.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use weft_sys::sync::{self, AtomicU64, Ordering, fence};

use rustc_hash::FxHashMap;
use weft_sys::share::Extent;
use weft_sys::shared::{self, Shared};
use weft_transport::peers::KeyView;
use weft_verbs::{PdId, Qpn};

use super::layout::{
    ASLEEP, COPYING, DIRECTORY_BYTES, DIRECTORY_MAGIC, LAYOUT, LINE, PROBES, TIERS_MAX, TIERS_USED, header, key_at,
    qp_at,
};

/// The name of the key directory's file.
pub(super) const DIRECTORY_LABEL: &str = "weft-board";
/// Page size of extents, in bytes.
pub(super) const PAGE: u64 = 4096;
/// Number of counter bits in the copying word; the slot is above them.
pub(super) const COPY_COUNTER_BITS: u32 = 48;

/// This process's key directory.
#[derive(Debug)]
pub(super) struct KeyDirectory {
    memory: Shared,
    file: File,
    /// The secret in the key directory, also kept here: a peer that reads it at this address reads this process's
    /// memory, and no other's.
    _secret: Box<[u64; 2]>,
    /// Position of each published key's entry.
    places: FxHashMap<u32, usize>,
    tiers: usize,
    copies: u64,
}

/// A queue pair's entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct QpEntry {
    pub dest_qpn: Qpn,
    pub slot: u32,
    pub generation: u64,
    pub pd: PdId,
    pub access: u32,
}

/// Creates the memory of a key directory without the daemon.
///
/// # Errors
/// Descriptors or memory are exhausted; the file size is limited to less (`ulimit -f`).
pub fn directory_file() -> io::Result<OwnedFd> {
    Ok(shared::create_file(DIRECTORY_LABEL, DIRECTORY_BYTES)?.into())
}

impl KeyDirectory {
    /// Makes an empty key directory, on the given memory, which is handed to others, or on memory of its own.
    pub fn new(slot: u32, generation: u64, file: Option<OwnedFd>) -> io::Result<KeyDirectory> {
        let file = File::from(file.map_or_else(directory_file, Ok)?);
        let memory = Shared::map(&file, DIRECTORY_BYTES)?;
        shared::seal_writes(&file)?;
        let secret = Box::new([weft_sys::random::u64(), weft_sys::random::u64()]);
        let store = |at, value| memory.word(at).store(value, Ordering::Relaxed);
        store(header::LAYOUT, LAYOUT);
        store(header::SLOT, slot.into());
        store(header::GENERATION, generation);
        store(header::SECRET, secret[0]);
        store(header::SECRET + 8, secret[1]);
        store(header::SECRET_ADDRESS, secret.as_ptr().expose_provenance() as u64);
        memory.word(header::MAGIC).store(DIRECTORY_MAGIC, Ordering::Release);
        Ok(KeyDirectory { memory, file, _secret: secret, places: FxHashMap::default(), tiers: 0, copies: 0 })
    }

    /// Returns its file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns its descriptor, for peers.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Returns the word where peers see whether this process sleeps.
    pub fn asleep(&self) -> &AtomicU64 {
        self.memory.word(ASLEEP)
    }

    /// Announces the process whose memory this one copies from now on. Read the peer's key directory only after this.
    #[inline]
    pub fn announce(&mut self, slot: u32) {
        self.copies = self.copies.wrapping_add(1) & ((1 << COPY_COUNTER_BITS) - 1);
        // Against the peer that removes the entry.
        sync::store_then_check(self.memory.word(COPYING), u64::from(slot) << COPY_COUNTER_BITS | self.copies);
    }

    /// Withdraws the announcement after the copy.
    #[inline]
    pub fn withdraw(&self) {
        self.memory.word(COPYING).store(0, Ordering::Release);
    }

    /// Publishes or updates a key. Without room the key stays unpublished.
    pub fn put_key(&mut self, key: &KeyView, extent: Option<Extent>) {
        let Some(at) = self.places.get(&key.key).copied().or_else(|| self.free_place(key.key)) else {
            return;
        };
        let (offset, pages) = extent.and_then(|extent| shared_part(key.host, key.len, extent)).unwrap_or((0, 0));
        self.write(
            at,
            key.key,
            [
                pd_word(key.pd),
                u64::from(key.access.bits()) << 32 | key.qpn.map_or(0, |qpn| u64::from(qpn) + 1),
                key.base,
                key.len,
                key.host,
                offset,
                pages,
            ],
        );
        self.places.insert(key.key, at);
    }

    /// Calls `each` with every key, its host address and length.
    pub fn each_key(&self, mut each: impl FnMut(u32, u64, u64)) {
        for (&key, &at) in &self.places {
            let [_, _, _, len, host] = self.memory.words::<5>(at + 8).each_ref().map(load);
            each(key, host, len);
        }
    }

    /// Updates the shared part of every key's memory.
    pub fn share_keys(&mut self, mut find: impl FnMut(u32, u64, u64) -> Option<Extent>) {
        for (&key, &at) in &self.places {
            let [pd, rights, base, len, host, ..] = self.memory.words::<7>(at + 8).each_ref().map(load);
            let (offset, pages) =
                find(key, host, len).and_then(|extent| shared_part(host, len, extent)).unwrap_or((0, 0));
            self.write(at, key, [pd, rights, base, len, host, offset, pages]);
        }
    }

    /// Whether a key is published.
    pub fn has_key(&self, key: u32) -> bool {
        self.places.contains_key(&key)
    }

    /// Removes a key; returns whether it was there.
    pub fn take_key(&mut self, key: u32) -> bool {
        self.places.remove(&key).is_some_and(|at| self.erase(at))
    }

    /// Publishes a queue pair.
    pub fn put_qp(&mut self, qpn: Qpn, entry: &QpEntry) {
        let words = [
            u64::from(entry.dest_qpn) << 32 | u64::from(entry.slot),
            entry.generation,
            pd_word(entry.pd),
            entry.access.into(),
        ];
        self.write(qp_at(qpn), qpn, words);
    }

    /// Whether a queue pair is published.
    pub fn has_qp(&self, qpn: Qpn) -> bool {
        self.memory.word(qp_at(qpn)).load(Ordering::Relaxed) >> 32 == u64::from(qpn)
    }

    /// Removes a queue pair; returns whether it was there.
    pub fn take_qp(&mut self, qpn: Qpn) -> bool {
        self.has_qp(qpn) && self.erase(qp_at(qpn))
    }

    fn write<const N: usize>(&self, at: usize, number: u32, words: [u64; N]) {
        let first = self.memory.word(at);
        let version = first.load(Ordering::Relaxed) as u32 & !1;
        let named = |version: u32| u64::from(number) << 32 | u64::from(version);
        first.store(named(version.wrapping_add(1)), Ordering::Relaxed);
        fence(Ordering::Release);
        for (to, word) in self.memory.words::<N>(at + 8).iter().zip(words) {
            to.store(word, Ordering::Relaxed);
        }
        first.store(named(version.wrapping_add(2)), Ordering::Release);
    }

    fn erase(&self, at: usize) -> bool {
        let first = self.memory.word(at);
        let version = first.load(Ordering::Relaxed) as u32;
        // Against the peer that announces a copy.
        sync::store_then_check(first, u64::from(version.wrapping_add(2)));
        true
    }

    #[cfg(test)]
    pub fn word(&self, at: usize) -> u64 {
        self.memory.word(at).load(Ordering::Relaxed)
    }

    fn free_place(&mut self, key: u32) -> Option<usize> {
        let is_free = |at: &usize| self.memory.word(*at).load(Ordering::Relaxed) >> 32 == 0;
        let places = |tier| (0..PROBES).map(move |probe| key_at(tier, key) + probe * LINE);
        let (tier, at) = (0..TIERS_MAX).find_map(|tier| Some((tier, places(tier).find(is_free)?)))?;
        if tier >= self.tiers {
            self.tiers = tier + 1;
            self.memory.word(TIERS_USED).store(self.tiers as u64, Ordering::Release);
        }
        Some(at)
    }
}

fn load(word: &AtomicU64) -> u64 {
    word.load(Ordering::Relaxed)
}

/// Returns a protection domain as a word.
#[inline]
pub(super) fn pd_word(pd: PdId) -> u64 {
    u64::from(pd.index) << 32 | u64::from(pd.generation)
}

/// Returns the part of an extent that belongs to the key, in the format of the entry's last two words: the arena offset
/// of the first page, and its index in the key with the number of pages.
fn shared_part(host: u64, len: u64, extent: Extent) -> Option<(u64, u64)> {
    let first_page = host & !(PAGE - 1);
    let start = extent.addr.max(first_page);
    let key_end = host.checked_add(len)?.checked_next_multiple_of(PAGE)?;
    let end = extent.addr.checked_add(extent.len)?.min(key_end);
    let pages = end.checked_sub(start)? / PAGE;
    let skipped = u32::try_from((start - first_page) / PAGE).ok()?;
    let offset = extent.offset.checked_add(start - extent.addr)?;
    Some((offset, u64::from(skipped) << 32 | pages.min(u32::MAX.into())))
}
