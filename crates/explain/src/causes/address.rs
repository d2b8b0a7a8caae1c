//! The packets go to another queue pair than the peer, or are not from the one that it expects.

use crate::case::{Case, duration, is_answer};
use crate::finding::{Cause, Certainty, Finding};
use crate::names::{self, errno};
use crate::peers::Peer;
use weft_record::{Event, Fate, PacketInfo};
use weft_verbs::Gid;

/// The asynchronous event GID_CHANGE.
const GID_CHANGE: u8 = 18;

const QPN_ADVICE: &str = "exchange qp_num between the two sides anew for each connection, and set dest_qp_num to the \
                          peer's; the number changes whenever a queue pair is created";

/// Another number than the peer's.
pub fn wrong_qpn(case: &Case<'_>) -> Option<Finding> {
    if !case.is_silence() {
        return None;
    }
    let wanted = case.attributes.dest_qpn;
    let (mut evidence, mut certainty) = (Vec::new(), Certainty::Likely);
    if let Some(claimant) = case.claimant.filter(|claimant| claimant.story.id.qpn != wanted) {
        evidence.push(format!(
            "this queue pair sends to 0x{wanted:06x}; {} expects its packets, under the same address",
            claimant.describe()
        ));
        certainty = claimant.certainty();
    }
    // A queue pair that had the number and is destroyed was the right one: the peer is gone.
    if let Some(claimant) = case.claimant.filter(|_| !case.claimant_had_number) {
        let dropped = arrived_before(case, &claimant, Fate::UnknownQpn).count();
        if dropped > 0 {
            evidence.push(format!(
                "the peer's process received {dropped} of the packets and dropped them: it has no queue pair 0x{wanted:06x}"
            ));
            certainty = claimant.certainty();
        }
    }
    if let Some(peer) = case.peer.filter(|peer| peer.attributes.dest_qpn != case.qp.id.qpn) {
        let expects = peer.attributes.dest_qpn;
        evidence.push(format!("{} expects packets of queue pair 0x{expects:06x}, not of this one", peer.describe()));
        certainty = certainty.min(peer.certainty());
    }
    (!evidence.is_empty()).then(|| Finding::new(Cause::WrongQpn, certainty, evidence, QPN_ADVICE))
}

/// Returns the packets of the queue pair that the peer's process treated so before the failure.
fn arrived_before<'a>(case: &Case<'a>, peer: &Peer<'a>, wanted: Fate) -> impl Iterator<Item = PacketInfo> + use<'a> {
    let until = case.failure.at;
    peer.arrivals().filter(move |(at, _, fate)| *fate == wanted && *at <= until).map(|(_, packet, _)| packet)
}

const GID_ADVICE: &str = "check the GID that the peer sent (its sgid_index must be the row whose address this side uses), \
                          and that both sides chose rows of the same network and type; weft link and ibv_devinfo -v list \
                          the rows";

/// Another address than the peer's.
pub fn wrong_gid(case: &Case<'_>) -> Option<Finding> {
    let address = case.address.filter(|address| address.is_global && case.is_silence())?;
    let dgid = address.dgid;
    if let Some(claimant) = case.claimant.filter(|claimant| claimant.story.id.qpn == case.attributes.dest_qpn)
        && let Some(theirs) = claimant.address
    {
        let line = format!("this queue pair sends to {dgid}; {} has {}", claimant.describe(), theirs.sgid);
        return Some(Finding::new(Cause::WrongGid, claimant.certainty(), vec![line], GID_ADVICE));
    }
    if let Some(peer) = case.peer {
        let count = arrived_before(case, &peer, Fate::BadAddress).count();
        let theirs = peer.address.filter(|theirs| theirs.is_global && theirs.dgid != address.sgid)?;
        let line = format!(
            "{} expects packets from {}, and this queue pair sends from {}; it dropped {count} packets",
            peer.describe(),
            theirs.dgid,
            address.sgid
        );
        return Some(Finding::new(Cause::WrongGid, peer.certainty(), vec![line], GID_ADVICE));
    }
    // A host that answered before exists; and it may have, if the record has lost that.
    if case.heard().next().is_some() || !case.has_all_heard() {
        return None;
    }
    let mut evidence = unreachable(case, dgid);
    if evidence.is_empty() {
        return None;
    }
    evidence.push(format!("nothing was ever heard from {dgid}"));
    Some(Finding::new(Cause::WrongGid, Certainty::Likely, evidence, GID_ADVICE))
}

/// Returns the signs that no host has an address.
fn unreachable(case: &Case<'_>, dgid: Gid) -> Vec<String> {
    let mut evidence = Vec::new();
    for errors in [case.refused(), case.socket_errors()].into_iter().flatten() {
        if matches!(errors.errno, errno::EHOSTUNREACH | errno::ENETUNREACH) {
            let text = errno::text(errors.errno);
            evidence.push(format!("the kernel returned an error for {} packets to {dgid}: {text}", errors.count));
        }
    }
    if let Some((seen, _)) = case.reachability() {
        if seen.route_errno != 0 {
            evidence.push(format!("there is no route to {dgid}: {}", errno::text(seen.route_errno)));
        } else if !seen.has_neighbour && !seen.peer_is_local {
            evidence.push(format!("no host answered for {dgid}: its hardware address did not resolve"));
        }
    }
    evidence
}

const PKEY_ADVICE: &str = "give both queue pairs the index of the same partition (pkey_index; saquery -p lists them), \
                           of which at least one side must be a full member, or change the partitions of the subnet \
                           manager";

/// Different partitions.
pub fn pkey(case: &Case<'_>) -> Option<Finding> {
    if !case.is_silence() {
        return None;
    }
    let own = case.attributes.pkey;
    let (mut evidence, mut certainty) = (Vec::new(), Certainty::Likely);
    if let Some(peer) = case.peer {
        let theirs = peer.attributes.pkey;
        if !is_same_partition(own, theirs) {
            let both_limited = own & 0x7fff == theirs & 0x7fff;
            let why = if both_limited { ", and two limited members may not talk" } else { "" };
            evidence.push(format!("the P_Key is 0x{own:04x} here and 0x{theirs:04x} at {}{why}", peer.describe()));
            certainty = peer.certainty();
        }
        let dropped = arrived_before(case, &peer, Fate::BadPkey).filter(|packet| is_waited_for(case, packet));
        let count = dropped.count();
        if count > 0 {
            evidence.push(format!("the peer received the request {count} times and dropped it for its P_Key"));
            certainty = peer.certainty();
        }
    }
    let answers = own_drops(case).filter(|packet| is_answer(packet) && is_waited_for(case, packet)).count();
    if answers > 0 {
        evidence.push(format!("this queue pair dropped {answers} answers of the peer for their P_Key"));
        certainty = Certainty::Certain;
    }
    if !evidence.is_empty() {
        return Some(Finding::new(Cause::Pkey, certainty, evidence, PKEY_ADVICE));
    }
    let is_limited = own & 0x8000 == 0;
    (is_limited && case.fabric_path() == Some(false)).then(|| {
        let line =
            format!("the P_Key 0x{own:04x} is a limited member's, and the fabric's path to the peer was never open");
        Finding::new(Cause::Pkey, Certainty::Possible, vec![line], PKEY_ADVICE)
    })
}

/// Returns the packets that the queue pair dropped for their P_Key while it waited for an answer. Earlier ones did not keep
/// it from being answered.
fn own_drops(case: &Case<'_>) -> impl Iterator<Item = PacketInfo> {
    let since = case.unanswered.map_or(u64::MAX, |unanswered| unanswered.first_sent);
    case.own_records().filter(move |record| record.at >= since).filter_map(|record| match record.event {
        Event::Received(packet, Fate::BadPkey) => Some(packet),
        _ => None,
    })
}

/// Whether a packet has the PSN of the request without an answer.
fn is_waited_for(case: &Case<'_>, packet: &PacketInfo) -> bool {
    case.unanswered.is_some_and(|unanswered| unanswered.packet.psn == packet.psn)
}

fn is_same_partition(one: u16, other: u16) -> bool {
    one & 0x7fff == other & 0x7fff && (one | other) & 0x8000 != 0
}

const GONE_ADVICE: &str = "keep the address for as long as queue pairs use it, or connect anew when IBV_EVENT_GID_CHANGE \
                           comes; a DHCP client or a network manager may have taken it away";

/// An address that one of the two hosts lost.
pub fn gone(case: &Case<'_>) -> Option<Finding> {
    if !case.is_silence() {
        return None;
    }
    let sgid = case.address?.sgid;
    let mut evidence = Vec::new();
    let own_change = case.process_records().rfind(|record| is_gid_change(&record.event, case.qp.device));
    if let Some(record) = own_change {
        evidence.push(format!("IBV_EVENT_GID_CHANGE came {}", case.time(record.at)));
    }
    let lost = case.reachability().filter(|(seen, _)| !seen.source_is_local);
    if lost.is_some() {
        evidence.push(format!("{sgid} was not an address of this host any more when the retries were used up"));
    }
    if let Some(refused) = case.refused()
        && matches!(
            refused.errno,
            errno::EINVAL | errno::EADDRNOTAVAIL | errno::ENODEV | errno::ENETDOWN | errno::ENETUNREACH
        )
        && !evidence.is_empty()
    {
        evidence.push(format!("the kernel refused {} packets: {}", refused.count, errno::text(refused.errno)));
    }
    if let Some((_, is_timely)) = lost {
        let certainty = if is_timely { Certainty::Certain } else { Certainty::Likely };
        return Some(Finding::new(Cause::AddressGone, certainty, evidence, GONE_ADVICE));
    }
    if let Some(peer) = case.peer {
        let mut records = peer.process.records.iter();
        let changed = records
            .find(|record| is_gid_change(&record.event, peer.story.device) && peer.time(record.at) < case.failure.at);
        if let Some(record) = changed {
            evidence.push(format!(
                "the peer's process got {} {} before this side gave up",
                names::async_event(GID_CHANGE),
                duration(case.failure.at - peer.time(record.at))
            ));
        }
    }
    (!evidence.is_empty()).then(|| Finding::new(Cause::AddressGone, Certainty::Likely, evidence, GONE_ADVICE))
}

/// Whether an event is a change of GIDs of a device; of any if the queue pair's is not known.
fn is_gid_change(event: &Event, of: Option<u32>) -> bool {
    matches!(event, Event::Async { event: GID_CHANGE, device, .. } if of.is_none_or(|of| of == *device))
}
