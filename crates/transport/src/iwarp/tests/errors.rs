//! Each fault: the TERMINATE that reports it, and completions and events of both sides.

use weft_verbs::*;
use weft_wire::iwarp::TermError;

use super::{StreamPair, fpdu, params};
use crate::StreamPhase;
use crate::testing::*;

/// A request of side 0 that side 1 refuses with an error; the request's status, and side 1's event.
struct Case {
    op: SendOp,
    len: u32,
    error: TermError,
    status: WcStatus,
    event: Option<AsyncEvent>,
}

fn bad(addr: u64, rkey: u32) -> RemoteTarget {
    RemoteTarget { addr, rkey }
}

#[test]
fn refused_requests_are_terminated() {
    let (end, access) = (BASE + MEMORY as u64 - 4, Some(AsyncEvent::QpAccessErr));
    let case = |op, error, status, event| Case { op, len: 8, error, status, event };
    // A WRITE or SEND is done when TCP has it.
    let (done, denied) = (WcStatus::Success, WcStatus::RemAccessErr);
    let cases = [
        case(SendOp::Write(bad(BASE, 0xdead)), TermError::TAGGED_STAG, done, access),
        case(SendOp::Write(bad(end, KEY)), TermError::TAGGED_BOUNDS, done, access),
        case(SendOp::Write(bad(BASE, KEY_READ_ONLY)), TermError::TAGGED_STAG, done, access),
        case(SendOp::Read(bad(BASE, 0xdead)), TermError::READ_STAG, denied, access),
        case(SendOp::Read(bad(end, KEY)), TermError::READ_BOUNDS, denied, access),
        case(SendOp::Read(bad(BASE, KEY_READ_ONLY)), TermError::READ_ACCESS, denied, access),
        case(SendOp::FetchAdd { target: bad(BASE, KEY_READ_ONLY), add: 1 }, TermError::READ_ACCESS, denied, access),
        case(SendOp::Send, TermError::UNTAGGED_NO_BUFFER, done, Some(AsyncEvent::QpReqErr)),
        case(SendOp::WriteImm(remote(0), 5), TermError::UNTAGGED_NO_BUFFER, done, Some(AsyncEvent::QpReqErr)),
    ];
    for case in cases {
        for crc in [false, true] {
            let mut both = params();
            (both[0].crc, both[1].crc) = (crc, crc);
            let mut p = StreamPair::new(both);
            p.send(0, 1, case.op, &[sge(0, case.len)]);
            p.send(0, 2, SendOp::Read(remote(0)), &[sge(0, case.len)]);
            p.run();
            if case.error == TermError::UNTAGGED_NO_BUFFER {
                assert_eq!((p.terminate(1), p.qps[1].state()), (None, QpState::Rts));
                p.end_wait(1);
                p.run();
            }
            let terminate = p.terminate(1).unwrap_or_else(|| panic!("{:?}", case.op));
            assert_eq!(terminate.error, case.error, "{:?}", case.op);
            assert!(terminate.copied.is_some());
            assert_eq!(p.qps[0].stream_terminate(), Some(&terminate));
            let status: Vec<_> = p.worlds[0].take(SEND_CQ).iter().map(|wc| (wc.0, wc.1)).collect();
            assert_eq!(status, [(1, case.status), (2, WcStatus::WrFlushErr)], "{:?}", case.op);
            assert_eq!(p.worlds[1].events, Vec::from_iter(case.event), "{:?}", case.op);
            assert_eq!((p.qps[0].state(), p.qps[1].state()), (QpState::Err, QpState::Err));
            assert_eq!(p.phases(), [StreamPhase::Closed; 2]);
        }
    }
}

#[test]
fn answers_before_a_refused_request_are_written() {
    let add = |rkey| SendOp::FetchAdd { target: bad(BASE, rkey), add: 0 };
    for refused in [SendOp::Read(bad(BASE, 0xdead)), add(KEY_READ_ONLY)] {
        let mut p = StreamPair::new(params());
        p.send(0, 1, SendOp::Read(remote(0)), &[sge(0x1_0000, 5000)]);
        p.send(0, 2, add(KEY), &[sge(0x2_0000, 8)]);
        p.send(0, 3, refused, &[sge(0x2_0000, 8)]);
        p.send(0, 4, SendOp::Read(remote(0)), &[sge(0x2_0000, 8)]);
        p.transmit(0);
        p.deliver(1);
        assert_eq!((p.qps[1].state(), p.worlds[1].events.len()), (QpState::Rts, 0));
        p.room = 100;
        p.run();
        let status: Vec<_> = p.worlds[0].take(SEND_CQ).iter().map(|wc| (wc.0, wc.1)).collect();
        let (done, denied, flushed) = (WcStatus::Success, WcStatus::RemAccessErr, WcStatus::WrFlushErr);
        assert_eq!(status, [(1, done), (2, done), (3, denied), (4, flushed)], "{refused:?}");
        assert_eq!(p.worlds[0].memory.at(BASE + 0x1_0000, 5000), p.worlds[1].memory.at(BASE, 5000));
        assert_eq!(p.worlds[1].events, [AsyncEvent::QpAccessErr]);
        assert_eq!(p.phases(), [StreamPhase::Closed; 2]);
    }
}

#[test]
fn receives_that_do_not_fit_complete_in_error() {
    let cases = [
        (SendOp::Send, sge(0x1_0000, 4), TermError::UNTAGGED_TOO_LONG, WcStatus::LocLenErr),
        (
            SendOp::Send,
            Sge { lkey: KEY_READ_ONLY, ..sge(0x1_0000, 64) },
            TermError::DDP_CATASTROPHE,
            WcStatus::LocProtErr,
        ),
        (SendOp::SendInv(0xdead), sge(0x1_0000, 64), TermError::CANNOT_INVALIDATE, WcStatus::RemInvReqErr),
    ];
    for (op, into, error, status) in cases {
        let mut p = StreamPair::new(params());
        p.recv(1, 7, &[into]);
        p.recv(1, 8, &[into]);
        p.send(0, 1, op, &[sge(0, 8)]);
        p.run();
        assert_eq!(p.terminate(1).unwrap().error, error);
        let wcs: Vec<_> = p.worlds[1].take(RECV_CQ).iter().map(|wc| (wc.0, wc.1)).collect();
        assert_eq!(wcs, [(7, status), (8, WcStatus::WrFlushErr)]);
        assert!(p.worlds[1].events.is_empty());
    }
}

#[test]
fn local_faults_end_the_stream_after_whole_fpdus() {
    let mut p = StreamPair::new(params());
    p.recv(1, 7, &[sge(0x1_0000, 64)]);
    p.send(0, 1, SendOp::Send, &[sge(0, 8)]);
    p.send(0, 2, SendOp::Send, &[Sge { lkey: 0xdead, ..sge(0, 8) }]);
    p.send(0, 3, SendOp::Send, &[sge(0, 8)]);
    p.run();
    let status: Vec<_> = p.worlds[0].take(SEND_CQ).iter().map(|wc| (wc.0, wc.1)).collect();
    assert_eq!(status, [(1, WcStatus::Success), (2, WcStatus::LocProtErr), (3, WcStatus::WrFlushErr)]);
    assert_eq!(p.terminate(0).unwrap().error, TermError::LOCAL_CATASTROPHE);
    assert_eq!(p.worlds[1].take(RECV_CQ).len(), 1, "the first SEND arrived");
}

#[test]
fn requests_before_a_local_fault_complete_in_their_turn() {
    let key = Sge { lkey: 0xdead, ..sge(0, 8) };
    for bad in [SendOp::Send, SendOp::Read(remote(0)), SendOp::LocalInv(0xdead)] {
        let mut p = StreamPair::new(params());
        p.recv(1, 7, &[sge(0x1_0000, 64)]);
        p.send(0, 1, SendOp::Read(remote(0)), &[sge(0x2_0000, 3000)]);
        p.send(0, 2, SendOp::Send, &[sge(0, 8)]);
        p.send(0, 3, bad, if bad == SendOp::LocalInv(0xdead) { &[] } else { std::slice::from_ref(&key) });
        p.send(0, 4, SendOp::Send, &[sge(0, 8)]);
        p.room = 10;
        p.transmit(0);
        assert_eq!((p.qps[0].state(), p.worlds[0].take(SEND_CQ).len()), (QpState::Rts, 0));
        p.run();
        let status: Vec<_> = p.worlds[0].take(SEND_CQ).iter().map(|wc| (wc.0, wc.1)).collect();
        let done = WcStatus::Success;
        assert_eq!((&status[..2], status[3]), (&[(1, done), (2, done)][..], (4, WcStatus::WrFlushErr)), "{bad:?}");
        assert!(status[2].0 == 3 && ![done, WcStatus::WrFlushErr].contains(&status[2].1), "{bad:?}");
        assert_eq!(p.terminate(0).unwrap().error, TermError::LOCAL_CATASTROPHE);
        assert_eq!(p.worlds[0].memory.at(BASE + 0x2_0000, 3000), p.worlds[1].memory.at(BASE, 3000));
    }
}

#[test]
fn a_region_that_goes_while_it_is_read_ends_the_stream() {
    let mut both = params();
    (both[0].extensions, both[1].extensions) = (false, false);
    let mut p = StreamPair::new(both);
    p.worlds[1].keys.push(Region::new(0x900, 10_000, Access::all()));
    p.send(0, 1, SendOp::Read(bad(BASE, 0x900)), &[sge(0, 10_000)]);
    p.transmit(0);
    p.deliver(1);
    p.room = 3000;
    p.transmit(1);
    p.worlds[1].keys.retain(|key| key.key != 0x900);
    p.room = usize::MAX;
    p.run();
    assert_eq!(p.terminate(1).unwrap().error, TermError::READ_STAG);
    assert_eq!(p.worlds[0].take(SEND_CQ), [(1, WcStatus::RemAccessErr, 0)]);
}

#[test]
fn more_reads_than_agreed_on_are_a_fault() {
    let mut both = params();
    (both[0].ord, both[1].ird) = (3, 2);
    let mut p = StreamPair::new(both);
    for n in 0..3 {
        p.send(0, n, SendOp::Read(remote(0)), &[sge(0, 8)]);
    }
    p.transmit(0);
    p.deliver(1);
    p.transmit(1);
    assert_eq!(p.terminate(1).unwrap().error, TermError::STREAM_CATASTROPHE);
}

/// Frame 886 of the capture of siw 6.1: the TERMINATE of a READ of 0x40 bytes, whose number was 1. The buffer of its
/// answer is at 44..56.
const SIW_TERMINATE: [u8; 76] =
    *b"\x00\x46\x41\x47\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00\x00\x10\x00\x07\x00\
    \x00\x00\x41\x41\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x40\x00\x00\x00\x00\x10\x24\x75\x00\x00\x00\x55\x56\
    \x9d\xd0\x40\x00\x00\x00\x00\x40\x2d\x63\xba\x5a\x00\x00\x56\x17\x67\xf1\xa0\x00\x00\x00\x00\x00";

#[test]
fn siw_refuses_a_read_without_its_number() {
    let mut both = params();
    (both[0].extensions, both[1].extensions) = (false, false);
    let mut p = StreamPair::new(both);
    p.send(0, 1, SendOp::Read(remote(0)), &[sge(0x2000, 8)]);
    p.send(0, 2, SendOp::Read(bad(BASE, 0xdead)), &[sge(0x1000, 0x40)]);
    p.send(0, 3, SendOp::Read(bad(BASE, 0xdead)), &[sge(0x1000, 0x40)]);
    p.transmit(0);
    let mut bytes = SIW_TERMINATE;
    bytes[44..48].copy_from_slice(&sge(0x1000, 0).lkey.to_be_bytes());
    bytes[48..56].copy_from_slice(&sge(0x1000, 0).addr.to_be_bytes());
    p.inject(0, &bytes);
    let status: Vec<_> = p.worlds[0].take(SEND_CQ).iter().map(|wc| (wc.0, wc.1)).collect();
    let flushed = WcStatus::WrFlushErr;
    assert_eq!(status, [(1, flushed), (2, WcStatus::RemAccessErr), (3, flushed)]);
}

#[test]
fn siw_may_have_a_rounded_number_of_reads_outstanding() {
    for (ird, accepted) in [(3, 4), (0, 1), (4, 4)] {
        let mut both = params();
        (both[0].extensions, both[1].extensions) = (false, false);
        (both[0].ord, both[1].ird) = (accepted + 1, ird);
        let mut p = StreamPair::new(both);
        for n in 0..accepted {
            p.send(0, n.into(), SendOp::Read(remote(0)), &[sge(0, 8)]);
        }
        p.transmit(0);
        p.deliver(1);
        assert_eq!(p.qps[1].state(), QpState::Rts, "{ird}");
        p.send(0, 9, SendOp::Read(remote(0)), &[sge(0, 8)]);
        p.transmit(0);
        p.deliver(1);
        p.transmit(1);
        assert_eq!(p.terminate(1).unwrap().error, TermError::STREAM_CATASTROPHE);
    }
}

#[test]
fn malformed_segments_are_terminated() {
    let send = |queue: u8, msn: u8, offset: u8| {
        let mut header = [0; 18];
        (header[0], header[1], header[9], header[13], header[17]) = (0x41, 0x43, queue, msn, offset);
        header.to_vec()
    };
    let with = |ddp: u8, rdmap: u8| [&[ddp, rdmap][..], &[0; 16]].concat();
    let cases = [
        (send(3, 1, 0), TermError::UNTAGGED_QUEUE, true),
        (send(0, 2, 0), TermError::UNTAGGED_MSN, true),
        (send(0, 1, 1), TermError::UNTAGGED_OFFSET, true),
        (with(0x42, 0x43), TermError::UNTAGGED_VERSION, false),
        (with(0xc0, 0x40), TermError::TAGGED_VERSION, false),
        (with(0x41, 0x03), TermError::RDMAP_VERSION, false),
        (with(0x41, 0x4f), TermError::OPCODE, false),
        // A Read Response that no READ asked for.
        (with(0xc1, 0x42), TermError::DDP_CATASTROPHE, false),
    ];
    for (header, error, copies) in cases {
        let mut p = StreamPair::new(params());
        p.recv(1, 7, &[sge(0, 64)]);
        p.inject(1, &fpdu(&header));
        p.transmit(1);
        let terminate = p.terminate(1).unwrap();
        assert_eq!((terminate.error, terminate.copied.is_some()), (error, copies), "{header:02x?}");
        assert_eq!(p.worlds[1].take(RECV_CQ), [(7, WcStatus::WrFlushErr, 0)]);
    }
}

#[test]
fn a_wrong_crc_explains_a_wrong_header() {
    let mut write = vec![0xc1, 0x40];
    write.extend(0xdead_u32.to_be_bytes());
    write.extend(BASE.to_be_bytes());
    write.extend([0; 8]);
    for (crc, error) in [(true, TermError::MPA_CRC), (false, TermError::TAGGED_STAG)] {
        let mut both = params();
        both[1].crc = crc;
        let mut p = StreamPair::new(both);
        let bytes = fpdu(&write);
        let (head, tail) = bytes.split_at(20);
        p.inject(1, head);
        p.inject(1, tail);
        p.transmit(1);
        assert_eq!(p.terminate(1).map(|terminate| terminate.error), Some(error));
    }
}

#[test]
fn a_refused_segment_whose_crc_does_not_come_is_terminated() {
    let write = |opcode: u8| [&[0xff, 0x00, 0xc1, opcode][..], &0xdead_u32.to_be_bytes(), &[0; 8]].concat();
    for (opcode, error) in [(0x40, TermError::TAGGED_STAG), (0x4f, TermError::OPCODE)] {
        let mut both = params();
        both[1].crc = true;
        let mut p = StreamPair::new(both);
        p.inject(1, &write(opcode));
        assert_eq!(p.qps[1].state(), QpState::Rts);
        let deadline = p.qps[1].poll_timeout().unwrap();
        p.qps[1].handle_timeout(deadline, &mut p.worlds[1]);
        p.transmit(1);
        assert_eq!(p.terminate(1).map(|terminate| terminate.error), Some(error));
    }
}

#[test]
fn no_terminate_answers_a_terminate() {
    for (queue, msn, offset) in [(0, 1, 0), (2, 2, 0), (2, 1, 9)] {
        let mut p = StreamPair::new(params());
        let mut header = [0; 22];
        (header[0], header[1], header[9], header[13], header[17]) = (0x41, 0x47, queue, msn, offset);
        header[18..20].copy_from_slice(&[0x12, 2]);
        p.inject(1, &fpdu(&header));
        p.transmit(1);
        assert_eq!((p.terminate(1), p.qps[1].state()), (None, QpState::Err));
        assert_eq!(p.qps[1].stream_terminate().unwrap().error, TermError::UNTAGGED_NO_BUFFER);
    }
}

#[test]
fn empty_answers_without_an_end_are_refused() {
    let mut p = StreamPair::new(params());
    p.send(0, 1, SendOp::Read(remote(0)), &[sge(0x1000, 8)]);
    p.transmit(0);
    let mut response = vec![0x81, 0x42];
    response.extend(sge(0, 0).lkey.to_be_bytes());
    response.extend(sge(0x1000, 0).addr.to_be_bytes());
    p.inject(0, &fpdu(&response));
    p.transmit(0);
    assert_eq!(p.terminate(0).unwrap().error, TermError::TAGGED_BOUNDS);
}

#[test]
fn a_read_without_a_depth_fails() {
    let mut both = params();
    both[0].ord = 0;
    let mut p = StreamPair::new(both);
    let attr = QpAttr { max_rd_atomic: 4, ..p.qps[0].query() };
    p.qps[0].modify(p.now, &attr, QpAttrMask::MAX_QP_RD_ATOMIC, &mut p.worlds[0]);
    p.send(0, 1, SendOp::Read(remote(0)), &[sge(0x1000, 8)]);
    p.run();
    assert_eq!(p.worlds[0].take(SEND_CQ), [(1, WcStatus::LocQpOpErr, 0)]);
    assert_eq!(p.names(0), [("Terminate", 0)]);
}

#[test]
fn a_wrong_crc_or_marker_is_terminated() {
    for (markers, error) in [(false, TermError::MPA_CRC), (true, TermError::MPA_MARKER)] {
        let mut both = params();
        both[1] = weft_iwarp::StreamParams { crc: true, markers_in: markers, ..both[1] };
        let mut p = StreamPair::new(both);
        p.recv(1, 7, &[sge(0, 64)]);
        let bytes = [&[0, 0, 0, 12][..], &fpdu(&[0x41; 18])].concat();
        let mut send = vec![0x41, 0x43];
        send.extend([0; 16]);
        send[13] = 1;
        p.inject(1, &if markers { bytes } else { fpdu(&send) });
        p.transmit(1);
        assert_eq!(p.terminate(1).map(|terminate| terminate.error), Some(error));
    }
}
