//! Registered memory that calls offer to the server, reused.
//!
//! A key must be invalid before a call's results are used, and a server may invalidate it itself by its reply's SEND. Only
//! memory windows of type 2 can do both without a new registration for each call. On devices without them, such as
//! iWARP's, each offer is a registration of its own, and this end does not announce that it takes invalidating SENDs.

use std::collections::BTreeMap;
use std::io;

use weft_abi_types::{IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_MW_BIND, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE};
use weft_client::verbs::{Buffer, Memory, Pd, Window};
use weft_rdma_service::{Broken, Endpoint, size_class};
use weft_rpcrdma::{OfferedMemory, RegisteredMemory, Registration, RegistrationFailed};

use weft_rdma_service::limits::POOL_KEEPS_MAX;

use crate::limits::OFFERED_MEMORY_MAX;

/// Memory with one key.
#[derive(Debug)]
pub struct Offer {
    /// Its part in the call.
    pub memory: OfferedMemory,
    key: u32,
    is_valid: bool,
    block: Block,
}

impl Offer {
    /// Returns the first `len` bytes; fewer if it is shorter.
    pub fn bytes(&self, len: usize) -> Vec<u8> {
        let memory = &self.block.memory;
        let mut bytes = vec![0; len.min(memory.len())];
        memory.read(0, &mut bytes);
        bytes
    }
}

/// A piece of registered memory.
#[derive(Debug)]
struct Block {
    window: Option<Window>,
    /// `None`: no longer registered.
    buffer: Option<Buffer>,
    memory: Memory,
}

/// The memory of one connection's calls.
#[derive(Debug)]
pub struct Offers {
    pd: Pd,
    has_windows: bool,
    free: BTreeMap<usize, Vec<Block>>,
    /// Bytes of unused blocks.
    kept: usize,
    /// Offers of unanswered calls.
    calls: BTreeMap<u32, Vec<Offer>>,
    /// Calls by the keys that they offer.
    owners: BTreeMap<u32, u32>,
    /// Bytes of offered blocks.
    offered: usize,
}

impl Offers {
    /// Creates the memory of a connection.
    pub fn new(pd: &Pd) -> io::Result<Offers> {
        Ok(Offers {
            pd: pd.clone(),
            has_windows: pd.context().has_windows()?,
            free: BTreeMap::new(),
            kept: 0,
            calls: BTreeMap::new(),
            owners: BTreeMap::new(),
            offered: 0,
        })
    }

    /// Whether the server may invalidate keys.
    pub fn takes_invalidation(&self) -> bool {
        self.has_windows
    }

    /// Returns the registration of a call with this message.
    pub fn of_call<'a>(&'a mut self, message: &'a [u8]) -> CallOffers<'a> {
        CallOffers { offers: self, message }
    }

    /// Notes that a SEND of the server invalidated a key.
    pub fn invalidated(&mut self, key: u32) {
        if let Some(offer) = self.find(key) {
            offer.is_valid = false;
        }
    }

    /// Makes a call's keys valid, before its SEND is posted.
    pub fn bind<T: Copy + std::fmt::Debug>(&mut self, xid: u32, endpoint: &mut Endpoint<T>) -> Result<(), Broken> {
        for offer in self.calls.get_mut(&xid).into_iter().flatten() {
            let (len, access) = (offer.memory.len(), rights(&offer.memory));
            if let (Some(window), Some(buffer)) = (&mut offer.block.window, &offer.block.buffer) {
                endpoint.bind(window, buffer, len, access)?;
            }
        }
        Ok(())
    }

    /// Takes the offers of an answered call out.
    pub fn take(&mut self, xid: u32) -> Vec<Offer> {
        let offers = self.calls.remove(&xid).unwrap_or_default();
        for offer in &offers {
            self.owners.remove(&offer.key);
            self.offered -= offer.block.memory.len();
        }
        offers
    }

    /// Takes memory back. A key that is still valid becomes invalid.
    pub fn give(&mut self, offers: Vec<Offer>) {
        for mut offer in offers {
            if offer.is_valid {
                revoke(&mut offer);
            }
            let len = offer.block.memory.len();
            if offer.block.buffer.is_some() && self.kept + len <= POOL_KEEPS_MAX {
                self.kept += len;
                self.free.entry(len).or_default().push(offer.block);
            }
        }
    }

    fn find(&mut self, key: u32) -> Option<&mut Offer> {
        let xid = self.owners.get(&key)?;
        self.calls.get_mut(xid)?.iter_mut().find(|offer| offer.key == key)
    }

    fn block(&mut self, len: usize, access: u32) -> io::Result<Block> {
        if !self.has_windows {
            // On iWARP the source of a READ, too, may be memory that only its owner writes.
            let buffer = Buffer::new(&self.pd, len, access | IBV_ACCESS_LOCAL_WRITE, false)?;
            return Ok(Block { window: None, memory: buffer.memory(), buffer: Some(buffer) });
        }
        let class = size_class(len).ok_or(io::ErrorKind::InvalidInput)?;
        let mut block = match self.free.get_mut(&class).and_then(Vec::pop) {
            Some(block) => {
                self.kept -= block.memory.len();
                block
            }
            None => {
                let buffer = Buffer::new(&self.pd, class, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND, false)?;
                Block { window: None, memory: buffer.memory(), buffer: Some(buffer) }
            }
        };
        if block.window.is_none() {
            block.window = Some(Window::new(&self.pd)?);
        }
        Ok(block)
    }

    fn offer(&mut self, xid: u32, memory: OfferedMemory, message: &[u8]) -> Option<RegisteredMemory> {
        let len = memory.len();
        if self.offered > 0 && self.offered + len > OFFERED_MEMORY_MAX {
            return None;
        }
        let block = self.block(len, rights(&memory)).ok()?;
        if let OfferedMemory::Call(range) = &memory {
            block.memory.write(0, message.get(range.clone())?);
        }
        let buffer = block.buffer.as_ref()?;
        let (address, handle) = (buffer.addr(), block.window.as_ref().map_or(buffer.rkey(), Window::next_rkey));
        self.offered += block.memory.len();
        self.owners.insert(handle, xid);
        self.calls.entry(xid).or_default().push(Offer { memory, key: handle, is_valid: true, block });
        Some(RegisteredMemory { handle, address })
    }
}

/// Makes an offer's key invalid.
fn revoke(offer: &mut Offer) {
    offer.is_valid = false;
    match offer.block.window.take() {
        Some(window) => drop(window),
        None => offer.block.buffer = None,
    }
}

fn rights(memory: &OfferedMemory) -> u32 {
    match memory {
        OfferedMemory::Call(_) => IBV_ACCESS_REMOTE_READ,
        OfferedMemory::Result { .. } | OfferedMemory::Reply { .. } => IBV_ACCESS_REMOTE_WRITE,
    }
}

/// Registration of one call.
#[derive(Debug)]
pub struct CallOffers<'a> {
    offers: &'a mut Offers,
    message: &'a [u8],
}

impl Registration for CallOffers<'_> {
    fn register(&mut self, xid: u32, memory: OfferedMemory) -> Result<RegisteredMemory, RegistrationFailed> {
        self.offers.offer(xid, memory, self.message).ok_or(RegistrationFailed)
    }

    fn invalidate(&mut self, handle: u32) {
        if let Some(offer) = self.offers.find(handle) {
            revoke(offer);
        }
    }
}
