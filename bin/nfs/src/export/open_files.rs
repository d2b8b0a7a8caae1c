//! Files that stay open between calls. Besides the time that it saves, a client may write on to a file that it created
//! without the permission to write, as it may to an open file of its own machine.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::handle::FileId;
use crate::limits::{OPEN_FILES_MAX, OPEN_FOR};
use crate::protocol::credential::Credential;

/// Key of an open file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenKey {
    /// The file.
    pub id: FileId,
    /// Time of its creation.
    pub birth: u64,
    /// The user who opened it.
    pub identity: Credential,
}

#[derive(Debug)]
struct OpenFile {
    key: OpenKey,
    readable: bool,
    writable: bool,
    file: Arc<OwnedFd>,
    used: Instant,
}

/// Open files, the one used last at the end.
#[derive(Debug, Default)]
pub struct OpenFiles(Mutex<VecDeque<OpenFile>>);

impl OpenFiles {
    fn list(&self) -> MutexGuard<'_, VecDeque<OpenFile>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a file that this user opened before, with these rights at least.
    pub fn get(&self, key: &OpenKey, write: bool) -> Option<Arc<OwnedFd>> {
        let mut list = self.list();
        list.retain(|open| open.used.elapsed() < OPEN_FOR);
        let fits = |open: &OpenFile| open.key == *key && if write { open.writable } else { open.readable };
        let at = list.iter().rposition(fits)?;
        let mut open = list.remove(at)?;
        open.used = Instant::now();
        let file = open.file.clone();
        list.push_back(open);
        Some(file)
    }

    /// Keeps a file.
    pub fn keep(&self, key: OpenKey, readable: bool, writable: bool, file: OwnedFd) -> Arc<OwnedFd> {
        let file = Arc::new(file);
        let mut list = self.list();
        if list.len() >= OPEN_FILES_MAX {
            list.pop_front();
        }
        list.push_back(OpenFile { key, readable, writable, file: file.clone(), used: Instant::now() });
        file
    }

    /// Closes a file that was removed, or whose permissions changed for others than this user.
    pub fn close(&self, id: FileId, except: Option<&Credential>) {
        self.list().retain(|open| open.key.id != id || except == Some(&open.key.identity));
    }
}
