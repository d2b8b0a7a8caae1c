//! One end of a datagram test: a UD queue pair on an id, one buffer for all messages, and the destination.

use std::io;

use weft_abi_types::{IBV_ACCESS_LOCAL_WRITE, IBV_QPT_UD, ibv_grh};

use super::perror;
use crate::outln;
use crate::spin::Spin;
use weft_client::rdmacm::{CmId, UdParam};
use weft_client::verbs::{Ah, Buffer, Cq, Op, Pd, Qp, QpRequest, SendChain, SendRequest, UdTarget, Wc};

/// A GRH precedes each received message.
const GRH: usize = size_of::<ibv_grh>();

/// The messages to send and receive, and the tool that reports them.
#[derive(Clone, Copy, Debug)]
pub struct Messages {
    /// The tool's name, for its output.
    pub tool: &'static str,
    /// Number of messages.
    pub count: usize,
    /// Bytes of each.
    pub size: usize,
    /// Whether members of a group on the same queue pair receive its messages.
    pub loopback: bool,
}

/// One end of the test.
#[derive(Default)]
pub struct Datagrams {
    /// Whether the peer's or the group's address is known.
    pub connected: bool,
    verbs: Option<Verbs>,
    /// The id. Declared last so that it drops after the objects that depend on it.
    pub id: Option<CmId>,
}

struct Verbs {
    target: Option<UdTarget>,
    qp: Qp,
    message: Option<Buffer>,
    cq: Cq,
    pd: Pd,
}

impl Datagrams {
    /// Creates an end without a device.
    pub fn new(id: CmId) -> Datagrams {
        Datagrams { id: Some(id), ..Datagrams::default() }
    }

    /// Creates all objects of the device if the messages fit its MTU.
    pub fn prepare(&mut self, messages: Messages) -> Result<(), i32> {
        let Some(id) = &self.id else { return Err(-libc::EINVAL) };
        fits_mtu(id, messages)?;
        self.verbs = Some(Verbs::new(id, messages)?);
        Ok(())
    }

    /// Number of the queue pair, once there is one.
    pub fn qp_num(&self) -> Option<u32> {
        self.verbs.as_ref().map(|verbs| verbs.qp.number())
    }

    /// Posts a receive request for each message.
    pub fn post_recvs(&self, messages: Messages) -> Result<(), i32> {
        let Some(Verbs { qp, message: Some(message), .. }) = &self.verbs else { return Ok(()) };
        for _ in 0..messages.count {
            let posted = qp.post_recv(0, message.sge(0, messages.size + GRH));
            posted.map_err(|e| failed("failed to post receives", &e))?;
        }
        Ok(())
    }

    /// Sends all messages, if connected.
    pub fn post_sends(&self, messages: Messages, signaled: bool) -> Result<(), i32> {
        let Some(Verbs { qp, message: Some(message), target: Some(target), .. }) = &self.verbs else { return Ok(()) };
        if !self.connected {
            return Ok(());
        }
        let op = Op::SendToImm(target.clone(), qp.number());
        let request = SendRequest { wr_id: 0, piece: message.sge(0, messages.size), op, signaled, inline: false };
        let mut chain = SendChain::new(&[request]);
        for _ in 0..messages.count {
            qp.post_chain(&mut chain, 1).map_err(|e| failed("failed to post sends", &e))?;
        }
        Ok(())
    }

    /// Directs later sends to this destination.
    pub fn set_target(&mut self, param: &UdParam, tool: &str) -> Result<(), i32> {
        let Some(verbs) = &mut self.verbs else { return Err(-libc::EINVAL) };
        let ah = Ah::from_attr(&verbs.pd, param.ah_attr).map_err(|_| {
            outln!("{tool}: failure creating address handle");
            -1
        })?;
        verbs.target = Some(UdTarget { ah, qpn: param.qpn, qkey: param.qkey });
        self.connected = true;
        Ok(())
    }

    /// Waits for as many completions as there are messages, if connected. An end without a destination takes the sender
    /// of the first message as its destination.
    pub fn complete(&mut self, messages: Messages) -> Result<(), i32> {
        let Datagrams { connected: true, verbs: Some(verbs), id: Some(id) } = self else { return Ok(()) };
        let (mut done, mut spin) = (0, Spin::default());
        while done < messages.count {
            let mut first: Option<Wc> = None;
            let polled = verbs.cq.poll::<8>(|wc| {
                first.get_or_insert(*wc);
            });
            match polled {
                Ok(0) => drop(spin.empty()),
                Ok(n) => {
                    spin.hit();
                    done += n;
                }
                Err(e) => return Err(failed(&format!("{}: failed polling CQ", messages.tool), &e)),
            }
            if let Some(wc) = first.filter(|_| verbs.target.is_none()) {
                let target = verbs.sender_of(&wc, id.port_num()).map_err(|_| {
                    outln!("{}: failed to create reply AH", messages.tool);
                    -1
                })?;
                verbs.target = Some(target);
            }
        }
        Ok(())
    }
}

fn fits_mtu(id: &CmId, messages: Messages) -> Result<(), i32> {
    let Messages { tool, count, size, .. } = messages;
    let port = id.context().and_then(|context| context.query_port(id.port_num()));
    let port = port.map_err(|e| e.raw_os_error().unwrap_or(libc::EIO))?;
    let mtu = 128usize << port.active_mtu.min(5);
    if count > 0 && size > mtu {
        outln!("{tool}: message_size {size} is larger than active mtu {mtu}");
        return Err(-libc::EINVAL);
    }
    Ok(())
}

impl Verbs {
    fn new(id: &CmId, messages: Messages) -> Result<Verbs, i32> {
        let Messages { tool, count, size, loopback } = messages;
        let no_memory = |what: &str| {
            outln!("{tool}: unable to {what}");
            -libc::ENOMEM
        };
        let context = id.context().map_err(|_| no_memory("allocate PD"))?;
        let pd = Pd::new(&context).map_err(|_| no_memory("allocate PD"))?;
        let depth = count.max(1) as u32;
        let cq = Cq::new(&context, depth * 2, None).map_err(|_| no_memory("create CQ"))?;
        let request = QpRequest {
            qp_type: IBV_QPT_UD,
            send_cq: &cq,
            recv_cq: &cq,
            srq: None,
            xrcd: None,
            max_send_wr: depth,
            max_recv_wr: depth,
            max_inline_data: 0,
            extended: false,
        };
        let created = if loopback { id.create_qp(&pd, &request) } else { id.create_qp_deaf_to_itself(&pd, &request) };
        let qp = created.map_err(|e| {
            perror(&format!("{tool}: unable to create QP"), &e);
            -1
        })?;
        let message = match count {
            0 => None,
            _ => Some(Buffer::new(&pd, size + GRH, IBV_ACCESS_LOCAL_WRITE, false).map_err(|_| {
                outln!("failed to reg MR\n{tool}: failed to create messages: -1");
                -1
            })?),
        };
        Ok(Verbs { target: None, qp, message, cq, pd })
    }

    /// The sender of a message: the immediate data is its queue pair number.
    fn sender_of(&self, wc: &Wc, port_num: u8) -> io::Result<UdTarget> {
        let message = self.message.as_ref().ok_or(io::ErrorKind::InvalidInput)?;
        let ah = Ah::from_wc(&self.pd, wc, message, port_num)?;
        Ok(UdTarget { ah, qpn: wc.imm(), qkey: self.qp.qkey()? })
    }
}

fn failed(what: &str, error: &io::Error) -> i32 {
    let errno = error.raw_os_error().unwrap_or(libc::EIO);
    outln!("{what}: {errno}");
    errno
}
