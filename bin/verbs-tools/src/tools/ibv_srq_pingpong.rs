//! `ibv_srq_pingpong`: a ping-pong of messages over several reliable connections with one shared receive queue.

use std::ffi::OsString;
use std::process::ExitCode;

use weft_abi_types::IBV_QPT_RC;

use super::Tool;
use crate::output::print;
use crate::pingpong::{
    self, Acceptor, Completions, Dest, Endpoint, Link, Memory, Options, Rally, Setup, Spec, connect_to, random_psn,
};
use weft_client::verbs::{Op, Qp, QpRequest, SendRequest, Srq, SrqRequest};

/// The tool.
pub const TOOL: Tool = Tool { name: SPEC.name, about: "ping-pong with a shared receive queue (SRQ)", run };

const SPEC: Spec = Spec {
    name: "ibv_srq_pingpong",
    letters: "pdismqrnlegoc",
    size: 4096,
    mtu: 1024,
    iters: 1000,
    help: &[("iters", "-n, --iters=<iters>    number of exchanges per QP(default 1000)")],
};

/// Number of addresses that the peers always exchange; those beyond the queue pairs in use are empty.
const ADDRESSES: usize = 256;
/// Maximum number of queue pairs.
const NUM_QP_MAX: u32 = ADDRESSES as u32 - 1;

fn run(args: &[OsString]) -> ExitCode {
    pingpong::main(&SPEC, args, play)
}

fn play(options: &Options) -> Result<(), String> {
    let (num_qp, rx_depth) = (options.num_qp, options.rx_depth);
    if num_qp > rx_depth {
        return Err(format!(
            "rx_depth {rx_depth} is too small for {num_qp} QPs -- must have at least one receive per QP."
        ));
    }
    if num_qp > NUM_QP_MAX {
        return Err(format!("num_qp {num_qp} must be less than {NUM_QP_MAX}"));
    }
    let setup = Setup::open(&options.device, options.events)?;
    let memory = Memory::new(&setup, options, options.size)?;
    let completions = Completions::new(&setup, options, rx_depth + num_qp)?;
    let srq = Srq::new(&setup.pd, rx_depth, SrqRequest::Basic).map_err(|_| "Couldn't create SRQ".to_owned())?;
    let mut qps = Vec::new();
    for i in 0..num_qp {
        let request = QpRequest {
            qp_type: IBV_QPT_RC,
            send_cq: completions.cq(),
            recv_cq: completions.cq(),
            srq: Some(&srq),
            xrcd: None,
            max_send_wr: 1,
            max_recv_wr: 0,
            max_inline_data: 0,
            extended: false,
        };
        let qp = Qp::new(&setup.pd, &request).map_err(|_| format!("Couldn't create QP[{i}]"))?;
        qp.to_init(options.device.port, 0, 0).map_err(|_| format!("Failed to modify QP[{i}] to INIT"))?;
        qps.push(qp);
    }

    let piece = memory.sge(0, options.size);
    let post_recv = || srq.post_recv(Rally::RECV_ID, piece);
    for posted in 0..rx_depth {
        post_recv().map_err(|_| format!("Couldn't post receive ({posted})"))?;
    }

    let own: Vec<Dest> = qps
        .iter()
        .map(|qp| Dest { lid: setup.port.lid, qpn: qp.number(), psn: random_psn(), gid: setup.gid_bytes() })
        .collect();
    for dest in &own {
        print(&dest.line("local", ","));
    }
    let connect = |peers: &[Dest]| -> Result<(), String> {
        for (i, ((qp, own), peer)) in qps.iter().zip(&own).zip(peers).enumerate() {
            let path = setup.path(peer.lid, peer.gid);
            let to = setup.connection(options.mtu, path, peer.qpn, peer.psn, own.psn);
            qp.to_rtr(&to).map_err(|_| format!("Failed to modify QP[{i}] to RTR"))?;
            qp.to_rts(&to).map_err(|_| format!("Failed to modify QP[{i}] to RTS"))?;
        }
        Ok(())
    };
    let peers = match &options.server {
        Some(server) => {
            let mut link = connect_to(server, options.port)?;
            send_all(&mut link, &own)?;
            let peers = receive_all(&mut link, own.len())?;
            connect(&peers)?;
            link.say_done()?;
            peers
        }
        None => {
            let mut link = Acceptor::listen(options.port)?.accept()?;
            let peers = receive_all(&mut link, own.len())?;
            connect(&peers).inspect_err(|_| crate::errln!("Couldn't connect to remote QP"))?;
            send_all(&mut link, &own)?;
            link.await_done();
            peers
        }
    };
    for peer in &peers {
        print(&peer.line("remote", ","));
    }

    memory.write_pattern(options, 0)?;
    let request = SendRequest { wr_id: 0, piece, op: Op::Send, signaled: true, inline: false };
    let rally = Rally {
        options,
        completions: &completions,
        post_recv: &post_recv,
        endpoints: qps.iter().map(|qp| Endpoint::new(qp, request.clone(), false)).collect(),
        posted: rx_depth,
    };
    print(&rally.play()?);
    print(&memory.check_pattern(options, 0)?);
    Ok(())
}

fn send_all(link: &mut Link, own: &[Dest]) -> Result<(), String> {
    let empty = std::iter::repeat(&Dest::EMPTY);
    own.iter().chain(empty).take(ADDRESSES).try_for_each(|dest| link.send(dest))
}

fn receive_all(link: &mut Link, count: usize) -> Result<Vec<Dest>, String> {
    let all: Result<Vec<Dest>, String> =
        (0..ADDRESSES).map(|i| link.receive().map_err(|e| format!("{e} [{i}]"))).collect();
    all.map(|mut peers| {
        peers.truncate(count);
        peers
    })
}
