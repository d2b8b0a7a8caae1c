//! Registered memory that this end lends to the peer for one operation under a key of its own, reused.
//!
//! A key must be invalid before the memory's bytes are used, and the peer may invalidate it itself by its SEND. Only
//! memory windows of type 2 can do both without a new registration for each operation. On devices without them, such as
//! iWARP's, each loan is a registration of its own, and this end does not announce that it takes invalidating SENDs.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::rc::{Rc, Weak};

use rustix::net::SendFlags;
use weft_abi_types::{IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_MW_BIND};
use weft_client::verbs::{Buffer, Memory, Pd, Window};

use crate::endpoint::{Broken, Endpoint};
use crate::limits::{COPIED_REPLY_MAX, HELD_BYTES_MAX, POOL_KEEPS_MAX};
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

/// Blocks that no loan in progress uses.
#[derive(Default, Debug)]
struct Blocks {
    free: BTreeMap<usize, Vec<Block>>,
    /// Bytes of the free ones.
    kept: usize,
    /// Memory of loans that have ended, whose data is in use, by their names.
    held: BTreeMap<u64, Loan>,
    held_bytes: usize,
    next: u64,
}

impl Blocks {
    fn take(&mut self, length: usize) -> Option<Block> {
        let block = self.free.get_mut(&length)?.pop()?;
        self.kept -= length;
        Some(block)
    }

    fn give(&mut self, mut loan: Loan) {
        loan.revoke();
        let len = loan.block.memory.len();
        let is_class = size_class(len) == Some(len);
        if loan.block.buffer.is_some() && is_class && self.kept + len <= POOL_KEEPS_MAX {
            self.kept += len;
            self.free.entry(len).or_default().push(loan.block);
        }
    }

    fn hold(&mut self, loan: Loan) -> u64 {
        let name = self.next;
        self.next += 1;
        self.held_bytes += loan.block.memory.len();
        self.held.insert(name, loan);
        name
    }

    fn let_go(&mut self, name: u64) {
        if let Some(loan) = self.held.remove(&name) {
            self.held_bytes -= loan.block.memory.len();
            self.give(loan);
        }
    }
}

/// Data that the peer left in a loan that has ended: still in its memory, or copied. Dropping it gives the memory back to its
/// [`Lender`]. If that has gone with its connection, the memory is no longer registered, and is freed.
#[derive(Debug)]
pub struct EndedLoan(Place);

#[derive(Debug)]
enum Place {
    Held { name: u64, memory: Memory, length: usize, blocks: Weak<RefCell<Blocks>> },
    Copied(Vec<u8>),
}

impl EndedLoan {
    /// Returns data that has been copied.
    pub fn copied(bytes: Vec<u8>) -> EndedLoan {
        EndedLoan(Place::Copied(bytes))
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        match &self.0 {
            Place::Held { length, .. } => *length,
            Place::Copied(bytes) => bytes.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends all bytes.
    pub fn append_to(&self, all: &mut Vec<u8>) {
        match &self.0 {
            Place::Held { memory, length, .. } => {
                let at = all.len();
                all.resize(at + length, 0);
                memory.read(0, all.get_mut(at..).unwrap_or_default());
            }
            Place::Copied(bytes) => all.extend_from_slice(bytes),
        }
    }

    /// Returns a copy of all bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut all = Vec::new();
        self.append_to(&mut all);
        all
    }

    /// Sends bytes to a socket from this one on, without waiting. Returns the number of those sent.
    ///
    /// # Errors
    /// The socket does not take them.
    pub fn send(&self, socket: impl AsFd, from: usize) -> io::Result<usize> {
        match &self.0 {
            Place::Held { memory, length, .. } => memory.send(socket, from.min(*length), length.saturating_sub(from)),
            Place::Copied(bytes) => {
                let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
                Ok(rustix::net::send(socket, bytes.get(from..).unwrap_or_default(), flags)?)
            }
        }
    }
}

impl Drop for EndedLoan {
    fn drop(&mut self) {
        if let Place::Held { name, blocks, .. } = &self.0
            && let Some(blocks) = blocks.upgrade()
        {
            blocks.borrow_mut().let_go(*name);
        }
    }
}

/// Memory for loans of one connection.
#[derive(Debug)]
pub struct Lender {
    pd: Pd,
    has_windows: bool,
    blocks: Rc<RefCell<Blocks>>,
}

impl Lender {
    /// Creates it without memory.
    ///
    /// # Errors
    /// The device does not answer.
    pub fn new(pd: &Pd) -> io::Result<Lender> {
        Ok(Lender { pd: pd.clone(), has_windows: pd.context().has_windows()?, blocks: Rc::default() })
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
        let free = self.blocks.borrow_mut().take(class);
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
        self.blocks.borrow_mut().give(loan);
    }

    /// Ends a loan whose first `length` bytes are data of the peer: fewer if the loan is shorter. A key that is still valid becomes
    /// invalid, so that the data cannot change any more. Few bytes are copied, and all are once much memory is held: a slow
    /// reader of data costs others a copy, and no memory.
    pub fn end(&self, mut loan: Loan, length: usize) -> EndedLoan {
        loan.revoke();
        let length = length.min(loan.length);
        let mut blocks = self.blocks.borrow_mut();
        if length <= COPIED_REPLY_MAX || blocks.held_bytes + loan.block.memory.len() > HELD_BYTES_MAX {
            let copied = EndedLoan::copied(loan.bytes(length));
            blocks.give(loan);
            return copied;
        }
        let memory = loan.block.memory.clone();
        EndedLoan(Place::Held { name: blocks.hold(loan), memory, length, blocks: Rc::downgrade(&self.blocks) })
    }
}
