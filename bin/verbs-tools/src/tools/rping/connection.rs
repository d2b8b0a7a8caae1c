//! One connection: its queue pair, its buffers, and the meaning of its completions.

use std::io;

use weft_abi_types::{
    IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS,
    IBV_QPT_RC, IBV_WC_RDMA_READ, IBV_WC_RDMA_WRITE, IBV_WC_RECV, IBV_WC_SEND, IBV_WC_WR_FLUSH_ERR,
};

use super::options::Options;
use super::state::State;
use super::status::{Status, debug};
use crate::cm_tools::perror;
use weft_client::rdmacm::{CmId, ConnParam};
use weft_client::verbs::{
    Buffer, Channel, Context, Cq, Op, Pd, Qp, QpRequest, Remote, SendChain, SendRequest, Sge, Wc,
};

/// Bytes of an announcement: address, key and size of a buffer, big-endian.
const INFO: usize = 16;
/// Send queue depth.
const SQ_DEPTH: u32 = 16;
/// Receive queue depth.
const RQ_DEPTH: u32 = 2;

/// A connection.
pub struct Connection<'a> {
    options: &'a Options,
    /// The state after the last event.
    pub state: State,
    /// The peer's buffer, as it announced it.
    pub peer: Peer,
    /// Whether the queue pair has flushed all requests: no more completions follow.
    pub flushed: bool,
    qp: Qp,
    cq: Cq,
    channel: Channel,
    received: Buffer,
    announced: Buffer,
    /// Destination of this side's READ or of the peer's WRITE.
    pub sink: Buffer,
    /// The client's text.
    pub source: Option<Buffer>,
    /// The id.
    pub id: CmId,
}

/// The address of a peer's buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Peer {
    /// Address and key.
    pub remote: Remote,
    /// Size in bytes.
    pub len: u32,
}

impl Peer {
    fn parse(info: &[u8; INFO]) -> Peer {
        let [a, b, c, d, e, f, g, h, k0, k1, k2, k3, l0, l1, l2, l3] = *info;
        Peer {
            remote: Remote {
                addr: u64::from_be_bytes([a, b, c, d, e, f, g, h]),
                rkey: u32::from_be_bytes([k0, k1, k2, k3]),
            },
            len: u32::from_be_bytes([l0, l1, l2, l3]),
        }
    }

    fn write(&self) -> [u8; INFO] {
        let mut info = [0; INFO];
        info[..8].copy_from_slice(&self.remote.addr.to_be_bytes());
        info[8..12].copy_from_slice(&self.remote.rkey.to_be_bytes());
        info[12..].copy_from_slice(&self.len.to_be_bytes());
        info
    }
}

fn told(line: &str) -> Status {
    crate::errln!("{line}");
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

impl<'a> Connection<'a> {
    /// Creates all objects on the device of `id`, which must be known, and posts one receive request.
    pub fn new(options: &'a Options, id: &CmId) -> Result<Connection<'a>, Status> {
        let setup = |result: Status| {
            crate::errln!("setup_qp failed: {result}");
            result
        };
        let context = id.context().map_err(|_| setup(told("ibv_alloc_pd failed")))?;
        let pd = Pd::new(&context).map_err(|_| setup(told("ibv_alloc_pd failed")))?;
        let (channel, cq) = completions(&context).map_err(setup)?;
        let qp = queue_pair(options, id, &pd, &cq).map_err(setup)?;
        debug!(options, "created qp {:#x}", qp.number());
        let buffer = |name: &str, size, access| {
            Buffer::new(&pd, size, access, false).map_err(|_| {
                let status = told(&format!("{name} reg_mr failed"));
                crate::errln!("rping_setup_buffers failed: {status}");
                status
            })
        };
        let open = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
        let received = buffer("recv_buf", INFO, IBV_ACCESS_LOCAL_WRITE)?;
        let announced = buffer("send_buf", INFO, 0)?;
        let sink = buffer("rdma_buf", options.size, open)?;
        let source = if options.server { None } else { Some(buffer("start_buf", options.size, open)?) };
        debug!(options, "allocated & registered buffers...");
        let connection = Connection {
            options,
            state: State::Idle,
            peer: Peer::default(),
            flushed: false,
            qp,
            cq,
            channel,
            received,
            announced,
            sink,
            source,
            id: id.clone(),
        };
        connection.post_recv().map_err(|e| {
            let errno = e.raw_os_error().unwrap_or(libc::EIO);
            crate::errln!("ibv_post_recv failed: {errno}");
            errno
        })?;
        Ok(connection)
    }

    /// The completion channel's descriptor, readable when completions are pending; `None` after the last completion.
    pub fn fd(&self) -> Option<i32> {
        (!self.flushed).then(|| self.channel.fd())
    }

    /// Parameters of the connection.
    pub fn param(&self) -> ConnParam {
        ConnParam {
            responder_resources: 1,
            initiator_depth: 1,
            retry_count: 7,
            rnr_retry_count: 7,
            qp_num: if self.options.own_qp { self.qp.number() } else { 0 },
            ..ConnParam::default()
        }
    }

    /// Takes a self-created queue pair to Ready to Send.
    pub fn modify_own_qp(&self) -> io::Result<()> {
        for state in [IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS] {
            let (attr, mask) = self.id.init_qp_attr(state)?;
            self.qp.modify_with(attr, mask)?;
        }
        Ok(())
    }

    /// Ends the connection.
    pub fn disconnect(&self) {
        // Ignores errors, like the original: the peer may have disconnected first.
        if !self.options.own_qp || self.qp.to_error().is_ok() {
            let _ = self.id.disconnect();
        }
    }

    /// Sends the address of `buffer` to the peer.
    pub fn announce(&self, buffer: &Buffer) -> Result<(), Status> {
        let info = Peer { remote: Remote { addr: buffer.addr(), rkey: buffer.rkey() }, len: self.options.size as u32 };
        debug!(self.options, "RDMA addr {:x} rkey {:x} len {}", info.remote.addr, info.remote.rkey, info.len);
        self.announced.write(0, &info.write());
        self.send()
    }

    /// Sends the last announcement again; to a client, it means "go ahead".
    pub fn send(&self) -> Result<(), Status> {
        self.post(self.announced.sge(0, INFO), Op::Send)
    }

    /// Reads the peer's whole buffer. If it does not fit, the adapter reports an error.
    pub fn read(&self) -> Result<(), Status> {
        let piece = Sge { addr: self.sink.addr(), length: self.peer.len, lkey: self.sink.lkey() };
        self.post(piece, Op::Read(self.peer.remote))
    }

    /// Writes the text of the READ back to the peer, including the zero at its end.
    pub fn write_back(&self) -> Result<(), Status> {
        let length = (self.text(&self.sink).len() + 1).min(self.sink.len());
        let piece = self.sink.sge(0, length);
        debug!(self.options, "rdma write from lkey {:x} laddr {:x} len {}", piece.lkey, piece.addr, piece.length);
        self.post(piece, Op::Write(self.peer.remote))
    }

    fn post(&self, piece: Sge, op: Op) -> Result<(), Status> {
        let request = SendRequest { wr_id: 0, piece, op, signaled: true, inline: false };
        self.qp.post_chain(&mut SendChain::new(&[request]), 1).map_err(|e| {
            let errno = e.raw_os_error().unwrap_or(libc::EIO);
            crate::errln!("post send error {errno}");
            errno
        })
    }

    fn post_recv(&self) -> io::Result<()> {
        self.qp.post_recv(0, self.received.sge(0, INFO))
    }

    /// The text in a buffer, up to its zero.
    pub fn text(&self, buffer: &Buffer) -> Vec<u8> {
        let mut text = vec![0; buffer.len()];
        buffer.read(0, &mut text);
        text.truncate(text.iter().position(|&b| b == 0).unwrap_or(text.len()));
        text
    }

    /// Handles completions. Returns how many of them wake the waiting side, one after another.
    pub fn on_completions(&mut self) -> u32 {
        let mut wakes = 0;
        match self.take_completions(&mut wakes) {
            Ok(()) => {}
            Err(()) => {
                self.state = State::Error;
                self.flushed = true;
                wakes += 1;
            }
        }
        wakes
    }

    fn take_completions(&mut self, wakes: &mut u32) -> Result<(), ()> {
        if !self.channel.wait(&self.cq).map_err(|_| crate::errln!("Failed to get cq event!"))? {
            crate::errln!("Unknown CQ!");
            return Err(());
        }
        self.cq.request_notify().map_err(|_| crate::errln!("Failed to set notify!"))?;
        loop {
            let mut wc = None;
            let polled = self.cq.poll::<1>(|found| wc = Some(*found));
            polled.map_err(|e| crate::errln!("poll error {}", -e.raw_os_error().unwrap_or(libc::EIO)))?;
            let Some(wc) = wc else { return Ok(()) };
            if wc.status() == IBV_WC_WR_FLUSH_ERR {
                self.flushed = true;
            } else if wc.status() != 0 {
                crate::errln!("cq completion failed status {}", wc.status());
                return Err(());
            } else if self.on_success(&wc)? {
                // The protocol alternates: the peer's next message comes only after this side's answer to the last one.
                *wakes += 1;
            }
        }
    }

    /// Handles a successful completion; returns whether it wakes the waiting side.
    fn on_success(&mut self, wc: &Wc) -> Result<bool, ()> {
        match wc.opcode() {
            IBV_WC_SEND => {
                debug!(self.options, "send completion");
                return Ok(false);
            }
            IBV_WC_RDMA_WRITE => {
                debug!(self.options, "rdma write completion");
                self.state = State::WriteComplete;
            }
            IBV_WC_RDMA_READ => {
                debug!(self.options, "rdma read completion");
                self.state = State::ReadComplete;
            }
            IBV_WC_RECV => {
                debug!(self.options, "recv completion");
                self.on_message(wc)?;
            }
            _ => {
                debug!(self.options, "unknown!!!!! completion");
                return Err(());
            }
        }
        Ok(true)
    }

    fn on_message(&mut self, wc: &Wc) -> Result<(), ()> {
        if wc.byte_len() as usize != INFO {
            crate::errln!("Received bogus data, size {}\nrecv wc error: -1", wc.byte_len());
            return Err(());
        }
        if self.options.server {
            let mut info = [0; INFO];
            self.received.read(0, &mut info);
            self.peer = Peer::parse(&info);
            let Peer { remote, len } = self.peer;
            debug!(self.options, "Received rkey {:x} addr {:x} len {len} from peer", remote.rkey, remote.addr);
            let read_next = self.state <= State::Connected || self.state == State::WriteComplete;
            self.state = if read_next { State::ReadAdv } else { State::WriteAdv };
        } else {
            self.state = if self.state == State::ReadAdv { State::WriteAdv } else { State::WriteComplete };
        }
        self.post_recv().map_err(|e| crate::errln!("post recv error: {}", e.raw_os_error().unwrap_or(libc::EIO)))
    }
}

fn completions(context: &Context) -> Result<(Channel, Cq), Status> {
    let channel = Channel::new(context).map_err(|_| told("ibv_create_comp_channel failed"))?;
    let cq = Cq::new(context, SQ_DEPTH * 2, Some(&channel)).map_err(|_| told("ibv_create_cq failed"))?;
    cq.request_notify().map_err(|_| told("ibv_create_cq failed"))?;
    Ok((channel, cq))
}

fn queue_pair(options: &Options, id: &CmId, pd: &Pd, cq: &Cq) -> Result<Qp, Status> {
    let request = QpRequest {
        qp_type: IBV_QPT_RC,
        send_cq: cq,
        recv_cq: cq,
        srq: None,
        xrcd: None,
        max_send_wr: SQ_DEPTH,
        max_recv_wr: RQ_DEPTH,
        max_inline_data: 0,
        extended: false,
    };
    let failed = |what: &str, e: &io::Error| {
        perror(what, e);
        -1
    };
    if !options.own_qp {
        return id.create_qp(pd, &request).map_err(|e| failed("rdma_create_qp", &e));
    }
    let qp = Qp::new(pd, &request).map_err(|e| failed("ibv_create_qp", &e))?;
    qp.to_init(id.port_num(), 0, 0).map_err(|e| failed("ibv_modify_qp", &e))?;
    Ok(qp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_announcement_is_big_endian() {
        let peer = Peer { remote: Remote { addr: 0x0102_0304_0506_0708, rkey: 0x090a_0b0c }, len: 64 };
        let info = peer.write();
        assert_eq!(info, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0, 0, 0, 64]);
        assert_eq!(Peer::parse(&info), peer);
    }
}
