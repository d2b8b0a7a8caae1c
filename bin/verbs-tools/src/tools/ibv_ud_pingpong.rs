//! `ibv_ud_pingpong`: a ping-pong of datagrams.

use std::ffi::OsString;
use std::process::ExitCode;

use weft_abi_types::IBV_QPT_UD;

use super::Tool;
use crate::output::print;
use crate::pingpong::{
    self, Completions, Dest, Endpoint, Memory, Options, Rally, Setup, Spec, connect_to, meet_client, meet_server,
    random_psn,
};
use weft_client::verbs::{Ah, Connect, Op, Qp, QpRequest, SendRequest, UdTarget};

/// The tool.
pub const TOOL: Tool = Tool { name: SPEC.name, about: "ping-pong of datagrams (UD)", run };

const SPEC: Spec = Spec {
    name: "ibv_ud_pingpong",
    letters: "pdisrnlegc",
    size: 1024,
    mtu: 1024,
    iters: 1000,
    // The original's help says 2048, but its default is 1024.
    help: &[
        ("size", "-s, --size=<size>      size of message to exchange (default 2048)"),
        ("sl", "-l, --sl=<SL>          send messages with service level <SL> (default 0)"),
    ],
};

/// The Q_Key on both sides.
const QKEY: u32 = 0x1111_1111;

/// Bytes of the GRH before a received datagram.
const GRH_BYTES: usize = 40;

fn run(args: &[OsString]) -> ExitCode {
    pingpong::main(&SPEC, args, play)
}

fn play(options: &Options) -> Result<(), String> {
    let setup = Setup::open(&options.device, options.events)?;
    let mtu = 128_usize << setup.port.active_mtu;
    if options.size > mtu {
        return Err(format!("Requested size larger than port MTU ({mtu})"));
    }
    let memory = Memory::new(&setup, options, options.size + GRH_BYTES)?;
    let completions = Completions::new(&setup, options, options.rx_depth + 1)?;
    let qp = Qp::new(
        &setup.pd,
        &QpRequest {
            qp_type: IBV_QPT_UD,
            send_cq: completions.cq(),
            recv_cq: completions.cq(),
            srq: None,
            xrcd: None,
            max_send_wr: 1,
            max_recv_wr: options.rx_depth,
            max_inline_data: 0,
            extended: false,
        },
    )
    .map_err(|_| "Couldn't create QP".to_owned())?;
    let inline = qp.max_inline_data().is_ok_and(|max| max as usize >= options.size);
    qp.to_init(options.device.port, 0, QKEY).map_err(|_| "Failed to modify QP to INIT".to_owned())?;

    let whole = memory.sge(0, options.size + GRH_BYTES);
    let post_recv = || qp.post_recv(Rally::RECV_ID, whole);
    for posted in 0..options.rx_depth {
        post_recv().map_err(|_| format!("Couldn't post receive ({posted})"))?;
    }

    let own = Dest { lid: setup.port.lid, qpn: qp.number(), psn: random_psn(), gid: setup.gid_bytes() };
    print(&own.line("local", ":"));
    let connect = |peer: &Dest| -> Result<Ah, String> {
        let path = setup.path(peer.lid, peer.gid);
        let to = Connect { rd_atomic: 0, ..setup.connection(options.mtu, path, peer.qpn, peer.psn, own.psn) };
        qp.to_rtr(&to).map_err(|_| "Failed to modify QP to RTR".to_owned())?;
        qp.to_rts(&to).map_err(|_| "Failed to modify QP to RTS".to_owned())?;
        Ah::new(&setup.pd, &path).map_err(|_| "Failed to create AH".to_owned())
    };
    let (peer, ah) = match &options.server {
        Some(server) => {
            let mut link = connect_to(server, options.port)?;
            let peer = meet_server(&mut link, &own)?;
            let ah = connect(&peer)?;
            link.say_done()?;
            (peer, ah)
        }
        None => {
            let mut ah = None;
            let peer = meet_client(options, &own, |peer| {
                ah = Some(connect(peer)?);
                Ok(())
            })?;
            (peer, ah.ok_or("Failed to create AH")?)
        }
    };
    print(&peer.line("remote", ","));

    memory.write_pattern(options, GRH_BYTES)?;
    let target = UdTarget { ah, qpn: peer.qpn, qkey: QKEY };
    let piece = memory.sge(GRH_BYTES, options.size);
    let request = SendRequest { wr_id: 0, piece, op: Op::SendTo(target), signaled: true, inline };
    let rally = Rally {
        options,
        completions: &completions,
        post_recv: &post_recv,
        endpoints: vec![Endpoint::new(&qp, request, false)],
        posted: options.rx_depth,
    };
    print(&rally.play()?);
    print(&memory.check_pattern(options, GRH_BYTES)?);
    Ok(())
}
