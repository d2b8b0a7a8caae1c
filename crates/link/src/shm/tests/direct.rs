//! Copies into and out of a peer's memory.

use weft_transport::Peers;
use weft_transport::frame::{HostRange, Outgoing};
use weft_transport::peers::{Direct, KeyView, PeerId, QpView, Reach};
use weft_transport::word::AtomicOp;
use weft_verbs::{Access, PdId, Sge};

use super::pair::{KEY, PD, PEER, QPN, direct, offer, pair, range_of};

const ALL: Access = Access::REMOTE_WRITE.union(Access::REMOTE_READ).union(Access::REMOTE_ATOMIC);

#[test]
fn bytes_go_both_ways_in_one_copy() {
    let (mut a, mut b) = pair();
    let mut theirs = vec![0u8; 10_000];
    offer(&mut b, range_of(&mut theirs), ALL);
    let (mut first, mut second) = (vec![1u8; 3000], vec![2u8; 5000]);
    let ranges = [range_of(&mut first), range_of(&mut second)];
    assert!(a.write_direct(&direct(100, 8000, Access::REMOTE_WRITE), Outgoing::Memory(&ranges)));
    assert!(theirs[..100].iter().chain(&theirs[8100..]).all(|&byte| byte == 0));
    assert!(theirs[100..3100].iter().all(|&byte| byte == 1) && theirs[3100..8100].iter().all(|&byte| byte == 2));
    assert!(a.write_direct(&direct(0, 2, Access::REMOTE_WRITE), Outgoing::Bytes(b"hi")));
    let mut back = vec![0u8; 200];
    let whole = range_of(&mut back);
    assert!(a.read_direct(&direct(0, 200, Access::REMOTE_READ), &[whole]));
    assert_eq!(back, theirs[..200]);
    assert_eq!(a.reach(PEER), Reach::Kernel);
}

#[test]
fn whatever_the_target_would_refuse_is_not_done() {
    let (mut a, mut b) = pair();
    let mut theirs = vec![0u8; 1000];
    let memory = range_of(&mut theirs);
    offer(&mut b, memory, Access::REMOTE_WRITE);
    let fine = direct(0, 8, Access::REMOTE_WRITE);
    let mut write = |at: &Direct, what: &str| assert!(!a.write_direct(at, Outgoing::Bytes(&[9; 8])), "{what}");
    write(&Direct { key: KEY ^ 1, ..fine }, "another tag");
    write(&Direct { key: 0, ..fine }, "no key");
    write(&Direct { qpn: QPN[0] ^ 1, ..fine }, "another queue pair of ours");
    write(&Direct { dest_qpn: QPN[1] ^ 1, ..fine }, "another of theirs");
    write(&Direct { peer: PeerId(7), ..fine }, "nobody");
    write(&Direct { need: Access::REMOTE_READ, ..fine }, "no right");
    write(&direct(993, 8, Access::REMOTE_WRITE), "beyond the end");
    write(&Direct { addr: u64::MAX - 3, ..fine }, "around the end of numbers");
    write(&Direct { addr: fine.addr - 1, ..fine }, "before the beginning");
    write(&Direct { whole: 1001, ..fine }, "what is left of the message does not fit");
    for (pd, qpn, granted) in
        [(PdId { index: 4, ..PD }, None, ALL), (PD, Some(QPN[1] ^ 1), ALL), (PD, None, Access::REMOTE_READ)]
    {
        b.publish_key(&KeyView { key: KEY, pd, qpn, base: 0x1_0000, len: 1000, host: memory.addr, access: granted });
        assert!(!a.write_direct(&fine, Outgoing::Bytes(&[9; 8])), "{pd:?} {qpn:?} {granted:?}");
    }
    offer(&mut b, memory, Access::REMOTE_WRITE);
    b.publish_qp(&QpView { qpn: QPN[1], peer: PeerId(0), dest_qpn: QPN[0], pd: PD, access: ALL });
    assert!(!a.write_direct(&fine, Outgoing::Bytes(&[9; 8])), "connected to somebody else");
    assert!(theirs.iter().all(|&byte| byte == 0));
    offer(&mut b, memory, Access::REMOTE_WRITE);
    assert!(a.write_direct(&fine, Outgoing::Bytes(&[9; 8])));
    b.revoke_key(KEY);
    assert!(!a.write_direct(&fine, Outgoing::Bytes(&[9; 8])), "revoked");
    offer(&mut b, memory, Access::REMOTE_WRITE);
    b.revoke_qp(QPN[1]);
    assert!(!a.write_direct(&fine, Outgoing::Bytes(&[9; 8])), "its queue pair is gone");
}

#[test]
fn as_many_keys_as_there_can_be_are_found() {
    let (mut a, mut b) = pair();
    let mut theirs = vec![0u8; 64];
    let memory = range_of(&mut theirs);
    offer(&mut b, memory, ALL);
    let key = |n: u32| n.wrapping_mul(0x9e37_79b1) | 1;
    let many = 100_000;
    let view = |n| KeyView { key: key(n), pd: PD, qpn: None, base: 0, len: 64, host: memory.addr, access: ALL };
    (1..many).for_each(|n| b.publish_key(&view(n)));
    let mut write = |n: u32| {
        let at = Direct { key: key(n), addr: 0, ..direct(0, 4, Access::REMOTE_WRITE) };
        a.write_direct(&at, Outgoing::Bytes(&n.to_ne_bytes()))
    };
    assert!((1..many).step_by(7).all(&mut write));
    (1..many).filter(|n| n % 7 == 1).for_each(|n| b.revoke_key(key(n)));
    assert!(!(1..many).step_by(7).any(&mut write));
    assert!((2..many).step_by(7).all(&mut write));
}

#[test]
fn elements_of_a_peers_list_are_fetched() {
    let (mut a, mut b) = pair();
    let mut theirs: Vec<u8> = (0..100).collect();
    // The element's own key needs no remote right, and no queue pair.
    let memory = range_of(&mut theirs);
    let (base, access) = (memory.addr, Access::LOCAL_WRITE);
    b.publish_key(&KeyView { key: KEY, pd: PD, qpn: None, base, len: 100, host: memory.addr, access });
    let mut here = [0u8; 10];
    let to = range_of(&mut here);
    let element = Sge { addr: base + 20, length: 30, lkey: KEY };
    assert!(a.fetch(PEER, &element, 5, to));
    assert_eq!(here, theirs[25..35]);
    assert!(!a.fetch(PEER, &element, 21, to), "beyond the element");
    assert!(!a.fetch(PEER, &Sge { length: 200, ..element }, 75, to), "beyond the region");
    assert!(!a.fetch(PEER, &Sge { lkey: KEY + 1, ..element }, 0, to), "no such key");
}

#[test]
fn our_own_memory_needs_no_kernel() {
    let (mut a, _b) = pair();
    let mut memory = [0u64; 8];
    let range = HostRange { addr: memory.as_mut_ptr().expose_provenance() as u64, len: 64 };
    let key = KeyView { key: KEY, pd: PD, qpn: None, base: range.addr, len: 64, host: range.addr, access: ALL };
    a.publish_key(&key);
    a.publish_qp(&QpView { qpn: QPN[0] + 1, peer: PeerId(0), dest_qpn: QPN[0], pd: PD, access: ALL });
    let at = |offset, need| Direct {
        peer: PeerId(0),
        qpn: QPN[0],
        dest_qpn: QPN[0] + 1,
        key: KEY,
        addr: range.addr + offset,
        whole: 8,
        need,
    };
    assert!(a.write_direct(&at(8, Access::REMOTE_WRITE), Outgoing::Bytes(&5u64.to_ne_bytes())));
    assert_eq!(a.atomic_direct(&at(8, Access::REMOTE_ATOMIC), AtomicOp::FetchAdd(7)), Some(5));
    let swap = AtomicOp::CompareSwap { compare: 12, swap: 3 };
    assert_eq!(a.atomic_direct(&at(8, Access::REMOTE_ATOMIC), swap), Some(12));
    assert_eq!(a.atomic_direct(&at(9, Access::REMOTE_ATOMIC), swap), None, "not aligned");
    let store = AtomicOp::Store(9u64.to_ne_bytes());
    assert_eq!(a.atomic_direct(&at(16, Access::REMOTE_WRITE), store), Some(0));
    // Both ends may overlap.
    let source = [HostRange { addr: range.addr + 4, len: 8 }];
    assert!(a.write_direct(&at(8, Access::REMOTE_WRITE), Outgoing::Memory(&source)));
    assert_eq!((memory[0], memory[1], memory[2]), (0, 3 << 32, 9));
    assert_eq!(a.reach(PeerId(0)), Reach::Memory);
}

#[test]
fn atomics_need_shared_pages() {
    let (mut a, mut b) = pair();
    let mut theirs = [0u64; 2];
    let memory = HostRange { addr: theirs.as_mut_ptr().expose_provenance() as u64, len: 16 };
    offer(&mut b, memory, ALL);
    assert_eq!(a.atomic_direct(&direct(0, 8, Access::REMOTE_ATOMIC), AtomicOp::FetchAdd(1)), None);
}

#[test]
fn the_null_region_is_left_to_the_ring() {
    let (mut a, mut b) = pair();
    let mut theirs = [7u8; 16];
    offer(&mut b, range_of(&mut theirs), ALL);
    let null = [HostRange { addr: crate::NULL_MEMORY.start, len: 8 }];
    assert!(!a.write_direct(&direct(0, 8, Access::REMOTE_WRITE), Outgoing::Memory(&null)));
    assert!(!a.read_direct(&direct(0, 8, Access::REMOTE_READ), &null));
}
