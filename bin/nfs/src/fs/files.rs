//! Files and directories that programs have open.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::nodes::Node;
use crate::client::{Entry, FileKind};
use crate::protocol::credential::Credential;

/// An open file or directory. Data is read and written as the user that opened it: later requests may come from another
/// process, or from the kernel itself.
#[derive(Debug)]
pub struct OpenFile {
    /// The file.
    pub node: Arc<Node>,
    /// The user that opened it.
    pub by: Arc<Credential>,
    /// Entries of a directory that were read ahead.
    pub ahead: Mutex<Ahead>,
}

/// Entries of a directory that the kernel has not asked for yet.
#[derive(Debug, Default)]
pub struct Ahead {
    /// Position of the first of them.
    pub position: u64,
    /// The entries.
    pub entries: VecDeque<Entry>,
    /// Nothing follows them.
    pub is_end: bool,
    /// Verifier of positions.
    pub verifier: u64,
}

impl OpenFile {
    /// Returns the entries that were read ahead.
    pub fn ahead(&self) -> MutexGuard<'_, Ahead> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    /// Open regular files: directories do not count.
    regular: usize,
    open: BTreeMap<u64, Arc<OpenFile>>,
}

/// All open files.
#[derive(Debug, Default)]
pub struct Files(Mutex<Table>);

impl Files {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one, and returns its number.
    pub fn add(&self, node: Arc<Node>, by: Arc<Credential>) -> u64 {
        node.usage().opens += 1;
        let mut table = self.table();
        table.next += 1;
        let number = table.next;
        table.regular += usize::from(node.kind == FileKind::Regular);
        table.open.insert(number, Arc::new(OpenFile { node, by, ahead: Mutex::default() }));
        number
    }

    /// Returns an open file.
    pub fn find(&self, number: u64) -> Option<Arc<OpenFile>> {
        self.table().open.get(&number).cloned()
    }

    /// Removes one. Returns it, and whether no program has the file open any more.
    pub fn remove(&self, number: u64) -> Option<(Arc<OpenFile>, bool)> {
        let mut table = self.table();
        let file = table.open.remove(&number)?;
        table.regular -= usize::from(file.node.kind == FileKind::Regular);
        drop(table);
        let mut usage = file.node.usage();
        usage.opens = usage.opens.saturating_sub(1);
        let is_last = usage.opens == 0;
        drop(usage);
        Some((file, is_last))
    }

    /// Whether programs have no regular files open.
    pub fn is_empty(&self) -> bool {
        self.table().regular == 0
    }
}
