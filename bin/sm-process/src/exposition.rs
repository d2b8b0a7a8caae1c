//! Metrics of subnet managers for Prometheus, made from the status that a manager reports about itself.

use std::time::Duration;

use serde_json::Value;
use weft_metrics::{Exposition, Kind, Sample};

use super::control::{self, Conversation};

/// Time that a manager has for its status: one that is stopped must not stop everything else.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Time for a measurement of routes.
const ROUTING_TIMEOUT: Duration = Duration::from_secs(60);

/// Managers of one page.
const MANAGERS_MAX: usize = 64;

/// The metrics: name, type, help, and the member of the status.
const ROWS: [(&str, Kind, &str, &str); 14] = [
    ("weft_sm_up", Kind::Gauge, "Whether the manager has its subnet up.", "is_up"),
    ("weft_sm_state", Kind::Gauge, "State of the manager: 0 not active, 1 discovering, 2 standby, 3 master.", "state"),
    ("weft_sm_priority", Kind::Gauge, "Priority of the manager.", "priority"),
    ("weft_sm_lid", Kind::Gauge, "LID of the manager's port.", "lid"),
    ("weft_sm_switches", Kind::Gauge, "Switches that the manager knows.", "switches"),
    ("weft_sm_end_ports", Kind::Gauge, "Ports of adapters and routers that the manager knows.", "end_ports"),
    ("weft_sm_links", Kind::Gauge, "Cables between ports that the manager knows.", "links"),
    ("weft_sm_sweeps_total", Kind::Counter, "Sweeps of the subnet, heavy ones included.", "sweeps"),
    ("weft_sm_heavy_sweeps_total", Kind::Counter, "Heavy sweeps of the subnet.", "heavy_sweeps"),
    ("weft_sm_datagrams_left", Kind::Gauge, "Datagrams of the present sweep, queued or in flight.", "left"),
    ("weft_sm_smps_sent_total", Kind::Counter, "Subnet management datagrams sent.", "smps_sent"),
    ("weft_sm_smps_answered_total", Kind::Counter, "Subnet management datagrams answered.", "smps_answered"),
    ("weft_sm_smps_lost_total", Kind::Counter, "Subnet management datagrams not answered in time.", "smps_lost"),
    ("weft_sm_traps_total", Kind::Counter, "Traps received.", "traps"),
];

/// Returns the statuses of the managers of this machine that answer this user, in the order of their ports.
pub fn statuses() -> Vec<Value> {
    let guids = control::running().into_iter().take(MANAGERS_MAX);
    guids.filter_map(|guid| status(guid).ok()).collect()
}

fn status(guid: u64) -> anyhow::Result<Value> {
    ask(guid, "status --json", ANSWER_TIMEOUT)
}

/// Has the manager on a port measure the quality of its routes, which takes seconds on a fabric of thousands of ports.
///
/// # Errors
/// The manager has no routes yet, ended, or does not answer this user; the text is for the user.
pub fn routing(guid: &str) -> Result<Value, String> {
    match number_of(guid).and_then(|guid| ask(guid, "routing --json", ROUTING_TIMEOUT)) {
        Ok(Value::Null) => Err("the subnet manager has no tables yet".to_owned()),
        Ok(quality) => Ok(quality),
        Err(error) => Err(format!("{error:#}")),
    }
}

/// Has the manager on a port sweep its subnet.
///
/// # Errors
/// The manager ended, or does not answer this user; the text is for the user.
pub fn sweep(guid: &str) -> Result<(), String> {
    let said = number_of(guid).and_then(|guid| {
        let conversation = Conversation::open(Some(guid))?;
        conversation.set_timeout(ANSWER_TIMEOUT)?;
        conversation.say("resweep heavy", |_| {})
    });
    said.map_err(|error| format!("{error:#}"))
}

/// Parses a GUID as a status spells it.
fn number_of(guid: &str) -> anyhow::Result<u64> {
    Ok(u64::from_str_radix(guid.trim_start_matches("0x"), 16)?)
}

fn ask(guid: u64, line: &str, timeout: Duration) -> anyhow::Result<Value> {
    let conversation = Conversation::open(Some(guid))?;
    conversation.set_timeout(timeout)?;
    let mut text = Vec::new();
    conversation.say(line, |piece| text.extend_from_slice(piece))?;
    Ok(serde_json::from_slice(&text)?)
}

/// Adds the metrics of managers to a page; `statuses` are theirs, as JSON.
pub fn add(page: &mut Exposition, statuses: &[Value]) {
    let guids: Vec<&str> = statuses.iter().map(|status| status["guid"].as_str().unwrap_or_default()).collect();
    for (name, kind, help, member) in ROWS {
        let values = statuses
            .iter()
            .zip(&guids)
            .filter_map(|(status, guid)| Some(Sample::integer([("guid", *guid)], number(member, &status[member])?)));
        page.family(name, kind, help, values);
    }
    let engines = statuses.iter().zip(&guids).map(|(status, guid)| {
        Sample::integer([("guid", *guid), ("engine", status["engine"].as_str().unwrap_or_default())], 1)
    });
    page.family("weft_sm_routing_info", Kind::Gauge, "The routing engine in force.", engines);
}

/// Returns the page of one manager.
pub(crate) fn page(status: &str) -> String {
    let mut page = Exposition::new();
    add(&mut page, &[serde_json::from_str(status).unwrap_or_default()]);
    page.finish()
}

fn number(member: &str, value: &Value) -> Option<u64> {
    match (member, value) {
        (_, Value::Bool(value)) => Some((*value).into()),
        ("state", Value::String(state)) => Some(match state.as_str() {
            "discovering" => 1,
            "standby" => 2,
            "master" => 3,
            _ => 0,
        }),
        (_, value) => value.as_u64(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics;
    use weft_sm::manager::{Manager, Setup};
    use weft_verbs::Instant;

    #[test]
    fn every_metric_is_a_member_of_the_status() {
        let manager = Manager::new(Instant(0), Setup::new(0x10));
        let text = page(&metrics::json(&manager));
        for (name, kind, ..) in ROWS {
            assert!(text.contains(&format!("\n{name}{{guid=\"0x0000000000000010\"}} ")), "{name} in {text}");
            assert_eq!(kind == Kind::Counter, name.ends_with("_total"), "{name}");
        }
        assert!(text.contains("weft_sm_routing_info{guid=\"0x0000000000000010\",engine=\"\"} 1\n"), "{text}");
    }

    #[test]
    fn states_have_the_numbers_of_sminfo() {
        let of = |state: &str| number("state", &state.into());
        let states = ["not active", "discovering", "standby", "master"].map(of);
        assert_eq!(states, [Some(0), Some(1), Some(2), Some(3)]);
    }
}
