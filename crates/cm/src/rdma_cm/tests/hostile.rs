//! Programs that send any command in any order, and peers that send any packet: nothing panics, and nothing is left
//! once the programs are gone.

use weft_verbs::Duration;

use super::lab::{Lab, Program, at, param};
use crate::rdma_cm::rng::Rng;
use crate::rdma_cm::*;

struct Chaos {
    rng: Rng,
    lab: Lab,
    programs: Vec<Program>,
    /// Established connections: a random run without any would show little.
    established: usize,
}

impl Chaos {
    fn below(&mut self, end: u32) -> u32 {
        self.rng.next_u32() % end
    }

    fn addr(&mut self) -> SockAddr {
        const IPS: [&str; 10] = [
            "10.0.0.1",
            "10.0.0.2",
            "127.0.0.1",
            "::1",
            "0.0.0.0",
            "::",
            "fd00::1",
            "fd00::2",
            "239.1.1.1",
            "192.0.2.1",
        ];
        let ip = IPS[self.below(10) as usize];
        let port = 7000 + self.below(3) as u16;
        match self.below(8) {
            0 => SockAddr::Ib(SockAddrIb {
                gid: gid_of_ip(ip.parse().unwrap()),
                sid: 0x0106_0000 + u64::from(port),
                sid_mask: u64::MAX,
                ..SockAddrIb::default()
            }),
            1 => at(ip, 0),
            _ => at(ip, port),
        }
    }

    fn conn_param(&mut self) -> ConnParam {
        let (qp_num, len) = (self.rng.next_u32(), self.below(300) as usize);
        let len = if self.below(4) == 0 { len } else { len % 57 };
        ConnParam { retry_count: 255, rnr_retry_count: 9, ..param(qp_num, &vec![7; len]) }
    }

    /// Returns, most often, an existing id of the program's.
    fn some_id(&mut self, program: Program) -> IdNumber {
        let ids = self.lab.hosts[program.host].service.ids.after(0);
        let mine: Vec<IdNumber> = ids.filter(|(_, id)| id.client == program.client).map(|(number, _)| number).collect();
        let which = self.below(20);
        match mine.len() as u32 {
            count if which != 0 && count != 0 => mine[(self.rng.next_u32() % count) as usize],
            _ => which + self.below(40),
        }
    }

    fn command(&mut self, program: Program) -> Command {
        let id = self.some_id(program);
        let ece = Ece::default();
        match self.below(24) {
            0..4 => {
                let port_space =
                    [PortSpace::Tcp, PortSpace::Udp, PortSpace::Ib, PortSpace::Ipoib][self.below(4) as usize];
                let qp_type = [0, 2, 3, 4, 9, 10, 77][self.below(7) as usize];
                Command::CreateId { channel: program.channel.0, port_space, qp_type, cookie: 9 }
            }
            4 => Command::DestroyId { id },
            5 | 6 => Command::Bind { id, addr: self.addr() },
            7..9 => Command::Listen { id, backlog: 3 },
            9..12 => {
                let src = if self.below(4) == 0 { Some(self.addr()) } else { None };
                Command::ResolveAddr { id, src, dst: self.addr(), timeout_ms: self.below(3000) }
            }
            12 | 13 => Command::ResolveRoute { id, timeout_ms: 1 },
            14 => Command::Query { id },
            15 => Command::InitQpAttr { id, qp_state: self.below(8) },
            16 | 17 => Command::Connect { id, param: self.conn_param(), ece },
            18 | 19 => {
                let param = if self.below(3) == 0 { None } else { Some(self.conn_param()) };
                Command::Accept { id, cookie: u64::from(self.below(3)), param, ece }
            }
            20 => Command::Reject { id, private_data: vec![1; self.below(200) as usize], reason: 28 },
            21 => Command::Disconnect { id },
            22 => match self.below(6) {
                0 => Command::Notify { id, event: 4 },
                1 => Command::SetOption { id, option: IdOption::ReuseAddr(true) },
                2 => Command::SetOption { id, option: IdOption::IbPath(vec![PathRecord::default(); 2]) },
                3 => Command::MigrateId { id, channel: self.below(4) },
                4 => Command::ListIds { after: id },
                _ => Command::LeaveMulticast { group: self.below(9) },
            },
            _ => Command::JoinMulticast { id, addr: self.addr(), join: JoinKind::FullMember, cookie: 5 },
        }
    }

    /// Replays a sent datagram, slightly changed or not, from a random source.
    fn replay(&mut self) {
        let Some(last) = self.lab.sent.len().checked_sub(1) else { return };
        let back = self.below(20) as usize;
        let mut mad = self.lab.sent[last.saturating_sub(back)];
        for _ in 0..self.below(3) {
            mad[self.below(256) as usize] = self.rng.next_u32() as u8;
        }
        let host = self.below(2) as usize;
        let [near, far] = [["10.0.0.1", "10.0.0.2"], ["10.0.0.2", "10.0.0.1"]][host];
        let gid = |ip: &str| weft_verbs::Gid(gid_of_ip(ip.parse().unwrap()));
        let from = GmpAddress {
            device: 1,
            port: 1,
            sgid_index: 0,
            sgid: gid(near),
            gid_type: weft_verbs::GidType::RoceV2,
            dgid: gid(far),
            dlid: 0,
            remote_qpn: 1,
            pkey: 0xffff,
            sl: 0,
            traffic_class: 0,
            flow_label: 0,
            hop_limit: 64,
            ifindex: 2,
        };
        self.lab.hosts[host].service.handle_gmp(self.lab.now, &from, &mad);
    }

    fn step(&mut self) {
        let which = self.below(4) as usize;
        let program = self.programs[which];
        let command = self.command(program);
        let _ = self.lab.command(program, command);
        match self.below(40) {
            0 => self.lab.cable = self.below(4) != 0,
            1 => self.lab.answers = self.below(4) != 0,
            2..8 => self.replay(),
            8 => self.lab.pass(Duration::from_millis(u64::from(self.rng.next_u32() % 20_000))),
            9..30 => self.lab.settle(),
            _ => {}
        }
        for program in self.programs.clone() {
            for event in self.lab.events(program) {
                self.react(program, &event);
            }
        }
    }

    /// Reacts mostly as a sane program would, so that connections are established.
    fn react(&mut self, program: Program, event: &CmEvent) {
        self.established += usize::from(event.kind == EventKind::Established);
        let (id, ece) = (event.id, Ece::default());
        let param = param(self.rng.next_u32(), &[1; 9]);
        let command = match event.kind {
            EventKind::AddrResolved => Command::ResolveRoute { id, timeout_ms: 1 },
            EventKind::RouteResolved => Command::Connect { id, param, ece },
            EventKind::ConnectRequest => Command::Accept { id, cookie: 3, param: Some(param), ece },
            EventKind::ConnectResponse => Command::Accept { id, cookie: 0, param: None, ece },
            EventKind::Disconnected => Command::Disconnect { id },
            _ => return,
        };
        if self.below(8) != 0 {
            let _ = self.lab.command(program, command);
        }
    }
}

#[test]
fn anything_in_any_order_leaves_nothing() {
    let mut established = 0;
    for seed in 0..20 {
        let mut lab = Lab::new();
        let programs = [0, 0, 1, 1].map(|host| lab.program(host)).to_vec();
        lab.listener(programs[0], at("::", 7000), 4);
        lab.listener(programs[2], at("::", 7001), 4);
        let mut chaos = Chaos { rng: Rng::new(seed), lab, programs, established: 0 };
        for _ in 0..1000 {
            chaos.step();
        }
        established += chaos.established;
        let Chaos { mut lab, programs, .. } = chaos;
        for program in programs {
            lab.hosts[program.host].service.close_client(lab.now, program.client);
        }
        (lab.cable, lab.answers) = (true, true);
        assert!(lab.is_clean(0), "seed {seed}");
        assert!(lab.is_clean(1), "seed {seed}");
    }
    assert!(established > 10, "{established}");
}
