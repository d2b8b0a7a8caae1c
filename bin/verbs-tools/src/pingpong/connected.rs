//! The pingpong of one connected queue pair: RC and UC.

use weft_abi_types::ibv_qp_type;

use super::{Acceptor, Completions, Dest, Endpoint, Link, Memory, Options, Rally, Setup, connect_to, random_psn};
use crate::output::print;
use weft_client::verbs::{Op, Qp, QpRequest, SendRequest};

/// Runs a whole pingpong on a queue pair of this type.
///
/// # Errors
/// The line to print.
pub fn connected(options: &Options, qp_type: ibv_qp_type) -> Result<(), String> {
    let setup = Setup::open(&options.device, options.events)?;
    let memory = Memory::new(&setup, options, options.size)?;
    let completions = Completions::new(&setup, options, options.rx_depth + 1)?;
    let qp = Qp::new(
        &setup.pd,
        &QpRequest {
            qp_type,
            send_cq: completions.cq(),
            recv_cq: completions.cq(),
            srq: None,
            xrcd: None,
            max_send_wr: 1,
            max_recv_wr: options.rx_depth,
            max_inline_data: 0,
            extended: options.new_send,
        },
    )
    .map_err(|_| "Couldn't create QP".to_owned())?;
    let inline = memory.may_be_inline() && qp.max_inline_data().is_ok_and(|max| max as usize >= options.size);
    qp.to_init(options.device.port, 0, 0).map_err(|_| "Failed to modify QP to INIT".to_owned())?;

    let piece = memory.sge(0, options.size);
    let post_recv = || qp.post_recv(Rally::RECV_ID, piece);
    for posted in 0..options.rx_depth {
        post_recv().map_err(|_| format!("Couldn't post receive ({posted})"))?;
    }

    let own = Dest { lid: setup.port.lid, qpn: qp.number(), psn: random_psn(), gid: setup.gid_bytes() };
    print(&own.line("local", ","));
    let connect = |peer: &Dest| {
        let path = setup.path(peer.lid, peer.gid);
        let to = setup.connection(options.mtu, path, peer.qpn, peer.psn, own.psn);
        qp.to_rtr(&to).map_err(|_| "Failed to modify QP to RTR".to_owned())?;
        qp.to_rts(&to).map_err(|_| "Failed to modify QP to RTS".to_owned())
    };
    let peer = match &options.server {
        Some(server) => {
            let mut link = connect_to(server, options.port)?;
            let peer = meet_server(&mut link, &own)?;
            // The server's queue pair is ready before it answers; the client's must be ready before the server may
            // send.
            connect(&peer)?;
            link.say_done()?;
            peer
        }
        None => meet_client(options, &own, connect)?,
    };
    print(&peer.line("remote", ","));

    memory.write_pattern(options, 0)?;
    let request = SendRequest { wr_id: 0, piece, op: Op::Send, signaled: true, inline };
    let rally = Rally {
        options,
        completions: &completions,
        post_recv: &post_recv,
        endpoints: vec![Endpoint::new(&qp, request, options.new_send)],
        posted: options.rx_depth,
    };
    let report = rally.play()?;
    print(&report);
    print(&memory.check_pattern(options, 0)?);
    Ok(())
}

/// The client's part of the exchange, up to the point where its queue pair must be ready.
pub fn meet_server(link: &mut Link, own: &Dest) -> Result<Dest, String> {
    link.send(own)?;
    link.receive()
}

/// The server's part of the exchange. `connect` readies the queue pair before the client learns its address.
pub fn meet_client(
    options: &Options,
    own: &Dest,
    connect: impl FnOnce(&Dest) -> Result<(), String>,
) -> Result<Dest, String> {
    let mut link = Acceptor::listen(options.port)?.accept()?;
    let peer: Dest = link.receive()?;
    connect(&peer).inspect_err(|_| crate::errln!("Couldn't connect to remote QP"))?;
    link.send(own)?;
    link.await_done();
    Ok(peer)
}
