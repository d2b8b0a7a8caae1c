//! A queue pair whose addresses the two sides exchange outside RDMA.

use std::io::BufRead as _;

use weft_abi_types::{
    IBV_MTU_256, IBV_MTU_512, IBV_MTU_1024, IBV_MTU_2048, IBV_MTU_4096, IBV_QP_AV, IBV_QP_DEST_QPN,
    IBV_QP_MAX_DEST_RD_ATOMIC, IBV_QP_MAX_QP_RD_ATOMIC, IBV_QP_MIN_RNR_TIMER, IBV_QP_PATH_MTU, IBV_QP_RETRY_CNT,
    IBV_QP_RNR_RETRY, IBV_QP_RQ_PSN, IBV_QP_SQ_PSN, IBV_QP_STATE, IBV_QP_TIMEOUT, IBV_QPS_RTR, IBV_QPS_RTS, ibv_mtu,
};
use weft_client::verbs::{Qp, no_attributes};
use weft_replay::{Plan, Report};

use super::args::ReplayArgs;
use super::drive::Driver;
use super::objects::Objects;
use super::peer::Peer;
use crate::outln;
use crate::pingpong::{Dest, Link, Message as _, Setup, connect_to, meet_server, random_psn};

/// Maximum length of a line that names the peer.
const LINE_BYTES_MAX: u64 = 256;

/// Connects and replays.
pub fn replay(driver: &Driver<'_>, peer: &Peer, args: &ReplayArgs) -> Result<Report, String> {
    let setup = Setup::open(&args.device(), false)?;
    let objects = Objects::new(&setup.context, &setup.pd, driver.plan, driver.seed)?;
    let qp = Qp::new(&setup.pd, &objects.request(driver.plan)).map_err(failed("ibv_create_qp"))?;
    let access = driver.plan.attributes.access;
    qp.to_init(args.ib_port, access, 0).map_err(failed("ibv_modify_qp to INIT"))?;
    let replay = driver.prepare(&objects, &qp)?;
    let own = Dest { lid: setup.port.lid, qpn: qp.number(), psn: random_psn(), gid: setup.gid_bytes() };
    let (dest, link) = meet(peer, &own)?;
    connect(&setup, &qp, driver.plan, &own, &dest)?;
    if let Some(mut link) = link {
        link.say_done()?;
    }
    driver.run(replay, &objects, &qp)
}

/// Tells the peer the own queue pair, and learns the peer's.
fn meet(peer: &Peer, own: &Dest) -> Result<(Dest, Option<Link>), String> {
    match peer {
        Peer::Pingpong { host, port } => {
            let mut link = connect_to(host, *port)?;
            Ok((meet_server(&mut link, own)?, Some(link)))
        }
        Peer::QueuePair(dest) => {
            outln!("{}", own.encode());
            Ok((*dest, None))
        }
        _ => {
            outln!("{}", own.encode());
            let mut line = String::new();
            let mut input = std::io::Read::take(std::io::stdin().lock(), LINE_BYTES_MAX);
            input.read_line(&mut line).map_err(|error| format!("standard input: {error}"))?;
            let dest = Dest::decode(&line).ok_or("standard input: no line LID:QPN:PSN:GID in hexadecimal")?;
            Ok((dest, None))
        }
    }
}

/// Brings the queue pair to RTS with the recorded attributes.
fn connect(setup: &Setup, qp: &Qp, plan: &Plan, own: &Dest, dest: &Dest) -> Result<(), String> {
    let recorded = &plan.attributes;
    let mut attr = no_attributes();
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = mtu(recorded.mtu).unwrap_or(setup.port.active_mtu);
    attr.dest_qp_num = dest.qpn;
    attr.rq_psn = dest.psn;
    attr.ah_attr = setup.path(dest.lid, dest.gid).raw();
    attr.max_dest_rd_atomic = recorded.max_dest_rd_atomic;
    attr.min_rnr_timer = recorded.min_rnr_timer;
    let mut mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if plan.is_reliable {
        mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    }
    qp.modify_with(attr, mask).map_err(failed("ibv_modify_qp to RTR"))?;
    let mut attr = no_attributes();
    attr.qp_state = IBV_QPS_RTS;
    attr.sq_psn = own.psn;
    attr.timeout = recorded.timeout;
    attr.retry_cnt = recorded.retry_cnt;
    attr.rnr_retry = recorded.rnr_retry;
    attr.max_rd_atomic = recorded.max_rd_atomic;
    let mut mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
    if plan.is_reliable {
        mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    }
    qp.modify_with(attr, mask).map_err(failed("ibv_modify_qp to RTS"))
}

fn mtu(bytes: u16) -> Option<ibv_mtu> {
    let known =
        [(256, IBV_MTU_256), (512, IBV_MTU_512), (1024, IBV_MTU_1024), (2048, IBV_MTU_2048), (4096, IBV_MTU_4096)];
    known.into_iter().find(|(known, _)| *known == bytes).map(|(_, code)| code)
}

fn failed(what: &'static str) -> impl Fn(std::io::Error) -> String {
    move |error| format!("{what}: {}", crate::errno::text(&error))
}
