//! READ, atomics, ATOMIC WRITE, FLUSH, fences, and numbers that wrap around.

use weft_sim::{QpOptions, end};
use weft_verbs::{Access, Mtu, QpCap, SendFlags, SendOp, Sge, WcOpcode, WcStatus};

use super::{fill, look, memory, open, setup, statuses, target};

#[test]
fn atomics_are_carried_out_once_each_in_order() {
    let (mut world, [a, b]) = setup(&QpOptions { rd_atomic: 1, ..QpOptions::default() });
    let results = memory(&mut world, &a, 80, Access::LOCAL_WRITE);
    let word = Sge { length: 8, ..memory(&mut world, &b, 64, open()) };
    for n in 0..10 {
        let sge = Sge { addr: results.addr + 8 * n, length: 8, ..results };
        let op = if n == 5 {
            SendOp::CompareSwap { target: target(&word), compare: 50, swap: 1000 }
        } else {
            SendOp::FetchAdd { target: target(&word), add: 10 }
        };
        a.send(&mut world, n, op, sge).unwrap();
    }
    world.settle();
    assert!(a.poll(&mut world).iter().all(|wc| wc.status == WcStatus::Success && wc.byte_len == 8));
    let before: Vec<u64> =
        look(&mut world, &a, &results).chunks(8).map(|w| u64::from_ne_bytes(w.try_into().unwrap())).collect();
    assert_eq!(before, [0, 10, 20, 30, 40, 50, 1000, 1010, 1020, 1030]);
    assert_eq!(look(&mut world, &b, &word), 1040_u64.to_ne_bytes());
}

#[test]
fn an_atomic_that_is_not_aligned_or_allowed_is_refused() {
    let (mut world, [a, b]) = setup(&QpOptions::default());
    let from = Sge { length: 8, ..memory(&mut world, &a, 64, Access::LOCAL_WRITE) };
    let word = memory(&mut world, &b, 64, Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ);
    let mut odd = target(&word);
    odd.addr += 4;
    // Either the local adapter or the peer may refuse the address.
    if a.send(&mut world, 1, SendOp::FetchAdd { target: odd, add: 1 }, from).is_ok() {
        world.settle();
        assert_ne!(a.poll(&mut world)[0].status, WcStatus::Success);
        return;
    }
    a.send(&mut world, 2, SendOp::FetchAdd { target: target(&word), add: 1 }, from).unwrap();
    world.settle();
    assert_eq!(statuses(&a.poll(&mut world)), [(2, WcStatus::RemAccessErr)]);
}

#[test]
fn atomic_write_and_flush_end_with_completions_of_their_own() {
    let (mut world, [a, b]) = setup(&QpOptions::default());
    let from = Sge { length: 8, ..memory(&mut world, &a, 64, Access::LOCAL_WRITE) };
    fill(&mut world, &a, &from, 0x5a);
    let to = memory(&mut world, &b, 64, open());
    a.send(&mut world, 1, SendOp::AtomicWrite(target(&to)), from).unwrap();
    let flush = SendOp::Flush { target: target(&to), length: 64, placement: 1, level: 0 };
    a.post(&mut world, 2, flush, SendFlags::SIGNALED, &[]).unwrap();
    let whole = SendOp::Flush { target: target(&to), length: 0, placement: 3, level: 1 };
    a.post(&mut world, 3, whole, SendFlags::SIGNALED, &[]).unwrap();
    world.settle();
    let wcs = a.poll(&mut world);
    let want = [WcOpcode::AtomicWrite, WcOpcode::Flush, WcOpcode::Flush];
    assert_eq!(wcs.iter().map(|wc| wc.opcode).collect::<Vec<_>>(), want);
    assert!(wcs.iter().all(|wc| wc.status == WcStatus::Success));
    let held = look(&mut world, &b, &to);
    assert!(held[..8].iter().all(|x| *x == 0x5a) && held[8] == 0);
}

#[test]
fn a_flush_without_the_right_is_refused() {
    let (mut world, [a, b]) = setup(&QpOptions::default());
    let to = memory(&mut world, &b, 64, Access::LOCAL_WRITE | Access::REMOTE_WRITE);
    let flush = SendOp::Flush { target: target(&to), length: 64, placement: 1, level: 0 };
    a.post(&mut world, 2, flush, SendFlags::SIGNALED, &[]).unwrap();
    world.settle();
    assert_eq!(statuses(&a.poll(&mut world)), [(2, WcStatus::RemAccessErr)]);
}

#[test]
fn psns_wrap_around_in_every_kind_of_message() {
    for start in [0xff_fff0, 0xff_ffff, 0x7f_fff8] {
        let options = QpOptions { psn: [start, start], mtu: Mtu::Mtu256, ..QpOptions::default() };
        let (mut world, [a, b]) = setup(&options);
        let from = memory(&mut world, &a, 10_000, Access::LOCAL_WRITE);
        let back = memory(&mut world, &a, 10_000, Access::LOCAL_WRITE);
        let to = memory(&mut world, &b, 10_000, open());
        fill(&mut world, &a, &from, 0x11);
        a.send(&mut world, 1, SendOp::Write(target(&to)), from).unwrap();
        a.send(&mut world, 2, SendOp::Read(target(&to)), back).unwrap();
        b.recv(&mut world, 9, to).unwrap();
        a.send(&mut world, 3, SendOp::Send, from).unwrap();
        world.settle();
        let done = [(1, WcStatus::Success), (2, WcStatus::Success), (3, WcStatus::Success)];
        assert_eq!(statuses(&a.poll(&mut world)), done);
        assert_eq!(look(&mut world, &a, &back), vec![0x11; 10_000]);
        assert_eq!(b.poll(&mut world)[0].byte_len, 10_000);
    }
}

#[test]
fn thirty_elements_are_one_message() {
    let cap = QpCap { max_send_wr: 4, max_recv_wr: 4, max_send_sge: 30, max_recv_sge: 30, max_inline_data: 1024 };
    let options = QpOptions { cap, mtu: Mtu::Mtu256, ..QpOptions::default() };
    let (mut world, [a, b]) = setup(&options);
    let from = memory(&mut world, &a, 30 * 100, Access::LOCAL_WRITE);
    let data: Vec<u8> = (0..3000).map(|i| (i % 251) as u8).collect();
    world.hosts[0].fill(from.addr, &data);
    let to = memory(&mut world, &b, 30 * 100, open());
    let cut = |whole: &Sge| -> Vec<Sge> {
        // In descending order, so that the order of the elements matters.
        (0..30).rev().map(|i| Sge { addr: whole.addr + i * 100, length: 100, lkey: whole.lkey }).collect()
    };
    let wr = weft_verbs::RecvWr { wr_id: 1, sges: &cut(&to) };
    world.hosts[1].hca.post_recv(b.qp, &wr).unwrap();
    a.post(&mut world, 1, SendOp::Send, SendFlags::SIGNALED, &cut(&from)).unwrap();
    let inline: Vec<Sge> = cut(&from).into_iter().map(|s| Sge { length: 30, lkey: 0, ..s }).collect();
    a.post(&mut world, 2, SendOp::Write(target(&to)), SendFlags::SIGNALED | SendFlags::INLINE, &inline).unwrap();
    let once: Vec<u8> = inline.iter().flat_map(|s| data[(s.addr - from.addr) as usize..][..30].to_vec()).collect();
    world.settle();
    assert_eq!(a.poll(&mut world).len(), 2);
    let held = look(&mut world, &b, &to);
    assert_eq!(held[..900], once[..]);
    assert_eq!(held[900..], data[900..]);
}

#[test]
fn unsignalled_work_says_nothing_and_makes_room() {
    let (mut world, [a, b]) = setup(&QpOptions::default());
    let from = memory(&mut world, &a, 8, Access::LOCAL_WRITE);
    let to = memory(&mut world, &b, 8, open());
    for round in 0..10 {
        for n in 0..64 {
            let flags = if n == 63 { SendFlags::SIGNALED } else { SendFlags::empty() };
            a.post(&mut world, round * 64 + n, SendOp::Write(target(&to)), flags, &[from]).unwrap();
        }
        world.settle();
        assert_eq!(statuses(&a.poll(&mut world)), [(round * 64 + 63, WcStatus::Success)]);
    }
}

#[test]
fn a_fence_waits_for_the_read_before_it() {
    let (mut world, [a, b]) = setup(&QpOptions::default());
    let from = memory(&mut world, &a, 8192, Access::LOCAL_WRITE);
    let to = memory(&mut world, &b, 8192, open());
    fill(&mut world, &b, &to, 0x99);
    world.record();
    a.send(&mut world, 1, SendOp::Read(target(&to)), from).unwrap();
    // Writes back the bytes that the READ returns: without the fence it would write zeros.
    let flags = SendFlags::SIGNALED | SendFlags::FENCE;
    let other = memory(&mut world, &b, 8192, open());
    a.post(&mut world, 2, SendOp::Write(target(&other)), flags, &[from]).unwrap();
    world.settle();
    assert_eq!(a.poll(&mut world).len(), 2);
    assert_eq!(look(&mut world, &b, &other), vec![0x99; 8192]);
    let _ = end::attributes;
}

#[test]
fn a_queue_pair_can_talk_to_itself_and_to_its_neighbour() {
    let (mut world, parts) = super::setup_parts();
    let options = QpOptions::default();
    let a = end::create(&mut world, 0, &parts[0], options.kind, &options);
    let b = end::create(&mut world, 0, &parts[0], options.kind, &options);
    end::connect(&mut world, [&a, &b], [options.kind; 2], &options);
    let options = QpOptions { psn: [5, 5], ..options };
    let own = end::create(&mut world, 0, &parts[0], options.kind, &options);
    for to in [weft_verbs::QpState::Init, weft_verbs::QpState::Rtr, weft_verbs::QpState::Rts] {
        let attr = end::attributes(&world, &own, &own, &options, 0);
        end::go(&mut world, &own, options.kind, to, &attr).unwrap();
    }
    let from = memory(&mut world, &a, 3000, open());
    fill(&mut world, &a, &from, 3);
    for end in [a, own] {
        let to = memory(&mut world, &a, 3000, open());
        end.send(&mut world, 1, SendOp::Write(target(&to)), from).unwrap();
        world.settle();
        assert_eq!(statuses(&end.poll(&mut world)), [(1, WcStatus::Success)]);
        assert_eq!(look(&mut world, &a, &to), vec![3; 3000]);
    }
}
