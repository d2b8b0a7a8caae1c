//! Registered memory that this end lends to the peer for one operation under a key of its own, reused.
//!
//! A key must be invalid before the memory's bytes are used, and the peer may invalidate it itself by its SEND. Only
//! memory windows of type 2 can do both without a new registration for each operation. On devices without them, such as
//! iWARP's, each loan is a registration of its own, and this end does not announce that it takes invalidating SENDs.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::rc::{Rc, Weak};

use weft_abi_types::{IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_MW_BIND};
use weft_client::verbs::{Buffer, Memory, Pd, Window};

use crate::endpoint::{Broken, Endpoint};
use crate::limits::POOL_KEEPS_MAX;
use crate::pool::size_class;

/// A piece of registered memory.
#[derive(Debug)]
struct Block {
    window: Option<Window>,
    /// `None`: no longer registered.
    buffer: Option<Buffer>,
    memory: Memory,
}

/// Memory that the peer reaches under a key.
#[derive(Debug)]
pub struct Loan {
    block: Block,
    address: u64,
    key: u32,
    length: usize,
    access: u32,
    is_valid: bool,
}

impl Loan {
    /// Key.
    pub fn key(&self) -> u32 {
        self.key
    }

    /// Address for the peer.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// The memory, which may be longer than the loan.
    pub fn memory(&self) -> &Memory {
        &self.block.memory
    }

    /// Returns the first `len` bytes; fewer if there are fewer.
    pub fn bytes(&self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len.min(self.block.memory.len())];
        self.block.memory.read(0, &mut bytes);
        bytes
    }

    /// Makes the key valid for requests that are posted later. The caller left [`Endpoint::room`] for a request.
    ///
    /// # Errors
    /// The queue pair no longer works.
    pub fn bind<T: Copy + std::fmt::Debug>(&mut self, endpoint: &mut Endpoint<T>) -> Result<(), Broken> {
        match (&mut self.block.window, &self.block.buffer) {
            (Some(window), Some(buffer)) => endpoint.bind(window, buffer, self.length, self.access),
            _ => Ok(()),
        }
    }

    /// Notes that a SEND of the peer invalidated the key.
    pub fn invalidated(&mut self) {
        self.is_valid = false;
    }

    /// Makes the key invalid, unless it is so already. From then on the peer cannot reach the memory.
    pub fn revoke(&mut self) {
        if !std::mem::replace(&mut self.is_valid, false) {
            return;
        }
        match self.block.window.take() {
            Some(window) => drop(window),
            None => self.block.buffer = None,
        }
    }
}

/// Blocks without a loan.
#[derive(Default, Debug)]
struct FreeBlocks {
    by_length: BTreeMap<usize, Vec<Block>>,
    /// Their bytes.
    kept: usize,
}

impl FreeBlocks {
    fn take(&mut self, length: usize) -> Option<Block> {
        let block = self.by_length.get_mut(&length)?.pop()?;
        self.kept -= length;
        Some(block)
    }

    fn give(&mut self, mut loan: Loan) {
        loan.revoke();
        let len = loan.block.memory.len();
        if loan.block.buffer.is_some() && self.kept + len <= POOL_KEEPS_MAX {
            self.kept += len;
            self.by_length.entry(len).or_default().push(loan.block);
        }
    }
}

/// Memory of a loan that has ended, with the peer's data. Dropping it gives the memory back to its [`Lender`]. If that has gone with its
/// connection, the memory keeps the connection's id and protection domain until then.
#[derive(Debug)]
pub struct EndedLoan {
    loan: Option<Loan>,
    length: usize,
    free: Weak<RefCell<FreeBlocks>>,
}

impl EndedLoan {
    /// The memory, and how many of its first bytes are data.
    pub fn data(&self) -> Option<(&Memory, usize)> {
        self.loan.as_ref().map(|loan| (loan.memory(), self.length))
    }
}

impl Drop for EndedLoan {
    fn drop(&mut self) {
        if let (Some(loan), Some(free)) = (self.loan.take(), self.free.upgrade()) {
            free.borrow_mut().give(loan);
        }
    }
}

/// Memory for loans of one connection.
#[derive(Debug)]
pub struct Lender {
    pd: Pd,
    has_windows: bool,
    free: Rc<RefCell<FreeBlocks>>,
}

impl Lender {
    /// Creates it without memory.
    ///
    /// # Errors
    /// The device does not answer.
    pub fn new(pd: &Pd) -> io::Result<Lender> {
        Ok(Lender { pd: pd.clone(), has_windows: pd.context().has_windows()?, free: Rc::default() })
    }

    /// Whether the peer may invalidate keys.
    pub fn takes_invalidation(&self) -> bool {
        self.has_windows
    }

    /// Lends memory of `length` bytes with the peer's rights `access`. The key becomes valid by [`Loan::bind`].
    ///
    /// # Errors
    /// No memory can be registered, or no block is that long.
    pub fn lend(&mut self, length: usize, access: u32) -> io::Result<Loan> {
        let block = self.block(length, access)?;
        let buffer = block.buffer.as_ref().ok_or(io::ErrorKind::InvalidInput)?;
        let (address, key) = (buffer.addr(), block.window.as_ref().map_or(buffer.rkey(), Window::next_rkey));
        Ok(Loan { block, address, key, length, access, is_valid: true })
    }

    fn block(&mut self, length: usize, access: u32) -> io::Result<Block> {
        if !self.has_windows {
            // On iWARP the source of a READ, too, may be memory that only its owner writes.
            let buffer = Buffer::new(&self.pd, length, access | IBV_ACCESS_LOCAL_WRITE, false)?;
            return Ok(Block { window: None, memory: buffer.memory(), buffer: Some(buffer) });
        }
        let class = size_class(length).ok_or(io::ErrorKind::InvalidInput)?;
        let free = self.free.borrow_mut().take(class);
        let mut block = match free {
            Some(block) => block,
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

    /// Takes memory back. A key that is still valid becomes invalid.
    pub fn give(&mut self, loan: Loan) {
        self.free.borrow_mut().give(loan);
    }

    /// Ends a loan whose first `length` bytes are data of the peer: fewer if the loan is shorter. A key that is still valid becomes
    /// invalid, so that the data cannot change any more.
    pub fn end(&self, mut loan: Loan, length: usize) -> EndedLoan {
        loan.revoke();
        let length = length.min(loan.length);
        EndedLoan { loan: Some(loan), length, free: Rc::downgrade(&self.free) }
    }
}
