//! Stories and causes as text and JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::case::{Case, Failure, duration, is_answer};
use crate::finding::{Certainty, Finding};
use crate::names;
use crate::recording::{Life, Recording};
use crate::story::QpStory;
use weft_record::counters;
use weft_record::{Event, Fate, Operation, PacketInfo, PathKind, Record, RequestInfo};

/// Maximum number of lines of a story, unless all packets are asked for.
const LINES_MAX: usize = 60;
/// `IBV_WC_WR_FLUSH_ERR`.
const WR_FLUSH_ERR: u8 = 5;

/// Returns the story of a queue pair, with the causes of its failure. `packets` lists every post, packet and completion.
pub fn text(qp: &QpStory, process: &Recording, findings: Option<&[Finding]>, packets: bool) -> String {
    let mut out = heading(qp, process);
    for line in timeline(qp, packets) {
        let _ = writeln!(out, "  {line}");
    }
    out += &sums(qp);
    if let Some(failure) = Failure::of(qp) {
        out += &ending(qp, &failure);
    }
    if let Some(findings) = findings {
        out += &causes(findings);
    }
    out
}

fn heading(qp: &QpStory, process: &Recording) -> String {
    let kind = names::qp_type(qp.qp_type.unwrap_or_default());
    let (Recording { pid, host, .. }, program) = (process, process.program_in_short());
    let mut out = format!("{kind} 0x{:06x} of process {pid} on {host}: {program}\n", qp.id.qpn);
    let at = shown_at(qp);
    if let Some(address) = qp.address_at(at) {
        let (from, to) = match address.is_global {
            true => (address.sgid.to_string(), address.dgid.to_string()),
            false => ("this port".to_owned(), format!("LID {}", address.dlid)),
        };
        let path = match qp.path {
            PathKind::Wire => "by packets",
            PathKind::SameHost => "through memory of this host",
            PathKind::Tcp => "by TCP",
        };
        let _ = writeln!(out, "  {from} to {to} queue pair 0x{:06x}, {path}", qp.attributes_at(at).dest_qpn);
    }
    out
}

/// Returns the time whose attributes and addresses a heading has: that of the failure, or the end.
fn shown_at(qp: &QpStory) -> u64 {
    Failure::of(qp).map_or(u64::MAX, |failure| failure.at)
}

/// Returns the lines of a story: seconds since the first record, and what happened.
fn timeline(qp: &QpStory, packets: bool) -> Vec<String> {
    let start = qp.records.first().map_or(0, |record| record.at);
    let mut lines = Vec::new();
    let mut traffic = Traffic::default();
    for record in &qp.records {
        let is_traffic = traffic_of(record).is_some();
        if is_traffic && !packets {
            traffic.add(record);
            continue;
        }
        lines.extend(traffic.take(start));
        lines.push(line(record, start));
    }
    lines.extend(traffic.take(start));
    if lines.len() > LINES_MAX && !packets {
        let (head, tail) = (LINES_MAX / 2, LINES_MAX / 2 - 1);
        let hidden = lines.len() - head - tail;
        lines.splice(head..head + hidden, [format!("    ... {hidden} lines; --packets prints all")]);
    }
    lines
}

fn line(record: &Record, start: u64) -> String {
    format!("{} {}", seconds(record.at, start), describe(&record.event))
}

fn seconds(at: u64, start: u64) -> String {
    let ns = at.saturating_sub(start);
    format!("{:5}.{:06}", ns / 1_000_000_000, ns % 1_000_000_000 / 1000)
}

/// Describes an event.
pub(crate) fn describe(event: &Event) -> String {
    match *event {
        Event::Created { qp_type, .. } => format!("created, {}", names::qp_type(qp_type)),
        Event::State { from, to, .. } => format!("state {} to {}", names::state(from), names::state(to)),
        Event::Attributes(a) => {
            let timeout = match a.timeout {
                0 => "infinite".to_owned(),
                code => duration(4096 << u32::from(code).min(31)),
            };
            format!(
                "attributes: dest_qp_num 0x{:06x}, path_mtu {}, timeout {} ({timeout}), retry_cnt {}, rnr_retry {}, P_Key \
                 0x{:04x}, port {}, sq_psn {}, rq_psn {}",
                a.dest_qpn, a.mtu, a.timeout, a.retry_cnt, a.rnr_retry, a.pkey, a.port, a.sq_psn, a.rq_psn
            )
        }
        Event::Address(address) if address.is_global => format!("path: {} to {}", address.sgid, address.dgid),
        Event::Address(address) => format!("path: to LID {}", address.dlid),
        Event::Destroyed => "destroyed".to_owned(),
        Event::Posted { sends, recvs } => counted(&[sends.into(), recvs.into(), 0, 0, 0]),
        Event::Completed(wc) => {
            format!("completion: {} ({}), wr_id {}, {} bytes", names::status(wc.status), wc.status, wc.wr_id, wc.bytes)
        }
        Event::Sent(packet) => format!("sent {}", describe_packet(&packet)),
        Event::Received(packet, fate) => {
            let fate = match fate {
                Fate::Delivered => "",
                Fate::UnknownQpn => ": DROPPED, no such queue pair",
                Fate::BadPkey => ": DROPPED, P_Key of another partition",
                Fate::BadAddress => ": DROPPED, not from the queue pair's peer",
            };
            format!("received {} from {}{fate}", describe_packet(&packet), packet.peer)
        }
        Event::Counted { counter, amount } => {
            let name = counters::QUEUE_PAIR.get(usize::from(counter)).copied().unwrap_or("unknown counter");
            format!("{name} +{amount}")
        }
        Event::Link(trouble) => {
            let name = counters::LINK.get(usize::from(trouble.counter)).copied().unwrap_or("unknown counter");
            let why =
                if trouble.errno == 0 { String::new() } else { format!(" ({})", names::errno::text(trouble.errno)) };
            format!("{} {name}{why}", trouble.amount)
        }
        Event::Async { event, port: 0, .. } => names::async_event(event),
        Event::Async { event, port, .. } => format!("{} of port {port}", names::async_event(event)),
        Event::FabricPath { open: true } => "the fabric's path to the peer is open".to_owned(),
        Event::FabricPath { open: false } => "the fabric's path to the peer is closed".to_owned(),
        Event::PeerGone { slot, .. } => format!("the process of slot {slot} ended"),
        Event::FabricLost => "the daemon ended; the fabric's paths are not known until the next one answers".to_owned(),
        Event::Reachability(seen) => {
            let is = |yes: bool, text: &'static str| if yes { text } else { "no" };
            format!(
                "the kernel's view of the peer's address: route {}, neighbour {}, own source address {}",
                if seen.route_errno == 0 { "yes".to_owned() } else { names::errno::text(seen.route_errno) },
                is(seen.has_neighbour || seen.peer_is_local, "yes"),
                is(seen.source_is_local, "yes"),
            )
        }
        Event::Capacity(c) => {
            let receives =
                if c.has_srq { "a shared receive queue".to_owned() } else { format!("max_recv_wr {}", c.max_recv_wr) };
            let signals = if c.signals_all { ", sq_sig_all" } else { "" };
            format!(
                "capacity: max_send_wr {}, {receives}, max_inline_data {}{signals}",
                c.max_send_wr, c.max_inline_data
            )
        }
        Event::Request(request) => format!("posted {}", describe_request(&request)),
        Event::Connection { event, status: 0 } => names::cm_event(event),
        Event::Connection { event, status } => format!("{}, status {status}", names::cm_event(event)),
    }
}

fn describe_request(request: &RequestInfo) -> String {
    let RequestInfo { wr_id, length, sges, flags, remote_addr, rkey, .. } = *request;
    let mut text = format!("{}, wr_id {wr_id}, {length} bytes", names::operation(request.operation));
    if sges != 1 {
        let _ = write!(text, " in {sges} pieces");
    }
    if (remote_addr, rkey) != (0, 0) {
        let _ = write!(text, ", remote address 0x{remote_addr:x}, R_Key 0x{rkey:x}");
    }
    for name in names::send_flags(flags) {
        let _ = write!(text, ", {name}");
    }
    text
}

fn describe_packet(packet: &PacketInfo) -> String {
    let syndrome = packet.syndrome.map_or_else(String::new, |byte| format!(" ({})", names::syndrome(byte)));
    let bytes = if packet.bytes > 0 { format!(", {} bytes", packet.bytes) } else { String::new() };
    format!("{}{syndrome} PSN {}{bytes}", names::opcode(packet.opcode), packet.psn)
}

/// Posts, packets and completions between two other lines.
#[derive(Debug, Default)]
struct Traffic {
    first_at: Option<u64>,
    counts: [u64; 5],
}

/// Their words for one and for several.
const TRAFFIC_WORDS: [[&str; 2]; 5] = [
    ["send posted", "sends posted"],
    ["receive posted", "receives posted"],
    ["packet sent", "packets sent"],
    ["packet received", "packets received"],
    ["completion", "completions"],
];

/// Returns the counts that a record of mere traffic adds.
fn traffic_of(record: &Record) -> Option<[u64; 5]> {
    match record.event {
        Event::Posted { sends, recvs } => Some([sends.into(), recvs.into(), 0, 0, 0]),
        Event::Request(RequestInfo { operation: Operation::RECEIVE, .. }) => Some([0, 1, 0, 0, 0]),
        Event::Request(_) => Some([1, 0, 0, 0, 0]),
        Event::Sent(_) => Some([0, 0, 1, 0, 0]),
        Event::Received(_, Fate::Delivered) => Some([0, 0, 0, 1, 0]),
        Event::Completed(wc) if wc.status == 0 || wc.status == WR_FLUSH_ERR => Some([0, 0, 0, 0, 1]),
        _ => None,
    }
}

impl Traffic {
    fn add(&mut self, record: &Record) {
        self.first_at.get_or_insert(record.at);
        for (sum, count) in self.counts.iter_mut().zip(traffic_of(record).unwrap_or_default()) {
            *sum = sum.saturating_add(count);
        }
    }

    fn take(&mut self, start: u64) -> Option<String> {
        let at = self.first_at.take()?;
        let counts = std::mem::take(&mut self.counts);
        Some(format!("{} {}", seconds(at, start), counted(&counts)))
    }
}

/// Returns counts with their words, without those that are 0.
fn counted(counts: &[u64; 5]) -> String {
    let parts: Vec<String> = counts
        .iter()
        .zip(TRAFFIC_WORDS)
        .filter(|(count, _)| **count > 0)
        .map(|(count, [one, many])| format!("{count} {}", if *count == 1 { one } else { many }))
        .collect();
    parts.join(", ")
}

fn sums(qp: &QpStory) -> String {
    let mut parts = Vec::new();
    for name in counters::QUEUE_PAIR {
        let count = qp.count(name);
        if count > 0 {
            parts.push(format!("{name} {count}"));
        }
    }
    if parts.is_empty() { String::new() } else { format!("  in all: {}\n", parts.join(", ")) }
}

/// Returns what was sent and heard last before a failure.
fn ending(qp: &QpStory, failure: &Failure) -> String {
    let before = |(at, packet): (u64, PacketInfo)| (at <= failure.at).then_some((at, packet));
    let ago = |at: u64| duration(failure.at.saturating_sub(at));
    let mut out = String::new();
    if let Some((at, packet)) = qp.sent().filter_map(before).filter(|(_, packet)| !is_answer(packet)).last() {
        let _ = writeln!(out, "  last sent: {}, {} before the failure", describe_packet(&packet), ago(at));
    }
    match qp.received().filter_map(before).last() {
        Some((at, packet)) => {
            let _ = writeln!(out, "  last heard: {}, {} before the failure", describe_packet(&packet), ago(at));
        }
        None if qp.path == PathKind::Wire => out += "  last heard: nothing\n",
        None => {}
    }
    let (status, wr_id) = (failure.completion.status, failure.completion.wr_id);
    let _ = writeln!(out, "  failed: {} ({status}), wr_id {wr_id}", names::status(status));
    out
}

fn causes(findings: &[Finding]) -> String {
    let mut out = String::from("  why:\n");
    if findings.is_empty() {
        out += "    the record does not say; record the peer, too\n";
    }
    if findings.first().is_some_and(|first| first.certainty == Certainty::Possible) {
        out += "    the record leaves several causes; these are possible, in this order\n";
    }
    for finding in findings {
        let certainty = match finding.certainty {
            Certainty::Certain => "certain",
            Certainty::Likely => "likely",
            Certainty::Possible => "possible",
        };
        let _ = writeln!(out, "    {} ({certainty})", finding.cause.title());
        for sentence in &finding.evidence {
            let _ = writeln!(out, "      - {sentence}");
        }
        let _ = writeln!(out, "      fix: {}", finding.advice);
    }
    out
}

/// Returns the events of a process that are not about one queue pair.
pub fn process_text(process: &Recording) -> String {
    let is_own = |record: &&Record| {
        record.qpn == 0 || matches!(record.event, Event::Received(_, Fate::UnknownQpn) | Event::Link(_))
    };
    let lines: Vec<String> =
        process.records.iter().filter(is_own).map(|record| line(record, process.started)).collect();
    let (Recording { pid, host, .. }, program) = (process, process.program_in_short());
    let mut out = format!("process {pid} on {host}: {program}\n");
    let shown = lines.len().min(LINES_MAX);
    for text in &lines[..shown] {
        let _ = writeln!(out, "  {text}");
    }
    if shown < lines.len() {
        let _ = writeln!(out, "    ... {} more lines", lines.len() - shown);
    }
    let _ = writeln!(out, "  {}", end(process));
    if process.overwritten.iter().any(|count| *count > 0) {
        let [story, trouble, traffic] = process.overwritten;
        let _ = writeln!(
            out,
            "  overwritten for want of room: {traffic} packets and posts, {trouble} losses, {story} other records"
        );
    }
    out
}

/// Describes the end of a process.
fn end(process: &Recording) -> String {
    if let Some(at) = process.ended {
        return format!("{} exited", seconds(at, process.started));
    }
    if let Some(killed) = process.killed {
        return format!("{} killed by signal {}", seconds(killed.at, process.started), killed.signal);
    }
    let text = match process.life {
        Life::Running => "running when the record was taken",
        Life::Ended if process.records_end => "ended without an exit: killed, crashed, or by _exit",
        Life::Ended => "ended; the record does not say how",
        Life::Unknown => "no end is recorded: running, killed, crashed, or ended by _exit",
    };
    text.to_owned()
}

/// Returns a queue pair as JSON.
pub fn json(qp: &QpStory, process: &Recording, findings: Option<&[Finding]>) -> Value {
    let failure = Failure::of(qp).map(|failure| {
        json!({
            "at_ns": process.realtime(failure.at),
            "status": names::status(failure.completion.status),
            "code": failure.completion.status,
            "wr_id": failure.completion.wr_id,
        })
    });
    let address = qp.address_at(shown_at(qp));
    let counters: serde_json::Map<String, Value> =
        counters::QUEUE_PAIR.iter().map(|name| ((*name).to_owned(), qp.count(name).into())).collect();
    let events: Vec<Value> = qp
        .records
        .iter()
        .map(|record| json!({"at_ns": process.realtime(record.at), "event": describe(&record.event)}))
        .collect();
    json!({
        "qpn": qp.id.qpn,
        "type": names::qp_type(qp.qp_type.unwrap_or_default()),
        "state": names::state(qp.state),
        "pid": process.pid,
        "host": process.host,
        "program": process.program,
        "dest_qpn": qp.attributes_at(shown_at(qp)).dest_qpn,
        "sgid": address.map(|address| address.sgid.to_string()),
        "dgid": address.map(|address| address.dgid.to_string()),
        "dlid": address.map(|address| address.dlid),
        "counters": counters,
        "failure": failure,
        "causes": findings,
        "events": events,
    })
}

/// Returns a process as JSON.
pub fn process_json(process: &Recording) -> Value {
    json!({
        "pid": process.pid,
        "host": process.host,
        "program": process.program,
        "started_ns": process.started_realtime,
        "ended_ns": process.ended.map(|at| process.realtime(at)),
        "is_running": match process.life {
            Life::Running => Some(true),
            Life::Ended => Some(false),
            Life::Unknown => process.ended.map(|_| false),
        },
        "signal": process.killed.map(|killed| killed.signal),
        "overwritten": process.overwritten,
    })
}

/// Whether a queue pair has a failure to explain.
pub fn has_failed(qp: &QpStory, stories: &[QpStory], recordings: &[Recording]) -> bool {
    Case::new(qp, stories, recordings).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causes::diagnose;
    use crate::story::stories;
    use crate::testing::*;

    #[test]
    fn a_story_says_what_was_sent_heard_and_why_it_ended() {
        let mut events =
            vec![(2 * MS, Event::Sent(packet(4))), (3 * MS, Event::Received(answer(4, 0x1f), Fate::Delivered))];
        events.extend(unanswered(5));
        let recordings = [recording(7, &own(&events))];
        let all = stories(&recordings);
        let findings = diagnose(&all[0], &all, &recordings);
        let text = text(&all[0], &recordings[0], findings.as_deref(), false);
        for part in [
            "RC 0x000011 of process 7 on host",
            "10.0.0.1 to ::ffff:10.0.0.2 queue pair 0x004011, by packets",
            "timeout 14 (67.1 ms), retry_cnt 7",
            "9 packets sent, 1 packet received",
            "in all: timeouts 7",
            "last sent: SEND Only PSN 5, 1024 bytes",
            "last heard: Acknowledge (ACK) PSN 4",
            "failed: IBV_WC_RETRY_EXC_ERR (12), wr_id 1",
            "peer gone (possible)",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        let json = json(&all[0], &recordings[0], findings.as_deref());
        assert_eq!(json["failure"]["code"], 12);
        assert_eq!(json["causes"][0]["cause"], "peer-gone");
    }

    #[test]
    fn a_long_story_is_cut_in_its_middle() {
        let events: Vec<_> = (0..500).map(|nth| (nth * MS, Event::Counted { counter: 1, amount: nth })).collect();
        let recordings = [recording(1, &own(&events))];
        let all = stories(&recordings);
        assert_eq!(timeline(&all[0], false).len(), LINES_MAX);
        assert!(timeline(&all[0], true).len() > 500);
        let json = process_text(&recordings[0]);
        assert!(json.contains("exited"), "{json}");
    }

    #[test]
    fn one_is_singular() {
        let posted = |sends, recvs| describe(&Event::Posted { sends, recvs });
        assert_eq!([posted(1, 0), posted(2, 1)], ["1 send posted", "2 sends posted, 1 receive posted"]);
    }

    #[test]
    fn an_end_is_described_as_far_as_it_is_known() {
        let process = Recording { records_end: true, life: Life::Ended, ..Recording::default() };
        assert!(end(&process).contains("without an exit"));
        let cm = Recording { records_end: false, ..process.clone() };
        assert!(end(&cm).contains("does not say"), "the connection manager's file alone");
        assert!(end(&Recording { life: Life::Unknown, ..process.clone() }).contains("no end is recorded"));
        assert!(end(&Recording { ended: Some(5), ..process }).contains("exited"));
    }
}
