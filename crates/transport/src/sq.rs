//! The send queue: a ring of slots allocated once, whose gather lists and inline buffers are reused lap after lap.
//! Positions count from the queue's creation, so that "earlier" is a plain comparison.

use smallvec::SmallVec;
use weft_verbs::op::{ListUse, ResponseKind};
use weft_verbs::{SendFlags, SendOp, SendWr, Sge, UdTarget, VerbsError, WcOpcode, WcStatus};

use crate::env::refill;
use crate::sge_list;
use crate::word::WORD_BYTES;

/// A send work request in progress.
#[derive(Debug)]
pub(crate) struct Wqe {
    pub wr_id: u64,
    pub op: SendOp,
    pub flags: SendFlags,
    /// Whether success generates a completion.
    pub signaled: bool,
    /// Its status, if known before its turn to complete.
    pub status: WcStatus,
    /// `status` was injected when the request was posted.
    pub injected: bool,
    /// Bytes of the message.
    pub length: u64,
    /// First PSN, counted without wrapping; set when the transmission starts.
    pub first: u64,
    /// Number of PSNs.
    pub psns: u64,
    /// Message number, for end-to-end credits.
    pub ssn: u32,
    /// SRQ at the peer (XRC).
    pub srqn: u32,
    /// Bytes of the answer received; all of them if direct access has stored them already (same host).
    pub answered: u64,
    /// Whether the peer fetches the payload (same host).
    pub named: bool,
    pub sges: SmallVec<[Sge; 2]>,
    /// Payload copied at posting, if the request is inline; leftover of an earlier request otherwise.
    pub inline: Vec<u8>,
}

impl Default for Wqe {
    fn default() -> Wqe {
        Wqe {
            wr_id: 0,
            op: SendOp::Send,
            flags: SendFlags::empty(),
            signaled: false,
            status: WcStatus::Success,
            injected: false,
            length: 0,
            first: 0,
            psns: 0,
            ssn: 0,
            srqn: 0,
            answered: 0,
            named: false,
            sges: SmallVec::new(),
            inline: Vec::new(),
        }
    }
}

impl Wqe {
    /// Returns the PSN after its last.
    pub fn end(&self) -> u64 {
        self.first + self.psns
    }

    pub fn is_inline(&self) -> bool {
        self.flags.contains(SendFlags::INLINE)
    }

    /// Returns whether the peer answers with data, or with a response of its own.
    #[inline]
    pub fn has_response(&self) -> bool {
        self.op.op().has_response()
    }

    /// Returns whether an answer is missing, or incomplete (same host).
    pub fn awaits_answer(&self) -> bool {
        self.has_response() && self.answered < self.length.max(1)
    }

    /// Returns whether it sends nothing.
    #[inline]
    pub fn is_local(&self) -> bool {
        self.op.op().is_local()
    }

    /// Returns whether it uses up a receive at the peer.
    #[inline]
    pub fn takes_receive(&self) -> bool {
        self.op.takes_receive()
    }

    /// Returns the opcode of its completion.
    #[inline]
    pub fn wc_opcode(&self) -> WcOpcode {
        self.op.info().completion
    }
}

/// The ring.
#[derive(Debug)]
pub(crate) struct SendQueue {
    slots: Box<[Wqe]>,
    /// Datagram destinations, beside the slots because only UD has them.
    targets: Box<[Option<UdTarget>]>,
    mask: u64,
    capacity: u64,
    sge_max: usize,
    inline_max: u64,
    head: u64,
    tail: u64,
}

impl SendQueue {
    pub fn new(capacity: u32, sge_max: u32, inline_max: u32, datagrams: bool) -> SendQueue {
        let slots = if capacity == 0 { 0 } else { capacity.next_power_of_two() as usize };
        SendQueue {
            slots: (0..slots).map(|_| Wqe::default()).collect(),
            targets: if datagrams { vec![None; slots].into() } else { Box::new([]) },
            mask: (slots as u64).wrapping_sub(1),
            capacity: u64::from(capacity),
            sge_max: sge_max as usize,
            inline_max: u64::from(inline_max),
            head: 0,
            tail: 0,
        }
    }

    /// Returns the position of the oldest request.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// Returns the position after the newest request.
    pub fn tail(&self) -> u64 {
        self.tail
    }

    pub fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    pub fn get(&self, position: u64) -> &Wqe {
        &self.slots[(position & self.mask) as usize]
    }

    pub fn get_mut(&mut self, position: u64) -> &mut Wqe {
        &mut self.slots[(position & self.mask) as usize]
    }

    pub fn target(&self, position: u64) -> Option<UdTarget> {
        self.targets.get((position & self.mask) as usize).copied().flatten()
    }

    /// Has the newest request fail with a status when its turn comes.
    pub fn fail_newest(&mut self, status: WcStatus) {
        if !self.is_empty() {
            let newest = self.get_mut(self.tail - 1);
            (newest.status, newest.injected) = (status, true);
        }
    }

    /// Drops the oldest request.
    pub fn pop(&mut self) {
        debug_assert!(self.head < self.tail);
        self.head += 1;
    }

    /// Drops everything without a completion (RESET).
    pub fn clear(&mut self) {
        self.head = self.tail;
    }

    /// Checks that a request would be accepted behind `ahead` others posted first; returns its bytes.
    pub fn check(&self, wr: &SendWr<'_>, ahead: usize) -> Result<u64, VerbsError> {
        if wr.sges.len() > self.sge_max {
            return Err(VerbsError::Invalid("more scatter/gather elements than max_send_sge"));
        }
        let row = wr.op.info();
        let length = match (row.list, row.response) {
            (ListUse::Ignored, _) => 0,
            // The answer has 8 bytes, however long the list is.
            (_, ResponseKind::Value) => WORD_BYTES,
            _ => sge_list::total(wr.sges),
        };
        if wr.flags.contains(SendFlags::INLINE) && length > self.inline_max {
            return Err(VerbsError::Invalid("more inline bytes than max_inline_data"));
        }
        if self.tail - self.head + ahead as u64 >= self.capacity {
            return Err(VerbsError::NoMemory("the send queue is full"));
        }
        Ok(length)
    }

    /// Adds a request. `read(addr, out)` reads `inline` data from the caller's own memory.
    pub fn push(
        &mut self,
        wr: &SendWr<'_>,
        signaled: bool,
        mut read: impl FnMut(u64, &mut [u8]),
    ) -> Result<(), VerbsError> {
        let length = self.check(wr, 0)?;
        let index = (self.tail & self.mask) as usize;
        let wqe = &mut self.slots[index];
        wqe.wr_id = wr.wr_id;
        wqe.op = wr.op;
        wqe.flags = wr.flags;
        wqe.signaled = signaled;
        wqe.status = WcStatus::Success;
        wqe.injected = false;
        wqe.length = length;
        wqe.first = 0;
        wqe.psns = 0;
        wqe.answered = 0;
        wqe.named = false;
        wqe.srqn = wr.xrc_srqn.unwrap_or(0);
        if wr.flags.contains(SendFlags::INLINE) {
            wqe.sges.clear();
            wqe.inline.resize(length as usize, 0);
            let mut at = 0;
            for sge in wr.sges {
                let end = at + sge.length as usize;
                read(sge.addr, &mut wqe.inline[at..end]);
                at = end;
            }
        } else {
            refill(&mut wqe.sges, wr.sges);
        }
        if let Some(place) = self.targets.get_mut(index) {
            *place = wr.ud;
        }
        self.tail += 1;
        Ok(())
    }
}
