//! Ledgers of processes: memory that this daemon made and gave them, to which they write their counters and objects.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use weft_ipc::stat::{CountersPage, LEDGER_BYTES, ObjectsPage, Page, read_page};

use crate::slots::ClientId;

/// The ledgers of all processes.
#[derive(Debug, Default)]
pub struct Ledgers {
    by_client: BTreeMap<ClientId, File>,
}

impl Ledgers {
    /// Makes a ledger.
    pub fn open(&mut self, client: ClientId) -> io::Result<()> {
        let file = weft_sys::memory::sealed_file("weft-ledger", LEDGER_BYTES)?;
        self.by_client.insert(client, file);
        Ok(())
    }

    /// Closes a ledger. Its memory lives on while the process has it.
    pub fn close(&mut self, client: ClientId) {
        self.by_client.remove(&client);
    }

    /// Returns the descriptor, for the process.
    pub fn descriptor(&self, client: ClientId) -> Option<BorrowedFd<'_>> {
        self.by_client.get(&client).map(AsFd::as_fd)
    }

    /// Returns the counters that the process last wrote.
    pub fn counters(&self, client: ClientId) -> Option<CountersPage> {
        read_page(self.by_client.get(&client)?, Page::Counters)
    }

    /// Returns the objects that the process last reported.
    pub fn objects(&self, client: ClientId) -> Option<ObjectsPage> {
        read_page(self.by_client.get(&client)?, Page::Objects)
    }
}
