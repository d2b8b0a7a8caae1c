//! Two hosts that met, and helpers for the tests.

use std::os::fd::AsFd;

use weft_sys::event::EventFd;
use weft_sys::{pidfd, shared};
use weft_transport::Peers;
use weft_transport::frame::{Frame, FrameKind, HostRange, Outgoing};
use weft_transport::peers::{Direct, KeyView, PeerId, QpView};
use weft_verbs::{Access, PdId};

use crate::shm::{DIRECTORY_BYTES, Host, HostConfig, PAIR_BYTES, PeerConfig};

pub const QPN: [u32; 2] = [1 << 14 | 5, 2 << 14 | 9];
pub const KEY: u32 = 0x1234_5678;

pub fn host(slot: u32) -> Host {
    let doorbell = EventFd::new().unwrap().into();
    let directory = Some(shared::create_file("directory", DIRECTORY_BYTES).unwrap().into());
    Host::new(HostConfig { slot, generation: 1000 + u64::from(slot), doorbell, directory }).unwrap()
}

/// The daemon's descriptors for a process that meets `host`.
pub fn config_of(host: &Host, pair: &std::fs::File) -> PeerConfig {
    PeerConfig {
        slot: host.us.slot,
        generation: host.us.generation,
        pair: pair.try_clone().unwrap().into(),
        doorbell: host.doorbell().as_fd().try_clone_to_owned().unwrap(),
        bell: None,
        process: Some(pidfd::open(std::process::id()).unwrap()),
        directory: Some(host.directory().try_clone_to_owned().unwrap()),
        found: false,
        arena: None,
    }
}

/// Two hosts that met; each is the other's peer number 1.
pub fn pair() -> (Host, Host) {
    let (mut a, mut b) = (host(1), host(2));
    let file = shared::create_file("pair", PAIR_BYTES).unwrap();
    assert_eq!(a.attach(config_of(&b, &file)).unwrap(), PEER);
    assert_eq!(b.attach(config_of(&a, &file)).unwrap(), PEER);
    (a, b)
}

pub const PEER: PeerId = PeerId(1);
pub const PD: PdId = PdId { index: 3, generation: 4 };

pub fn frame(seq: u32) -> Frame {
    Frame { seq, ..Frame::new(FrameKind::Send, QPN[0], QPN[1]) }
}

pub fn range_of(memory: &mut [u8]) -> HostRange {
    HostRange { addr: memory.as_mut_ptr().expose_provenance() as u64, len: memory.len() as u64 }
}

/// Makes `b` grant `a` access to this memory through its queue pair.
pub fn offer(b: &mut Host, memory: HostRange, access: Access) {
    b.publish_key(&KeyView { key: KEY, pd: PD, qpn: None, base: 0x1_0000, len: memory.len, host: memory.addr, access });
    b.publish_qp(&QpView { qpn: QPN[1], peer: PEER, dest_qpn: QPN[0], pd: PD, access });
}

pub fn direct(offset: u64, len: u64, need: Access) -> Direct {
    Direct { peer: PEER, qpn: QPN[0], dest_qpn: QPN[1], key: KEY, addr: 0x1_0000 + offset, whole: len, need }
}

pub fn receive(host: &mut Host) -> Option<(PeerId, Frame, Vec<u8>)> {
    let peer = host.arrival()?;
    let frame = host.next_frame(peer)?;
    let mut bytes = vec![0; frame.bytes as usize];
    host.peek(0, &mut bytes);
    host.end_frame();
    Some((peer, frame, bytes))
}

pub fn send(host: &mut Host, seq: u32, payload: &[u8]) -> bool {
    host.push(PEER, &frame(seq), Outgoing::Bytes(payload))
}
