//! A stream's queue pair and memory: created once the peer's device is known. Also the posting of each kind of message.

use libc::c_int;
use std::ptr::null_mut;
use weft_abi_types::inlines::{ibv_post_recv, ibv_post_send};
use weft_abi_types::{
    IBV_QPT_RC, IBV_SEND_INLINE, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND, ibv_qp, ibv_qp_cap,
    ibv_qp_init_attr, ibv_recv_wr, ibv_send_wr, ibv_send_wr_imm, ibv_send_wr_rdma, ibv_send_wr_wr, ibv_sge,
    ibv_wr_opcode, rdma_cm_id,
};

use super::sent_messages::{MESSAGE_BYTES, SentMessages};
use super::work::Work;
use crate::create::retire;
use crate::errors::verbs;
use crate::id::Id;
use crate::qp::rdma_destroy_qp;
use crate::rsocket::cm_id::CmId;
use crate::rsocket::completions::Completions;
use crate::rsocket::memory::{Region, Writer};
use crate::rsocket::options::{Options, QUEUE_MIN};
use crate::rsocket::proto::connect_data::{ConnectData, SGL_ENTRIES};
use crate::rsocket::proto::credits::{CONTROL_SLOTS, ControlSlots, ReceiveCredits, SendCredits};
use crate::rsocket::proto::inbound::{Inbound, Piece};
use crate::rsocket::proto::message::{Control, Message};
use crate::rsocket::proto::outbound::Outbound;
use crate::rsocket::proto::sge::{IoMap, Order, Sge};

/// The peer's description of itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(super) order: Order,
    /// Destination of our grants, entry by entry.
    grants: Sge,
    grant_next: u32,
    /// Destination of our I/O map entries.
    pub(super) iomap: Sge,
    /// Destination of the next data.
    pub(super) target: Sge,
    /// The entry of our list that it writes when `target` is used up.
    target_next: u32,
    pub(super) credits: SendCredits,
}

/// A queue pair with its buffers.
pub(crate) struct Endpoint {
    id: *mut rdma_cm_id,
    qp: *mut ibv_qp,
    pub(super) completions: Completions,
    pub(super) inline_bytes: u32,
    sq_size: u16,
    rq_size: u16,
    /// Requests that may be posted in addition to control messages.
    pub(super) slots: u16,
    pub(super) control: ControlSlots,
    pub(super) outbound: Outbound,
    pub(super) send_memory: Region,
    /// Index of the next grant's slot behind the send buffer.
    grant_place: u16,
    pub(super) inbound: Inbound,
    pub(super) receive_memory: Region,
    pub(super) receive_credits: ReceiveCredits,
    /// The list that the peer writes: its grants of receive memory, and its mapped buffers.
    list: Region,
    pub(super) iomap_entries: u16,
    pub(super) peer: Option<Peer>,
    /// On iWARP, messages are SENDs.
    messages: Option<SentMessages>,
}

// SAFETY: any thread may use verbs objects; the owner's lock serialises calls.
unsafe impl Send for Endpoint {}

impl Endpoint {
    /// Creates queue pair and memory, with receives posted. `options` receives the granted values.
    pub(crate) fn new(id: &CmId, options: &mut Options) -> Result<Endpoint, c_int> {
        let (context, pd) = (id.context().ok_or(libc::ENODEV)?, id.pd().ok_or(libc::ENODEV)?);
        let limit = id.queue_limit()?;
        options.sq_size = options.sq_size.clamp(QUEUE_MIN, limit);
        options.rq_size = options.rq_size.clamp(QUEUE_MIN, limit);
        let (sq_size, rq_size) = (options.sq_size, options.rq_size);
        let messages = id.is_iwarp().then(|| SentMessages::new(pd, rq_size)).transpose()?;
        // A message is a request of its own.
        let sends = u32::from(sq_size) * if messages.is_some() { 2 } else { 1 };
        let completions = Completions::new(context, sends as c_int + c_int::from(rq_size))?;
        let grants = Sge::SIZE * usize::from(CONTROL_SLOTS);
        let send_memory = Region::new(pd, options.send_bytes as usize + grants, Writer::Local)?;
        let receive_memory = Region::new(pd, options.receive_bytes as usize, Writer::Peer)?;
        let list = Sge::SIZE * SGL_ENTRIES as usize + IoMap::SIZE * usize::from(options.iomap_entries);
        let list = Region::new(pd, list, Writer::Peer)?;
        let mut attr = ibv_qp_init_attr {
            qp_context: null_mut(),
            send_cq: completions.cq(),
            recv_cq: completions.cq(),
            srq: null_mut(),
            cap: ibv_qp_cap {
                max_send_wr: sends,
                max_recv_wr: rq_size.into(),
                max_send_sge: 2,
                max_recv_sge: 1,
                max_inline_data: options.inline_bytes.max(if messages.is_some() { MESSAGE_BYTES } else { 0 }),
            },
            qp_type: IBV_QPT_RC,
            sq_sig_all: 1,
        };
        let qp = id.create_qp(&mut attr)?;
        options.inline_bytes = attr.cap.max_inline_data;
        let mut endpoint = Endpoint {
            id: id.raw(),
            qp,
            completions,
            inline_bytes: attr.cap.max_inline_data,
            sq_size,
            rq_size,
            slots: sq_size - CONTROL_SLOTS,
            control: ControlSlots::default(),
            outbound: Outbound::new(options.send_bytes),
            send_memory,
            grant_place: 0,
            inbound: Inbound::new(options.receive_bytes, usize::from(rq_size) + 1),
            receive_memory,
            receive_credits: ReceiveCredits::new(rq_size),
            list,
            iomap_entries: options.iomap_entries,
            peer: None,
            messages,
        };
        (0..rq_size).try_for_each(|_| endpoint.post_receive())?;
        Ok(endpoint)
    }

    /// Returns the connection data for the peer.
    pub(crate) fn connect_data(&self) -> ConnectData {
        ConnectData {
            order: Order::HOST,
            credits: self.rq_size,
            iomap_entries: self.iomap_entries,
            target_sgl: Sge { addr: self.list.addr(), key: self.list.rkey(), length: SGL_ENTRIES },
            data_buffer: Sge {
                addr: self.receive_memory.addr(),
                key: self.receive_memory.rkey(),
                length: self.inbound.half(),
            },
        }
    }

    /// Stores the peer's description of itself.
    pub(crate) fn set_peer(&mut self, data: &ConnectData) {
        self.peer = Some(Peer {
            order: data.order,
            grants: data.target_sgl,
            // Our connection data already contained the first entry.
            grant_next: if data.target_sgl.length > 1 { 1 } else { 0 },
            iomap: Sge { addr: data.iomap_address(), key: data.target_sgl.key, length: data.iomap_entries.into() },
            target: data.data_buffer,
            target_next: 1,
            credits: SendCredits::new(data.credits),
        });
    }

    /// Takes the next entry of our list if the last is used up; returns the number of bytes that may be written there.
    pub(super) fn target_bytes(&mut self) -> u32 {
        let Some(peer) = &mut self.peer else { return 0 };
        if peer.target.length == 0 {
            let at = peer.target_next as usize * Sge::SIZE;
            if let Some(entry) = self.list.entry(at, Sge::LENGTH_AT) {
                // The peer writes this entry again only after all of it was used.
                self.list.write(at, &Sge::default().encode(Order::HOST));
                peer.target = Sge::decode(&entry, Order::HOST);
                peer.target_next = (peer.target_next + 1) % SGL_ENTRIES;
            }
        }
        peer.target.length
    }

    /// Finds the peer's buffer that contains `offset`: returns that byte's address, the key, and the number of bytes
    /// from there.
    pub(super) fn mapped(&self, offset: u64) -> Option<(u64, u32, u32)> {
        (0..usize::from(self.iomap_entries)).find_map(|entry| {
            let at = Sge::SIZE * SGL_ENTRIES as usize + IoMap::SIZE * entry;
            let map = IoMap::decode(&self.list.entry(at, IoMap::LENGTH_AT)?, Order::HOST);
            map.reach(offset).map(|(addr, bytes)| (addr, map.sge.key, bytes))
        })
    }

    /// Whether data can be sent now.
    pub(super) fn can_send(&mut self) -> bool {
        let credits = self.peer.as_ref().is_some_and(|peer| peer.credits.available());
        credits && self.slots > 0 && self.outbound.writable() && self.target_bytes() != 0
    }

    /// Whether everything that was posted has completed.
    pub(super) fn idle(&self) -> bool {
        self.control.idle() && self.slots == self.sq_size - CONTROL_SLOTS
    }

    /// Grants the peer credits and, if a half of the receive buffer is free, that half.
    pub(super) fn give_credits(&mut self) -> Result<(), c_int> {
        if !self.control.available() || !(self.inbound.can_lend() || self.receive_credits.due()) {
            return Ok(());
        }
        let Some(peer) = &mut self.peer else { return Ok(()) };
        let message = Message::Credits(self.receive_credits.tell());
        self.control.take();
        let Some(half) = self.inbound.lend() else {
            return self.post(Work::Credits, Some(message), &mut [], 0, 0, 0);
        };
        let entry = Sge {
            addr: self.receive_memory.addr() + u64::from(half.offset),
            key: self.receive_memory.rkey(),
            length: half.length,
        };
        let bytes = entry.encode(peer.order);
        let to = peer.grants.addr.wrapping_add(u64::from(peer.grant_next) * Sge::SIZE as u64);
        let key = peer.grants.key;
        peer.grant_next = if peer.grant_next + 1 >= peer.grants.length { 0 } else { peer.grant_next + 1 };
        let (sge, flags) = self.small(&bytes);
        self.post(Work::Credits, Some(message), &mut [sge], flags, to, key)
    }

    /// Returns an SGE for a few bytes: in the request itself, or in a slot that stays unused until completion.
    fn small(&mut self, bytes: &[u8; Sge::SIZE]) -> (ibv_sge, u32) {
        if self.inline_bytes >= Sge::SIZE as u32 {
            return (inline_sge(bytes), IBV_SEND_INLINE);
        }
        let offset = self.outbound.size() + Sge::SIZE as u32 * u32::from(self.grant_place);
        self.grant_place = (self.grant_place + 1) % CONTROL_SLOTS;
        self.send_memory.write(offset as usize, bytes);
        (self.send_memory.sge(Piece { offset, length: Sge::SIZE as u32 }), 0)
    }

    /// Sends a control message; the caller has checked that a slot is free.
    pub(super) fn post_control(&mut self, control: Control) -> Result<(), c_int> {
        self.control.take();
        // A keep-alive only needs the peer's acknowledgement.
        let message = (control != Control::KeepAlive).then_some(Message::Control(control));
        self.post(Work::Control(control), message, &mut [], 0, 0, 0)
    }

    /// Posts a write of `sges` to the peer, with the message if there is one: as immediate data, or in a request of its
    /// own, as rdma-core does on iWARP.
    pub(super) fn post(
        &self,
        work: Work,
        message: Option<Message>,
        sges: &mut [ibv_sge],
        flags: u32,
        remote_addr: u64,
        rkey: u32,
    ) -> Result<(), c_int> {
        let Some(message) = message else {
            return self.post_request(request(work, IBV_WR_RDMA_WRITE, sges, flags, remote_addr, rkey));
        };
        if self.messages.is_none() {
            let mut wr = request(work, IBV_WR_RDMA_WRITE_WITH_IMM, sges, flags, remote_addr, rkey);
            wr.imm = ibv_send_wr_imm { imm_data: message.encode().to_be() };
            return self.post_request(wr);
        }
        if !sges.is_empty() {
            self.post_request(request(Work::Placed, IBV_WR_RDMA_WRITE, sges, flags, remote_addr, rkey))?;
        }
        let bytes = SentMessages::encode(message);
        self.post_request(request(work, IBV_WR_SEND, &mut [inline_sge(&bytes)], IBV_SEND_INLINE, 0, 0))
    }

    fn post_request(&self, mut wr: ibv_send_wr) -> Result<(), c_int> {
        let mut bad = null_mut();
        // SAFETY: our queue pair; the request and the memory that it names live through the call, and registered memory
        // longer.
        verbs(unsafe { ibv_post_send(self.qp, &mut wr, &mut bad) })
    }

    /// Takes the message of the oldest receive that has completed, if messages are SENDs and this was one of `bytes`.
    pub(super) fn take_message(&mut self, bytes: u32) -> Option<u32> {
        self.messages.as_mut()?.take(bytes)
    }

    /// Posts a receive: immediates need no memory.
    pub(super) fn post_receive(&mut self) -> Result<(), c_int> {
        let mut sge = self.messages.as_mut().map(SentMessages::place);
        let list = sge.as_mut().map_or(null_mut(), |sge| sge as *mut ibv_sge);
        let num_sge = c_int::from(!list.is_null());
        let mut wr = ibv_recv_wr { wr_id: Work::Receive.id(), next: null_mut(), sg_list: list, num_sge };
        let mut bad = null_mut();
        // SAFETY: our queue pair, and a request that lives through the call.
        verbs(unsafe { ibv_post_recv(self.qp, &mut wr, &mut bad) })
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // SAFETY: the owner of the endpoint keeps its identifier longer. The service thread moves the queue pair along
        // with the connection's events, and has finished with those.
        unsafe {
            retire(Id::of(self.id));
            rdma_destroy_qp(self.id);
        }
    }
}

/// Returns a send request. Its list must live until it is posted.
fn request(
    work: Work,
    opcode: ibv_wr_opcode,
    sges: &mut [ibv_sge],
    flags: u32,
    remote_addr: u64,
    rkey: u32,
) -> ibv_send_wr {
    // SAFETY: a structure of integers and pointers, all of which may be zero.
    let mut wr: ibv_send_wr = unsafe { std::mem::zeroed() };
    wr.wr_id = work.id();
    wr.sg_list = sges.as_mut_ptr();
    wr.num_sge = sges.len() as c_int;
    wr.opcode = opcode;
    wr.send_flags = flags;
    wr.wr = ibv_send_wr_wr { rdma: ibv_send_wr_rdma { remote_addr, rkey } };
    wr
}

/// Returns an SGE for inline bytes.
pub(super) fn inline_sge(bytes: &[u8]) -> ibv_sge {
    ibv_sge { addr: bytes.as_ptr() as u64, length: bytes.len() as u32, lkey: 0 }
}
