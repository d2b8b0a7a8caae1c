//! Replies to calls that must not run twice. A client whose connection broke repeats its calls on the next one: a REMOVE
//! that was executed would then fail.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::limits::REPLIES_KEPT_MAX;

/// Client, transaction, and a digest of the call, since clients may use a transaction's number again.
type Key = (String, u32, u64);

#[derive(Debug, Default)]
struct Kept {
    /// `None` while the call is executed.
    replies: BTreeMap<Key, Option<Vec<u8>>>,
    order: VecDeque<Key>,
}

/// Replies that are kept, the oldest dropped first.
#[derive(Debug, Default)]
pub struct Replies {
    kept: Mutex<Kept>,
    finished: Condvar,
    hasher: RandomState,
}

impl Replies {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Executes a call, or returns the reply that it had.
    pub fn once(&self, client: &str, xid: u32, call: &[u8], execute: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
        let key = (client.to_owned(), xid, self.hasher.hash_one(call));
        let mut kept = self.kept();
        loop {
            match kept.replies.get(&key) {
                None => break,
                Some(Some(reply)) => return reply.clone(),
                Some(None) => kept = self.finished.wait(kept).unwrap_or_else(PoisonError::into_inner),
            }
        }
        kept.replies.insert(key.clone(), None);
        drop(kept);
        let reply = execute();
        let mut kept = self.kept();
        kept.replies.insert(key.clone(), Some(reply.clone()));
        kept.order.push_back(key);
        if kept.order.len() > REPLIES_KEPT_MAX
            && let Some(oldest) = kept.order.pop_front()
        {
            kept.replies.remove(&oldest);
        }
        self.finished.notify_all();
        reply
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn a_repeated_call_has_the_first_ones_reply() {
        let (replies, runs) = (Replies::default(), AtomicU32::new(0));
        let run = |client: &str, xid, call: &[u8]| {
            replies.once(client, xid, call, || vec![runs.fetch_add(1, Ordering::Relaxed) as u8])
        };
        assert_eq!((run("a", 1, b"x"), run("a", 1, b"x")), (vec![0], vec![0]));
        assert_eq!((run("b", 1, b"x"), run("a", 2, b"x"), run("a", 1, b"y")), (vec![1], vec![2], vec![3]));
        for xid in 0..REPLIES_KEPT_MAX as u32 + 2 {
            run("c", xid, b"z");
        }
        let kept = replies.kept();
        assert_eq!((kept.replies.len(), kept.order.len()), (REPLIES_KEPT_MAX, REPLIES_KEPT_MAX));
    }
}
