//! Requests about the fabric, its paths and its management datagrams; datagrams and hostile words on the ports' sockets
//! and rings, valid and modified.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Instant;

use weft_daemon::broker::Broker;
use weft_daemon::host::FakeHost;
use weft_fabric::topology::generate::{Plan, Shape};
use weft_ipc::fabric::{CableChange, FabricRequest, NodeChange, PortCursor, PortName, pack};
use weft_ipc::umad::{UMAD_HEAD_BYTES, UmadAgent, UmadHead, UmadRequest, UmadResponse};
use weft_ipc::umad_ring::{
    DaemonRing, RequestWriter, UMAD_BELL, UMAD_NO_RING, UMAD_RING_BYTES, UMAD_RING_MAD_BYTES, UMAD_RING_ME,
    program_ends,
};
use weft_ipc::{DaemonFrame, PathRequest, PathTraffic, Request, Response, decode};
use weft_sys::shared::Shared;
use zerocopy::IntoBytes;

use crate::Rng;

/// Maximum number of remembered numbers.
const SEEN_MAX: usize = 32;

/// The words of a ring's memory that both ends read.
const WORDS: u64 = 512;

/// A program's end of a ring, and the memory to corrupt.
struct Ring {
    requests: RequestWriter,
    memory: Shared,
}

/// The programs' knowledge of the fabric.
#[derive(Default)]
pub struct Seen {
    devices: Vec<u32>,
    handles: Vec<u32>,
    rings: BTreeMap<u32, Ring>,
    described: u32,
}

impl Seen {
    /// Remembers the numbers in an answer.
    pub fn answer(&mut self, bytes: &[u8]) {
        match decode::<DaemonFrame>(bytes) {
            Ok(DaemonFrame::Reply { result: Ok(Response::Umad(UmadResponse::Opened { handle })), .. }) => {
                note(&mut self.handles, handle);
            }
            Ok(DaemonFrame::Reply { result: Ok(Response::Devices { devices, .. }), .. }) => {
                devices.iter().for_each(|device| note(&mut self.devices, device.index));
            }
            _ => {}
        }
    }

    /// Returns the name of a host that may exist.
    pub fn host(rng: &mut Rng) -> &'static str {
        rng.pick(&["", "", "node1", "node2", "node3", "none"])
    }

    /// Makes a random request.
    pub fn request(&mut self, rng: &mut Rng) -> Request {
        let device = one_of(rng, &self.devices);
        match rng.below(12) {
            0..=3 => Request::Fabric(self.fabric_request(rng)),
            4 => Request::Path(PathRequest {
                device,
                port: rng.below(3) as u8,
                dlid: rng.below(5) as u16,
                dgid: [rng.below(3) as u8; 16],
                sl: rng.below(20) as u8,
                pkey: rng.pick(&[0xffff, 0x7fff, 0]),
                mtu: rng.pick(&[0, 256, 4096, u16::MAX]),
                slot: rng.below(5) as u32,
                there_and_back: rng.one_in(2),
            }),
            5 => {
                let traffic = PathTraffic {
                    path: rng.below(5) as u32,
                    packets: rng.next(),
                    bytes: rng.next(),
                    packets_back: rng.next(),
                    bytes_back: 0,
                };
                Request::PathTraffic(vec![traffic; rng.below(5) as usize])
            }
            _ => Request::Umad(self.umad_request(rng, device)),
        }
    }

    fn fabric_request(&mut self, rng: &mut Rng) -> FabricRequest {
        let end = |rng: &mut Rng| PortName {
            node: rng.pick(&["node1", "node2", "switch1", "none"]).to_owned(),
            port: rng.below(4) as u8,
        };
        match rng.below(16) {
            0..=2 => {
                let shape = rng.pick(&[Shape::Pair, Shape::Pair, Shape::Star { hosts: 3 }]);
                let mut bytes = Plan::new(shape).generate().ok().and_then(|all| pack(&all).ok()).unwrap_or_default();
                if rng.one_in(3) {
                    let at = rng.below(bytes.len() as u64) as usize;
                    bytes[at] ^= 1 << rng.below(8);
                }
                self.described = bytes.len() as u32;
                FabricRequest::Describe(bytes)
            }
            3..=5 => {
                let length = if rng.one_in(8) { rng.next() as u32 } else { self.described };
                FabricRequest::Up { length, seed: rng.next(), packets: rng.one_in(2), ipoib_connected: rng.one_in(2) }
            }
            6 if rng.one_in(3) => FabricRequest::Down,
            6 | 7 => FabricRequest::Status,
            8 => FabricRequest::Picture { offset: rng.pick(&[0, 0, 1, 60_000, u32::MAX]) },
            9 => FabricRequest::Cable {
                a: end(rng),
                b: rng.one_in(2).then(|| end(rng)),
                change: rng.pick(&[
                    CableChange::Cut,
                    CableChange::Join,
                    CableChange::Flap { down_ms: 5 },
                    CableChange::Degrade { lanes: Some(1), speed: Some("EDR".to_owned()) },
                    CableChange::Errors { ppm: u32::MAX },
                    CableChange::Drop { ppm: 500_000 },
                ]),
            },
            10 => FabricRequest::Node {
                name: end(rng).node,
                change: rng.pick(&[NodeChange::Off, NodeChange::On, NodeChange::Reboot { down_ms: 3 }]),
            },
            11 => FabricRequest::Ports {
                from: PortCursor { node: rng.pick(&[0, 1, u32::MAX]), port: rng.pick(&[0, 1, 255]) },
            },
            12 => FabricRequest::Stamp,
            13 => FabricRequest::LiveState { offset: rng.pick(&[0, 0, 1, 60_000, u32::MAX]) },
            14 => FabricRequest::Traffic { offset: rng.pick(&[0, 0, 1, 60_000, u32::MAX]) },
            _ => FabricRequest::Hosts { offset: rng.pick(&[0, 1, u32::MAX]) },
        }
    }

    fn umad_request(&self, rng: &mut Rng, device: u32) -> UmadRequest {
        let (handle, port) = (one_of(rng, &self.handles), rng.pick(&[1, 1, 1, 0, 2, 255]));
        match rng.below(10) {
            0..=2 => UmadRequest::Open { device, port },
            3 => UmadRequest::Close { handle },
            4..=6 => UmadRequest::Register { handle, agent: agent(rng) },
            7 => UmadRequest::Unregister { handle, agent: rng.below(34) as u32 },
            8 => UmadRequest::SetIsSm { device, port, is_sm: rng.one_in(2) },
            _ => UmadRequest::Counters { device, port },
        }
    }

    /// Lets programs send, and takes their deliveries.
    pub fn settle(&mut self, rng: &mut Rng, now: Instant, broker: &mut Broker, host: &mut FakeHost) {
        let open = broker.umad().handles();
        self.rings.retain(|handle, _| open.contains(handle));
        for handle in open {
            if rng.one_in(2) {
                self.give_ring(broker, handle);
            }
            for _ in 0..rng.below(4) {
                let packet = packet(rng);
                broker.handle_umad_packet(now, handle, &packet);
            }
            self.fill_ring(rng, handle);
            broker.handle_umad_ring(now, handle, 64);
            let Some(outbox) = broker.umad().outbox(handle) else { continue };
            while outbox.pop().is_some() {}
            if let Some(ring) = outbox.ring() {
                let mut back = 0;
                ring.take_back_from_sleeper(&mut |_| back += 1);
                ring.take_back_unless_looked_at(&mut |_| back += 1);
                let _ = (ring.has_answers(), ring.processor(), ring.sleep());
            }
        }
        broker.carry_datagrams(now, host);
        while broker.umad().poll_ready().is_some() {}
    }

    fn give_ring(&mut self, broker: &mut Broker, handle: u32) {
        if self.rings.contains_key(&handle) {
            return;
        }
        let Ok((ring, file)) = DaemonRing::create() else { return };
        let (Ok((requests, _)), Ok(memory)) = (program_ends(&file), Shared::map(&file, UMAD_RING_BYTES)) else {
            return;
        };
        broker.umad().set_ring(handle, ring);
        self.rings.insert(handle, Ring { requests, memory });
    }

    fn fill_ring(&mut self, rng: &mut Rng, handle: u32) {
        let Some(ring) = self.rings.get_mut(&handle) else { return };
        for _ in 0..rng.below(6) {
            let mad = datagram(rng);
            ring.requests.push(&head(rng), &mad);
        }
        for _ in 0..if rng.one_in(4) { rng.below(5) } else { 0 } {
            let value = rng.pick(&[0, 1, 2, 255, 256, 257, u64::MAX]).wrapping_add(rng.below(3));
            ring.memory.word(rng.below(WORDS) as usize * 8).store(value, Ordering::SeqCst);
        }
    }
}

fn agent(rng: &mut Rng) -> UmadAgent {
    let class = rng.pick(&[0, 1, 3, 4, 0x81, 0x32, 7, 200]);
    UmadAgent {
        qpn: if rng.one_in(8) { rng.below(4) as u8 } else { u8::from(!matches!(class, 1 | 0x81)) },
        class,
        class_version: rng.pick(&[1, 1, 2, 9]),
        oui: rng.pick(&[0x1405, 0, u32::MAX]),
        method_mask: rng.pick(&[0, 2, u128::MAX]),
        rmpp_version: rng.pick(&[0, 0, 1, 2]),
        user_rmpp: rng.one_in(4),
    }
}

fn head(rng: &mut Rng) -> UmadHead {
    UmadHead {
        agent: rng.below(3) as u32,
        timeout_ms: rng.pick(&[0, 1, 100, u32::MAX]),
        retries: rng.pick(&[0, 1, u32::MAX]),
        length: (UMAD_HEAD_BYTES + UMAD_RING_MAD_BYTES) as u32,
        qpn: rng.pick(&[[0, 0, 0, 1], [0; 4], [255; 4]]),
        qkey: rng.pick(&[[0x80, 1, 0, 0], [0; 4]]),
        lid: rng.pick(&[[255, 255], [0, 1], [0, 2], [0xc0, 0]]),
        grh_present: u8::from(rng.one_in(8)),
        gid_index: rng.pick(&[0, 0, 255]),
        pkey_index: rng.pick(&[0, 0, 1, u16::MAX]),
        path_bits: rng.pick(&[0, 0, 255]),
        ..UmadHead::default()
    }
}

/// Makes a datagram of some class, with random bytes after its first ones.
fn datagram(rng: &mut Rng) -> [u8; UMAD_RING_MAD_BYTES] {
    let mut mad = [0; UMAD_RING_MAD_BYTES];
    let any = rng.bytes(UMAD_RING_MAD_BYTES as u64);
    mad[..any.len()].copy_from_slice(&any);
    if !rng.one_in(6) {
        let class = rng.pick(&[0x81, 0x81, 1, 4, 3, 7, 0x32]);
        mad[..4].copy_from_slice(&[1, class, rng.pick(&[1, 1, 2]), rng.pick(&[1, 2, 0x81, 5, 7, 0x12, 0x92])]);
        mad[4..6].fill(0);
        mad[16..18]
            .copy_from_slice(&[0, rng.pick(&[0x10, 0x11, 0x12, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x20, 0x35])]);
        mad[20..24].copy_from_slice(&(rng.below(4) as u32).to_be_bytes());
    }
    if mad[1] == 0x81 && !rng.one_in(4) {
        (mad[6], mad[7]) = (0, rng.below(4) as u8);
        mad[32..36].fill(255);
        mad[128..132].fill(1);
    }
    mad
}

/// Makes a packet for a port's socket.
fn packet(rng: &mut Rng) -> Vec<u8> {
    let mut packet = [head(rng).as_bytes(), &datagram(rng)[..]].concat();
    match rng.below(8) {
        0 => rng.pick(&[UMAD_BELL, UMAD_NO_RING, UMAD_RING_ME, &[]]).to_vec(),
        1 => rng.bytes(400),
        2 => {
            let at = rng.below(packet.len() as u64) as usize;
            packet[at] ^= 1 << rng.below(8);
            packet
        }
        _ => packet,
    }
}

fn note(list: &mut Vec<u32>, number: u32) {
    if list.contains(&number) {
        return;
    }
    if list.len() >= SEEN_MAX {
        list.remove(0);
    }
    list.push(number);
}

fn one_of(rng: &mut Rng, list: &[u32]) -> u32 {
    match list.is_empty() || rng.one_in(20) {
        true => rng.next() as u32,
        false => rng.pick(list),
    }
}
