//! Two sides, frames cut anywhere, and siw's frames from the captures.

use weft_verbs::Duration;

use super::*;
use crate::{FpduEvent, FpduReader, Rtr};
use weft_wire::iwarp::{Body, RtrKinds, SegmentHeader};

const NOW: Instant = Instant(1000);

fn offer() -> Offer {
    Offer { ird: 4, ord: 4, ..Offer::default() }
}

/// Moves bytes from one side to the other, `cut` at a time.
fn pass(from: &mut Negotiation, to: &mut Negotiation, cut: usize) {
    let bytes = from.transmit().to_vec();
    from.sent(bytes.len());
    for piece in bytes.chunks(cut) {
        assert_eq!(to.handle_bytes(NOW, piece), piece.len());
    }
}

/// Negotiates; returns both agreements.
fn open(initiator: Offer, responder: Offer, cut: usize) -> [StreamParams; 2] {
    let mut a = Negotiation::initiator(NOW, initiator, b"ping").unwrap();
    let mut b = Negotiation::responder(NOW, responder);
    pass(&mut a, &mut b, cut);
    assert!(matches!(b.poll_event(), Some(NegotiationEvent::Requested { .. })));
    assert_eq!(b.private_data(), b"ping");
    b.accept(NOW, responder.ird, responder.ord, b"pong").unwrap();
    pass(&mut b, &mut a, cut);
    assert_eq!(a.private_data(), b"pong");
    [a, b].map(|mut side| match side.poll_event() {
        Some(NegotiationEvent::Opened(params)) => params,
        other => panic!("{other:?}"),
    })
}

#[test]
fn both_sides_agree_on_crcs_markers_and_depths() {
    for bits in 0..32_u32 {
        let bit = |n: u32| bits >> n & 1 != 0;
        let [revision, other] = if bit(4) { [1, 2] } else { [2, 1] };
        let a = Offer { crc: bit(0), markers: bit(1), ird: 3, ord: 9, revision, ..offer() };
        let b = Offer { crc: bit(2), markers: bit(3), ird: 5, ord: 7, revision: other, ..offer() };
        let [left, right] = open(a, b, 1 + bits as usize);
        assert_eq!((left.crc, right.crc), (bit(0) || bit(2), bit(0) || bit(2)));
        assert_eq!((left.markers_in, left.markers_out), (right.markers_out, right.markers_in));
        assert_eq!((left.markers_in, right.markers_in), (bit(1), bit(3)));
        assert!(left.extensions && right.extensions);
        if revision == 2 {
            // The responder raises its IRD to the initiator's ORD, and lowers its ORD to the initiator's IRD.
            assert_eq!((right.ird, right.ord), (9, 3));
            assert!(left.ord <= right.ird && right.ord <= left.ird);
        } else {
            assert_eq!((left.ird, left.ord, right.ird, right.ord), (3, 9, 5, 7));
        }
    }
}

#[test]
fn a_responder_lets_other_initiators_send_first() {
    for revision in [1, 2] {
        for (extensions, rtr) in [(true, RtrKinds::empty()), (false, RtrKinds::empty()), (false, RtrKinds::WRITE)] {
            let [left, right] = open(Offer { extensions, rtr, revision, ..offer() }, offer(), 7);
            let peer_to_peer = revision == 2 && !rtr.is_empty();
            assert_eq!((left.yields_first, left.repeats_first), (false, !extensions));
            assert_eq!((right.yields_first, right.repeats_first), (!extensions && !peer_to_peer, false));
            assert_eq!(right.awaits_rtr, peer_to_peer);
        }
    }
}

#[test]
fn peer_to_peer_chooses_a_kind_of_first_fpdu() {
    let offers =
        [(RtrKinds::all(), Rtr::Write), (RtrKinds::READ | RtrKinds::FPDU, Rtr::Read), (RtrKinds::FPDU, Rtr::Fpdu)];
    for (rtr, chosen) in offers {
        let [left, right] = open(Offer { rtr, ord: 0, ..offer() }, offer(), 7);
        assert_eq!((left.rtr, left.awaits_rtr), (Some(chosen), false));
        assert_eq!((right.rtr, right.awaits_rtr), (None, true));
        assert_eq!(left.ord, 1, "a READ must be possible");
    }
}

/// The captured request of siw's rdma_client.
const SIW_REQUEST: &[u8] = b"MPA ID Req Frame\x10\x02\x00\x04\x00\x01\x00\x01";

#[test]
fn siw_gets_the_reply_that_siw_sends() {
    let mut side = Negotiation::responder(NOW, Offer::default());
    assert_eq!(side.handle_bytes(NOW, SIW_REQUEST), SIW_REQUEST.len());
    assert_eq!(side.poll_event(), Some(NegotiationEvent::Requested { ird: Some(1), ord: Some(1) }));
    side.accept(NOW, 1, 1, b"").unwrap();
    assert_eq!(side.transmit(), b"MPA ID Rep Frame\x10\x02\x00\x04\x00\x01\x00\x01");
}

#[test]
fn an_echo_of_the_offer_is_no_agreement_on_extensions() {
    let mut side = Negotiation::initiator(NOW, Offer::default(), b"").unwrap();
    // siw repeats the request's flags.
    let mut reply = side.transmit().to_vec();
    reply[..16].copy_from_slice(b"MPA ID Rep Frame");
    // The stream's first bytes are not the negotiation's.
    reply.extend_from_slice(b"stream");
    assert_eq!(side.handle_bytes(NOW, &reply), reply.len() - 6);
    let Some(NegotiationEvent::Opened(params)) = side.poll_event() else { panic!() };
    assert!(!params.extensions);
}

#[test]
fn a_rejection_carries_private_data() {
    let mut a = Negotiation::initiator(NOW, offer(), b"").unwrap();
    let mut b = Negotiation::responder(NOW, offer());
    pass(&mut a, &mut b, 3);
    assert_eq!(b.reject(&[0; 509]), Err(NegotiationError::PrivateData));
    b.reject(b"no").unwrap();
    assert_eq!(b.reject(b"no"), Err(NegotiationError::State));
    pass(&mut b, &mut a, 3);
    assert_eq!((a.poll_event(), a.private_data()), (Some(NegotiationEvent::Rejected), &b"no"[..]));
    assert_eq!((a.state(), b.state()), (State::Ended, State::Ended));
}

#[test]
fn deadlines_and_closed_connections_end_a_negotiation() {
    let mut side = Negotiation::initiator(NOW, offer(), b"").unwrap();
    let deadline = side.poll_timeout().unwrap();
    assert_eq!(deadline.since(NOW), Duration::from_secs(10));
    side.handle_timeout(NOW);
    assert_eq!(side.poll_event(), None);
    side.handle_timeout(deadline);
    assert_eq!(side.poll_event(), Some(NegotiationEvent::Failed(NegotiationError::Timeout)));
    assert_eq!(side.poll_timeout(), None);
    let mut side = Negotiation::responder(NOW, offer());
    assert_eq!(side.poll_timeout().unwrap().since(NOW), Duration::from_secs(5));
    side.handle_close();
    assert_eq!(side.poll_event(), Some(NegotiationEvent::Failed(NegotiationError::Closed)));
}

#[test]
fn a_peer_that_closes_without_a_reply_may_know_revision_1() {
    let cases: [(u8, &[u8], NegotiationError); 3] = [
        (2, b"", NegotiationError::ClosedWithoutReply),
        (2, b"MPA ID Rep", NegotiationError::Closed),
        (1, b"", NegotiationError::Closed),
    ];
    for (revision, bytes, error) in cases {
        let mut side = Negotiation::initiator(NOW, Offer { revision, ..offer() }, b"").unwrap();
        side.handle_bytes(NOW, bytes);
        side.handle_close();
        assert_eq!(side.poll_event(), Some(NegotiationEvent::Failed(error)));
    }
}

/// Returns the error of the only TERMINATE in some bytes.
fn terminated(bytes: &[u8], markers_in: bool) -> TermError {
    let mut reader = FpduReader::new(&StreamParams { crc: true, markers_in, ..StreamParams::default() });
    let mut input = bytes;
    let Ok(Some(FpduEvent::Header(SegmentHeader { body: Body::Terminate(_, control), .. }))) = reader.next(&mut input)
    else {
        panic!("no TERMINATE in {bytes:02x?}")
    };
    assert_eq!(reader.next(&mut input), Ok(Some(FpduEvent::End)));
    TermError { layer: control[0] >> 4, etype: control[0] & 15, code: control[1] }
}

#[test]
fn programs_may_agree_on_depths() {
    let mut side = Negotiation::responder(NOW, offer());
    side.handle_bytes(NOW, b"MPA ID Req Frame\x10\x02\x00\x04\x3f\xff\x3f\xff");
    assert_eq!(side.poll_event(), Some(NegotiationEvent::Requested { ird: None, ord: None }));
    side.accept(NOW, 5, 7, b"").unwrap();
    let Some(NegotiationEvent::Opened(params)) = side.poll_event() else { panic!() };
    assert_eq!((params.ird, params.ord), (5, 7));

    let mut side = Negotiation::initiator(NOW, Offer { ird: 5, ord: 7, ..offer() }, b"").unwrap();
    side.handle_bytes(NOW, b"MPA ID Rep Frame\x10\x02\x00\x04\x3f\xff\x3f\xff");
    let Some(NegotiationEvent::Opened(params)) = side.poll_event() else { panic!() };
    assert_eq!((params.ird, params.ord), (5, 7));
}

#[test]
fn a_first_read_needs_a_responder_that_answers_it() {
    // Peer to peer; the request of another implementation offers a READ, and asks for no depth.
    let mut side = Negotiation::responder(NOW, Offer { ird: 0, ..offer() });
    side.handle_bytes(NOW, b"MPA ID Req Frame\x10\x02\x00\x04\x80\x00\x40\x00");
    side.accept(NOW, 0, 0, b"").unwrap();
    assert_eq!(side.transmit()[20..], [0x80, 1, 0x40, 0]);

    let mut side = Negotiation::initiator(NOW, Offer { rtr: RtrKinds::READ, ..offer() }, b"").unwrap();
    side.handle_bytes(NOW, b"MPA ID Rep Frame\x10\x02\x00\x04\x80\x00\x40\x00");
    assert_eq!(side.poll_event(), Some(NegotiationEvent::Failed(NegotiationError::NoMatchingRtr)));
}

#[test]
fn an_unacceptable_reply_is_terminated() {
    let wrong_rtr = b"MPA ID Rep Frame\x50\x02\x00\x04\x80\x01\x40\x01";
    let too_deep = b"MPA ID Rep Frame\x50\x02\x00\x04\x00\x01\x1f\xff";
    let no_reply = b"HTTP/1.1 400 Bad Request";
    let old = b"MPA ID Rep Frame\x40\x01\x00\x00";
    let with_markers = b"MPA ID Rep Frame\xd0\x02\x00\x04\x80\x01\x40\x01";
    let cases: [(&[u8], NegotiationError, Option<TermError>); 5] = [
        (with_markers, NegotiationError::NoMatchingRtr, Some(TermError::MPA_RTR)),
        (wrong_rtr, NegotiationError::NoMatchingRtr, Some(TermError::MPA_RTR)),
        (too_deep, NegotiationError::InsufficientIrd, Some(TermError::MPA_IRD)),
        (no_reply, NegotiationError::NotMpa, Some(TermError::MPA_FRAME)),
        (old, NegotiationError::Revision, None),
    ];
    for (reply, error, term) in cases {
        let mut side = Negotiation::initiator(NOW, Offer { rtr: RtrKinds::WRITE, crc: true, ..offer() }, b"").unwrap();
        side.sent(side.transmit().len());
        side.handle_bytes(NOW, reply);
        assert_eq!(side.poll_event(), Some(NegotiationEvent::Failed(error)));
        assert_eq!(term, (!side.transmit().is_empty()).then(|| terminated(side.transmit(), reply[16] & 0x80 != 0)));
    }
}

#[test]
fn bytes_before_the_reply_are_a_fault() {
    let mut side = Negotiation::responder(NOW, offer());
    side.handle_bytes(NOW, SIW_REQUEST);
    side.poll_event();
    side.handle_bytes(NOW, b"x");
    assert_eq!(side.poll_event(), Some(NegotiationEvent::Failed(NegotiationError::NotMpa)));
}
