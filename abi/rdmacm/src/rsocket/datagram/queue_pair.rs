//! The queue pair of one local address, with send and receive slots.

use libc::c_int;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::ptr::null_mut;
use weft_abi_types::inlines::{ibv_post_recv, ibv_post_send, ibv_query_port as query_port};
use weft_abi_types::{
    IBV_QPT_UD, IBV_SEND_INLINE, IBV_WC_SUCCESS, IBV_WR_SEND, RDMA_PS_UDP, RDMA_UDP_QKEY, ibv_ah, ibv_ah_attr, ibv_pd,
    ibv_port_attr, ibv_qp, ibv_qp_cap, ibv_qp_init_attr, ibv_recv_wr, ibv_send_wr, ibv_send_wr_ud, ibv_send_wr_wr,
    ibv_wc,
};

use crate::errors::{made, verbs};
use crate::qp::rdma_destroy_qp;
use crate::rsocket::address::Address;
use crate::rsocket::cm_id::CmId;
use crate::rsocket::completions::{BATCH, Completions};
use crate::rsocket::gather::Gather;
use crate::rsocket::memory::{Region, Writer};
use crate::rsocket::options::Options;
use crate::rsocket::proto::datagram::{HEADER_BYTES_MAX, SLOT_BYTES, parse_source, source_header};
use crate::rsocket::proto::inbound::Piece;
use crate::rsocket::service::Service;
use crate::rsocket::verbs::{ibv_create_ah, ibv_destroy_ah, ibv_query_port};

/// The bit that marks a receive in a `wr_id`; the slot is in the bits below.
const RECEIVE: u64 = 1 << 63;
/// The GRH that the device writes before each datagram.
const GRH_BYTES: usize = 40;

/// An address handle.
pub(crate) struct Handle(*mut ibv_ah);

// SAFETY: any thread may use verbs objects.
unsafe impl Send for Handle {}

impl Handle {
    pub(crate) fn new(pd: *mut ibv_pd, attr: &mut ibv_ah_attr) -> Result<Handle, c_int> {
        // SAFETY: a protection domain that outlives the handle, and attributes that live through the call.
        Ok(Handle(unsafe { made(ibv_create_ah(pd, attr))? }))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: created by `new`.
        unsafe { ibv_destroy_ah(self.0) };
    }
}

/// A completion.
pub(crate) enum Done {
    /// A send slot is free again.
    Sent,
    /// A message with a proper header.
    Received { slot: u32, bytes: usize },
}

/// The queue pair of one local address.
pub(crate) struct QueuePair {
    qp: *mut ibv_qp,
    pub(super) completions: Completions,
    /// Source address in the messages' headers.
    pub(super) source: SocketAddr,
    /// Maximum message length, header and data.
    message_bytes: usize,
    inline_bytes: usize,
    send_memory: Region,
    free: Vec<u32>,
    slots: usize,
    receive_memory: Region,
    receive_slots: u16,
    pub(super) id: CmId,
}

// SAFETY: any thread may use verbs objects; the owner's lock serialises calls.
unsafe impl Send for QueuePair {}

impl QueuePair {
    /// Creates the queue pair of `source`, with receives posted.
    pub(super) fn new(
        service: &Service,
        key: u64,
        source: SocketAddr,
        options: &mut Options,
    ) -> Result<QueuePair, c_int> {
        let id = service.create_id(key, RDMA_PS_UDP)?;
        id.bind(&Address::from(source))?;
        let (context, pd) = (id.context().ok_or(libc::ENODEV)?, id.pd().ok_or(libc::ENODEV)?);
        let limit = id.queue_limit()?;
        let (sq_size, rq_size) = (options.sq_size.min(limit), options.rq_size.min(limit));
        let completions = Completions::new(context, c_int::from(sq_size) + c_int::from(rq_size))?;
        let send_memory = Region::new(pd, usize::from(sq_size) * SLOT_BYTES, Writer::Local)?;
        let receive_memory = Region::new(pd, usize::from(rq_size) * SLOT_BYTES + GRH_BYTES, Writer::Local)?;
        let mut attr = ibv_qp_init_attr {
            qp_context: null_mut(),
            send_cq: completions.cq(),
            recv_cq: completions.cq(),
            srq: null_mut(),
            cap: ibv_qp_cap {
                max_send_wr: sq_size.into(),
                max_recv_wr: rq_size.into(),
                max_send_sge: 1,
                max_recv_sge: 2,
                max_inline_data: options.inline_bytes,
            },
            qp_type: IBV_QPT_UD,
            sq_sig_all: 1,
        };
        let qp = id.create_qp(&mut attr)?;
        options.inline_bytes = attr.cap.max_inline_data;
        let new = QueuePair {
            qp,
            completions,
            source,
            message_bytes: SLOT_BYTES.min(mtu_bytes(&id)),
            inline_bytes: attr.cap.max_inline_data as usize,
            send_memory,
            free: (0..u32::from(sq_size)).rev().collect(),
            slots: sq_size.into(),
            receive_memory,
            receive_slots: rq_size,
            id,
        };
        (0..u32::from(rq_size)).try_for_each(|slot| new.post_receive(slot))?;
        Ok(new)
    }

    /// Returns its number, which peers learn over UDP.
    pub(super) fn number(&self) -> u32 {
        // SAFETY: our queue pair.
        unsafe { (*self.qp).qp_num }
    }

    /// Whether a send slot is free.
    pub(super) fn can_send(&self) -> bool {
        !self.free.is_empty()
    }

    /// Whether no send is in progress.
    pub(super) fn idle(&self) -> bool {
        self.free.len() == self.slots
    }

    /// Returns the maximum data length of a message.
    pub(super) fn data_max(&self) -> usize {
        self.message_bytes - source_header(self.source).bytes().len()
    }

    /// Sends the rest of the buffers as one message; the caller has checked that it fits and that a slot is free.
    pub(super) fn send(&mut self, from: &mut Gather<'_>, peer: &Handle, qpn: u32) -> Result<(), c_int> {
        let slot = self.free.pop().ok_or(libc::EAGAIN)?;
        let start = slot as usize * SLOT_BYTES;
        let header = source_header(self.source);
        let (head, data) = (header.bytes().len(), from.left());
        self.send_memory.write(start, header.bytes());
        from.copy_to(&self.send_memory, Piece { offset: (start + head) as u32, length: data as u32 });
        let bytes = head + data;
        let mut sge = self.send_memory.sge(Piece { offset: start as u32, length: bytes as u32 });
        // SAFETY: a structure of integers and pointers, all of which may be zero.
        let mut wr: ibv_send_wr = unsafe { std::mem::zeroed() };
        wr.wr_id = slot.into();
        wr.sg_list = &mut sge;
        wr.num_sge = 1;
        wr.opcode = IBV_WR_SEND;
        wr.send_flags = if bytes <= self.inline_bytes { IBV_SEND_INLINE } else { 0 };
        wr.wr = ibv_send_wr_wr { ud: ibv_send_wr_ud { ah: peer.0, remote_qpn: qpn, remote_qkey: RDMA_UDP_QKEY } };
        let mut bad = null_mut();
        // SAFETY: our queue pair; the request lives through the call, and the slot until its completion.
        let posted = verbs(unsafe { ibv_post_send(self.qp, &mut wr, &mut bad) });
        if posted.is_err() {
            self.free.push(slot);
        }
        posted
    }

    /// Posts a receive slot.
    pub(super) fn post_receive(&self, slot: u32) -> Result<(), c_int> {
        let grh = Piece { offset: u32::from(self.receive_slots) * SLOT_BYTES as u32, length: GRH_BYTES as u32 };
        let data = Piece { offset: slot * SLOT_BYTES as u32, length: SLOT_BYTES as u32 };
        let mut sges = [self.receive_memory.sge(grh), self.receive_memory.sge(data)];
        let mut wr = ibv_recv_wr {
            wr_id: RECEIVE | u64::from(slot),
            next: null_mut(),
            sg_list: sges.as_mut_ptr(),
            num_sge: sges.len() as c_int,
        };
        let mut bad = null_mut();
        // SAFETY: our queue pair, and a request that lives through the call.
        verbs(unsafe { ibv_post_recv(self.qp, &mut wr, &mut bad) })
    }

    /// Takes completions. Messages without a valid header are lost.
    pub(super) fn take_completions(&mut self, done: &mut Vec<Done>) {
        let mut wcs = [MaybeUninit::<ibv_wc>::uninit(); BATCH];
        loop {
            let count = self.completions.poll(&mut wcs).unwrap_or(0);
            for wc in wcs.iter().take(count) {
                // SAFETY: the poll filled it in.
                let wc = unsafe { wc.assume_init_ref() };
                let slot = wc.wr_id as u32;
                if wc.wr_id & RECEIVE == 0 {
                    self.free.push(slot);
                    done.push(Done::Sent);
                    continue;
                }
                let bytes = (wc.byte_len as usize).saturating_sub(GRH_BYTES).min(SLOT_BYTES);
                if wc.status != IBV_WC_SUCCESS {
                    continue;
                }
                if parse_source(&self.head(slot, bytes)).is_some() {
                    done.push(Done::Received { slot, bytes });
                } else {
                    let _ = self.post_receive(slot);
                }
            }
            if count < BATCH {
                return;
            }
        }
    }

    /// Returns the first bytes of a received message, enough for every header.
    fn head(&self, slot: u32, bytes: usize) -> Vec<u8> {
        self.received(slot, bytes.min(HEADER_BYTES_MAX))
    }

    /// Returns a copy of a received message.
    pub(super) fn received(&self, slot: u32, bytes: usize) -> Vec<u8> {
        self.receive_memory.to_vec(slot as usize * SLOT_BYTES, bytes)
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        // SAFETY: our identifier, which outlives the queue pair.
        unsafe { rdma_destroy_qp(self.id.raw()) };
    }
}

/// Returns the maximum payload of a packet on an identifier's port.
fn mtu_bytes(id: &CmId) -> usize {
    let mut attr = MaybeUninit::<ibv_port_attr>::zeroed();
    let Some(context) = id.context() else { return SLOT_BYTES };
    // SAFETY: an open context, and a place for the attributes, for all of which zero is a value.
    let attr = unsafe {
        let _ = query_port(ibv_query_port, context, id.port_num(), attr.as_mut_ptr());
        attr.assume_init()
    };
    128usize << attr.active_mtu.clamp(1, 5)
}
