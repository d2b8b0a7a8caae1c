//! No answer came, and no layer below said why.

use std::collections::BTreeSet;

use crate::case::{Case, Unanswered, duration, is_answer};
use crate::finding::{Cause, Certainty, Finding};
use crate::names::errno;
use crate::peers::Peer;
use crate::recording::Life;
use weft_record::{Event, Fate, PacketInfo, PathKind, Record};

/// `IBV_QPS_RTR`.
const RTR: u8 = 2;

const PEER_ADVICE: &str = "look at the end of the peer's program: its exit status, a core file, the kernel's log (out of \
                           memory); connect anew once it runs again";

/// The peer's process or queue pair ended.
pub fn peer_gone(case: &Case<'_>) -> Option<Finding> {
    if !case.is_silence() {
        return None;
    }
    if let Some((line, certainty)) = case.peer.and_then(|peer| end_of(case, &peer)) {
        return Some(Finding::new(Cause::PeerGone, certainty, vec![line], PEER_ADVICE));
    }
    if let Some(at) = daemon_said_gone(case) {
        let line = format!("the daemon said that the peer's process ended, {}", case.time(at));
        return Some(Finding::new(Cause::PeerGone, Certainty::Certain, vec![line], PEER_ADVICE));
    }
    let errors = case.socket_errors()?;
    (errors.errno == errno::ECONNREFUSED).then(|| {
        let line = format!("the peer's host refused packets ({} times): {}", errors.count, errno::text(errors.errno));
        Finding::new(Cause::PeerGone, Certainty::Likely, vec![line], PEER_ADVICE)
    })
}

/// Bits of a queue pair number below the process's slot.
const SLOT_SHIFT: u32 = 14;

/// Returns when the daemon said that the peer's process ended. Slots are those of one host, and the next process gets a
/// slot that is free: the first end after the connection is the peer's.
fn daemon_said_gone(case: &Case<'_>) -> Option<u64> {
    if case.qp.path != PathKind::SameHost {
        return None;
    }
    let connected = |record: &&Record| matches!(record.event, Event::State { to: RTR, .. });
    let since = case.own_records().rfind(connected)?.at;
    let peer_slot = case.attributes.dest_qpn >> SLOT_SHIFT;
    case.process_records().find_map(|record| match record.event {
        Event::PeerGone { slot, .. } if slot == peer_slot && record.at >= since => Some(record.at),
        _ => None,
    })
}

/// Returns the time by which the peer had to be there, to answer: that of the last transmission.
fn asked_at(case: &Case<'_>) -> u64 {
    case.unanswered.map_or(case.failure.at, |unanswered| unanswered.last_sent)
}

/// Returns how the peer ended before it could answer the request, if it did, and how sure that is.
fn end_of(case: &Case<'_>, peer: &Peer<'_>) -> Option<(String, Certainty)> {
    let asked_at = asked_at(case);
    let process = peer.process;
    let earlier = |at: Option<u64>| at.map(|at| peer.time(at)).filter(|at| *at < asked_at);
    let until = |at: u64| format!("{} before the last retransmission", duration(asked_at - at));
    if let Some(at) = earlier(peer.story.end()) {
        return Some((format!("{} was destroyed or reset {}", peer.describe(), until(at)), peer.certainty()));
    }
    if let Some(at) = earlier(process.ended) {
        return Some((format!("process {} ended {}", process.pid, until(at)), peer.certainty()));
    }
    if let Some(killed) = process.killed {
        let at = earlier(Some(killed.at))?;
        let line = format!("process {} was killed by signal {} {}", process.pid, killed.signal, until(at));
        return Some((line, peer.certainty()));
    }
    // A process that lives records what arrives, also after its program has stopped.
    let is_dead = process.life == Life::Ended && process.records_end && process.ended.is_none();
    let last = peer.last_sign();
    (is_dead && last < asked_at).then(|| {
        let line = format!(
            "process {} ended without an exit (killed, crashed, or by _exit); its last record came {}",
            process.pid,
            until(last)
        );
        (line, Certainty::Likely)
    })
}

/// Remedy for packets of the wrong length.
pub const MTU_ADVICE: &str = "set the same path_mtu on both sides, not above what every link between them carries: on \
                              Ethernet path_mtu plus some 60 bytes of headers must fit the MTU of each interface \
                              (ping -M do -s SIZE finds it)";

/// Short packets were answered, and long ones never.
pub fn mtu(case: &Case<'_>) -> Option<Finding> {
    if !case.is_silence() {
        return None;
    }
    let own = case.attributes.mtu;
    if let Some(refused) = case.refused().filter(|refused| refused.errno == errno::EMSGSIZE) {
        let text = errno::text(refused.errno);
        let line = format!("the kernel refused {} packets: {text}; path_mtu is {own}", refused.count);
        return Some(Finding::new(Cause::Mtu, refused.certainty(), vec![line], MTU_ADVICE));
    }
    let lost = case.unanswered?;
    let longest = longest_answered(case);
    let theirs = case.peer.map(|peer| peer.attributes.mtu).filter(|mtu| *mtu != 0 && *mtu != own);
    let is_long = lost.packet.bytes > CARRIED_BYTES && longest.is_some_and(|longest| longest < lost.packet.bytes);
    let has_arrived = case.peer.is_some_and(|peer| arrived(&peer, lost.packet.psn));
    if has_arrived || !is_long {
        return None;
    }
    let mut evidence = vec![format!(
        "packets with up to {} bytes of payload were answered; PSN {} with {} bytes never was",
        longest.unwrap_or(0),
        lost.packet.psn,
        lost.packet.bytes
    )];
    evidence.extend(theirs.map(|theirs| format!("path_mtu is {own} here and {theirs} at the peer")));
    let mut certainty = Certainty::Possible;
    if case.heard().any(|(at, _)| at > lost.first_sent) {
        evidence.push("other packets of the peer arrived meanwhile".to_owned());
        certainty = Certainty::Likely;
    }
    if let Some(peer) = case.peer.filter(|peer| would_have_recorded(case, peer, &lost)) {
        evidence.push(format!("{} did not receive PSN {}", peer.describe(), lost.packet.psn));
        certainty = Certainty::Likely;
    }
    Some(Finding::new(Cause::Mtu, certainty, evidence, MTU_ADVICE))
}

/// Bytes of payload that every path carries: each link of IPv6 has an MTU of 1280 bytes or more, less the headers.
const CARRIED_BYTES: u32 = 1280 - 80;

/// Returns the payload of the longest request that the peer answered.
fn longest_answered(case: &Case<'_>) -> Option<u32> {
    let answers = case.heard().map(|(_, packet)| packet).filter(is_answer);
    let answered: BTreeSet<u32> = answers.map(|packet| packet.psn).collect();
    let requests = case.qp.sent().map(|(_, packet)| packet).filter(|packet| !is_answer(packet));
    requests.filter(|packet| answered.contains(&packet.psn)).map(|packet| packet.bytes).max()
}

/// Whether the peer's process received a packet of this PSN.
fn arrived(peer: &Peer<'_>, psn: u32) -> bool {
    peer.arrivals().any(|(_, packet, _)| packet.psn == psn)
}

/// Whether the peer's process was there for the whole time, with the queue pair that this side sends to.
fn was_there(case: &Case<'_>, peer: &Peer<'_>) -> bool {
    let is_mutual = peer.attributes.dest_qpn == case.qp.id.qpn;
    // An end that is known came later, or `end_of` returns it.
    let process = peer.process;
    let is_end_known = process.life == Life::Running || process.ended.is_some() || process.killed.is_some();
    is_mutual && end_of(case, peer).is_none() && (is_end_known || peer.last_sign() >= asked_at(case))
}

/// Whether the peer's record would have the request, had it arrived: the process was there, and its record has all that
/// arrived since.
fn would_have_recorded(case: &Case<'_>, peer: &Peer<'_>, lost: &Unanswered) -> bool {
    was_there(case, peer) && peer.has_arrivals_since(lost.first_sent)
}

/// Packets left here, and the peer, which was there, received none of them.
pub fn lost_on_the_way(case: &Case<'_>) -> Option<Finding> {
    let unanswered = case.unanswered.filter(|_| case.is_silence())?;
    let peer = case.peer.filter(|peer| would_have_recorded(case, peer, &unanswered))?;
    let psn = unanswered.packet.psn;
    if arrived(&peer, psn) {
        return None;
    }
    let mut evidence = vec![
        format!("PSN {psn} left {} times; {} received it never", unanswered.attempts, peer.describe()),
        "numbers, addresses and P_Keys of the two sides agree, and the peer's process was there".to_owned(),
    ];
    if peer.arrivals().next().is_some() {
        evidence.push("earlier packets arrived".to_owned());
    } else if peer.has_arrivals_since(case.qp.start()) {
        evidence.push("no packet ever arrived".to_owned());
    } else {
        evidence.push("the peer's record no longer reaches back to earlier packets".to_owned());
    }
    Some(on_the_way(case, evidence))
}

/// The peer answered, and the answers did not arrive here.
pub fn answers_lost(case: &Case<'_>) -> Option<Finding> {
    let unanswered = case.unanswered.filter(|_| case.is_silence())?;
    let peer = case.peer.filter(|peer| was_there(case, peer))?;
    let psn = unanswered.packet.psn;
    let gave_up = case.failure.at;
    let is_request = |packet: &PacketInfo| packet.psn == psn && !is_answer(packet);
    let is_wanted = |packet: &PacketInfo| packet.psn == psn && is_answer(packet);
    let received =
        peer.arrivals().filter(|(at, packet, fate)| *fate == Fate::Delivered && is_request(packet) && *at < gave_up);
    let received = received.count();
    let answers = peer.story.sent().filter(|(at, packet)| is_wanted(packet) && peer.time(*at) < gave_up).count();
    if received == 0 || answers == 0 || case.heard().any(|(_, packet)| is_wanted(&packet)) {
        return None;
    }
    let line =
        format!("the peer received PSN {psn} {received} times and answered {answers} times; no answer arrived here");
    Some(on_the_way(case, vec![line]))
}

/// The network between two hosts lost packets, and did not say so.
fn on_the_way(case: &Case<'_>, evidence: Vec<String>) -> Finding {
    match case.on_fabric() {
        true => Finding::new(
            Cause::Cable,
            Certainty::Likely,
            evidence,
            "check the links of the path: ibtracert, weft diagnose",
        ),
        false => Finding::new(Cause::Firewall, Certainty::Likely, evidence, super::network::FIREWALL_ADVICE),
    }
}

/// Answers came until the end, but not to every packet.
pub fn loss(case: &Case<'_>) -> Option<Finding> {
    let unanswered = case.unanswered.filter(|_| case.is_silence())?;
    let after = case.heard().filter(|(at, _)| *at > unanswered.first_sent).count();
    let retransmits = case.qp.count("retransmits");
    (after > 0 && retransmits > 0).then(|| {
        let line = format!(
            "{after} packets of the peer arrived while PSN {} waited for its answer; {retransmits} packets were \
             retransmitted",
            unanswered.packet.psn
        );
        let advice = "look for the lossy link: error counters of the interfaces (ethtool -S), switch drops, a queue without \
                      flow control";
        Finding::new(Cause::Loss, Certainty::Likely, vec![line], advice)
    })
}

/// The causes that the record of one side cannot tell apart, the most frequent first.
pub fn candidates(case: &Case<'_>) -> Vec<Finding> {
    let heard = case.heard().last();
    let line = match (heard, case.has_no_packets()) {
        (_, true) => {
            "the two processes exchange data through memory, so that there are no packets to look at".to_owned()
        }
        (Some((at, _)), _) => {
            let before = case.failure.at.saturating_sub(at);
            format!("the peer was last heard {} before this side gave up, and never after that", duration(before))
        }
        (None, _) if !case.has_all_heard() => {
            "the record no longer reaches back to the connection's start; since then nothing was heard".to_owned()
        }
        (None, _) => "nothing was ever heard from the peer".to_owned(),
    };
    let mut evidence = vec![line];
    if case.peer.is_some_and(|peer| !peer.has_arrivals_since(asked_at(case))) {
        evidence.push("the peer's record no longer reaches back to the request".to_owned());
    }
    if case.reachability().is_some_and(|(seen, _)| seen.has_neighbour && seen.route_errno == 0) {
        evidence.push("the kernel has a route to the peer's address, and the next hop answers".to_owned());
    }
    let possible = |cause, advice| Finding::new(cause, Certainty::Possible, evidence.clone(), advice);
    let link = if case.on_fabric() { Cause::Cable } else { Cause::Firewall };
    let way = possible(
        link,
        "record the peer, too (weft record there, weft explain with both files): it shows whether the \
                              packets arrived",
    );
    let gone = possible(Cause::PeerGone, PEER_ADVICE);
    if heard.is_some() || case.has_no_packets() {
        return vec![gone, way];
    }
    let number = possible(Cause::WrongQpn, "compare dest_qp_num with the peer's qp_num");
    let address = possible(Cause::WrongGid, "compare the path's dgid with the peer's GID");
    match case.on_fabric() {
        true => vec![possible(Cause::Pkey, "compare the P_Keys of the two sides"), way, number, gone],
        false => vec![way, address, number, gone],
    }
}
