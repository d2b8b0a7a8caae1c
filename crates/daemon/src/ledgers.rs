//! The ledgers of processes: memory that this daemon made and gave them, to which they write what they count and hold.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use weft_ipc::stat::{CountersPage, LEDGER_BYTES, ObjectsPage, Page, read_page};

use crate::slots::ClientId;

/// All of them.
#[derive(Debug, Default)]
pub struct Ledgers {
    by_client: BTreeMap<ClientId, File>,
}

impl Ledgers {
    /// Make one.
    pub fn open(&mut self, client: ClientId) -> io::Result<()> {
        let file = weft_sys::memory::sealed_file("weft-ledger", LEDGER_BYTES)?;
        self.by_client.insert(client, file);
        Ok(())
    }

    /// Forget one. Its memory lives on while the process has it.
    pub fn close(&mut self, client: ClientId) {
        self.by_client.remove(&client);
    }

    /// The descriptor, for the process.
    pub fn descriptor(&self, client: ClientId) -> Option<BorrowedFd<'_>> {
        self.by_client.get(&client).map(AsFd::as_fd)
    }

    /// What the process wrote last of what it counted.
    pub fn counters(&self, client: ClientId) -> Option<CountersPage> {
        read_page(self.by_client.get(&client)?, Page::Counters)
    }

    /// What the process wrote last of what it holds.
    pub fn objects(&self, client: ClientId) -> Option<ObjectsPage> {
        read_page(self.by_client.get(&client)?, Page::Objects)
    }
}
