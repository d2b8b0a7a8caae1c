//! Memory windows, and keys that become invalid.

use weft_sim::world::DEVICE;
use weft_sim::{End, QpOptions, World};
use weft_verbs::{
    Access, MrId, MwBind, QpState, RecvWr, RemoteTarget, SendFlags, SendOp, Sge, VerbsError, WcFlags, WcOpcode,
    WcStatus,
};

use super::{fill, look, memory, open, setup, statuses};

struct Bed {
    world: World,
    a: End,
    b: End,
    from: Sge,
    /// Memory at `b` beneath the window.
    under: Sge,
    mr: MrId,
}

fn bed(rights: Access) -> Bed {
    let (mut world, [a, b]) = setup(&QpOptions::default());
    let from = memory(&mut world, &a, 100, Access::LOCAL_WRITE);
    fill(&mut world, &a, &from, 0x77);
    let addr = world.hosts[1].alloc(1000);
    let keys = world.hosts[1].hca.reg_mr(b.pd, addr, 1000, addr, rights).unwrap();
    let under = Sge { addr, length: 1000, lkey: keys.lkey };
    Bed { world, a, b, from, under, mr: keys.id }
}

impl Bed {
    fn bind(&mut self, mw_rkey: u32, new_rkey: u32, offset: u64, length: u64, access: Access) -> WcStatus {
        let addr = self.under.addr + offset;
        let bind = MwBind { mw_rkey, new_rkey, mr_lkey: self.under.lkey, addr, length, access };
        self.b.post(&mut self.world, 50, SendOp::BindMw(bind), SendFlags::SIGNALED, &[]).unwrap();
        self.world.settle();
        let wcs = self.b.poll(&mut self.world);
        assert_eq!((wcs.len(), wcs[0].opcode), (1, WcOpcode::BindMw));
        wcs[0].status
    }

    fn write(&mut self, rkey: u32, addr: u64, length: u32) -> WcStatus {
        let sge = Sge { length, ..self.from };
        self.a.send(&mut self.world, 1, SendOp::Write(RemoteTarget { addr, rkey }), sge).unwrap();
        self.world.settle();
        self.a.poll(&mut self.world)[0].status
    }
}

const WRITE: Access = Access::REMOTE_WRITE;

#[test]
fn a_type_1_window_opens_a_part_and_closes_it() {
    let mut bed = bed(Access::LOCAL_WRITE | Access::MW_BIND);
    let b = bed.b;
    let mw = bed.world.hosts[1].hca.alloc_mw(b.pd, false).unwrap();
    let first = bed.world.hosts[1].hca.next_type1_rkey(mw.id).unwrap();
    assert_ne!(first, mw.rkey);
    assert_eq!(bed.bind(mw.rkey, first, 100, 50, WRITE), WcStatus::Success);
    assert_eq!(bed.world.hosts[1].hca.mw_rkey(mw.id), Ok(first));
    let base = bed.under.addr + 100;
    assert_eq!(bed.write(first, base, 50), WcStatus::Success);
    let held = look(&mut bed.world, &b, &bed.under.clone());
    assert!(held[..100].iter().chain(&held[150..]).all(|x| *x == 0));
    assert!(held[100..150].iter().all(|x| *x == 0x77));
    // While it is bound, the region beneath stays.
    assert!(matches!(bed.world.hosts[1].hca.dereg_mr(bed.mr), Err(VerbsError::Busy(_))));
    assert!(matches!(bed.world.hosts[1].hca.rereg_mr(bed.mr, None, None, None), Err(VerbsError::Busy(_))));
    // Binding it elsewhere invalidates the old key.
    let second = bed.world.hosts[1].hca.next_type1_rkey(mw.id).unwrap();
    assert_eq!(bed.bind(first, second, 0, 10, WRITE), WcStatus::Success);
    assert_eq!(bed.write(second, bed.under.addr, 10), WcStatus::Success);
    // Length 0 unbinds.
    let third = bed.world.hosts[1].hca.next_type1_rkey(mw.id).unwrap();
    assert_eq!(bed.bind(second, third, 0, 0, Access::empty()), WcStatus::Success);
    bed.world.hosts[1].hca.dereg_mr(bed.mr).unwrap();
    assert_eq!(bed.write(third, bed.under.addr, 10), WcStatus::RemAccessErr);
    bed.world.hosts[1].hca.dealloc_mw(mw.id).unwrap();
}

#[test]
fn an_old_key_ends_with_the_next_bind() {
    let mut bed = bed(Access::LOCAL_WRITE | Access::MW_BIND);
    let b = bed.b;
    let mw = bed.world.hosts[1].hca.alloc_mw(b.pd, false).unwrap();
    let first = bed.world.hosts[1].hca.next_type1_rkey(mw.id).unwrap();
    let second = bed.world.hosts[1].hca.next_type1_rkey(mw.id).unwrap();
    assert_eq!(bed.bind(mw.rkey, first, 0, 50, WRITE), WcStatus::Success);
    assert_eq!(bed.bind(first, second, 0, 50, WRITE), WcStatus::Success);
    let base = bed.under.addr;
    assert_eq!(bed.write(first, base, 50), WcStatus::RemAccessErr);
}

#[test]
fn a_window_gives_no_more_than_it_was_bound_with() {
    for (length, at, access) in [(50, 1, WRITE), (50, 0, Access::REMOTE_READ)] {
        let mut bed = bed(open());
        let b = bed.b;
        let mw = bed.world.hosts[1].hca.alloc_mw(b.pd, false).unwrap();
        let key = bed.world.hosts[1].hca.next_type1_rkey(mw.id).unwrap();
        assert_eq!(bed.bind(mw.rkey, key, 0, length, access), WcStatus::Success);
        let base = bed.under.addr + at;
        assert_eq!(bed.write(key, base, 50), WcStatus::RemAccessErr);
    }
}

#[test]
fn a_bind_that_the_region_does_not_allow_fails() {
    let no_bind = Access::LOCAL_WRITE | WRITE;
    let no_write = Access::MW_BIND;
    let both = Access::LOCAL_WRITE | Access::MW_BIND;
    for (rights, offset, length, access) in [
        (no_bind, 0, 10, WRITE),
        (no_write, 0, 10, WRITE),
        (both, 991, 10, WRITE),
        (both, 0, 1001, WRITE),
        (both, 0, u64::MAX, WRITE),
        (both, 0, 10, WRITE | Access::LOCAL_WRITE),
    ] {
        let mut bed = bed(rights);
        let b = bed.b;
        let mw = bed.world.hosts[1].hca.alloc_mw(b.pd, false).unwrap();
        let key = bed.world.hosts[1].hca.next_type1_rkey(mw.id).unwrap();
        assert_eq!(bed.bind(mw.rkey, key, offset, length, access), WcStatus::MwBindErr);
        assert_eq!(b.state(&bed.world), QpState::Err);
        bed.world.hosts[1].hca.dereg_mr(bed.mr).unwrap();
    }
}

#[test]
fn a_type_2_window_belongs_to_its_queue_pair_until_it_is_invalidated() {
    let mut bed = bed(Access::LOCAL_WRITE | Access::MW_BIND);
    let (a, b) = (bed.a, bed.b);
    let mw = bed.world.hosts[1].hca.alloc_mw(b.pd, true).unwrap();
    let key = mw.rkey & !0xff | 0x42;
    assert_eq!(bed.bind(mw.rkey, key, 0, 50, WRITE), WcStatus::Success);
    assert_eq!(bed.world.hosts[1].hca.mw_rkey(mw.id), Ok(key));
    let base = bed.under.addr;
    assert_eq!(bed.write(key, base, 50), WcStatus::Success);
    // The peer invalidates it.
    let recv = memory(&mut bed.world, &b, 16, Access::LOCAL_WRITE);
    b.recv(&mut bed.world, 3, recv).unwrap();
    let from = Sge { length: 16, ..bed.from };
    a.send(&mut bed.world, 2, SendOp::SendInv(key), from).unwrap();
    bed.world.settle();
    assert_eq!(statuses(&a.poll(&mut bed.world)), [(2, WcStatus::Success)]);
    let wcs = b.poll(&mut bed.world);
    assert_eq!((wcs[0].flags & WcFlags::WITH_INV, wcs[0].imm_data), (WcFlags::WITH_INV, key));
    // It can be bound again, and then invalidated locally.
    let again = key & !0xff | 0x43;
    assert_eq!(bed.bind(key, again, 100, 50, WRITE), WcStatus::Success);
    assert_eq!(bed.write(again, base + 100, 50), WcStatus::Success);
    b.post(&mut bed.world, 60, SendOp::LocalInv(again), SendFlags::SIGNALED, &[]).unwrap();
    bed.world.settle();
    let wcs = b.poll(&mut bed.world);
    assert_eq!((wcs[0].status, wcs[0].opcode), (WcStatus::Success, WcOpcode::LocalInv));
    bed.world.hosts[1].hca.dereg_mr(bed.mr).unwrap();
    assert_eq!(bed.write(again, base + 100, 50), WcStatus::RemAccessErr);
}

#[test]
fn a_type_2_window_can_be_zero_based_and_is_not_bound_twice() {
    let mut bed = bed(Access::LOCAL_WRITE | Access::MW_BIND);
    let b = bed.b;
    let mw = bed.world.hosts[1].hca.alloc_mw(b.pd, true).unwrap();
    let key = mw.rkey & !0xff | 0x42;
    assert_eq!(bed.bind(mw.rkey, key, 10, 50, WRITE | Access::ZERO_BASED), WcStatus::Success);
    assert_eq!(bed.write(key, 0, 50), WcStatus::Success);
    let held = look(&mut bed.world, &b, &bed.under.clone());
    assert!(held[10..60].iter().all(|x| *x == 0x77) && held[60] == 0);
    assert_eq!(bed.bind(key, key + 1, 10, 50, WRITE), WcStatus::MwBindErr);
    // Destroying the queue pair frees its windows.
    bed.world.hosts[1].hca.destroy_qp(b.qp).unwrap();
    bed.world.hosts[1].hca.dereg_mr(bed.mr).unwrap();
}

#[test]
fn a_type_2_window_of_another_queue_pair_is_refused() {
    let mut bed = bed(Access::LOCAL_WRITE | Access::MW_BIND);
    let (a, b) = (bed.a, bed.b);
    let [_, other] = {
        let parts = [
            weft_sim::end::Parts { pd: a.pd, cq: a.cq, srq: None, xrcd: None },
            weft_sim::end::Parts { pd: b.pd, cq: b.cq, srq: None, xrcd: None },
        ];
        weft_sim::end::pair_of(&mut bed.world, &parts, &QpOptions::default())
    };
    let mw = bed.world.hosts[1].hca.alloc_mw(b.pd, true).unwrap();
    let bind = MwBind {
        mw_rkey: mw.rkey,
        new_rkey: mw.rkey ^ 1,
        mr_lkey: bed.under.lkey,
        addr: bed.under.addr,
        length: 50,
        access: WRITE,
    };
    other.post(&mut bed.world, 1, SendOp::BindMw(bind), SendFlags::SIGNALED, &[]).unwrap();
    bed.world.settle();
    assert_eq!(statuses(&b.poll(&mut bed.world)), [(1, WcStatus::Success)]);
    let base = bed.under.addr;
    assert_eq!(bed.write(mw.rkey ^ 1, base, 50), WcStatus::RemAccessErr);
}

#[test]
fn a_local_invalidate_of_a_region_or_of_nothing_fails() {
    for of_region in [true, false] {
        let mut bed = bed(open());
        let b = bed.b;
        let key = if of_region { bed.under.lkey } else { 0x1234_5678 };
        b.post(&mut bed.world, 60, SendOp::LocalInv(key), SendFlags::SIGNALED, &[]).unwrap();
        bed.world.settle();
        assert_eq!(statuses(&b.poll(&mut bed.world)), [(60, WcStatus::LocQpOpErr)]);
    }
}

#[test]
fn an_invalidate_by_the_peer_of_what_it_may_not_fails() {
    let mut bed = bed(open());
    let (a, b) = (bed.a, bed.b);
    let recv = memory(&mut bed.world, &b, 16, Access::LOCAL_WRITE);
    b.recv(&mut bed.world, 3, recv).unwrap();
    let from = Sge { length: 16, ..bed.from };
    let key = bed.under.lkey;
    a.send(&mut bed.world, 2, SendOp::SendInv(key), from).unwrap();
    bed.world.settle();
    let status = a.poll(&mut bed.world)[0].status;
    assert!(matches!(status, WcStatus::RemAccessErr | WcStatus::RemOpErr | WcStatus::RemInvReqErr), "{status:?}");
    assert_eq!(b.state(&bed.world), QpState::Err);
    // The region is unharmed.
    let keys = bed.world.hosts[1].hca.rereg_mr(bed.mr, None, None, None).unwrap();
    assert_eq!(keys.lkey, key);
}

#[test]
fn a_key_ends_with_its_region() {
    let mut bed = bed(open());
    let (key, base) = (bed.under.lkey, bed.under.addr);
    assert_eq!(bed.write(key, base, 50), WcStatus::Success);
    let keys = bed.world.hosts[1].hca.rereg_mr(bed.mr, None, Some((base, 500, 0)), None).unwrap();
    assert_ne!(keys.rkey, key);
    assert_eq!(bed.write(keys.rkey, 450, 50), WcStatus::Success);
    assert_eq!(look(&mut bed.world, &bed.b.clone(), &bed.under.clone())[450..500], [0x77; 50]);
    bed.world.hosts[1].hca.dereg_mr(bed.mr).unwrap();
    assert_eq!(bed.write(keys.rkey, 450, 50), WcStatus::RemAccessErr);
}

#[test]
fn a_region_can_change_its_domain_and_rights() {
    let mut bed = bed(open());
    let (key, base) = (bed.under.lkey, bed.under.addr);
    let hca = &mut bed.world.hosts[1].hca;
    assert!(hca.rereg_mr(bed.mr, None, None, Some(WRITE)).is_err());
    let keys = hca.rereg_mr(bed.mr, None, None, Some(Access::REMOTE_READ)).unwrap();
    assert_eq!(keys.rkey, key);
    assert_eq!(bed.write(key, base, 50), WcStatus::RemAccessErr);
    let hca = &mut bed.world.hosts[1].hca;
    let other = hca.alloc_pd(DEVICE, 0).unwrap();
    hca.rereg_mr(bed.mr, Some(other), None, None).unwrap();
    assert!(matches!(hca.dealloc_pd(other), Err(VerbsError::Busy(_))));
    hca.dereg_mr(bed.mr).unwrap();
    hca.dealloc_pd(other).unwrap();
    let wr = RecvWr { wr_id: 1, sges: &[] };
    assert!(hca.post_recv(bed.b.qp, &wr).is_ok());
}
