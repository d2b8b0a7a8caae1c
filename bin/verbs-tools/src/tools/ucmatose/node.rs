//! One connection.

use weft_abi_types::{IBV_ACCESS_LOCAL_WRITE, IBV_QPT_RC};

use super::options::Options;
use crate::cm_tools::perror;
use crate::outln;
use crate::spin::Spin;
use weft_client::rdmacm::CmId;
use weft_client::verbs::{Buffer, Cq, Op, Pd, Qp, QpRequest, SendChain, SendRequest};

/// A connection; its verbs objects exist once its device is known.
#[derive(Default)]
pub struct Node {
    /// Whether the connection can send messages.
    pub connected: bool,
    verbs: Option<Verbs>,
    /// The id. Declared last so that it drops after the objects that depend on it.
    pub id: Option<CmId>,
}

struct Verbs {
    qp: Qp,
    message: Option<Buffer>,
    send_cq: Cq,
    recv_cq: Cq,
}

/// The completion queue of one direction.
#[derive(Clone, Copy)]
pub enum Direction {
    Send,
    Recv,
}

impl Node {
    /// Creates the connecting end.
    pub fn new(id: CmId) -> Node {
        Node { id: Some(id), ..Node::default() }
    }

    /// Creates all objects on the device, and posts receive requests.
    pub fn prepare(&mut self, options: &Options) -> Result<(), i32> {
        let Some(id) = &self.id else { return Err(-libc::EINVAL) };
        let verbs = Verbs::new(id, options)?;
        if let Some(message) = &verbs.message {
            for _ in 0..options.message_count {
                let piece = message.sge(0, options.message_size);
                verbs.qp.post_recv(0, piece).map_err(|e| failed("failed to post receives", &e))?;
            }
        }
        self.verbs = Some(verbs);
        Ok(())
    }

    /// Sends all messages, if connected.
    pub fn post_sends(&self, options: &Options) -> Result<(), i32> {
        let Some(Verbs { qp, message: Some(message), .. }) = &self.verbs else { return Ok(()) };
        if !self.connected {
            return Ok(());
        }
        let piece = message.sge(0, options.message_size);
        let request = SendRequest { wr_id: 0, piece, op: Op::Send, signaled: true, inline: false };
        let mut chain = SendChain::new(&[request]);
        for _ in 0..options.message_count {
            qp.post_chain(&mut chain, 1).map_err(|e| failed("failed to post sends", &e))?;
        }
        Ok(())
    }

    /// Waits for the completions of all messages, if connected.
    pub fn complete(&self, options: &Options, direction: Direction) -> Result<(), i32> {
        let Some(verbs) = self.verbs.as_ref().filter(|_| self.connected) else { return Ok(()) };
        let cq = match direction {
            Direction::Send => &verbs.send_cq,
            Direction::Recv => &verbs.recv_cq,
        };
        let (mut done, mut spin) = (0, Spin::default());
        while done < options.message_count {
            match cq.poll::<8>(|_| ()) {
                Ok(0) => drop(spin.empty()),
                Ok(n) => {
                    spin.hit();
                    done += n;
                }
                Err(e) => {
                    let errno = -e.raw_os_error().unwrap_or(libc::EIO);
                    outln!("cmatose: failed polling CQ: {errno}");
                    return Err(errno);
                }
            }
        }
        Ok(())
    }
}

impl Verbs {
    fn new(id: &CmId, options: &Options) -> Result<Verbs, i32> {
        let no_memory = |what: &str| {
            outln!("cmatose: unable to {what}");
            -libc::ENOMEM
        };
        let context = id.context().map_err(|_| no_memory("allocate PD"))?;
        let pd = Pd::new(&context).map_err(|_| no_memory("allocate PD"))?;
        let depth = options.message_count.max(1) as u32;
        let cq = || Cq::new(&context, depth, None).map_err(|_| no_memory("create CQ"));
        let (send_cq, recv_cq) = (cq()?, cq()?);
        let request = QpRequest {
            qp_type: IBV_QPT_RC,
            send_cq: &send_cq,
            recv_cq: &recv_cq,
            srq: None,
            xrcd: None,
            max_send_wr: depth,
            max_recv_wr: depth,
            max_inline_data: 0,
            extended: false,
        };
        let qp = id.create_qp(&pd, &request).map_err(|e| {
            perror("cmatose: unable to create QP", &e);
            -1
        })?;
        let message = match options.message_count {
            0 => None,
            _ => Some(Buffer::new(&pd, options.message_size, IBV_ACCESS_LOCAL_WRITE, false).map_err(|_| {
                outln!("failed to reg MR\ncmatose: failed to create messages: -1");
                -1
            })?),
        };
        Ok(Verbs { qp, message, send_cq, recv_cq })
    }
}

fn failed(what: &str, error: &std::io::Error) -> i32 {
    let errno = error.raw_os_error().unwrap_or(libc::EIO);
    outln!("{what}: {errno}");
    errno
}
