//! Hosts that exchange datagrams, without queue pairs.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use super::*;
use crate::limits::SEND_BUFFER_BYTES;
use crate::wire::Version;

const FIRST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const SECOND: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const PORT: u16 = 4000;

/// Two hosts with a socket each, both with key 1 and port [`PORT`].
struct Hosts {
    nodes: [Node; 2],
    log: Vec<String>,
    /// Connection requests that were rejected.
    rejected: usize,
}

impl Hosts {
    fn new() -> Hosts {
        let mut nodes = [0, 1].map(|seed| Node::new(NodeConfig { first_sequence: 1, seed }));
        for (node, ip) in nodes.iter_mut().zip([FIRST, SECOND]) {
            node.open(1).unwrap();
            assert_eq!(node.bind(1, SocketAddrV4::new(ip, PORT)), Ok(SocketAddrV4::new(ip, PORT)));
        }
        Hosts { nodes, log: Vec::new(), rejected: 0 }
    }

    fn pair(node: usize) -> Pair {
        let [local, peer] = if node == 0 { [FIRST, SECOND] } else { [SECOND, FIRST] };
        Pair { local, peer }
    }

    /// Carries out actions until none is left.
    fn settle(&mut self) {
        let mut requests = Vec::new();
        loop {
            let mut is_quiet = true;
            for node in [0, 1] {
                while let Some(action) = self.nodes[node].poll() {
                    is_quiet = false;
                    match action {
                        Action::Connect(pair, data) => {
                            assert_eq!(pair, Hosts::pair(node));
                            requests.push((node, data));
                        }
                        Action::Frames(pair) => {
                            while let Some(frame) = self.nodes[node].poll_frame(pair) {
                                self.nodes[1 - node].handle_frame(Hosts::pair(1 - node), &frame.bytes);
                            }
                        }
                        Action::Log(line) => self.log.push(line),
                        _ => {}
                    }
                }
            }
            for (node, data) in requests.drain(..) {
                is_quiet = false;
                match self.nodes[1 - node].handle_request(Hosts::pair(1 - node), &data) {
                    RequestDecision::Accept(reply) => {
                        self.nodes[node].handle_established(Hosts::pair(node), Some(&reply));
                        self.nodes[1 - node].handle_established(Hosts::pair(1 - node), None);
                    }
                    RequestDecision::Reject => {
                        self.rejected += 1;
                        self.nodes[node].handle_lost(Hosts::pair(node), "rejected");
                    }
                }
            }
            if is_quiet {
                return;
            }
        }
    }

    fn take(&mut self, node: usize) -> Vec<Vec<u8>> {
        let mut taken = Vec::new();
        while let Some(datagram) = self.nodes[node].next_datagram(1).cloned() {
            self.nodes[node].delivered(1);
            taken.push(datagram.payload);
        }
        taken
    }
}

fn second(port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(SECOND, port)
}

#[test]
fn datagrams_connect_and_arrive() {
    let mut hosts = Hosts::new();
    hosts.nodes[0].send(1, second(PORT), b"first".to_vec()).unwrap();
    hosts.nodes[0].send(1, second(PORT), vec![1; 10_000]).unwrap();
    hosts.settle();
    assert_eq!(hosts.take(1), [b"first".to_vec(), vec![1; 10_000]]);
    assert_eq!(hosts.log.len(), 2);
    assert!(hosts.log[0].contains("10.0.0.1 to 10.0.0.2: connected, RDS 4.1"), "{:?}", hosts.log);
}

#[test]
fn both_ends_may_connect_at_once() {
    let mut hosts = Hosts::new();
    hosts.nodes[0].send(1, second(PORT), vec![1]).unwrap();
    hosts.nodes[1].send(1, SocketAddrV4::new(FIRST, PORT), vec![2]).unwrap();
    hosts.settle();
    assert_eq!((hosts.take(0), hosts.take(1)), (vec![vec![2]], vec![vec![1]]));
}

#[test]
fn a_lost_connection_is_made_again() {
    let mut hosts = Hosts::new();
    hosts.nodes[0].send(1, second(PORT), vec![1]).unwrap();
    hosts.settle();
    hosts.nodes[0].handle_lost(Hosts::pair(0), "cut");
    assert_eq!(hosts.nodes[0].deadline(), None, "nothing waits");
    hosts.nodes[0].send(1, second(PORT), vec![2]).unwrap();
    hosts.settle();
    // The second host only heard of the loss by the request.
    assert_eq!(hosts.take(1), [vec![1], vec![2]]);
    // An attempt that fails is repeated later.
    hosts.nodes[0].handle_lost(Hosts::pair(0), "cut");
    hosts.nodes[0].send(1, second(PORT), vec![3]).unwrap();
    let connect = std::iter::from_fn(|| hosts.nodes[0].poll()).find(|action| matches!(action, Action::Connect(..)));
    assert!(connect.is_some());
    hosts.nodes[0].handle_lost(Hosts::pair(0), "refused");
    let at = hosts.nodes[0].deadline().expect("a deadline");
    hosts.nodes[0].handle_timeout(at);
    let Some(Action::Connect(_, data)) = hosts.nodes[0].poll() else { panic!("no attempt") };
    assert_eq!(data.version, Version::V3_1, "the peer may be an older one");
}

#[test]
fn pings_are_answered_without_a_socket() {
    let mut hosts = Hosts::new();
    hosts.nodes[1].close(1);
    hosts.nodes[0].send(1, second(0), Vec::new()).unwrap();
    hosts.settle();
    let answer = hosts.nodes[0].next_datagram(1).cloned();
    assert_eq!(answer, Some(Datagram { from: second(0), payload: Vec::new(), cookie: None }));
    assert_eq!(hosts.nodes[1].counters().pings_answered, 1);
    // Of the own host too.
    hosts.nodes[0].send(1, SocketAddrV4::new(FIRST, 0), Vec::new()).unwrap();
    assert_eq!(hosts.take(0).len(), 2);
}

#[test]
fn a_congested_port_holds_its_senders_back() {
    let mut hosts = Hosts::new();
    let small = |options: &mut SocketOptions| options.receive_buffer = 4000;
    hosts.nodes[1].set_options(1, small).unwrap();
    for number in 0..40_u8 {
        hosts.nodes[0].send(1, second(PORT), vec![number; 1000]).unwrap();
        hosts.settle();
    }
    let mut all = hosts.take(1);
    assert!(all.len() < 6, "{} datagrams passed", all.len());
    while all.len() < 40 {
        hosts.settle();
        let more = hosts.take(1);
        assert!(!more.is_empty());
        all.extend(more);
    }
    assert!(all.iter().zip(0..).all(|(datagram, number)| *datagram == vec![number; 1000]));
}

#[test]
fn datagrams_within_a_host_obey_congestion_too() {
    let mut node = Node::new(NodeConfig { first_sequence: 1, seed: 9 });
    for key in [1, 2] {
        node.open(key).unwrap();
    }
    let from = node.bind(1, SocketAddrV4::new(FIRST, 0)).unwrap();
    let to = node.bind(2, SocketAddrV4::new(FIRST, PORT)).unwrap();
    assert_ne!(from.port(), 0);
    node.set_options(2, |options| options.receive_buffer = 2048).unwrap();
    for number in 0..20_u8 {
        node.send(1, to, vec![number; 500]).unwrap();
    }
    let mut taken = Vec::new();
    while let Some(datagram) = node.next_datagram(2).cloned() {
        assert_eq!(datagram.from, from);
        taken.push(datagram.payload[0]);
        node.delivered(2);
    }
    assert_eq!(taken, (0..20).collect::<Vec<_>>());
    assert!(node.can_send(1));
}

#[test]
fn the_send_buffer_fills_without_acknowledgements() {
    let mut hosts = Hosts::new();
    let mut sent = 0;
    while hosts.nodes[0].can_send(1) {
        hosts.nodes[0].send(1, second(PORT), vec![0; 10_000]).unwrap();
        sent += 1;
    }
    assert_eq!(sent, SEND_BUFFER_BYTES.div_ceil(10_064));
    hosts.settle();
    assert!(hosts.nodes[0].can_send(1));
}

#[test]
fn errors_say_why() {
    let mut node = Node::new(NodeConfig { first_sequence: 1, seed: 9 });
    node.open(1).unwrap();
    assert_eq!(node.send(1, second(1), Vec::new()), Err(SendError::NotBound));
    let address = SocketAddrV4::new(FIRST, PORT);
    node.bind(1, address).unwrap();
    assert_eq!(node.bind(1, address), Err(SocketError::Bound));
    node.open(2).unwrap();
    assert_eq!(node.bind(2, address), Err(SocketError::InUse));
    assert_eq!(node.send(1, second(1), vec![0; 200_000]), Err(SendError::TooLong));
    node.close(1);
    assert_eq!(node.bind(2, address), Ok(address));
    node.handle_timeout(Duration::from_secs(1));
}

#[test]
fn lists_have_whole_entries() {
    let mut hosts = Hosts::new();
    hosts.nodes[0].send(1, second(PORT), vec![7; 10]).unwrap();
    hosts.settle();
    let node = &hosts.nodes[0];
    let entries = |kind: InfoKind| {
        let table = node.info(kind);
        assert_eq!(table.bytes.len() % table.entry_bytes, 0, "{kind:?}");
        table.bytes.len() / table.entry_bytes
    };
    assert_eq!(InfoKind::ALL.map(entries), [12, 1, 0, 0, 0, 1]);
    assert_eq!(hosts.nodes[1].info(InfoKind::ReceivedMessages).bytes.len(), 26);
    assert_eq!(InfoKind::of(10_006), Some(InfoKind::Sockets));
    assert_eq!(InfoKind::of(10_002), None);
}

#[test]
fn operations_reach_the_queue_pair_and_their_programs() {
    use crate::rdma::{Direction, RdmaOperation, RdmaOptions, RdmaStatus};
    let mut hosts = Hosts::new();
    hosts.nodes[0].send(1, second(PORT), vec![1]).unwrap();
    hosts.settle();
    let options = RdmaOptions { notifies: true, ..RdmaOptions::default() };
    let operation =
        RdmaOperation { id: 9, direction: Direction::Write, key: 3, address: 0, length: 1 << 20, token: 5, options };
    let extras = |id| SendExtras { rdma: Some(RdmaOperation { id, ..operation }), destination: None };
    hosts.nodes[0].send_with(1, second(PORT), vec![2], extras(9)).unwrap();
    assert_eq!(hosts.nodes[0].poll_operation(Hosts::pair(0)), Some(operation));
    let frame = hosts.nodes[0].poll_frame(Hosts::pair(0)).expect("a frame");
    hosts.nodes[1].handle_frame(Hosts::pair(1), &frame.bytes);
    let actions: Vec<_> = std::iter::from_fn(|| hosts.nodes[1].poll()).collect();
    let place = |wanted: &Action| actions.iter().position(|action| action == wanted);
    assert!(place(&Action::KeyUsed(1, 3)).is_some(), "{actions:?}");
    hosts.nodes[0].handle_operation(Hosts::pair(0), &operation, RdmaStatus::Success);
    assert_eq!(hosts.nodes[0].next_notification(1), Some(Notification { token: 5, status: RdmaStatus::Success }));
    assert!(std::iter::from_fn(|| hosts.nodes[0].poll()).any(|action| action == Action::OperationOver(9)));
    hosts.nodes[0].notified(1);
    assert_eq!(hosts.nodes[0].next_notification(1), None);
    assert_eq!(hosts.nodes[0].counters().written_bytes, 1 << 20);
    // Operations occupy their own buffer.
    for id in 10..26 {
        assert!(hosts.nodes[0].can_send(1));
        hosts.nodes[0].send_with(1, second(PORT), Vec::new(), extras(id)).unwrap();
    }
    assert!(!hosts.nodes[0].can_send(1));
    hosts.nodes[0].handle_lost(Hosts::pair(0), "cut");
    hosts.nodes[0].close(1);
    let over = std::iter::from_fn(|| hosts.nodes[0].poll()).filter(|a| matches!(a, Action::OperationOver(_))).count();
    assert_eq!(over, 16, "the program's memory is gone");
}
