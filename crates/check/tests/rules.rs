//! The model against small programs: each mistake brings up its rule, and the correct program none.

mod program;

use program::{Program, REMOTE, buffer, flags};
use weft_check::Severity;
use weft_check::model::{Ah, AsyncEvent, Cq, Kind, Opcode, Qp, QpCap, QpKind, QpState, Release, Srq};

#[test]
fn a_correct_program_breaks_no_rule() {
    let mut program = Program::connected(QpKind::Rc);
    for round in 0..64 {
        program.receive(round, buffer(1, 64));
        program.send(round, Opcode::SEND, flags::SIGNALED, buffer(0, 64));
        program.complete_send(round);
        program.complete_receive(round);
    }
    program.destroy_all();
    program.leaks();
    assert_eq!(program.rules(), [""; 0]);
}

#[test]
fn a_changed_buffer_is_seen_at_the_completion() {
    let mut program = Program::connected(QpKind::Rc);
    program.send(1, Opcode::SEND, flags::SIGNALED, buffer(0, 64));
    program.memory.change(buffer(0, 64));
    assert_eq!(program.rules(), [""; 0]);
    program.complete_send(1);
    assert_eq!(program.rules(), ["buffer-changed"]);
}

#[test]
fn a_signaled_completion_ends_the_unsignaled_requests_before_it() {
    let mut program = Program::connected(QpKind::Rc);
    program.send(1, Opcode::WRITE, 0, buffer(0, 64));
    program.memory.change(buffer(0, 64));
    program.send(2, Opcode::SEND, flags::SIGNALED, buffer(2, 64));
    program.complete_send(2);
    assert_eq!(program.rules(), ["buffer-changed"]);
    program.send(3, Opcode::SEND, flags::SIGNALED, buffer(0, 64));
    program.complete_send(3);
    assert_eq!(program.rules(), [""; 0]);
}

#[test]
fn a_buffer_that_the_device_wrote_is_not_the_programs_change() {
    // A receive into the same memory, as in ibv_rc_pingpong: its completion comes before that of the send.
    let mut program = Program::connected(QpKind::Rc);
    program.receive(1, buffer(0, 64));
    program.send(2, Opcode::SEND, flags::SIGNALED, buffer(0, 64));
    program.memory.change(buffer(0, 64));
    program.complete_receive(1);
    program.complete_send(2);
    assert_eq!(program.rules(), [""; 0]);
    // A region that peers may write to.
    program.register(3, REMOTE);
    program.send(3, Opcode::SEND, flags::SIGNALED, buffer(3, 64));
    program.memory.change(buffer(3, 64));
    program.complete_send(3);
    assert_eq!(program.rules(), [""; 0]);
    // A region that a memory window may open to peers.
    program.register(4, program::LOCAL | program::MW_BIND);
    program.send(4, Opcode::SEND, flags::SIGNALED, buffer(4, 64));
    program.memory.change(buffer(4, 64));
    program.complete_send(4);
    assert_eq!(program.rules(), [""; 0]);
}

#[test]
fn inline_requests_and_reads_leave_the_buffer_to_the_program() {
    let mut program = Program::connected(QpKind::Rc);
    program.send(1, Opcode::SEND, flags::SIGNALED | flags::INLINE, buffer(0, 16));
    program.send(2, Opcode::READ, flags::SIGNALED, buffer(1, 64));
    program.memory.change(buffer(0, 64));
    program.memory.change(buffer(1, 64));
    program.complete_send(1);
    program.complete_send(2);
    assert_eq!(program.rules(), [""; 0]);
}

#[test]
fn keys_are_checked_before_the_device_sees_them() {
    let mut program = Program::connected(QpKind::Rc);
    let mut post = |sge: weft_check::model::Sge| {
        program.send(1, Opcode::SEND, flags::SIGNALED, sge);
        program.complete_send(1);
        program.rules()
    };
    assert_eq!(post(weft_check::model::Sge { lkey: 0xdead, ..buffer(0, 64) }), ["key-unknown"]);
    assert_eq!(post(buffer(0, 1 << 20)), ["key-out-of-range"]);
    assert_eq!(post(weft_check::model::Sge { address: 0, ..buffer(0, 64) }), ["key-out-of-range"]);
    // A request without bytes needs no key.
    assert_eq!(post(weft_check::model::Sge { address: 0, length: 0, lkey: 0 }), [""; 0]);

    program.register_read_only(5);
    program.receive(2, buffer(5, 64));
    assert_eq!(program.rules(), ["key-no-access"]);
    program.register_elsewhere(6);
    program.send(3, Opcode::SEND, flags::SIGNALED, buffer(6, 64));
    assert_eq!(program.rules(), ["key-wrong-pd"]);
    program.deregister(0);
    program.complete_send(3);
    program.rules();
    program.send(4, Opcode::SEND, flags::SIGNALED, buffer(0, 64));
    assert_eq!(program.rules(), ["key-stale"]);
}

#[test]
fn a_parent_domain_stands_for_its_protection_domain() {
    let mut program = Program::connected(QpKind::Rc);
    program.register_in_parent_domain(7);
    program.send(1, Opcode::SEND, flags::SIGNALED, buffer(7, 64));
    assert_eq!(program.rules(), [""; 0]);
}

#[test]
fn memory_of_outstanding_requests_must_stay() {
    let mut program = Program::connected(QpKind::Rc);
    program.receive(1, buffer(1, 64));
    program.deregister(1);
    assert_eq!(program.rules(), ["region-in-use"]);
    program.send(2, Opcode::SEND, flags::SIGNALED, buffer(0, 64));
    program.release(0, Release::Free);
    assert_eq!(program.rules(), ["buffer-unmapped"]);
    program.complete_send(2);
    program.release(0, Release::Free);
    assert_eq!(program.rules(), [""; 0]);
    program.release(0, Release::Unmap);
    assert_eq!(program.rules(), ["region-unmapped"]);
}

#[test]
fn a_queue_pair_in_error_needs_no_buffers() {
    let mut program = Program::connected(QpKind::Rc);
    program.receive(1, buffer(1, 64));
    program.send(2, Opcode::SEND, flags::SIGNALED, buffer(0, 64));
    program.modify(QpState::Rts, QpState::Err);
    program.deregister(1);
    program.release(1, Release::Unmap);
    program.memory.change(buffer(0, 64));
    program.fail(2, 5, 0);
    assert_eq!(program.rules(), [""; 0]);
}

#[test]
fn a_buffer_without_bytes_is_nowhere() {
    let mut program = Program::connected(QpKind::Rc);
    let empty = weft_check::model::Sge { address: buffer(0, 0).address + 64, ..buffer(0, 0) };
    program.receive(1, empty);
    program.send(2, Opcode::READ, flags::SIGNALED, buffer(0, 128));
    program.send(3, Opcode::SEND, flags::SIGNALED, empty);
    assert_eq!(program.rules(), [""; 0]);
    program.complete_send(2);
    program.complete_send(3);
    program.release(0, Release::Free);
    assert_eq!(program.rules(), [""; 0]);
}

#[test]
fn a_library_knows_which_of_its_datagrams_are_sent() {
    for (kind, wanted) in [(QpKind::Ud, &[][..]), (QpKind::Rc, &["region-in-use"])] {
        let mut program = Program::connected(kind);
        program.register_cached(3);
        program.send(1, Opcode::SEND, 0, buffer(3, 64));
        program.deregister(3);
        assert_eq!(program.rules(), wanted);
    }
}

#[test]
fn queues_have_their_sizes() {
    let mut program = Program::connected(QpKind::Rc);
    for wr_id in 0..8 {
        program.send(wr_id, Opcode::SEND, if wr_id == 3 { flags::SIGNALED } else { 0 }, buffer(0, 8));
        program.receive(wr_id, buffer(1, 8));
    }
    assert_eq!(program.rules(), [""; 0]);
    program.send(8, Opcode::SEND, 0, buffer(0, 8));
    assert_eq!(program.rules(), ["send-queue-full"]);
    program.receive(8, buffer(1, 8));
    assert_eq!(program.rules(), ["receive-queue-full"]);
    // A refused request takes no room.
    program.unpost_send(1);
    program.complete_send(3);
    for wr_id in 0..4 {
        program.send(wr_id, Opcode::SEND, 0, buffer(0, 8));
    }
    assert_eq!(program.rules(), [""; 0]);
    program.send(9, Opcode::SEND, flags::SIGNALED, buffer(0, 8));
    assert_eq!(program.rules(), ["never-signaled"]);
}

#[test]
fn the_library_may_refuse_what_a_queue_does_not_hold() {
    let mut program = Program::connected(QpKind::Rc);
    program.is_refused_when_full = true;
    let found = |program: &mut Program| -> Vec<_> {
        program.findings().into_iter().map(|finding| (finding.rule.name, finding.severity)).collect()
    };
    for wr_id in 0..9 {
        program.send(wr_id, Opcode::SEND, if wr_id == 0 { flags::SIGNALED } else { 0 }, buffer(0, 8));
    }
    assert_eq!(found(&mut program), [("send-queue-full", Severity::Warning)]);
    program.unpost_send(1);
    program.complete_send(0);
    program.send(9, Opcode::SEND, 0, buffer(0, 8));
    program.send(10, Opcode::SEND, 0, buffer(0, 8));
    // No completion will come that frees the queue.
    assert_eq!(found(&mut program), [("never-signaled", Severity::Error)]);
}

#[test]
fn a_queue_pair_that_goes_takes_shared_receives_with_it() {
    let mut program = Program::connected(QpKind::Rc);
    let srq = Srq::new(program::CONTEXT, program::PD, 2, 1, false);
    program.model.add_srq(program::SRQ, srq, program::site("ibv_create_srq"));
    (0..3).for_each(|wr_id| program.receive_shared(wr_id, buffer(1, 8)));
    assert_eq!(program.rules(), ["srq-full"]);
    let mut qp = Qp::new(program::CONTEXT, program::PD, 0x12, QpKind::Rc, QpCap::default());
    qp.srq = Some(program::SRQ);
    program.model.add_qp(0x508, qp, program::site("ibv_create_qp"));
    assert!(program.model.begin_destroy(Kind::Qp, 0x508, program::site("ibv_destroy_qp")).is_some());
    program.receive_shared(3, buffer(1, 8));
    assert_eq!(program.rules(), [""; 0]);
    program.is_refused_when_full = true;
    program.receive_shared(4, buffer(1, 8));
    assert_eq!(program.rules(), ["srq-full"]);
}

#[test]
fn queues_that_hide_their_queue_pairs_are_not_followed() {
    let mut program = Program::connected(QpKind::Rc);
    let mut cq = Cq::new(program::CONTEXT, None, 4);
    cq.hides_qp_numbers = true;
    program.model.add_cq(program::CQ, cq, program::site("ibv_create_cq_ex"));
    for wr_id in 0..20 {
        program.send(wr_id, Opcode::SEND, flags::SIGNALED, buffer(0, 8));
        program.receive(wr_id, buffer(1, 8));
    }
    assert_eq!(program.rules(), [""; 0]);
}

#[test]
fn address_handles_outlive_their_requests() {
    let mut program = Program::connected(QpKind::Ud);
    let site = program::site("ibv_destroy_ah");
    for (is_cached, wanted) in [(true, &[][..]), (false, &["ah-in-use"])] {
        let ah = Ah { context: program::CONTEXT, pd: program::PD, is_cached, created: 0, serial: 0 };
        program.model.add_ah(program::AH, ah, site);
        program.send(1, Opcode::SEND, flags::SIGNALED, buffer(0, 8));
        program.model.check_ah_unused(program::AH, site);
        assert_eq!(program.rules(), wanted);
        program.complete_send(1);
        program.model.check_ah_unused(program::AH, site);
        assert_eq!(program.rules(), [""; 0]);
    }
}

#[test]
fn requests_fit_their_queue_pair() {
    let mut program = Program::connected(QpKind::Rc);
    program.send(1, Opcode::SEND, flags::INLINE | flags::SIGNALED, buffer(0, 65));
    assert_eq!(program.rules(), ["inline-too-long"]);
    program.complete_send(1);
    program.send_all(1, Opcode::SEND, 0, &[buffer(0, 8), buffer(0, 8), buffer(0, 8)]);
    assert_eq!(program.rules(), ["too-many-sge"]);
    program.atomic(2, 0x1004, buffer(0, 8));
    assert_eq!(program.rules(), ["atomic-misaligned"]);
    program.atomic(3, 0x1008, buffer(0, 4));
    assert_eq!(program.rules(), ["atomic-length"]);
    program.modify(QpState::Rts, QpState::Reset);
    program.send_in(QpState::Rtr, 4, Opcode::SEND, buffer(0, 8));
    assert_eq!(program.rules(), ["post-in-wrong-state"]);

    let mut unreliable = Program::connected(QpKind::Uc);
    unreliable.send(1, Opcode::READ, 0, buffer(0, 8));
    assert_eq!(unreliable.rules(), ["opcode-not-for-type"]);
}

#[test]
fn datagrams_have_their_own_rules() {
    let mut program = Program::connected(QpKind::Ud);
    program.receive(1, buffer(1, 39));
    assert_eq!(program.rules(), ["receive-no-grh-room"]);
    program.receive(2, buffer(1, 40));
    program.send(3, Opcode::SEND, 0, buffer(0, 1024));
    assert_eq!(program.rules(), [""; 0]);
    program.send(4, Opcode::SEND, 0, buffer(0, 1025));
    assert_eq!(program.rules(), ["ud-message-exceeds-mtu"]);
    let foreign = Ah { context: program::CONTEXT, pd: program::OTHER_PD, is_cached: false, created: 0, serial: 0 };
    program.model.add_ah(program::AH, foreign, program::site("ibv_create_ah"));
    program.send(5, Opcode::SEND, 0, buffer(0, 8));
    assert_eq!(program.rules(), ["ah-wrong-pd"]);
}

#[test]
fn a_request_does_not_overtake_the_read_that_it_depends_on() {
    let mut program = Program::connected(QpKind::Rc);
    program.send(1, Opcode::READ, flags::SIGNALED, buffer(0, 64));
    program.send(2, Opcode::SEND, flags::SIGNALED | flags::FENCE, buffer(0, 64));
    program.send(3, Opcode::SEND, flags::SIGNALED, buffer(2, 64));
    assert_eq!(program.rules(), [""; 0]);
    program.send(4, Opcode::SEND, flags::SIGNALED, buffer(0, 8));
    assert_eq!(program.rules(), ["fence-missing"]);
    for wr_id in 1..=4 {
        program.complete_send(wr_id);
    }
    program.send(5, Opcode::SEND, flags::SIGNALED, buffer(0, 8));
    assert_eq!(program.rules(), [""; 0]);
}

#[test]
fn failed_completions_are_explained() {
    let mut program = Program::connected(QpKind::Rc);
    program.receive(7, buffer(1, 8));
    program.fail(7, 1, 0);
    assert_eq!(program.rules(), ["receive-too-short"]);
    program.send(8, Opcode::SEND, 0, buffer(0, 8));
    program.fail(8, 13, 0);
    assert_eq!(program.rules(), ["receive-missing"]);
}

#[test]
fn transitions_need_their_attributes() {
    let mut program = Program::connected(QpKind::Rc);
    program.modify(QpState::Rts, QpState::Reset);
    let rules = |program: &mut Program, mask, change: &dyn Fn(&mut weft_check::model::QpAttributes)| {
        let mut call = program::attributes(QpState::Rtr, QpState::Rts, mask);
        change(&mut call);
        program.model.check_modify(program::QP, &call, program::site("ibv_modify_qp"));
        program.rules()
    };
    let complete = 1 << 9 | 1 << 10 | 1 << 11 | 1 << 13 | 1 << 16;
    assert_eq!(rules(&mut program, complete, &|_| {}), [""; 0]);
    assert_eq!(rules(&mut program, complete & !(1 << 16), &|_| {}), ["attribute-missing"]);
    assert_eq!(rules(&mut program, complete, &|call| call.timeout = Some(0)), ["timeout-zero"]);
    assert_eq!(rules(&mut program, complete, &|call| call.retry_count = Some(0)), ["retry-zero"]);
    let mtu = |call: &mut weft_check::model::QpAttributes| {
        (call.path_mtu_bytes, call.port_mtu_bytes) = (Some(4096), Some(1024));
    };
    assert_eq!(rules(&mut program, complete, &mtu), ["path-mtu-exceeds-port"]);
    let gid = weft_check::model::AddressVector { gid_index: 9, gid_is_empty: Some(true) };
    assert_eq!(rules(&mut program, complete, &|call| call.address = Some(gid)), ["gid-index-empty"]);

    let shortcut = program::attributes(QpState::Init, QpState::Rts, complete);
    program.model.modify_refused(program::QP, &shortcut, program::site("ibv_modify_qp"));
    assert_eq!(program.rules(), ["wrong-transition"]);
    let extra = program::attributes(QpState::Rtr, QpState::Rts, complete | 1 << 20);
    program.model.modify_refused(program::QP, &extra, program::site("ibv_modify_qp"));
    assert_eq!(program.rules(), ["attribute-extra"]);
}

#[test]
fn a_read_needs_a_limit_above_zero() {
    let mut program = Program::connected(QpKind::Rc);
    let mut call = program::attributes(QpState::Rtr, QpState::Rts, 1 << 13);
    call.read_limit = Some(0);
    program.model.modified(program::QP, &call);
    program.send(1, Opcode::READ, flags::SIGNALED, buffer(0, 8));
    assert_eq!(program.rules(), ["read-limit-zero"]);
}

#[test]
fn completion_queues_have_room_for_what_is_outstanding() {
    let mut program = Program::connected(QpKind::Rc);
    program.model.resize_cq(program::CQ, 2);
    program.receive(1, buffer(1, 8));
    program.send(2, Opcode::SEND, flags::SIGNALED, buffer(0, 8));
    program.send(3, Opcode::SEND, 0, buffer(0, 8));
    assert_eq!(program.rules(), [""; 0]);
    program.receive(4, buffer(1, 8));
    assert_eq!(program.rules(), ["cq-overrun-possible"]);
    let event = AsyncEvent::Cq { cq: program::CQ, is_error: true };
    program.model.take_async_event(event, true, program::site("ibv_get_async_event"));
    assert_eq!(program.rules(), ["cq-overrun"]);
}

#[test]
fn events_are_acknowledged_before_the_end() {
    let mut program = Program::connected(QpKind::Rc);
    let site = program::site("ibv_destroy_cq");
    program.model.take_event(program::CQ);
    program.model.acknowledge_events(program::CQ, 1, site);
    program.model.take_event(program::CQ);
    // Another thread has read the event: it may be about to acknowledge it.
    program.model.set_thread(1);
    let removed = program.model.begin_destroy(Kind::Cq, program::CQ, site);
    program.model.destroy_failed(program::CQ, removed.expect("a live queue"), false, site);
    assert_eq!(program.rules(), [""; 0]);
    program.model.set_thread(0);
    let removed = program.model.begin_destroy(Kind::Cq, program::CQ, site);
    assert_eq!(program.rules(), ["event-unacknowledged"]);
    program.model.destroy_failed(program::CQ, removed.expect("a live queue"), true, site);
    assert_eq!(program.rules(), ["destroy-busy"]);
}

#[test]
fn events_are_acknowledged_once_and_while_the_destruction_waits() {
    let mut program = Program::connected(QpKind::Rc);
    let site = program::site("ibv_ack_cq_events");
    program.model.take_event(program::CQ);
    program.model.acknowledge_events(program::CQ, 2, site);
    assert_eq!(program.rules(), ["event-not-read"]);
    program.model.set_thread(1);
    program.model.take_event(program::CQ);
    program.model.set_thread(0);
    assert!(program.model.begin_destroy(Kind::Cq, program::CQ, site).is_some());
    program.model.acknowledge_events(program::CQ, 1, site);
    assert_eq!(program.rules(), [""; 0]);
    program.model.destroyed(Kind::Cq, program::CQ);
    program.model.acknowledge_events(program::CQ, 1, site);
    assert_eq!(program.rules(), ["use-after-destroy"]);
}

#[test]
fn only_armed_queues_raise_events() {
    let mut program = Program::connected(QpKind::Rc);
    let site = program::site("ibv_get_cq_event");
    program.model.check_armed(program::CHANNEL, site);
    assert_eq!(program.rules(), ["cq-not-armed"]);
    program.model.arm(program::CQ, true, site);
    assert!(program.model.armed_queues(program::CHANNEL).is_empty());
    program.model.arm(program::CQ, false, site);
    assert_eq!(program.model.armed_queues(program::CHANNEL), [program::CQ]);
    program.model.check_armed(program::CHANNEL, site);
    assert_eq!(program.rules(), [""; 0]);
    program.model.report_undrained(program::CQ, site);
    assert_eq!(program.rules(), ["cq-not-drained"]);
}

#[test]
fn objects_live_once() {
    let mut program = Program::connected(QpKind::Rc);
    let site = program::site("ibv_destroy_qp");
    assert!(program.model.begin_destroy(Kind::Qp, program::QP, site).is_some());
    assert_eq!(program.rules(), [""; 0]);
    assert!(program.model.begin_destroy(Kind::Qp, program::QP, site).is_none());
    assert_eq!(program.rules(), ["destroyed-twice"]);
    program.send(1, Opcode::SEND, 0, buffer(0, 8));
    assert_eq!(program.rules(), ["use-after-destroy"]);
    // A new object at the same address is another object.
    program.create_qp(QpKind::Rc);
    program.send(1, Opcode::SEND, 0, buffer(0, 8));
    assert_eq!(program.rules(), [""; 0]);
}

#[test]
fn leaks_are_reported_once_an_object() {
    let mut program = Program::connected(QpKind::Rc);
    program.model.set_unowned(Kind::Context, program::CONTEXT);
    program.leaks();
    let found = program.findings();
    assert!(found.iter().all(|finding| finding.rule.name == "object-leaked"));
    let kinds: Vec<_> = found.iter().filter_map(|finding| finding.object.split([' ']).next()).collect();
    assert!(kinds.contains(&"qp") && kinds.contains(&"cq") && kinds.contains(&"mr") && kinds.contains(&"pd"));
    assert!(!kinds.contains(&"device"), "{kinds:?}");
}

#[test]
fn forks_need_protection_where_the_kernel_gives_none() {
    let mut program = Program::connected(QpKind::Rc);
    program.model.check_fork(true, program::site("fork"));
    assert_eq!(program.rules(), [""; 0]);
    program.model.check_fork(false, program::site("fork"));
    assert_eq!(program.rules(), ["fork-unprotected"]);
}

#[test]
fn windows_need_a_region_that_allows_them() {
    let mut program = Program::connected(QpKind::Rc);
    let mw = weft_check::model::Mw { context: program::CONTEXT, pd: program::PD, created: 0, serial: 0 };
    program.model.add_mw(0x900, mw, program::site("ibv_alloc_mw"));
    let bind = |program: &mut Program, region: u32, length: u64| {
        let (region, address) = (program::region(region), buffer(region, 0).address);
        let binding = weft_check::model::Binding { window: 0x900, region, address, length };
        program.model.check_binding(program::QP, &binding, program::site("ibv_bind_mw"));
        program.rules()
    };
    assert_eq!(bind(&mut program, 0, 64), ["window-without-access"]);
    program.register(4, program::LOCAL | program::MW_BIND);
    assert_eq!(bind(&mut program, 4, 64), [""; 0]);
    assert_eq!(bind(&mut program, 4, 1 << 30), ["window-out-of-range"]);
}
