//! A queue pair with its buffer, connected by the connection manager or over TCP.

use std::io;

use weft_abi_types::{
    IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE, IBV_QPT_UD,
    ibv_grh, ibv_qp_type,
};

use super::manager::Connection;
use super::path::Direct;
use super::verbs::{Verbs, Wanted};
use crate::spin::Spin;
use crate::tools::qperf::control::{Failure, Result, system};
use crate::tools::qperf::run::{NAP, Run};
use crate::tools::qperf::wire::{Node, Number};
use weft_client::rdmacm::readable;
use weft_client::verbs::{Buffer, Op, Qp, Remote, SendChain, SendRequest, UdTarget};

/// `wr_id` of a send request.
const SENT: u64 = 1;
/// `wr_id` of a receive request.
pub const RECEIVED: u64 = 2;

/// How the queue pair finds its peer.
pub enum Link {
    /// Through the connection manager.
    Managed(Connection),
    /// Through an exchange of addresses over TCP.
    Direct(Direct),
}

/// All objects of one side.
pub struct Device {
    transport: ibv_qp_type,
    qp: Qp,
    buffer: Option<Buffer>,
    target: Option<UdTarget>,
    /// Bytes of a message.
    pub msg_size: usize,
    max_inline: usize,
    peer: Node,
    verbs: Verbs,
    // Declared last so that it drops after the objects that depend on its id.
    link: Link,
}

impl Device {
    /// Creates a queue pair; through the connection manager, it is already connected.
    pub fn open(run: &mut Run, transport: ibv_qp_type, sends: u32, recvs: u32) -> Result<Device> {
        let wanted = Wanted { transport, sends, recvs };
        let (link, verbs, qp) = if run.number(Number::UseCm) != 0 {
            let (connection, verbs, qp) = Connection::open(run, wanted)?;
            (Link::Managed(connection), verbs, qp)
        } else {
            let (direct, verbs, qp) = Direct::open(run, wanted)?;
            (Link::Direct(direct), verbs, qp)
        };
        let max_inline = qp.max_inline_data().map_err(|e| system("query QP failed", &e))? as usize;
        let (msg_size, peer) = (run.msg_size(), Node::default());
        Ok(Device { transport, qp, buffer: None, target: None, msg_size, max_inline, peer, verbs, link })
    }

    /// Registers memory, exchanges addresses with the peer, and connects a [`Link::Direct`] queue pair.
    pub fn prepare(&mut self, run: &mut Run) -> Result<()> {
        let grh = if self.transport == IBV_QPT_UD { size_of::<ibv_grh>() } else { 0 };
        let access =
            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
        let buffer = Buffer::new(&self.verbs.pd, (self.msg_size + grh).max(1), access, false)
            .map_err(|e| system("failed to allocate memory region", &e))?;
        let mut node =
            Node { vaddr: buffer.addr(), rkey: buffer.rkey(), rd_atomic: self.verbs.rd_atomic, ..Node::default() };
        self.buffer = Some(buffer);
        if let Link::Direct(direct) = &self.link {
            (node.lid, node.qpn, node.psn) = (direct.lid(), self.qp.number(), direct.psn());
        }
        run.control.send(&node.encode(), "node information")?;
        self.peer = Node::decode(&run.control.recv("node information")?);
        if let Link::Direct(direct) = &self.link {
            self.target = direct.connect(run, &self.qp, &self.verbs, &self.peer)?;
        }
        if run.number(Number::PollMode) == 0 {
            self.verbs.cq.request_notify().map_err(|e| system("failed to request CQ notification", &e))?;
        }
        Ok(())
    }

    /// The address of the peer's buffer.
    pub fn peer_buffer(&self) -> Remote {
        Remote { addr: self.peer.vaddr, rkey: self.peer.rkey }
    }

    /// A SEND to the peer.
    pub fn op_send(&self) -> Op {
        self.target.clone().map_or(Op::Send, Op::SendTo)
    }

    fn buffer(&self) -> Result<&Buffer> {
        self.buffer.as_ref().ok_or_else(|| Failure::Ours("no memory region".to_owned()))
    }

    /// Posts the same request `count` times.
    pub fn post_sends(&self, op: &Op, count: u64) -> Result<()> {
        let inline = self.msg_size <= self.max_inline && !matches!(op, Op::Read(_));
        let piece = self.buffer()?.sge(0, self.msg_size);
        let mut chain = SendChain::new(&[SendRequest { wr_id: SENT, piece, op: op.clone(), signaled: true, inline }]);
        for _ in 0..count {
            self.qp.post_chain(&mut chain, 1).map_err(|e| system("failed to post send", &e))?;
        }
        Ok(())
    }

    /// Posts `count` receive requests.
    pub fn post_recvs(&self, count: u64) -> Result<()> {
        let buffer = self.buffer()?;
        let piece = buffer.sge(0, buffer.len());
        for _ in 0..count {
            self.qp.post_recv(RECEIVED, piece).map_err(|e| system("failed to post receive", &e))?;
        }
        Ok(())
    }

    /// Takes all available completions. Without polling, waits briefly for the first.
    pub fn poll(&self, polling: bool, mut on: impl FnMut(&weft_client::verbs::Wc)) -> Result<u64> {
        let Verbs { channel, cq, .. } = &self.verbs;
        let failed = |what: &'static str| move |e: io::Error| system(what, &e);
        if !polling {
            let nap = NAP.as_millis() as u32;
            let ready = readable(&[channel.fd()], Some(nap)).map_err(failed("failed to get CQ event"))?;
            if !ready[0] {
                return Ok(0);
            }
            channel.wait(cq).map_err(failed("failed to get CQ event"))?;
            cq.request_notify().map_err(failed("failed to request CQ notification"))?;
        }
        let (mut count, mut spin) = (0, Spin::default());
        loop {
            match cq.poll::<64>(&mut on).map_err(failed("CQ poll failed"))? {
                0 if count > 0 || !polling || spin.empty() => return Ok(count),
                n => count += n as u64,
            }
        }
    }

    /// The library's text for a completion status.
    pub fn status_text(&self, status: u32) -> String {
        self.verbs.cq.status_text(status)
    }

    /// Ends the connection.
    pub fn close(self, run: &Run) -> Result<()> {
        match &self.link {
            Link::Managed(connection) => connection.close(run),
            Link::Direct(_) => Ok(()),
        }
    }
}
