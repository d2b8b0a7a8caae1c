//! The network said itself that it does not carry the packets.

use crate::case::Case;
use crate::finding::{Cause, Certainty, Finding};
use crate::names::{self, errno};
use weft_record::{Event, Record};

/// The asynchronous events PORT_ACTIVE and PORT_ERR.
const PORT_ACTIVE: u8 = 9;
const PORT_ERR: u8 = 10;

/// Remedy for filtered packets.
pub const FIREWALL_ADVICE: &str = "let UDP port 4791 pass in both directions on both hosts and on the way between them: \
                                   nft list ruleset, iptables -L -v and the security groups of a cloud show what drops it";

/// A packet filter refused packets.
pub fn firewall(case: &Case<'_>) -> Option<Finding> {
    let refused = case.refused().filter(|_| case.is_silence())?;
    matches!(refused.errno, errno::EPERM | errno::EACCES).then(|| {
        let line = format!("sendmsg failed for {} packets: {}", refused.count, errno::text(refused.errno));
        Finding::new(Cause::Firewall, refused.certainty(), vec![line], FIREWALL_ADVICE)
    })
}

const CABLE_ADVICE: &str = "check the link: cable, port and switch. weft cable and iblinkinfo show the links of a fabric, \
                            ibqueryerrors their errors, weft diagnose the whole of it; on Ethernet ip link shows whether \
                            the interface has a carrier";

/// A link of the path went down.
pub fn cable(case: &Case<'_>) -> Option<Finding> {
    if !case.is_silence() {
        return None;
    }
    let (mut evidence, mut certainty) = (Vec::new(), Certainty::Likely);
    if let Some(at) = port_down(case.process_records(), case.qp.device, case.attributes.port) {
        evidence.push(format!("the port of this side went down ({}) {}", names::async_event(PORT_ERR), case.time(at)));
        certainty = known_device(case.qp.device);
    }
    if let Some(peer) = case.peer {
        let until = case.failure.at;
        let records = peer.process.records.iter().filter(|record| peer.time(record.at) <= until);
        if port_down(records, peer.story.device, peer.attributes.port).is_some() {
            evidence.push(format!("the port of {} went down ({})", peer.describe(), names::async_event(PORT_ERR)));
            certainty = certainty.min(known_device(peer.story.device).max(peer.certainty()));
        }
    }
    if !evidence.is_empty() {
        return Some(Finding::new(Cause::Cable, certainty, evidence, CABLE_ADVICE));
    }
    if let Some(refused) = case.refused().filter(|refused| refused.errno == errno::ENETDOWN) {
        evidence.push(format!("the kernel refused {} packets: {}", refused.count, errno::text(refused.errno)));
        return Some(Finding::new(Cause::Cable, refused.certainty(), evidence, CABLE_ADVICE));
    }
    fabric_path(case)
}

/// Events of a device that may be another one prove nothing.
fn known_device(device: Option<u32>) -> Certainty {
    if device.is_some() { Certainty::Certain } else { Certainty::Likely }
}

/// Returns when a port of a device went down, if it was down after these records.
fn port_down<'a>(records: impl DoubleEndedIterator<Item = &'a Record>, of: Option<u32>, own_port: u8) -> Option<u64> {
    let last = records.rev().find_map(|record| match record.event {
        Event::Async { event: event @ (PORT_ACTIVE | PORT_ERR), port, device }
            if port == own_port && of.is_none_or(|of| of == device) =>
        {
            Some((event, record.at))
        }
        _ => None,
    })?;
    (last.0 == PORT_ERR).then_some(last.1)
}

/// The fabric knows the path between two ports to be closed.
fn fabric_path(case: &Case<'_>) -> Option<Finding> {
    let was_open = case.fabric_path()?;
    let last = case.own_records().rev().find_map(|record| match record.event {
        Event::FabricPath { open } => Some((open, record.at)),
        _ => None,
    });
    let (_, at) = last.filter(|(open, _)| !open)?;
    let dlid = case.address.map_or(0, |address| address.dlid);
    let (certainty, line) = match was_open {
        true => (Certainty::Certain, format!("the fabric's path to LID {dlid} was open, and closed {}", case.time(at))),
        false => (
            Certainty::Possible,
            format!(
                "the fabric's path to LID {dlid} was closed from the start: a link is down, no route leads there, or the \
                 P_Key 0x{:04x} is not the peer's",
                case.attributes.pkey
            ),
        ),
    };
    Some(Finding::new(Cause::Cable, certainty, vec![line], CABLE_ADVICE))
}
