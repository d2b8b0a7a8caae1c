//! Recordings as a trace for Perfetto (<https://ui.perfetto.dev>), in the JSON of Chrome's tracing: a process is a process, a
//! queue pair a track in it, a state a slice, and everything else an instant.

use serde_json::{Value, json};
use weft_record::Event;

use crate::names;
use crate::recording::Recording;
use crate::render::describe;
use crate::story::QpStory;

/// Returns the trace.
pub fn trace(stories: &[QpStory], recordings: &[Recording]) -> Value {
    let mut events = Vec::new();
    for (index, recording) in recordings.iter().enumerate() {
        let name = format!("{} on {}", recording.program, recording.host);
        events.push(json!({"ph": "M", "pid": pid(index), "name": "process_name", "args": {"name": name}}));
        let own = recording.records.iter().filter(|record| record.qpn == 0);
        events.extend(own.map(|record| instant(recording, index, 0, record.at, &record.event)));
    }
    for story in stories {
        let Some(recording) = recordings.get(story.id.recording) else { continue };
        events.extend(track(story, recording));
    }
    json!({"traceEvents": events, "displayTimeUnit": "ns"})
}

/// Process IDs of two machines may be the same.
fn pid(index: usize) -> usize {
    index + 1
}

/// The track of a queue pair: several of the same number follow each other on it.
fn track(story: &QpStory, recording: &Recording) -> Vec<Value> {
    let (index, qpn) = (story.id.recording, story.id.qpn);
    let name = format!("{} 0x{qpn:06x}", names::qp_type(story.qp_type.unwrap_or_default()));
    let mut events =
        vec![json!({"ph": "M", "pid": pid(index), "tid": qpn, "name": "thread_name", "args": {"name": name}})];
    let end = story.records.last().map_or(0, |record| record.at);
    let changes: Vec<(u64, u8)> = story.records.iter().filter_map(|record| state(record.at, &record.event)).collect();
    for (nth, (at, state)) in changes.iter().enumerate() {
        let until = changes.get(nth + 1).map_or(end, |(next, _)| *next);
        events.push(json!({
            "ph": "X",
            "pid": pid(index),
            "tid": qpn,
            "ts": micros(recording, *at),
            "dur": until.saturating_sub(*at) as f64 / 1e3,
            "name": names::state(*state),
        }));
    }
    let others = story.records.iter().filter(|record| state(record.at, &record.event).is_none());
    events.extend(others.map(|record| instant(recording, index, qpn, record.at, &record.event)));
    events
}

fn state(at: u64, event: &Event) -> Option<(u64, u8)> {
    match event {
        Event::State { to, .. } => Some((at, *to)),
        _ => None,
    }
}

fn instant(recording: &Recording, index: usize, track: u32, at: u64, event: &Event) -> Value {
    let text = describe(event);
    let name = text.split([',', ':']).next().unwrap_or_default().to_owned();
    json!({
        "ph": "i",
        "s": "t",
        "pid": pid(index),
        "tid": track,
        "ts": micros(recording, at),
        "name": name,
        "args": {"event": text},
    })
}

fn micros(recording: &Recording, at: u64) -> f64 {
    recording.realtime(at) as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::story::stories;
    use crate::testing::*;

    #[test]
    fn states_are_slices_and_packets_instants() {
        let recordings = [recording(7, &own(&unanswered(5)))];
        let trace = trace(&stories(&recordings), &recordings);
        let events = trace["traceEvents"].as_array().unwrap();
        let of = |phase: &str| events.iter().filter(|event| event["ph"] == phase).collect::<Vec<_>>();
        let slices: Vec<_> = of("X").iter().map(|slice| slice["name"].as_str().unwrap()).collect();
        assert_eq!(slices, ["INIT", "RTR", "RTS"]);
        assert_eq!(of("X")[2]["dur"], (550 * MS - 1) as f64 / 1e3);
        assert_eq!(of("i").iter().filter(|event| event["name"] == "sent SEND Only PSN 5").count(), 8);
        assert_eq!(of("M").len(), 2);
    }
}
