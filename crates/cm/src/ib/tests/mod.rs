//! Two communication managers back to back, over a network that loses the messages that a test selects.

mod connect;
mod disconnect;
mod hostile;
mod linux;
mod loss;
mod random;
mod sidr;
mod table;

use std::collections::VecDeque;

use weft_mad::{GmpAddress, MadBytes};
use weft_verbs::{Duration, Gid, GidType, Instant, Mtu, QpType};
use weft_wire::cm::CmMessage;
use weft_wire::mad::Mad;

use super::*;

pub const SERVICE: u64 = 0x0000_0000_0106_1c06;
/// Node GUIDs of both ends.
pub const GUIDS: [u64; 2] = [0x5054_00ff_fe77_0002, 0x5054_00ff_fe77_0001];
/// Queue pairs of both ends for their first connection.
pub const QPNS: [u32; 2] = [0x11, 0x21];

pub fn gid(end: usize) -> Gid {
    Gid::from(std::net::IpAddr::from([10, 77, 0, 2 - end as u8]))
}

/// Address from one end to the other.
pub fn address(end: usize) -> GmpAddress {
    GmpAddress {
        device: 3,
        port: 1,
        sgid_index: 1,
        sgid: gid(end),
        gid_type: GidType::RoceV2,
        dgid: gid(1 - end),
        dlid: 0,
        remote_qpn: 1,
        pkey: 0xffff,
        sl: 0,
        traffic_class: 0,
        flow_label: 0,
        hop_limit: 64,
        ifindex: 2,
    }
}

pub fn path(end: usize) -> Path {
    Path {
        sgid: gid(end),
        dgid: gid(1 - end),
        slid: 0,
        dlid: 0,
        flow_label: 0x522,
        hop_limit: 64,
        traffic_class: 0,
        sl: 0,
        pkey: 0xffff,
        mtu: Mtu::Mtu1024,
        rate: 18,
        packet_life_time: 18,
    }
}

/// The request that Linux's RDMA CM would make.
pub fn req(end: usize) -> ReqParams {
    ReqParams {
        to: address(end),
        service_id: SERVICE,
        primary: path(end),
        alternate: None,
        qpn: QPNS[end],
        qp_type: QpType::Rc,
        starting_psn: 0xe1_7694,
        responder_resources: 1,
        initiator_depth: 2,
        flow_control: false,
        retry_count: 7,
        rnr_retry_count: 6,
        srq: false,
        remote_cm_response_timeout: 20,
        local_cm_response_timeout: 20,
        max_cm_retries: 15,
        peer_to_peer: false,
        ece: Ece { vendor_id: 0x15b3, attr_mod: 5 },
        private_data: b"please".to_vec(),
    }
}

pub fn rep(end: usize) -> RepParams {
    RepParams {
        qpn: QPNS[end],
        starting_psn: 0x34_33e3,
        responder_resources: 2,
        initiator_depth: 1,
        rnr_retry_count: 5,
        ece: Ece { vendor_id: 0x15b3, attr_mod: 4 },
        private_data: b"welcome".to_vec(),
        ..RepParams::default()
    }
}

pub fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Timeout of one REQ try, in milliseconds: twice the packet life time, plus the peer's response time.
pub const REQ_TRY_MS: u64 = 2 * 1024 + 4096;

/// Selects lost messages by sender and message name.
type Loss = Box<dyn FnMut(usize, &str) -> bool>;

pub struct Net {
    pub ends: [Cm; 2],
    pub now: Instant,
    pub events: [VecDeque<Event>; 2],
    /// Names of the messages sent since the last check of the log, with their sender.
    pub log: Vec<(usize, &'static str)>,
    pub lose: Loss,
}

pub fn parse(mad: &MadBytes) -> CmMessage {
    let mad: Mad = zerocopy::transmute!(*mad);
    CmMessage::from_mad(&mad).expect("a CM message")
}

impl Net {
    pub fn new() -> Net {
        let cm = |end: usize| {
            let mut cm = Cm::new(end as u64);
            cm.set_device(3, CaInfo { node_guid: GUIDS[end], ack_delay: 15 });
            cm
        };
        Net {
            ends: [cm(0), cm(1)],
            now: Instant(1_000_000_000),
            events: Default::default(),
            log: Vec::new(),
            lose: Box::new(|_, _| false),
        }
    }

    /// Creates a network with losses.
    pub fn losing(lose: impl FnMut(usize, &str) -> bool + 'static) -> Net {
        Net { lose: Box::new(lose), ..Net::new() }
    }

    /// Carries messages until none are left.
    pub fn settle(&mut self) {
        while self.carry_one() {}
    }

    fn carry_one(&mut self) -> bool {
        let mut moved = false;
        for end in 0..2 {
            while let Some(event) = self.ends[end].poll_event() {
                self.events[end].push_back(event);
            }
            if let Some((to, mad)) = self.ends[end].poll_transmit() {
                moved = true;
                let name = parse(&mad).name();
                self.log.push((end, name));
                assert_eq!((to.sgid, to.dgid), (gid(end), gid(1 - end)));
                if !(self.lose)(end, name) {
                    self.ends[1 - end].handle_mad(self.now, &address(1 - end), &mad);
                }
            }
        }
        moved
    }

    /// Advances the time.
    pub fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.settle();
            let next = self.ends.iter().filter_map(Cm::poll_timeout).min();
            match next.filter(|at| *at <= end) {
                Some(at) => self.now = self.now.max(at),
                None => break,
            }
            for cm in &mut self.ends {
                cm.handle_timeout(self.now);
            }
        }
        self.now = end;
    }

    /// The next event of an end.
    pub fn event(&mut self, end: usize) -> Event {
        self.settle();
        self.events[end].pop_front().unwrap_or_else(|| panic!("no event at {end}; sent: {:?}", self.log))
    }

    /// The next event of an end, which must be about this connection.
    pub fn event_of(&mut self, end: usize, conn: ConnId) -> EventKind {
        let event = self.event(end);
        assert_eq!(event.conn, conn);
        event.kind
    }

    pub fn quiet(&mut self) {
        self.settle();
        assert!(self.events.iter().all(VecDeque::is_empty), "{:?}", self.events);
    }

    pub fn log(&mut self) -> Vec<(usize, &'static str)> {
        self.settle();
        std::mem::take(&mut self.log)
    }

    pub fn state(&self, end: usize, conn: ConnId) -> State {
        self.ends[end].state(conn).expect("known")
    }

    /// Sends and receives a request: returns the two connections.
    pub fn request(&mut self) -> (ConnId, ConnId) {
        self.ends[1].listen(SERVICE, u64::MAX).unwrap();
        let active = self.ends[0].send_req(self.now, &req(0)).unwrap();
        let event = self.event(1);
        assert!(matches!(event.kind, EventKind::ReqReceived(_)));
        (active, event.conn)
    }

    /// Also sends and receives the REP.
    pub fn reply(&mut self) -> (ConnId, ConnId) {
        let (active, passive) = self.request();
        self.ends[1].send_rep(self.now, passive, &rep(1)).unwrap();
        assert!(matches!(self.event_of(0, active), EventKind::RepReceived(_)));
        (active, passive)
    }

    /// Also sends and receives the RTU: the connection is established.
    pub fn connect(&mut self) -> (ConnId, ConnId) {
        let (active, passive) = self.reply();
        self.ends[0].send_rtu(self.now, active, b"ready").unwrap();
        assert_eq!(self.event_of(1, passive), EventKind::RtuReceived);
        (active, passive)
    }

    /// Checks that neither end keeps anything.
    pub fn assert_empty(&mut self) {
        self.settle();
        for cm in &self.ends {
            assert_eq!(cm.connections(), 0);
            let tables = &cm.tables;
            let sizes =
                [tables.remote_ids.len(), tables.remote_qps.len(), tables.remote_sidrs.len(), tables.peers.len()];
            assert_eq!((sizes, tables.timers.len(), tables.pending, tables.orphans), ([0; 4], 0, 0, 0));
        }
    }
}
