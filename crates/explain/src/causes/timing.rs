//! The answers came, but too late.

use std::collections::BTreeMap;

use crate::case::{Case, Unanswered, acknowledges, duration, is_after, is_answer};
use crate::finding::{Cause, Certainty, Finding};
use weft_record::{Fate, PacketInfo};

const ADVICE: &str = "raise timeout (4.096 µs × 2^timeout; 14 is 67 ms, 18 is 1 s) or retry_cnt (7 at most) of the queue pair, \
                      or find out why the peer answers slowly";

/// Acknowledgements come later than the timeout and its retries allow.
pub fn short_timeout(case: &Case<'_>) -> Option<Finding> {
    let timeout = case.timeout().filter(|_| case.is_silence())?;
    let unanswered = case.unanswered?;
    let attributes = case.attributes;
    let waited = case.failure.at.saturating_sub(unanswered.first_sent);
    let mut evidence = vec![format!(
        "timeout is {} ({}), retry_cnt {}: PSN {} was given up {} after it was sent first",
        attributes.timeout,
        duration(timeout),
        attributes.retry_cnt,
        unanswered.packet.psn,
        duration(waited)
    )];
    let psn = unanswered.packet.psn;
    let mut certainty = None;
    let late = case.qp.received().find(|(at, packet)| *at > case.failure.at && answers(packet, psn));
    if let Some((at, packet)) = late {
        let after = at - case.failure.at;
        evidence.push(format!("its answer, with PSN {}, arrived {} after that", packet.psn, duration(after)));
        certainty = Some(Certainty::Certain);
    }
    if let Some((line, how_sure)) = late_arrival(case, &unanswered) {
        evidence.push(line);
        certainty = certainty.or(Some(how_sure));
    }
    if let Some(certainty) = certainty {
        return Some(Finding::new(Cause::ShortTimeout, certainty, evidence, ADVICE));
    }
    let slowest = answer_times(case).max()?;
    // A single slow answer, such as the first one on a busy machine, says nothing of a peer that is silent for longer.
    if slowest > waited {
        evidence.push(format!("earlier answers took up to {}, longer than that", duration(slowest)));
        return Some(Finding::new(Cause::ShortTimeout, Certainty::Likely, evidence, ADVICE));
    }
    None
}

/// The peer received the request only after this side had given it up, or its answer was still on the way.
fn late_arrival(case: &Case<'_>, unanswered: &Unanswered) -> Option<(String, Certainty)> {
    let request = &unanswered.packet;
    // A record that has lost earlier arrivals does not show the first one.
    let peer = case.peer.filter(|peer| peer.has_arrivals_since(unanswered.first_sent))?;
    let gave_up = case.failure.at;
    let arrived = peer.arrivals().filter(|(at, packet, fate)| {
        let is_request = packet.psn == request.psn && packet.opcode == request.opcode;
        *fate == Fate::Delivered && is_request && *at >= unanswered.first_sent
    });
    let (first, ..) = arrived.min_by_key(|(at, ..)| *at)?;
    (first > gave_up).then(|| {
        let after = duration(first - gave_up);
        let line = format!("the peer received PSN {} only {after} after this side had given it up", request.psn);
        (line, peer.certainty())
    })
}

/// Whether a packet answers a request: it refuses its PSN, or acknowledges that or a later one.
fn answers(packet: &PacketInfo, psn: u32) -> bool {
    is_answer(packet) && (packet.psn == psn || acknowledges(packet) && is_after(packet.psn, psn))
}

/// Returns how long the answers took that came in time: from the first transmission of a PSN to its acknowledgement.
fn answer_times(case: &Case<'_>) -> impl Iterator<Item = u64> {
    let mut sent = BTreeMap::new();
    for (at, request) in case.qp.sent().filter(|(_, packet)| !is_answer(packet)) {
        sent.entry(request.psn).or_insert(at);
    }
    let answers = case.heard().filter(|(_, packet)| is_answer(packet));
    answers.filter_map(move |(at, answer)| at.checked_sub(*sent.get(&answer.psn)?))
}
