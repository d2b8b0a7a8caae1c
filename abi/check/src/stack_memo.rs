//! Recognises a stack that was captured before, without unwinding it again: a program posts from few places.
//!
//! The return addresses of a stack lie in memory above the stack pointer. A stack whose pointer is the same, and whose slots
//! hold the same addresses, is the same.

use std::collections::HashMap;

use weft_check::model::StackId;

/// Bytes above the stack pointer that are searched for return addresses.
const SEARCH_BYTES: usize = 64 << 10;
/// Stacks that are remembered.
const MEMOS_MAX: usize = 4096;
/// Stacks with the same pointer.
const SAME_POINTER_MAX: usize = 16;

/// A thread, and its stack pointer. A thread's stack has the same end as long as the thread lives.
type Key = (usize, usize);

/// A stack: the offsets from its pointer to its return addresses.
struct Memo {
    slots: Box<[(usize, usize)]>,
    stack: StackId,
}

/// The stacks.
#[derive(Default)]
pub struct Memos {
    memos: HashMap<Key, Vec<Memo>>,
    count: usize,
}

fn key(pointer: usize) -> Key {
    // SAFETY: no arguments.
    let thread = unsafe { libc::pthread_self() };
    (thread as usize, pointer)
}

impl Memos {
    /// Finds the calling thread's stack, whose pointer is this.
    pub fn find(&self, pointer: usize) -> Option<StackId> {
        let holds = |(offset, address): &(usize, usize)| {
            let slot = std::ptr::with_exposed_provenance::<usize>(pointer + offset);
            // SAFETY: this thread had a return address there when it was at the same pointer, so the slot is in its stack.
            unsafe { slot.read_volatile() == *address }
        };
        let memo = self.memos.get(&key(pointer))?.iter().find(|memo| memo.slots.iter().all(holds))?;
        Some(memo.stack)
    }

    /// Remembers a stack, if all its return addresses are found above the pointer.
    pub fn add(&mut self, pointer: usize, frames: &[usize], stack: StackId) {
        let key = key(pointer);
        let is_full = self.memos.get(&key).is_some_and(|same| same.len() >= SAME_POINTER_MAX);
        if self.count >= MEMOS_MAX || is_full {
            return;
        }
        if let Some(slots) = slots(&read_above(pointer), frames) {
            self.memos.entry(key).or_default().push(Memo { slots, stack });
            self.count += 1;
        }
    }
}

/// Copies the stack above the pointer, up to its end.
fn read_above(pointer: usize) -> Vec<usize> {
    let mut words = vec![0usize; SEARCH_BYTES / size_of::<usize>()];
    let to = libc::iovec { iov_base: words.as_mut_ptr().cast(), iov_len: SEARCH_BYTES };
    let from = libc::iovec { iov_base: std::ptr::with_exposed_provenance_mut(pointer), iov_len: SEARCH_BYTES };
    // SAFETY: the kernel writes at most as many bytes as the buffer has, and stops at the end of the stack.
    let count = unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, &from, 1, 0) };
    words.truncate(usize::try_from(count).unwrap_or(0) / size_of::<usize>());
    words
}

/// The places of the return addresses, innermost first.
fn slots(words: &[usize], frames: &[usize]) -> Option<Box<[(usize, usize)]>> {
    let mut from = 0;
    let slot = |frame: &usize| {
        let place = from + words.get(from..)?.iter().position(|word| word == frame)?;
        from = place + 1;
        Some((place * size_of::<usize>(), *frame))
    };
    frames.iter().map(slot).collect()
}
