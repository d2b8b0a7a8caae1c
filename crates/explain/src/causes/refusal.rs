//! The peer answered, and refused; or the request was wrong from the start.

use weft_wire::aeth::{NakCode, Syndrome};

use crate::case::{Case, duration};
use crate::finding::{Cause, Certainty, Finding};
use crate::names;
use weft_record::PacketInfo;
use weft_record::layout::Section;

/// `IBV_WC_REM_INV_REQ_ERR`.
const REM_INV_REQ_ERR: u8 = 9;
/// `IBV_WC_RNR_RETRY_EXC_ERR`.
const RNR_RETRY_EXC_ERR: u8 = 13;

/// The peer had no receive posted, until the retries for that were used up.
pub fn receiver_not_ready(case: &Case<'_>) -> Option<Finding> {
    if case.status() != RNR_RETRY_EXC_ERR {
        return None;
    }
    let naks = case.qp.count("rnr_naks_received");
    let has_all = case.process.reaches_back(Section::Trouble, case.qp.start());
    let at_least = if has_all { "" } else { "at least " };
    let mut evidence =
        vec![format!("the peer sent {at_least}{naks} RNR NAKs; rnr_retry is {}", case.attributes.rnr_retry)];
    let timer = case.heard().filter_map(|(_, packet)| match Syndrome::from_byte(packet.syndrome?) {
        Syndrome::RnrNak(code) => Some(weft_wire::aeth::rnr_delay_us(code)),
        _ => None,
    });
    if let Some(delay_us) = timer.last() {
        let wait = u64::from(delay_us) * 1000;
        evidence.push(format!("the NAKs asked to wait for {} each", duration(wait)));
    }
    if let Some(peer) = case.peer {
        let (_, recvs) = peer.story.posted();
        let noun = if recvs == 1 { "receive" } else { "receives" };
        evidence.push(match peer.process.reaches_back(Section::Traffic, peer.story.start()) {
            true => format!("{} posted {recvs} {noun} in all", peer.describe()),
            false => format!("the record of {} no longer reaches back to all its posts", peer.describe()),
        });
    }
    Some(Finding::new(
        Cause::ReceiverNotReady,
        Certainty::Certain,
        evidence,
        "post receives on the peer before this side sends, and as many as it sends; set rnr_retry to 7 (unlimited) if \
         the peer may be slow, or a longer min_rnr_timer on the peer",
    ))
}

/// Returns the last negative acknowledgement with this code.
fn nak(case: &Case<'_>, wanted: NakCode) -> Option<PacketInfo> {
    let is_it =
        |packet: &PacketInfo| packet.syndrome.is_some_and(|byte| Syndrome::from_byte(byte) == Syndrome::Nak(wanted));
    case.qp.received().map(|(_, packet)| packet).filter(is_it).last()
}

/// The peer refused a packet whose length does not fit its path MTU (IBA 9.7.4.1.6).
pub fn mtu_refused(case: &Case<'_>) -> Option<Finding> {
    if case.status() != REM_INV_REQ_ERR {
        return None;
    }
    let own = case.attributes.mtu;
    let peers = case.peer.map(|peer| peer.attributes.mtu).filter(|mtu| *mtu != 0 && *mtu != own);
    let refused = nak(case, NakCode::INVALID_REQUEST)?;
    let request = case.qp.sent().map(|(_, packet)| packet).find(|packet| packet.psn == refused.psn)?;
    let is_full = request.bytes == u32::from(own);
    if !is_full && peers.is_none() {
        return None;
    }
    let mut evidence = vec![format!(
        "the peer refused PSN {} ({}, {} bytes of payload) as an invalid request",
        request.psn,
        names::opcode(request.opcode),
        request.bytes
    )];
    let certainty = match peers {
        Some(theirs) => {
            evidence.push(format!("path_mtu is {own} here and {theirs} at the peer"));
            Certainty::Certain
        }
        None => {
            evidence.push(format!("that is a whole path_mtu ({own}); the peer's path_mtu is not in the record"));
            Certainty::Likely
        }
    };
    Some(Finding::new(Cause::Mtu, certainty, evidence, super::silence::MTU_ADVICE))
}

/// Statuses that name their cause: value, cause, explanation, remedy.
const BY_STATUS: &[(u8, Cause, &str, &str)] = &[
    (
        1,
        Cause::LocalRequest,
        "a message was longer than the buffer of its receive, or than the port allows",
        "post receives as long as the longest message of the peer",
    ),
    (2, Cause::LocalRequest, "the request does not fit the queue pair", "check opcode, flags and gather list"),
    (
        4,
        Cause::LocalRequest,
        "the gather list names memory that its L_Key does not cover",
        "check addresses, lengths and lkey of the gather list, and that the region is still registered",
    ),
    (6, Cause::LocalRequest, "the memory window could not be bound", "check the bind's region, range and rights"),
    (7, Cause::InvalidRequest, "the peer's response does not fit the request", "check the peer's adapter"),
    (8, Cause::LocalRequest, "the memory of a receive or READ may not be written", "register it with LOCAL_WRITE"),
    (
        REM_INV_REQ_ERR,
        Cause::InvalidRequest,
        "the peer refused the request as invalid",
        "check that the peer's queue pair allows the operation (qp_access_flags, max_dest_rd_atomic), that its receive \
         buffers are long enough, and that path_mtu is the same on both sides",
    ),
    (
        10,
        Cause::RemoteAccess,
        "the peer's memory does not allow the access",
        "check rkey, address and length against the peer's region, its access flags (REMOTE_READ, REMOTE_WRITE, \
         REMOTE_ATOMIC) and those of its queue pair, and that the region is still registered",
    ),
    (11, Cause::RemoteOperation, "the peer could not carry out the request", "look at the peer's own errors"),
];

/// A status that tells its cause.
pub fn by_status(case: &Case<'_>) -> Option<Finding> {
    if mtu_refused(case).is_some() {
        return None;
    }
    let (_, cause, meaning, advice) = BY_STATUS.iter().find(|(status, ..)| *status == case.status())?;
    let mut evidence = vec![format!("{}: {meaning}", names::status(case.status()))];
    let refusals = case.qp.received().map(|(_, packet)| packet).filter(|packet| {
        packet.syndrome.is_some_and(|byte| match Syndrome::from_byte(byte) {
            Syndrome::Nak(code) => code != NakCode::PSN_SEQUENCE,
            _ => false,
        })
    });
    if let Some(refusal) = refusals.last() {
        let request = case.qp.sent().map(|(_, packet)| packet).find(|packet| packet.psn == refusal.psn);
        let what = request.map_or_else(String::new, |packet| {
            format!(", which answers {} with {} bytes", names::opcode(packet.opcode), packet.bytes)
        });
        let meaning = names::syndrome(refusal.syndrome.unwrap_or_default());
        evidence.push(format!("the peer sent {meaning} for PSN {}{what}", refusal.psn));
    }
    Some(Finding::new(*cause, Certainty::Certain, evidence, advice))
}
