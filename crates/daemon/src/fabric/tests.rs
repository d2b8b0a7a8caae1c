//! A fabric comes up completely or not at all, is changed by names, and its snapshot shows the current state.

use std::collections::BTreeMap;

use weft_fabric::topology::generate::{Extra, Plan, Shape};
use weft_fabric::topology::{CableTraffic, LinkState, LiveState, Picture};
use weft_ipc::FABRIC_PART_BYTES_MAX;
use weft_ipc::fabric::{
    CableChange, FabricPort, FabricReply, FabricRequest, FabricStamp, FabricStatus, NodeChange, PortCursor, PortName,
    pack,
};

use super::*;

const CLIENT: ClientId = 7;

fn description(kind: &str, parameters: &str) -> Vec<u8> {
    let shape = Shape::parse(kind, parameters, Extra::default()).expect(kind);
    pack(&Plan::new(shape).generate().expect(kind)).expect("bytes")
}

struct Bench {
    host: FabricHost,
    now: Instant,
}

impl Bench {
    fn new() -> Bench {
        let now = Instant::now();
        Bench { host: FabricHost::new(now), now }
    }

    fn ask(&mut self, request: FabricRequest) -> Result<FabricReply, String> {
        let programs = BTreeMap::from([("node1".to_owned(), 2)]);
        self.host.answer(self.now, CLIENT, request, &programs).map_err(|refusal| refusal.text)
    }

    fn up(&mut self, bytes: &[u8]) -> Result<FabricReply, String> {
        for part in bytes.chunks(FABRIC_PART_BYTES_MAX) {
            self.ask(FabricRequest::Describe(part.to_vec()))?;
        }
        self.ask(FabricRequest::Up { length: bytes.len() as u32, seed: 1, packets: false, ipoib_connected: false })
    }

    fn status(&mut self) -> FabricStatus {
        match self.ask(FabricRequest::Status) {
            Ok(FabricReply::Status(Some(status))) => *status,
            other => panic!("{other:?}"),
        }
    }

    fn picture(&mut self) -> Picture {
        self.parts(|offset| FabricRequest::Picture { offset })
    }

    fn live_state(&mut self) -> LiveState {
        self.parts(|offset| FabricRequest::LiveState { offset })
    }

    fn stamp(&mut self) -> FabricStamp {
        match self.ask(FabricRequest::Stamp) {
            Ok(FabricReply::Stamp(Some(stamp))) => stamp,
            other => panic!("{other:?}"),
        }
    }

    fn parts<T: serde::de::DeserializeOwned>(&mut self, request: impl Fn(u32) -> FabricRequest) -> T {
        let mut all = Vec::new();
        loop {
            match self.ask(request(all.len() as u32)) {
                Ok(FabricReply::Part { bytes, more }) => {
                    all.extend(bytes);
                    if !more {
                        return unpack(&all).expect("a snapshot");
                    }
                }
                other => panic!("{other:?}"),
            }
        }
    }

    fn ports(&mut self) -> Vec<FabricPort> {
        let (mut all, mut cursor) = (Vec::new(), Some(PortCursor::default()));
        while let Some(from) = cursor {
            let reply = self.ask(FabricRequest::Ports { from });
            let Ok(FabricReply::Ports { ports, next }) = reply else { panic!("{reply:?}") };
            assert!(ports.len() <= weft_ipc::FABRIC_PORTS_PER_PAGE && next.is_none_or(|next| next > from));
            all.extend(ports);
            cursor = next;
        }
        all
    }

    fn cable(&mut self, a: &str, b: Option<&str>, change: CableChange) -> Result<FabricReply, String> {
        let port = |text: &str| {
            let (node, port) = text.split_once(':').expect("a port");
            PortName { node: node.to_owned(), port: port.parse().expect("a number") }
        };
        self.ask(FabricRequest::Cable { a: port(a), b: b.map(port), change })
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        while self.host.poll_timeout().is_some_and(|at| at <= self.now) {
            self.host.handle_timeout(self.now);
        }
    }

    fn links(&mut self, state: LinkState) -> u32 {
        let place = LinkState::ALL.iter().position(|other| *other == state).expect("a state");
        self.status().links[place]
    }
}

#[test]
fn one_comes_up_in_parts_and_goes_down() {
    let mut bench = Bench::new();
    assert_eq!(bench.ask(FabricRequest::Status), Ok(FabricReply::Status(None)));
    assert!(bench.host.host_called("node1").is_err());
    let bytes = description("fat-tree", "36,2");
    assert!(bytes.len() > FABRIC_PART_BYTES_MAX);
    assert_eq!(bench.up(&bytes), Ok(FabricReply::Done));
    let status = bench.status();
    assert_eq!((status.hosts, status.switches, status.hosts_with_programs), (648, 54, 1));
    assert_eq!(bench.links(LinkState::Init), 1296);
    assert_eq!(bench.host.host_called("node648"), Ok("node648".to_owned()));
    assert_eq!(bench.host.host_called("h0012"), Ok("node12".to_owned()), "the twelfth");
    assert!(bench.host.host_called("h0649").is_err() && bench.host.host_called("h0").is_err());
    assert!(bench.host.host_called("leaf1").is_err());
    assert!(bench.up(&bytes).unwrap_err().contains("already (fat-tree 36,2)"));
    let picture = bench.picture();
    assert!(picture.is_sane());
    assert_eq!(picture.topology.cables.len(), 1296);
    assert_eq!(bench.ask(FabricRequest::Down), Ok(FabricReply::Done));
    assert!(bench.ask(FabricRequest::Down).unwrap_err().contains("no fabric is up"));
}

#[test]
fn what_does_not_come_whole_does_not_come_up() {
    let mut bench = Bench::new();
    let bytes = description("pair", "");
    let up = |bench: &mut Bench, bytes: &[u8], length: usize| {
        bench.ask(FabricRequest::Describe(bytes.to_vec())).expect("taken");
        bench
            .ask(FabricRequest::Up { length: length as u32, seed: 0, packets: false, ipoib_connected: false })
            .unwrap_err()
    };
    assert!(up(&mut bench, &bytes, bytes.len() + 1).contains("incomplete"));
    assert!(up(&mut bench, &bytes[..9], 9).contains("malformed"));
    assert!(
        bench
            .ask(FabricRequest::Up { length: 0, seed: 0, packets: false, ipoib_connected: false })
            .unwrap_err()
            .contains("malformed")
    );
    let mut topology = Plan::new(Shape::Pair).generate().expect("a pair");
    topology.nodes[1].guid = topology.nodes[0].guid;
    let bytes = pack(&topology).expect("bytes");
    assert!(up(&mut bench, &bytes, bytes.len()).contains("given twice"));
    // Parts of a client that left belong to no other client.
    bench.ask(FabricRequest::Describe(vec![0; 100])).expect("taken");
    bench.host.forget(CLIENT);
    assert!(bench.host.parts.is_empty());
}

#[test]
fn cables_and_nodes_are_changed_by_name() {
    let mut bench = Bench::new();
    bench.up(&description("star", "3")).expect("up");
    let refused = |result: Result<FabricReply, String>, words: &str| {
        let text = result.unwrap_err();
        assert!(text.contains(words), "{text}");
    };
    refused(bench.cable("node9:1", None, CableChange::Cut), "no node \"node9\"");
    refused(bench.cable("node1:9", None, CableChange::Cut), "ports are 1 to 1");
    refused(bench.cable("node1:0", None, CableChange::Cut), "ports are 1 to 1");
    refused(bench.cable("node1:1", Some("switch1:2"), CableChange::Cut), "but to switch1:1");
    refused(bench.cable("node1:1", None, CableChange::Join), "no cable was cut");
    refused(bench.cable("node1:1", None, CableChange::Errors { ppm: 1_000_001 }), "choose 0 to");
    refused(bench.cable("node1:1", None, CableChange::Flap { down_ms: u32::MAX }), "too long");
    refused(bench.cable("node1:1", None, CableChange::Degrade { lanes: Some(3), speed: None }), "3 lanes");

    bench.cable("node1:1", Some("switch1:1"), CableChange::Cut).expect("cut");
    assert_eq!((bench.links(LinkState::Cut), bench.links(LinkState::Init)), (1, 2));
    refused(bench.cable("node1:1", None, CableChange::Cut), "has no cable");
    // Another cable into the port of the one that was cut: the snapshot shows the plugged one.
    refused(bench.cable("node1:1", Some("switch1:2"), CableChange::Join), "has a cable already, to node2:1");
    bench.cable("node2:1", None, CableChange::Cut).expect("cut");
    bench.cable("node1:1", Some("switch1:2"), CableChange::Join).expect("joined");
    bench.pass(Duration::from_millis(10));
    let picture = bench.picture();
    assert!(picture.is_sane());
    let spelled: Vec<String> = picture
        .topology
        .cables
        .iter()
        .zip(&picture.links)
        .filter(|(_, link)| link.is_up())
        .map(|(cable, _)| format!("{} - {}", picture.topology.spell(cable.a), picture.topology.spell(cable.b)))
        .collect();
    assert!(spelled.iter().any(|text| text == "node1:1 - switch1:2"), "{spelled:?}");

    let node = |change| FabricRequest::Node { name: "node3".to_owned(), change };
    bench.ask(node(NodeChange::Reboot { down_ms: 50 })).expect("off");
    assert_eq!(bench.status().powered_off, 1);
    bench.pass(Duration::from_millis(100));
    assert_eq!((bench.status().powered_off, bench.links(LinkState::Init)), (0, 2));
}

#[test]
fn a_cable_that_flaps_comes_back() {
    let mut bench = Bench::new();
    bench.up(&description("pair", "")).expect("up");
    bench.cable("node1:1", None, CableChange::Flap { down_ms: 20 }).expect("flaps");
    assert_eq!(bench.links(LinkState::Cut), 1);
    bench.pass(Duration::from_millis(15));
    assert_eq!(bench.links(LinkState::Cut), 1);
    bench.pass(Duration::from_millis(15));
    assert_eq!(bench.links(LinkState::Init), 1);
}

#[test]
fn ports_are_listed_page_by_page_with_their_counters() {
    let mut bench = Bench::new();
    assert!(bench.ask(FabricRequest::Ports { from: PortCursor::default() }).unwrap_err().contains("no fabric is up"));
    bench.up(&description("fat-tree", "36,2")).expect("a fabric");
    assert_eq!(bench.ports().len(), 2 * 1296, "both ends of every cable");
    bench.ask(FabricRequest::Down).expect("a fabric");
    bench.up(&description("star", "3")).expect("a fabric");
    bench.pass(Duration::from_secs(1));
    let names =
        |ports: &[FabricPort]| ports.iter().map(|port| format!("{}:{}", port.node, port.port)).collect::<Vec<_>>();
    let ports = bench.ports();
    assert_eq!(ports.len(), 6, "{:?}", names(&ports));
    let host = ports.iter().find(|port| port.node == "node1").expect("a host");
    let peer = host.peer.clone().expect("its switch");
    assert_eq!((host.port, host.state), (1, 2), "init, for no manager has been here");
    assert!(host.rate_tenths > 0);
    bench.cable("node1:1", None, CableChange::Cut).expect("a cable");
    let ports = bench.ports();
    let host = ports.iter().find(|port| port.node == "node1").expect("a port that lost its link is listed");
    assert_eq!((host.state, host.rate_tenths, host.peer.clone(), host.counters.link_downed), (1, 0, None, 1));
    assert!(ports.iter().any(|port| (&port.node, port.port) == (&peer.node, peer.port)));
    let beyond = PortCursor { node: u32::MAX, port: 255 };
    let reply = bench.ask(FabricRequest::Ports { from: beyond });
    assert_eq!(reply, Ok(FabricReply::Ports { ports: Vec::new(), next: None }));
}

#[test]
fn a_stamp_changes_with_every_fault_and_the_live_state_shows_it() {
    let mut bench = Bench::new();
    assert_eq!(bench.ask(FabricRequest::Stamp), Ok(FabricReply::Stamp(None)));
    bench.up(&description("star", "3")).expect("up");
    bench.pass(Duration::from_secs(1));
    let before = bench.stamp();
    assert_eq!(bench.stamp(), before, "nothing happened");
    let live = bench.live_state();
    assert!(live.fits(4) && !live.fits(3));
    assert!(live.cables.iter().all(|cable| cable.state == LinkState::Init && cable.rate_tenths > 0 && !cable.limited));
    let mut last = before;
    for (change, seen) in [
        (CableChange::Errors { ppm: 7 }, (LinkState::Init, false, 7)),
        (CableChange::Degrade { lanes: Some(1), speed: None }, (LinkState::Init, true, 7)),
        (CableChange::Mend, (LinkState::Init, false, 0)),
        (CableChange::Cut, (LinkState::Cut, false, 0)),
    ] {
        bench.cable("node1:1", None, change.clone()).expect("a cable");
        bench.pass(Duration::from_secs(1));
        let (stamp, live) = (bench.stamp(), bench.live_state());
        assert!(stamp.fabric == last.fabric && stamp.changes > last.changes, "{change:?}");
        let cable = live.cables.iter().find(|cable| live.nodes[cable.ends[0].node as usize].powered).expect("a cable");
        assert_eq!((cable.state, cable.limited, cable.errors_ppm), seen, "{change:?}");
        last = stamp;
    }
    let traffic: Vec<CableTraffic> = bench.parts(|offset| FabricRequest::Traffic { offset });
    assert_eq!(traffic.iter().map(|cable| cable.cable).collect::<Vec<_>>(), [1, 2], "the first is cut");
    bench.ask(FabricRequest::Node { name: "node2".to_owned(), change: NodeChange::Off }).expect("a node");
    assert!(bench.stamp().changes > last.changes);
    assert_eq!(bench.live_state().nodes.iter().filter(|node| !node.powered).count(), 1);
}
