//! A datagram queue pair with its memory: slots that messages arrive in and leave from.

use std::io;

use weft_abi_types::{IBV_ACCESS_LOCAL_WRITE, IBV_MTU_256, IBV_QPT_UD, IBV_WC_SUCCESS};
use weft_client::verbs::{
    Ah, Buffer, Channel, Connect, Context, Cq, Op, Path, Pd, Qp, QpRequest, SendChain, SendRequest, UdTarget, Wc,
};

use super::address::MESSAGE_BYTES;

/// The Q_Key of all echoes.
pub const QKEY: u32 = 0x7765_6674;
/// Slots for arrivals: a server's clients each have a few datagrams under way.
pub const SLOTS: usize = 256;
/// Slots of a client's questions, behind those for arrivals. A question may leave late: its path may not be known.
const QUESTIONS: usize = 128;
/// Bytes of the GRH before a received datagram.
const GRH_BYTES: usize = 40;
/// Distance of slots.
const SLOT_BYTES: usize = GRH_BYTES + MESSAGE_BYTES;
/// Completions taken at once.
const BATCH: usize = 16;
/// Set in the ID of a send.
const SEND_ID: u64 = 1 << 32;

/// A queue pair.
pub struct End {
    qp: Qp,
    cq: Cq,
    buffer: Buffer,
    pd: Pd,
    port: u8,
}

/// A request that is done.
pub enum Completion {
    /// A datagram is in the slot.
    Received {
        /// The slot.
        slot: usize,
        /// Its completion, for [`End::sender`].
        wc: Wc,
    },
    /// The slot's datagram has left.
    Sent {
        /// The slot.
        slot: usize,
    },
}

impl End {
    /// Makes a queue pair that is ready, with all slots for arrivals posted. With `sleeps`, [`End::wait`] may be called.
    pub fn new(context: &Context, port: u8, sleeps: bool) -> io::Result<End> {
        let pd = Pd::new(context)?;
        let channel = if sleeps { Some(Channel::new(context)?) } else { None };
        let depth = (SLOTS + QUESTIONS) as u32;
        let cq = Cq::new(context, 2 * depth, channel.as_ref())?;
        let buffer = Buffer::new(&pd, (SLOTS + QUESTIONS) * SLOT_BYTES, IBV_ACCESS_LOCAL_WRITE, false)?;
        let qp = Qp::new(
            &pd,
            &QpRequest {
                qp_type: IBV_QPT_UD,
                send_cq: &cq,
                recv_cq: &cq,
                srq: None,
                xrcd: None,
                max_send_wr: depth,
                max_recv_wr: SLOTS as u32,
                max_inline_data: 0,
                extended: false,
            },
        )?;
        qp.to_init(port, 0, QKEY)?;
        let path = Path { port_num: port, ..Path::default() };
        let to = Connect { dest_qpn: 0, rq_psn: 0, sq_psn: 0, path_mtu: IBV_MTU_256, path, rd_atomic: 0 };
        qp.to_rtr(&to)?;
        qp.to_rts(&to)?;
        let end = End { qp, cq, buffer, pd, port };
        (0..SLOTS).try_for_each(|slot| end.post_recv(slot))?;
        if sleeps {
            end.cq.request_notify()?;
        }
        Ok(end)
    }

    /// Number of the queue pair.
    pub fn qpn(&self) -> u32 {
        self.qp.number()
    }

    /// The protection domain for handles.
    pub fn pd(&self) -> &Pd {
        &self.pd
    }

    /// Makes the handle of a datagram's sender. The datagrams have no GRH, so the completion alone names it.
    pub fn sender(&self, wc: &Wc) -> io::Result<Ah> {
        Ah::from_wc(&self.pd, wc, &self.buffer, self.port)
    }

    /// The slot of a client's question.
    pub fn question_slot(&self, number: u32) -> usize {
        SLOTS + number as usize % QUESTIONS
    }

    /// Posts a slot for an arrival.
    pub fn post_recv(&self, slot: usize) -> io::Result<()> {
        self.qp.post_recv(slot as u64, self.buffer.sge(slot * SLOT_BYTES, SLOT_BYTES))
    }

    /// Sends the message in a slot.
    pub fn send(&self, slot: usize, to: UdTarget) -> io::Result<()> {
        let piece = self.buffer.sge(slot * SLOT_BYTES + GRH_BYTES, MESSAGE_BYTES);
        let request =
            SendRequest { wr_id: SEND_ID | slot as u64, piece, op: Op::SendTo(to), signaled: true, inline: false };
        self.qp.post_chain(&mut SendChain::new(&[request]), 1)
    }

    /// Reads the message in a slot.
    pub fn read(&self, slot: usize, into: &mut [u8; MESSAGE_BYTES]) {
        self.buffer.read(slot * SLOT_BYTES + GRH_BYTES, into);
    }

    /// Writes the message in a slot.
    pub fn write(&self, slot: usize, bytes: &[u8; MESSAGE_BYTES]) {
        self.buffer.write(slot * SLOT_BYTES + GRH_BYTES, bytes);
    }

    /// Takes completions; returns how many there were.
    pub fn poll(&self, on: &mut dyn FnMut(Completion)) -> io::Result<usize> {
        self.cq.poll::<BATCH>(|wc| {
            let slot = (wc.wr_id() & !SEND_ID) as usize;
            if wc.wr_id() & SEND_ID != 0 {
                on(Completion::Sent { slot });
            } else if wc.status() == IBV_WC_SUCCESS {
                on(Completion::Received { slot, wc: *wc });
            }
        })
    }

    /// As [`End::poll`]; sleeps while there are none.
    pub fn wait(&self, on: &mut dyn FnMut(Completion)) -> io::Result<()> {
        while self.poll(on)? == 0 {
            if let Some(channel) = self.cq.channel() {
                channel.wait(&self.cq)?;
            }
            self.cq.request_notify()?;
            // Completions from before the request raise no event.
            if self.poll(on)? != 0 {
                return Ok(());
            }
        }
        Ok(())
    }
}
