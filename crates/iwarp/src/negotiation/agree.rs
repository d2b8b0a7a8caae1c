//! The agreement of two frames: CRCs, markers, depths of READs, the first FPDU, extensions.

use weft_wire::iwarp::{Body, Enhanced, MpaFlags, Queue, RdmapOpcode, SegmentHeader, TermError, Terminate, Untagged};

use super::offer::{NegotiationError, Offer, PeerFrame};
use crate::limits::DEPTH_MAX;
use crate::{FpduSink, FpduWriter, Rtr, StreamParams};

/// Returns the flags of a side's own wishes.
pub(super) fn wishes(offer: &Offer) -> MpaFlags {
    let mut flags = MpaFlags::empty();
    flags.set(MpaFlags::MARKERS, offer.markers);
    flags.set(MpaFlags::CRC, offer.crc);
    flags
}

/// Returns depths and flags of a request.
pub(super) fn request(offer: &Offer) -> Enhanced {
    let peer_to_peer = !offer.rtr.is_empty();
    // The first FPDU may be a READ.
    let ord = if peer_to_peer { offer.ord.max(1) } else { offer.ord };
    Enhanced { ird: offer.ird, ord, peer_to_peer, rtr: offer.rtr }
}

/// Agrees as the responder; returns what the reply says of depths. The responder's IRD covers what the initiator asks
/// for, within the limit, and its ORD is what the initiator answers (RFC 6581 §9.1).
pub(super) fn as_responder(offer: &Offer, peer: &PeerFrame) -> (StreamParams, Option<Enhanced>) {
    let mut params = common(offer, peer);
    params.extensions = offer.extensions && peer.flags.contains(MpaFlags::OFFERS_EXTENSIONS);
    params.yields_first = !params.extensions;
    let Some(asked) = peer.enhanced else { return (params, None) };
    // As siw: a WRITE if the request names no kind.
    let rtr = asked.peer_to_peer.then(|| Rtr::choose(asked.rtr).unwrap_or(Rtr::Write));
    let first_read = u16::from(rtr == Some(Rtr::Read));
    params.ird = offer.ird.max(known(asked.ord).unwrap_or(0)).max(first_read).min(DEPTH_MAX);
    params.ord = offer.ord.min(known(asked.ird).unwrap_or(DEPTH_MAX)).min(DEPTH_MAX);
    params.awaits_rtr = rtr.is_some();
    params.yields_first &= rtr.is_none();
    let reply = Enhanced {
        ird: params.ird,
        ord: params.ord,
        peer_to_peer: rtr.is_some(),
        rtr: rtr.map(Rtr::kind).unwrap_or_default(),
    };
    (params, Some(reply))
}

/// Agrees as the initiator. An error may ask for a TERMINATE (RFC 6581 §8).
pub(super) fn as_initiator(
    offer: &Offer,
    peer: &PeerFrame,
) -> Result<StreamParams, (NegotiationError, Option<TermError>)> {
    let mut params = common(offer, peer);
    params.extensions = offer.extensions && peer.flags.contains(MpaFlags::TAKES_EXTENSIONS);
    params.repeats_first = !params.extensions;
    if offer.revision < 2 {
        return Ok(params);
    }
    let Some(reply) = peer.enhanced.filter(|_| peer.revision >= 2) else {
        return Err((NegotiationError::Revision, None));
    };
    let (ird, ord) = (known(reply.ird).unwrap_or(DEPTH_MAX), known(reply.ord).unwrap_or(0));
    if ord > offer.ird.max(DEPTH_MAX) {
        return Err((NegotiationError::InsufficientIrd, Some(TermError::MPA_IRD)));
    }
    params.ird = ord.max(offer.ird).min(DEPTH_MAX);
    params.ord = request(offer).ord.min(ird).min(DEPTH_MAX);
    if !offer.rtr.is_empty() {
        // A first READ needs a peer that answers one.
        let chosen = Rtr::choose(reply.rtr & offer.rtr).filter(|rtr| *rtr != Rtr::Read || ird != 0);
        params.rtr = Some(chosen.ok_or((NegotiationError::NoMatchingRtr, Some(TermError::MPA_RTR)))?);
    }
    Ok(params)
}

/// Returns a depth of the peer; `None` if the programs agree on it.
pub(super) fn known(depth: u16) -> Option<u16> {
    (depth != Enhanced::DEPTH_MAX).then_some(depth)
}

fn common(offer: &Offer, peer: &PeerFrame) -> StreamParams {
    StreamParams {
        crc: offer.crc || peer.flags.contains(MpaFlags::CRC),
        markers_in: offer.markers,
        markers_out: peer.flags.contains(MpaFlags::MARKERS),
        ird: offer.ird.min(DEPTH_MAX),
        ord: offer.ord.min(DEPTH_MAX),
        ..StreamParams::default()
    }
}

/// Appends the FPDU of a TERMINATE, the first of its stream, as the peer's frame asks for it.
pub(super) fn terminate(error: TermError, offer: &Offer, peer: &PeerFrame, out: &mut Vec<u8>) {
    struct Control<'a>(&'a mut Vec<u8>);
    impl FpduSink for Control<'_> {
        fn control(&mut self, bytes: &[u8]) {
            self.0.extend_from_slice(bytes);
        }
        fn payload(&mut self, _: u32, _: u32) {}
        fn checksum(&mut self, crc: u32, _: u32, _: u32) -> u32 {
            crc
        }
    }
    let (control, _) = Terminate { error, copied: None }.parts();
    let body = Body::Terminate(Untagged::new(Queue::TERMINATE, 1, 0, 0), control);
    let header = SegmentHeader::new(RdmapOpcode::TERMINATE, true, body).write();
    FpduWriter::new(&common(offer, peer)).write(header.as_slice(), 0, &mut Control(out));
}
