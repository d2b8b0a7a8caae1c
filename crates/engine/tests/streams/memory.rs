//! Registered memory that the program unmapped: the stream that needs it ends, the process goes on.

use std::io::Write;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use weft_verbs::{QpState, SendOp, Sge, WcStatus};

use crate::ends::{begin_write, node_and_peer};
use crate::node::{ALL, Node, turn_until};

const LEN: usize = 64 << 10;

/// A registered region that can be unmapped.
struct Region {
    start: *mut std::ffi::c_void,
    keys: weft_hca::MrKeys,
}

impl Region {
    fn new(node: &mut Node) -> Region {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), LEN, rights, MapFlags::PRIVATE) }.unwrap();
        let addr = start.expose_provenance() as u64;
        let keys = node.pump.hca.reg_mr(node.pd, addr, LEN as u64, addr, ALL).unwrap();
        Region { start, keys }
    }

    fn addr(&self) -> u64 {
        self.start.addr() as u64
    }

    fn unmap(&self) {
        // SAFETY: nothing refers to it.
        unsafe { munmap(self.start, LEN) }.unwrap();
    }
}

#[test]
fn a_destination_that_is_gone_ends_the_stream() {
    let (mut node, mut peer) = node_and_peer(4096);
    let region = Region::new(&mut node);
    let mut bytes = begin_write(region.keys.rkey, region.addr(), 30_000);
    bytes.extend([9; 1000]);
    peer.write_all(&bytes).unwrap();
    let start = region.start.cast::<u8>();
    // SAFETY: mapped memory of ours.
    turn_until([&mut node], |_, _| unsafe { start.add(999).read_volatile() } == 9);
    region.unmap();
    peer.write_all(&[9; 20_000]).unwrap();
    turn_until([&mut node], |[node], _| node.ended.len() == 1);
    assert_eq!(node.state(), QpState::Err);
}

#[test]
fn a_source_that_is_gone_ends_the_stream() {
    let (mut node, peer) = node_and_peer(4096);
    let region = Region::new(&mut node);
    region.unmap();
    let to = node.target(0);
    node.send(SendOp::Write(to), 0, 100);
    let sge = Sge { addr: region.addr(), length: LEN as u32, lkey: region.keys.lkey };
    node.post(SendOp::Write(to), &[sge]).unwrap();
    let [got] = turn_until([&mut node], |[node], got| node.ended.len() == 1 && got[0].len() == 2);
    assert_eq!(got[0].status, WcStatus::Success);
    assert_ne!(got[1].status, WcStatus::Success);
    assert_eq!(node.state(), QpState::Err);
    drop(peer);
}
