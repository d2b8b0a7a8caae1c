//! `ibv_xsrq_pingpong`: a ping-pong of messages over extended reliable connections (XRC), whose senders select the
//! receiver's shared receive queue. One server, several clients.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::process::ExitCode;

use weft_abi_types::{IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE, IBV_QPT_XRC_RECV, IBV_QPT_XRC_SEND};

use super::Tool;
use crate::output::print;
use crate::pingpong::{self, Acceptor, Link, Options, Setup, Spec, XrcDest, connect_to, random_psn};
use weft_client::verbs::{Cq, Op, Qp, QpRequest, SendChain, SendRequest, Sge, Srq, SrqRequest, Xrcd};

/// The tool.
pub const TOOL: Tool = Tool { name: SPEC.name, about: "ping-pong over extended reliable connections (XRC)", run };

// The original's help says 2048, but its default is 1024.
const SPEC: Spec = Spec {
    name: "ibv_xsrq_pingpong",
    letters: "pdismCTleog",
    size: 4096,
    mtu: 1024,
    iters: 5,
    help: &[("mtu", "-m, --mtu=<size>       path MTU (default 2048)")],
};

/// The file that identifies the XRC domain: processes that open the same file share the domain.
const DOMAIN_FILE: &str = "/tmp/xrc_domain";

fn run(args: &[OsString]) -> ExitCode {
    pingpong::main(&SPEC, args, play)
}

/// One peer, with a queue pair that receives from it and one that sends to it.
struct Peer {
    target: Qp,
    initiator: Qp,
    own: XrcDest,
    link: Option<Link>,
    chain: Option<SendChain>,
    sent: u32,
}

struct Game<'a> {
    options: &'a Options,
    setup: &'a Setup,
    send_cq: Cq,
    recv_cq: Cq,
    srq: Srq,
    piece: Sge,
    peers: Vec<Peer>,
}

fn play(options: &Options) -> Result<(), String> {
    let setup = Setup::open(&options.device, options.events)?;
    let clients = if options.server.is_some() { 1 } else { options.clients };
    let buffer = setup.buffer(options, options.size)?;
    let file = domain_file();
    let xrcd = Xrcd::open(&setup.context, file.as_ref())
        .map_err(|e| format!("Couldn't Open the XRC Domain {}", e.raw_os_error().unwrap_or(0)))?;
    let recv_cq =
        Cq::new(&setup.context, clients, setup.channel.as_ref()).map_err(|_| "Couldn't create recv CQ".to_owned())?;
    if options.events {
        recv_cq.request_notify().map_err(|_| "Couldn't request CQ notification".to_owned())?;
    }
    let send_cq = Cq::new(&setup.context, clients, None).map_err(|_| "Couldn't create send CQ".to_owned())?;
    let srq = Srq::new(&setup.pd, clients, SrqRequest::Xrc { xrcd: &xrcd, cq: &recv_cq })
        .map_err(|_| "Couldn't create SRQ".to_owned())?;
    let srqn = srq.number().map_err(|_| "Couldn't get SRQ num".to_owned())?;
    let mut game =
        Game { options, setup: &setup, send_cq, recv_cq, srq, piece: buffer.sge(0, options.size), peers: Vec::new() };
    for i in 0..clients {
        let peer = game.peer(&xrcd, srqn, i)?;
        game.peers.push(peer);
        game.post_recv()?;
    }
    game.meet()?;
    game.rally()?;
    game.part()?;
    print("success\n");
    Ok(())
}

fn domain_file() -> Option<File> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(DOMAIN_FILE);
    // The file may belong to another user: read access is enough, and without it the domain is private.
    let file = file.or_else(|_| File::open(DOMAIN_FILE));
    if let Err(e) = &file {
        let errno = e.raw_os_error().unwrap_or(0);
        crate::errln!("Couldn't create the file for the XRC Domain but not stopping {errno}");
    }
    file.ok()
}

impl Game<'_> {
    fn peer(&self, xrcd: &Xrcd, srqn: u32, i: u32) -> Result<Peer, String> {
        let request = |qp_type, xrcd| QpRequest {
            qp_type,
            send_cq: &self.send_cq,
            recv_cq: &self.recv_cq,
            srq: None,
            xrcd,
            max_send_wr: self.options.iters,
            max_recv_wr: 0,
            max_inline_data: 0,
            extended: false,
        };
        let make = |qp_type, xrcd, what: &str| {
            let qp = Qp::new(&self.setup.pd, &request(qp_type, xrcd))
                .map_err(|e| format!("Couldn't create {what} QP[{i}] errno {}", e.raw_os_error().unwrap_or(0)))?;
            qp.to_init(self.options.device.port, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE, 0)
                .map_err(|_| format!("Failed to modify {what} QP[{i}] to INIT"))?;
            Ok::<Qp, String>(qp)
        };
        let target = make(IBV_QPT_XRC_RECV, Some(xrcd), "recv")?;
        let initiator = make(IBV_QPT_XRC_SEND, None, "send")?;
        let own = XrcDest {
            lid: self.setup.port.lid,
            recv_qpn: target.number(),
            send_qpn: initiator.number(),
            psn: random_psn(),
            srqn,
            gid: self.setup.gid_bytes(),
        };
        Ok(Peer { target, initiator, own, link: None, chain: None, sent: 0 })
    }

    fn post_recv(&self) -> Result<(), String> {
        self.srq.post_recv(0, self.piece).map_err(|_| "Failed to post receive to SRQ".to_owned())
    }

    /// Exchanges addresses, the client's first. Then the server sends the first messages.
    fn meet(&mut self) -> Result<(), String> {
        if let Some(server) = &self.options.server {
            let mut link = connect_to(server, self.options.port)?;
            self.send_own(&mut link, 0)?;
            let remote = receive_remote(&mut link)?;
            return self.connect(0, link, &remote);
        }
        let acceptor = Acceptor::listen(self.options.port)?;
        for i in 0..self.peers.len() {
            let mut link = acceptor.accept().map_err(|e| format!("{e} for client {i}"))?;
            let remote = receive_remote(&mut link)?;
            self.send_own(&mut link, i)?;
            self.connect(i, link, &remote)?;
        }
        (0..self.peers.len()).try_for_each(|i| self.send(i))
    }

    fn send_own(&self, link: &mut Link, i: usize) -> Result<(), String> {
        let own = self.peers[i].own;
        print(&own.line("local"));
        link.send(&own)
    }

    fn connect(&mut self, i: usize, link: Link, remote: &XrcDest) -> Result<(), String> {
        let path = self.setup.path(remote.lid, remote.gid);
        let Peer { own, target, initiator, .. } = &self.peers[i];
        let to = self.setup.connection(self.options.mtu, path, remote.send_qpn, remote.psn, own.psn);
        target.to_rtr(&to).map_err(|_| format!("Failed to modify recv QP[{i}] to RTR"))?;
        target.to_rts(&to).map_err(|_| format!("Failed to modify recv QP[{i}] to RTS"))?;
        let to = self.setup.connection(self.options.mtu, path, remote.recv_qpn, remote.psn, own.psn);
        initiator.to_rtr(&to).map_err(|_| format!("Failed to modify send QP[{i}] to RTR"))?;
        initiator.to_rts(&to).map_err(|_| format!("Failed to modify send QP[{i}] to RTS"))?;
        let request = SendRequest {
            wr_id: i as u64,
            piece: self.piece,
            op: Op::SendXrc(remote.srqn),
            signaled: false,
            inline: false,
        };
        self.peers[i].chain = Some(SendChain::new(std::slice::from_ref(&request)));
        self.peers[i].link = Some(link);
        Ok(())
    }

    /// Sends to peer `i`; only the last message is signaled.
    fn send(&mut self, i: usize) -> Result<(), String> {
        let peer = &mut self.peers[i];
        let Some(chain) = &mut peer.chain else { return Ok(()) };
        peer.sent += 1;
        chain.set_signaled(0, peer.sent >= self.options.iters);
        peer.initiator.post_chain(chain, 1).map_err(|e| format!("Couldn't post send: {}", crate::errno::text(&e)))
    }

    /// Answers each message until all have arrived, then waits until this side's last messages have completed.
    fn rally(&mut self) -> Result<(), String> {
        let wanted = self.peers.len() * self.options.iters as usize;
        let mut received = 0;
        while received < wanted {
            if self.options.events {
                self.sleep()?;
            }
            loop {
                let arrived = take(&self.recv_cq)?;
                for qpn in &arrived {
                    received += 1;
                    self.post_recv()?;
                    let i = match self.peers.as_slice() {
                        [_] => 0,
                        many => many
                            .iter()
                            .position(|peer| peer.own.recv_qpn == *qpn)
                            .ok_or_else(|| format!("Unable to find qp {qpn:x}"))?,
                    };
                    if self.peers[i].sent < self.options.iters {
                        self.send(i)?;
                    }
                }
                if arrived.is_empty() || !self.options.events {
                    break;
                }
            }
        }
        let mut completed = 0;
        while completed < self.peers.len() {
            completed += take(&self.send_cq)?.len();
        }
        Ok(())
    }

    fn sleep(&self) -> Result<(), String> {
        let Some(channel) = self.recv_cq.channel() else { return Ok(()) };
        if !channel.wait(&self.recv_cq).map_err(|_| "Failed to get cq_event".to_owned())? {
            return Err("CQ event for unknown CQ".to_owned());
        }
        self.recv_cq.request_notify().map_err(|_| "Couldn't request CQ notification".to_owned())
    }

    /// Keeps the queue pairs until both sides have finished; the client's message comes first.
    fn part(&mut self) -> Result<(), String> {
        let is_client = self.options.server.is_some();
        let mut links: Vec<&mut Link> = self.peers.iter_mut().filter_map(|peer| peer.link.as_mut()).collect();
        if is_client {
            links.iter_mut().try_for_each(|link| link.say_end())?;
            return links.iter_mut().try_for_each(|link| link.await_end());
        }
        links.iter_mut().try_for_each(|link| link.await_end())?;
        links.iter_mut().try_for_each(|link| link.say_end())
    }
}

fn receive_remote(link: &mut Link) -> Result<XrcDest, String> {
    let remote: XrcDest = link.receive()?;
    print(&remote.line("remote"));
    Ok(remote)
}

/// Takes up to 16 completions and returns their queue pair numbers.
fn take(cq: &Cq) -> Result<Vec<u32>, String> {
    let mut qpns = Vec::new();
    let mut failed = None;
    cq.poll::<16>(|wc| {
        if wc.status() != 0 {
            failed = Some(wc.status());
        }
        qpns.push(wc.qp_num());
    })
    .map_err(|e| format!("Error polling cq {}", e.raw_os_error().unwrap_or(-1)))?;
    match failed {
        Some(status) => Err(format!("Work completion error {status}")),
        None => Ok(qpns),
    }
}
