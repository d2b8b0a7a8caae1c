//! Queue pair of one connection: posts receives and requests, and turns completions into events. The same for both ends:
//! the owner feeds its protocol's state machine with the events and posts the work that comes out.
//!
//! Requests that the send queue has no room for wait in their order. A queue pair completes its requests in order, so a
//! list of posted ones says which request a completion is about.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use weft_abi_types::{IBV_ACCESS_LOCAL_WRITE, IBV_QPT_RC, IBV_WC_WR_FLUSH_ERR, ibv_wc_status};
use weft_client::rdmacm::CmId;
use weft_client::verbs::{Buffer, Channel, Cq, Op, Pd, Qp, QpRequest, Remote, SendRequest, Sge, Window};

use crate::limits::{SEND_DEPTH, SENDS_WAITING_MAX};

/// Bit of a work request's ID that marks a receive; the others are its slot.
const RECEIVE: u64 = 1 << 63;
/// Completions taken by one call.
const COMPLETIONS: usize = 32;

/// Sizes of an endpoint.
#[derive(Clone, Copy, Debug)]
pub struct EndpointConfig {
    /// Receives that stay posted.
    pub receives: usize,
    /// Bytes of each receive.
    pub receive_bytes: usize,
    /// SENDs that are posted at a time.
    pub sends: usize,
    /// Bytes of the longest SEND.
    pub send_bytes: usize,
}

/// Request for the send queue. `T` names the owner's operation.
#[derive(Debug)]
pub enum Work<T> {
    /// RDMA READ into registered memory.
    Read(T, Sge, Remote),
    /// RDMA WRITE from registered memory.
    Write(Sge, Remote),
    /// RDMA WRITE from registered memory that reports its completion.
    ReportedWrite(T, Sge, Remote),
    /// SEND of these bytes, which are copied.
    Send {
        /// Header and inline message.
        bytes: Vec<u8>,
        /// Key to invalidate at the peer.
        invalidate: Option<u32>,
        /// Memory of WRITEs before it, which comes back when the SEND completes.
        holds: Option<Buffer>,
    },
    /// SEND of these bytes, which are copied, that wakes a peer which waits for solicited completions alone.
    SendSolicited(Vec<u8>),
}

impl<T> Work<T> {
    fn is_send(&self) -> bool {
        matches!(self, Work::Send { .. } | Work::SendSolicited(_))
    }
}

/// Event of an endpoint.
#[derive(Debug)]
pub enum Completed<T> {
    /// A SEND of the peer waits in this slot, for [`Endpoint::take_received`].
    Received {
        /// The slot.
        slot: usize,
        /// Bytes received.
        len: usize,
        /// Key that the SEND invalidated.
        invalidated: Option<u32>,
    },
    /// An RDMA READ completed.
    Read(T),
    /// A [`Work::ReportedWrite`] completed.
    Written(T),
    /// A SEND completed, and with it the WRITEs before it.
    Sent(Option<Buffer>),
}

/// Reason why a queue pair no longer works.
#[derive(Debug)]
pub enum Broken {
    /// A request failed: the operation, and the status that the library names.
    Request(&'static str, String),
    /// A call of the library failed.
    Call(&'static str, io::Error),
    /// The peer does not take the SENDs that it causes.
    Stuck,
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Broken::Request(operation, status) => write!(f, "{operation}: {status}"),
            Broken::Call(call, error) => write!(f, "{call}: {}", weft_tool::errno::text(error)),
            Broken::Stuck => f.write_str("the peer stopped receiving"),
        }
    }
}

/// Queue pair with its receives, sends and completion queue. Dropping it ends the connection.
#[derive(Debug)]
pub struct Endpoint<T> {
    // Destroyed before the memory that it uses.
    qp: Qp,
    cq: Cq,
    channel: Channel,
    config: EndpointConfig,
    receives: Buffer,
    sends: Buffer,
    /// Slots of `sends` without a posted SEND.
    free: Vec<usize>,
    waiting: VecDeque<Work<T>>,
    /// SENDs among them.
    sends_waiting: usize,
    posted: VecDeque<Posted<T>>,
    failed: Option<(T, ibv_wc_status)>,
    id: CmId,
}

#[derive(Debug)]
enum Posted<T> {
    Read(T),
    ReportedWrite(T),
    Write,
    Bind,
    Send(usize, Option<Buffer>),
}

impl<T: Copy + std::fmt::Debug> Endpoint<T> {
    /// Creates the queue pair of an id whose device is known, and posts the receives.
    pub fn new(id: &CmId, pd: &Pd, config: EndpointConfig) -> io::Result<Endpoint<T>> {
        let context = pd.context();
        let channel = Channel::new(context)?;
        let entries = SEND_DEPTH + config.receives;
        let cq = Cq::new(context, entries as u32, Some(&channel))?;
        cq.request_notify()?;
        let request = QpRequest {
            qp_type: IBV_QPT_RC,
            send_cq: &cq,
            recv_cq: &cq,
            srq: None,
            xrcd: None,
            max_send_wr: SEND_DEPTH as u32,
            max_recv_wr: config.receives as u32,
            max_inline_data: 0,
            extended: false,
        };
        let qp = id.create_qp(pd, &request)?;
        let receives = Buffer::new(pd, config.receives * config.receive_bytes, IBV_ACCESS_LOCAL_WRITE, false)?;
        let sends = Buffer::new(pd, config.sends * config.send_bytes, 0, false)?;
        let endpoint = Endpoint {
            qp,
            cq,
            channel,
            config,
            receives,
            sends,
            free: (0..config.sends).collect(),
            waiting: VecDeque::new(),
            sends_waiting: 0,
            posted: VecDeque::new(),
            failed: None,
            id: id.clone(),
        };
        (0..config.receives).try_for_each(|slot| endpoint.post_receive(slot))?;
        Ok(endpoint)
    }

    /// The connection's id.
    pub fn id(&self) -> &CmId {
        &self.id
    }

    fn post_receive(&self, slot: usize) -> io::Result<()> {
        let bytes = self.config.receive_bytes;
        self.qp.post_recv(RECEIVE | slot as u64, self.receives.sge(slot * bytes, bytes))
    }

    /// Posts work, or keeps it until there is room.
    pub fn post(&mut self, work: Work<T>) -> Result<(), Broken> {
        self.sends_waiting += usize::from(work.is_send());
        self.waiting.push_back(work);
        if self.sends_waiting > SENDS_WAITING_MAX {
            return Err(Broken::Stuck);
        }
        self.flush()
    }

    fn flush(&mut self) -> Result<(), Broken> {
        while self.posted.len() < SEND_DEPTH {
            let has_slot = !self.free.is_empty();
            let ready = |work: &Work<T>| has_slot || !work.is_send();
            if !self.waiting.front().is_some_and(ready) {
                break;
            }
            if let Some(work) = self.waiting.pop_front() {
                self.sends_waiting -= usize::from(work.is_send());
                self.post_now(work)?;
            }
        }
        Ok(())
    }

    fn post_now(&mut self, work: Work<T>) -> Result<(), Broken> {
        // Only READs, SENDs and some WRITEs report success: a SEND completes after the WRITEs before it.
        let (posted, piece, op, signaled) = match work {
            Work::Read(tag, piece, from) => (Posted::Read(tag), piece, Op::Read(from), true),
            Work::Write(piece, to) => (Posted::Write, piece, Op::Write(to), false),
            Work::ReportedWrite(tag, piece, to) => (Posted::ReportedWrite(tag), piece, Op::Write(to), true),
            Work::Send { bytes, invalidate, holds } => {
                let (slot, piece) = self.stage(&bytes)?;
                (Posted::Send(slot, holds), piece, invalidate.map_or(Op::Send, Op::SendInvalidate), true)
            }
            Work::SendSolicited(bytes) => {
                let (slot, piece) = self.stage(&bytes)?;
                (Posted::Send(slot, None), piece, Op::SendSolicited, true)
            }
        };
        let request = SendRequest { wr_id: 0, piece, op, signaled, inline: false };
        self.qp.post_send(&request).map_err(|error| Broken::Call("ibv_post_send", error))?;
        self.posted.push_back(posted);
        Ok(())
    }

    /// Copies bytes into a free slot for SENDs.
    fn stage(&mut self, bytes: &[u8]) -> Result<(usize, Sge), Broken> {
        let slot = self.free.pop().ok_or(Broken::Stuck)?;
        let len = bytes.len().min(self.config.send_bytes);
        let at = slot * self.config.send_bytes;
        self.sends.write(at, bytes.get(..len).unwrap_or_default());
        Ok((slot, self.sends.sge(at, len)))
    }

    /// Returns how many more requests the send queue takes.
    pub fn room(&self) -> usize {
        SEND_DEPTH.saturating_sub(self.posted.len() + self.waiting.len())
    }

    /// Posts the bind of a window, which takes effect before work that is posted later. The caller left [`room`] for it.
    ///
    /// [`room`]: Endpoint::room
    pub fn bind(&mut self, window: &mut Window, buffer: &Buffer, length: usize, access: u32) -> Result<(), Broken> {
        let posted = self.qp.post_bind(window, buffer, length, access, 0);
        posted.map_err(|error| Broken::Call("ibv_post_send", error))?;
        self.posted.push_back(Posted::Bind);
        Ok(())
    }

    /// Takes the event that made the endpoint's descriptor readable.
    pub fn on_readable(&self) -> Result<(), Broken> {
        self.channel.wait(&self.cq).map_err(|error| Broken::Call("ibv_get_cq_event", error))?;
        self.cq.request_notify().map_err(|error| Broken::Call("ibv_req_notify_cq", error))
    }

    /// Appends some completions to the list, and posts work that waited. Returns whether there may be more.
    pub fn poll(&mut self, into: &mut Vec<Completed<T>>) -> Result<bool, Broken> {
        let mut failed = None;
        let (posted, free, cq, failed_transfer) = (&mut self.posted, &mut self.free, &self.cq, &mut self.failed);
        let polled = cq.poll::<COMPLETIONS>(|wc| {
            let is_receive = wc.wr_id() & RECEIVE != 0;
            if wc.status() == IBV_WC_WR_FLUSH_ERR {
                // A consequence: of an error before it, or of a disconnect that the connection manager reports.
            } else if wc.status() != 0 {
                let operation = if is_receive { "a receive" } else { name(posted.front()) };
                if let (false, Some(Posted::Read(tag) | Posted::ReportedWrite(tag))) = (is_receive, posted.front()) {
                    failed_transfer.get_or_insert((*tag, wc.status()));
                }
                failed.get_or_insert_with(|| Broken::Request(operation, cq.status_text(wc.status())));
            } else if is_receive {
                let slot = (wc.wr_id() & !RECEIVE) as usize;
                let (len, invalidated) = (wc.byte_len() as usize, wc.invalidated());
                into.push(Completed::Received { slot, len, invalidated });
            } else {
                while matches!(posted.front(), Some(Posted::Write | Posted::Bind)) {
                    posted.pop_front();
                }
                match posted.pop_front() {
                    Some(Posted::Read(tag)) => into.push(Completed::Read(tag)),
                    Some(Posted::ReportedWrite(tag)) => into.push(Completed::Written(tag)),
                    Some(Posted::Send(slot, holds)) => {
                        free.push(slot);
                        into.push(Completed::Sent(holds));
                    }
                    Some(Posted::Write | Posted::Bind) | None => {}
                }
            }
        });
        let count = polled.map_err(|error| Broken::Call("ibv_poll_cq", error))?;
        if let Some(failed) = failed {
            return Err(failed);
        }
        self.flush()?;
        Ok(count == COMPLETIONS)
    }

    /// Returns the READ or reported WRITE that broke the queue pair, with the status of its completion.
    pub fn failed_transfer(&self) -> Option<(T, ibv_wc_status)> {
        self.failed
    }

    /// Copies a received SEND out of its slot, and posts the receive again.
    pub fn take_received(&self, slot: usize, len: usize, into: &mut Vec<u8>) -> Result<(), Broken> {
        into.resize(len.min(self.config.receive_bytes), 0);
        self.receives.read(slot * self.config.receive_bytes, into);
        self.post_receive(slot).map_err(|error| Broken::Call("ibv_post_recv", error))
    }
}

impl<T> AsFd for Endpoint<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

/// Returns the field's name of a request.
fn name<T>(posted: Option<&Posted<T>>) -> &'static str {
    match posted {
        Some(Posted::Read(_)) => "RDMA READ of the peer's data",
        Some(Posted::Write | Posted::ReportedWrite(_)) => "RDMA WRITE to the peer",
        Some(Posted::Bind) => "bind of a memory window",
        Some(Posted::Send(..)) => "SEND",
        None => "a request",
    }
}
