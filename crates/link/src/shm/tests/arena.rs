//! Memory whose pages are shared: copies by plain loads and stores, and the processor's own atomics.

use std::os::fd::OwnedFd;

use weft_sys::share::{Arena, Extent, View};
use weft_sys::shared;
use weft_transport::Peers;
use weft_transport::frame::{HostRange, Outgoing};
use weft_transport::peers::{Direct, KeyView, QpView, Reach};
use weft_transport::word::AtomicOp;
use weft_verbs::Access;

use super::pair::{KEY, PD, PEER, QPN, config_of, direct, host, range_of};
use crate::shm::{Host, PAIR_BYTES, PeerConfig};

const ALL: Access = Access::REMOTE_WRITE.union(Access::REMOTE_READ).union(Access::REMOTE_ATOMIC);
const OFFSET: u64 = 6 << 20;
const SHARED: u64 = 4 * 4096;

/// Two hosts that met, the second with an arena of which four pages are mapped as its memory.
fn sharing() -> (Host, Host, View, HostRange) {
    let (mut a, mut b) = (host(1), host(2));
    let arena: OwnedFd = Arena::create_file().unwrap().into();
    let file = shared::create_file("pair", PAIR_BYTES).unwrap();
    let config = PeerConfig { arena: Some(arena.try_clone().unwrap()), ..config_of(&b, &file) };
    a.attach(config).unwrap();
    b.attach(config_of(&a, &file)).unwrap();
    let mut view = View::new(arena).unwrap();
    let addr = view.slice(OFFSET, SHARED).unwrap().expose_provenance() as u64;
    (a, b, view, HostRange { addr, len: SHARED })
}

fn bytes_at(addr: u64, len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    // SAFETY: inside the pages that the test mapped.
    unsafe { std::ptr::copy_nonoverlapping(std::ptr::with_exposed_provenance(addr as usize), out.as_mut_ptr(), len) };
    out
}

fn publish(b: &mut Host, host: u64, len: u64, extent: Option<Extent>) {
    b.publish_shared_key(&KeyView { key: KEY, pd: PD, qpn: None, base: 0x1_0000, len, host, access: ALL }, extent);
    b.publish_qp(&QpView { qpn: QPN[1], peer: PEER, dest_qpn: QPN[0], pd: PD, access: ALL });
}

#[test]
fn shared_pages_are_copied_to_plainly_and_others_by_the_kernel() {
    let (mut a, mut b, _view, pages) = sharing();
    // The region begins in the first page; the middle two pages are shared.
    let extent = Extent { addr: pages.addr + 4096, len: 8192, offset: OFFSET + 4096 };
    publish(&mut b, pages.addr + 100, SHARED - 100, Some(extent));
    let mut write = |offset: u64, text: &[u8], reach| {
        let at = direct(offset, text.len() as u64, Access::REMOTE_WRITE);
        assert!(a.write_direct(&at, Outgoing::Bytes(text)));
        assert_eq!(
            (bytes_at(pages.addr + 100 + offset, text.len()).as_slice(), a.reach(PEER)),
            (text, reach),
            "{offset}"
        );
    };
    write(0, b"before", Reach::Kernel);
    write(4096 - 100, b"first shared byte", Reach::Memory);
    write(5000, &[7; 5000], Reach::Memory);
    write(4096 - 101, b"across", Reach::Kernel);
    write(3 * 4096 - 100 - 8, b"the last", Reach::Memory);
    write(3 * 4096 - 100 - 7, b"one over", Reach::Kernel);
    let mut back = [0; 17];
    let to = range_of(&mut back);
    assert!(a.read_direct(&direct(4096 - 100, 17, Access::REMOTE_READ), &[to]));
    assert_eq!(&back, b"cross shared byte", "what crossed into it stands there");
    assert_eq!(a.reach(PEER), Reach::Memory);
}

#[test]
fn atomics_are_the_processors_own() {
    let (mut a, mut b, _view, pages) = sharing();
    publish(&mut b, pages.addr, SHARED, Some(Extent { addr: pages.addr, len: SHARED, offset: OFFSET }));
    let at = |offset, need| direct(offset, 8, need);
    let store = AtomicOp::Store(40u64.to_ne_bytes());
    assert_eq!(a.atomic_direct(&at(16, Access::REMOTE_WRITE), store), Some(0));
    assert_eq!(a.atomic_direct(&at(16, Access::REMOTE_ATOMIC), AtomicOp::FetchAdd(2)), Some(40));
    let swap = AtomicOp::CompareSwap { compare: 42, swap: 9 };
    assert_eq!(a.atomic_direct(&at(16, Access::REMOTE_ATOMIC), swap), Some(42));
    assert_eq!(bytes_at(pages.addr + 16, 8), 9u64.to_ne_bytes());
    assert_eq!(a.atomic_direct(&at(17, Access::REMOTE_ATOMIC), swap), None);
}

#[test]
fn what_was_registered_before_pages_were_shared_is_said_later() {
    let (mut a, mut b, _view, pages) = sharing();
    publish(&mut b, pages.addr, SHARED, None);
    let at = direct(0, 4, Access::REMOTE_WRITE);
    assert!(a.write_direct(&at, Outgoing::Bytes(b"once")));
    assert_eq!(a.reach(PEER), Reach::Kernel);
    assert_eq!(b.keys(), [(pages.addr, SHARED)]);
    b.share_keys(|key, addr, len| (key == KEY).then_some(Extent { addr, len, offset: OFFSET }));
    assert!(a.write_direct(&at, Outgoing::Bytes(b"more")));
    assert_eq!((bytes_at(pages.addr, 4).as_slice(), a.reach(PEER)), (&b"more"[..], Reach::Memory));
    b.revoke_key(KEY);
    assert!(!a.write_direct(&at, Outgoing::Bytes(b"gone")));
}

#[test]
fn a_forged_extent_reaches_nothing_outside_the_arena() {
    let (mut a, mut b, _view, pages) = sharing();
    for extent in [
        Extent { addr: pages.addr, len: SHARED, offset: 1 << 52 },
        Extent { addr: pages.addr, len: SHARED, offset: u64::MAX - 4095 },
        Extent { addr: 0, len: u64::MAX, offset: 0 },
    ] {
        publish(&mut b, pages.addr, SHARED, Some(extent));
        let at = Direct { whole: 4, ..direct(0, 4, Access::REMOTE_WRITE) };
        a.write_direct(&at, Outgoing::Bytes(b"safe"));
    }
}
