//! Commands to the connection manager, and a simulated world that answers it: datagrams come back from the loopback,
//! lost or damaged now and then, and some questions get no answer.

use weft_cm::rdma_cm::{
    Command, ConnParam, Ece, IdOption, JoinKind, PathRecord, PortSpace, QuestionId, Reply, Resolved, RoceMode,
    SockAddr, SockAddrIb,
};
use weft_daemon::broker::Broker;
use weft_daemon::host::FakeHost;
use weft_ipc::{DaemonFrame, Request, Response, decode};

use crate::Rng;
use std::time::Instant;

/// Maximum number of remembered ids and channels.
const SEEN_MAX: usize = 64;

/// The programs' knowledge of the connection manager.
#[derive(Default)]
pub struct Seen {
    ids: Vec<u32>,
    channels: Vec<u32>,
    groups: Vec<u32>,
}

impl Seen {
    /// Remembers the numbers in an answer.
    pub fn answer(&mut self, bytes: &[u8]) {
        match decode::<DaemonFrame>(bytes) {
            Ok(DaemonFrame::Reply { result: Ok(Response::Cm(Reply::Id(id))), .. }) => note(&mut self.ids, id),
            Ok(DaemonFrame::Reply { result: Ok(Response::Cm(Reply::Group(id))), .. }) => note(&mut self.groups, id),
            Ok(DaemonFrame::Reply { result: Ok(Response::CmChannel { channel }), .. }) => {
                note(&mut self.channels, channel);
            }
            _ => {}
        }
    }

    /// Makes a random request.
    pub fn request(&self, rng: &mut Rng) -> Request {
        match rng.below(12) {
            0 => Request::OpenCmChannel,
            1 if rng.one_in(3) => Request::CloseCmChannel { channel: one_of(rng, &self.channels) },
            _ => Request::Cm(self.command(rng)),
        }
    }

    fn command(&self, rng: &mut Rng) -> Command {
        let (id, channel, cookie) = (one_of(rng, &self.ids), one_of(rng, &self.channels), rng.below(5));
        let ece = Ece { vendor_id: rng.next() as u32, attr_mod: 0 };
        match rng.below(24) {
            0..=4 => {
                let port_space = rng.pick(&[PortSpace::Tcp, PortSpace::Tcp, PortSpace::Udp, PortSpace::Ib]);
                Command::CreateId { channel, port_space, qp_type: rng.below(11) as u8, cookie }
            }
            5 => Command::DestroyId { id },
            6 | 7 => Command::Bind { id, addr: address(rng) },
            8 | 9 => Command::Listen { id, backlog: rng.next() as i32 % 4 },
            10 | 11 => {
                let src = rng.one_in(3).then(|| address(rng));
                Command::ResolveAddr { id, src, dst: address(rng), timeout_ms: rng.below(3000) as u32 }
            }
            12 | 13 => Command::ResolveRoute { id, timeout_ms: rng.below(3) as u32 },
            14 | 15 => Command::Connect { id, param: param(rng), ece },
            16 | 17 => Command::Accept { id, cookie, param: (!rng.one_in(3)).then(|| param(rng)), ece },
            18 => Command::Reject { id, private_data: rng.bytes(300), reason: rng.next() as u8 },
            19 => Command::Disconnect { id },
            20 => {
                let join = rng.pick(&[JoinKind::FullMember, JoinKind::SendOnlyFullMember]);
                Command::JoinMulticast { id, addr: address(rng), join, cookie }
            }
            21 => Command::LeaveMulticast { group: one_of(rng, &self.groups) },
            22 => Command::MigrateId { id, channel },
            _ => self.seldom(rng, id),
        }
    }

    fn seldom(&self, rng: &mut Rng, id: u32) -> Command {
        let device = rng.below(3) as u32;
        match rng.below(8) {
            0 => Command::Query { id },
            1 => Command::InitQpAttr { id, qp_state: rng.below(5) as u32 },
            2 => Command::Notify { id, event: rng.below(6) as u32 },
            3 => Command::QueryDefaults { device },
            4 => Command::SetDefaults { device, roce_mode: Some(RoceMode::V1), roce_tos: Some(rng.next() as u8) },
            5 => Command::ListIds { after: one_of(rng, &self.ids) },
            6 => Command::WriteEvent { id, event: rng.below(30) as u32, status: -1, arg: rng.next() },
            _ => {
                let path = PathRecord { mtu: rng.next() as u8, ..PathRecord::default() };
                let paths = IdOption::IbPath(vec![path; rng.below(8) as usize]);
                let (tos, timeout) = (IdOption::Tos(rng.next() as u8), IdOption::AckTimeout(rng.next() as u8));
                let all = [paths, tos, timeout, IdOption::ReuseAddr(true), IdOption::AfOnly(rng.one_in(2))];
                Command::SetOption { id, option: rng.pick(&all) }
            }
        }
    }

    /// Lets the simulated world answer.
    pub fn settle(&mut self, rng: &mut Rng, now: Instant, broker: &mut Broker, host: &mut FakeHost) {
        broker.forget_questions(now, host);
        if rng.one_in(2)
            && let Some(question) = host.questions.pop_first()
        {
            broker.cm().handle_resolved(now, question, answer_to(rng, question));
        }
        let cm = broker.cm();
        while let Some(request) = cm.poll_multicast() {
            if request.join && !rng.one_in(4) {
                cm.handle_multicast(now, request.group, if rng.one_in(2) { Ok(0) } else { Err(12) });
            }
        }
        for _ in 0..rng.below(40) {
            let Some((to, mut mad)) = cm.poll_transmit() else { break };
            let (sgid, dgid) = (to.dgid, to.sgid);
            let from = weft_cm::rdma_cm::GmpAddress { sgid, dgid, ..to };
            if rng.one_in(8) {
                let byte = rng.below(256) as usize;
                mad[byte] ^= 1 << rng.below(8);
            }
            for _ in 0..rng.pick(&[0, 1, 1, 1, 1, 1, 2]) {
                cm.handle_gmp(now, &from, &mad);
            }
        }
        while let Some((channel, event)) = cm.poll_event() {
            assert!(host.channels.contains(&channel), "an event for channel {channel}, which is closed");
            note(&mut self.ids, event.id);
            if rng.one_in(10) {
                cm.set_channel_ready(channel, rng.one_in(2));
            }
        }
    }
}

fn answer_to(rng: &mut Rng, _: QuestionId) -> Result<Resolved, i32> {
    let src = rng.pick(&["127.0.0.1", "10.0.0.1", "::1"]).parse().unwrap();
    let local = rng.one_in(2);
    match rng.one_in(4) {
        true => Err(113),
        false => Ok(Resolved { src, ifindex: rng.below(4) as u32, local, gateway: false, hop_limit: 0, dgid: None }),
    }
}

fn note(list: &mut Vec<u32>, number: u32) {
    if list.len() >= SEEN_MAX {
        list.remove(0);
    }
    list.push(number);
}

fn one_of(rng: &mut Rng, list: &[u32]) -> u32 {
    match list.is_empty() || rng.one_in(20) {
        true => rng.below(5) as u32,
        false => rng.pick(list),
    }
}

fn address(rng: &mut Rng) -> SockAddr {
    let port = rng.pick(&[0, 7000, 7001, 80, 65535]);
    let ip =
        rng.pick(&["127.0.0.1", "127.0.0.1", "10.0.0.1", "0.0.0.0", "::", "::1", "239.1.1.1", "fe80::1", "10.9.9.9"]);
    if rng.one_in(12) {
        return SockAddr::Ib(SockAddrIb { sid: rng.next(), sid_mask: rng.next(), ..SockAddrIb::default() });
    }
    SockAddr::new(ip.parse().unwrap(), port)
}

fn param(rng: &mut Rng) -> ConnParam {
    let longest = if rng.one_in(8) { 400 } else { 60 };
    let private_data = rng.bytes(longest);
    ConnParam { qp_num: rng.next() as u32, private_data, retry_count: rng.next() as u8, ..ConnParam::default() }
}
