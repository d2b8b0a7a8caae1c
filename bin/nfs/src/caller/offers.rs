//! Registered memory that calls offer to the server.

use std::collections::BTreeMap;
use std::io;

use weft_abi_types::{IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE};
use weft_client::verbs::Pd;
use weft_rdma_service::{Broken, Endpoint, Lender, Loan};
use weft_rpcrdma::{OfferedMemory, RegisteredMemory, Registration, RegistrationFailed};

use crate::limits::OFFERED_MEMORY_MAX;

/// Memory with one key.
#[derive(Debug)]
pub struct Offer {
    /// Its part in the call.
    pub memory: OfferedMemory,
    loan: Loan,
}

impl Offer {
    /// Returns the first `len` bytes; fewer if it is shorter.
    pub fn bytes(&self, len: usize) -> Vec<u8> {
        self.loan.bytes(len)
    }
}

/// The memory of one connection's calls.
#[derive(Debug)]
pub struct Offers {
    lender: Lender,
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
        Ok(Offers { lender: Lender::new(pd)?, calls: BTreeMap::new(), owners: BTreeMap::new(), offered: 0 })
    }

    /// Whether the server may invalidate keys.
    pub fn takes_invalidation(&self) -> bool {
        self.lender.takes_invalidation()
    }

    /// Returns the registration of a call with this message.
    pub fn of_call<'a>(&'a mut self, message: &'a [u8]) -> CallOffers<'a> {
        CallOffers { offers: self, message }
    }

    /// Notes that a SEND of the server invalidated a key.
    pub fn invalidated(&mut self, key: u32) {
        if let Some(offer) = self.find(key) {
            offer.loan.invalidated();
        }
    }

    /// Makes a call's keys valid, before its SEND is posted.
    pub fn bind<T: Copy + std::fmt::Debug>(&mut self, xid: u32, endpoint: &mut Endpoint<T>) -> Result<(), Broken> {
        self.calls.get_mut(&xid).into_iter().flatten().try_for_each(|offer| offer.loan.bind(endpoint))
    }

    /// Takes the offers of an answered call out.
    pub fn take(&mut self, xid: u32) -> Vec<Offer> {
        let offers = self.calls.remove(&xid).unwrap_or_default();
        for offer in &offers {
            self.owners.remove(&offer.loan.key());
            self.offered -= offer.loan.memory().len();
        }
        offers
    }

    /// Takes memory back. A key that is still valid becomes invalid.
    pub fn give(&mut self, offers: Vec<Offer>) {
        offers.into_iter().for_each(|offer| self.lender.give(offer.loan));
    }

    fn find(&mut self, key: u32) -> Option<&mut Offer> {
        let xid = self.owners.get(&key)?;
        self.calls.get_mut(xid)?.iter_mut().find(|offer| offer.loan.key() == key)
    }

    fn offer(&mut self, xid: u32, memory: OfferedMemory, message: &[u8]) -> Option<RegisteredMemory> {
        let len = memory.len();
        if self.offered > 0 && self.offered + len > OFFERED_MEMORY_MAX {
            return None;
        }
        let loan = self.lender.lend(len, rights(&memory)).ok()?;
        if let OfferedMemory::Call(range) = &memory {
            loan.memory().write(0, message.get(range.clone())?);
        }
        let (address, handle) = (loan.address(), loan.key());
        self.offered += loan.memory().len();
        self.owners.insert(handle, xid);
        self.calls.entry(xid).or_default().push(Offer { memory, loan });
        Some(RegisteredMemory { handle, address })
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
            offer.loan.revoke();
        }
    }
}
