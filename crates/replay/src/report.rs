//! The completions and times of a replay beside the recorded ones.

use std::fmt::Write as _;

use serde::Serialize;
use weft_explain::names;

use crate::plan::{Expected, Queue};
use crate::run::{Outcome, Replay};

/// Maximum number of differences that a report lists.
const LISTED_MAX: usize = 20;

/// A completion that differs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Difference {
    /// The queue.
    pub queue: Queue,
    /// Its number in the queue, from 1.
    pub number: usize,
    /// The recorded completion.
    pub recorded: String,
    /// The replay's.
    pub replayed: String,
}

/// Number and times of completions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Figures {
    /// Completions of the send queue.
    pub sends: usize,
    /// Completions of the receive queue.
    pub receives: usize,
    /// Nanoseconds from the connection to the last completion.
    pub last_ns: u64,
    /// Median of the nanoseconds from the post of a send to the poll of its completion.
    pub send_latency_ns: Option<u64>,
}

/// The comparison.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Report {
    /// Whether the replay came to its end with the recorded completions.
    pub is_same: bool,
    /// The reason of an early end.
    pub ended_early: Option<String>,
    /// Requests posted, of those recorded.
    pub posted: [usize; 2],
    /// The record.
    pub recorded: Figures,
    /// The replay.
    pub replayed: Figures,
    /// Completions that differ.
    pub differences: Vec<Difference>,
    /// Number of differences that are not listed.
    pub unlisted: usize,
}

impl Report {
    /// Compares a replay that ended.
    pub fn new(replay: &Replay<'_>, outcome: Outcome) -> Report {
        let plan = replay.plan();
        let mut differences: Vec<Difference> =
            Queue::ALL.into_iter().flat_map(|queue| compare(replay, queue)).collect();
        let unlisted = differences.len().saturating_sub(LISTED_MAX);
        let is_same = differences.is_empty() && outcome == Outcome::Finished;
        differences.truncate(LISTED_MAX);
        let recorded = plan.expected.each_ref().map(|all| all.iter().map(|wc| wc.at).collect::<Vec<_>>());
        let replayed = Queue::ALL.map(|queue| replay.seen(queue).iter().map(|seen| seen.completion.at).collect());
        Report {
            is_same,
            ended_early: reason(outcome, plan.steps.len()),
            posted: [replay.posted_at().len(), plan.steps.len()],
            recorded: figures(&recorded, replay.recorded_latencies()),
            replayed: figures(&replayed, replay.latencies()),
            differences,
            unlisted,
        }
    }

    /// Returns the report as text.
    pub fn text(&self) -> String {
        let mut out = format!("{:<28}{:>14}{:>14}\n", "", "recorded", "replayed");
        let mut row = |name: &str, recorded: String, replayed: String| {
            let _ = writeln!(out, "{name:<28}{recorded:>14}{replayed:>14}");
        };
        let (was, is) = (&self.recorded, &self.replayed);
        row("requests posted", self.posted[1].to_string(), self.posted[0].to_string());
        row("completions of sends", was.sends.to_string(), is.sends.to_string());
        row("completions of receives", was.receives.to_string(), is.receives.to_string());
        row("until the last completion", micros(was.last_ns), micros(is.last_ns));
        let latency = |figures: &Figures| figures.send_latency_ns.map_or_else(|| "-".to_owned(), micros);
        row("post to poll, median send", latency(was), latency(is));
        for Difference { queue, number, recorded, replayed } in &self.differences {
            let queue = match queue {
                Queue::Send => "send",
                Queue::Receive => "receive",
            };
            let _ = writeln!(out, "completion {number} of the {queue} queue: {recorded}; now {replayed}");
        }
        if self.unlisted > 0 {
            let _ = writeln!(out, "... and {} more differences", self.unlisted);
        }
        if let Some(reason) = &self.ended_early {
            let _ = writeln!(out, "ended early: {reason}");
        }
        if self.is_same {
            out += "no completion differs\n";
        }
        out
    }
}

fn reason(outcome: Outcome, steps: usize) -> Option<String> {
    match outcome {
        Outcome::Finished => None,
        Outcome::Stalled => Some("a completion did not come that the recorded program had polled".to_owned()),
        Outcome::Refused(step) => Some(format!("request {} of {steps} could not be posted", step + 1)),
    }
}

/// Compares the completions of a queue one by one. More of them than recorded are no difference of their own: the replay ends
/// with the last recorded one.
fn compare(replay: &Replay<'_>, queue: Queue) -> Vec<Difference> {
    let (recorded, seen) = (&replay.plan().expected[queue as usize], replay.seen(queue));
    let mut differences = Vec::new();
    for (nth, was) in recorded.iter().enumerate() {
        let is = seen.get(nth).map(|seen| &seen.completion);
        if is.is_none_or(|is| !is_same(was, is)) {
            let replayed = is.map_or_else(|| "none".to_owned(), describe);
            differences.push(Difference { queue, number: nth + 1, recorded: describe(was), replayed });
        }
    }
    differences
}

/// Whether two completions say the same. Of an error the status alone is defined.
fn is_same(was: &Expected, is: &Expected) -> bool {
    was.status == is.status && (was.status != 0 || (was.opcode, bytes(was), was.imm) == (is.opcode, bytes(is), is.imm))
}

/// `IBV_WC_SEND` and `IBV_WC_RDMA_WRITE`: their byte count is not defined.
const WITHOUT_LENGTH: [u8; 2] = [0, 1];

fn bytes(completion: &Expected) -> u32 {
    if WITHOUT_LENGTH.contains(&completion.opcode) { 0 } else { completion.bytes }
}

fn describe(completion: &Expected) -> String {
    let Expected { status, opcode, imm, .. } = *completion;
    if status != 0 {
        return format!("{} ({status})", names::status(status));
    }
    let imm = imm.map_or_else(String::new, |imm| format!(", immediate data 0x{imm:08x}"));
    format!("{}, {} bytes{imm}", names::wc_opcode(opcode), bytes(completion))
}

fn figures(times: &[Vec<u64>; 2], mut latencies: Vec<u64>) -> Figures {
    latencies.sort_unstable();
    let [sends, receives] = times.each_ref().map(Vec::len);
    let last_ns = times.iter().flatten().copied().max().unwrap_or(0);
    Figures { sends, receives, last_ns, send_latency_ns: latencies.get(latencies.len() / 2).copied() }
}

fn micros(ns: u64) -> String {
    format!("{:.1} µs", ns as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;
    use crate::run::Speed;
    use crate::testing::{Script, request};
    use weft_explain::stories;
    use weft_record::Operation;

    fn plan() -> Plan {
        let script = Script::connected()
            .posted(50, request(Operation::RECEIVE, 64))
            .posted(110, request(Operation::SEND, 64))
            .completed(120, 0, 0, 0)
            .completed(130, 0x80, 0, 32);
        let recordings = [script.recording()];
        Plan::new(&stories(&recordings)[0], &recordings[0], None).unwrap()
    }

    fn report(plan: &Plan, completions: &[(u64, Expected)], outcome: Outcome) -> Report {
        let mut replay = Replay::new(plan, Speed::Max, 1000);
        replay.take_early();
        replay.on_posted(10);
        completions.iter().for_each(|(wr_id, completion)| replay.on_completion(*wr_id, *completion));
        Report::new(&replay, outcome)
    }

    #[test]
    fn equal_completions_differ_in_time_alone() {
        let plan = plan();
        let sent = Expected { at: 40, status: 0, opcode: 0, bytes: 64, imm: None };
        let received = Expected { at: 50, status: 0, opcode: 0x80, bytes: 32, imm: None };
        let same = report(&plan, &[(1, sent), (0, received)], Outcome::Finished);
        assert!(same.is_same, "{same:?}");
        assert_eq!((same.recorded.last_ns, same.replayed.last_ns), (30, 50));
        assert_eq!((same.recorded.send_latency_ns, same.replayed.send_latency_ns), (Some(10), Some(30)));
        assert!(same.text().ends_with("no completion differs\n"), "{}", same.text());
    }

    #[test]
    fn differences_are_named() {
        let plan = plan();
        let failed = Expected { at: 40, status: 12, opcode: 0x80, bytes: 7, imm: None };
        let received = Expected { at: 50, status: 0, opcode: 0x80, bytes: 31, imm: Some(5) };
        let other = report(&plan, &[(1, failed), (0, received)], Outcome::Finished);
        assert!(!other.is_same);
        let text = other.text();
        for line in [
            "completion 1 of the send queue: IBV_WC_SEND, 0 bytes; now IBV_WC_RETRY_EXC_ERR (12)",
            "completion 1 of the receive queue: IBV_WC_RECV, 32 bytes; now IBV_WC_RECV, 31 bytes, immediate data 0x00000005",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        let stalled = report(&plan, &[], Outcome::Stalled);
        assert_eq!((stalled.differences.len(), stalled.replayed.sends, stalled.is_same), (2, 0, false));
        assert!(stalled.text().contains("now none\nended early: a completion did not come"), "{}", stalled.text());
        assert!(reason(Outcome::Refused(1), 9).unwrap().contains("request 2 of 9"));
    }
}
