//! Subnet managers: their sweeps, and the quality of their routes before and after.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Value, json};

use super::log::{Log, Topic};
use crate::limits::ROUTINGS_MAX;

/// The managers of the fabric.
#[derive(Debug, Default)]
pub struct Managers {
    /// Status of each, as it reports itself, by its port's GUID.
    statuses: BTreeMap<String, Value>,
    /// Measurements of the routes' quality, the oldest first.
    routings: VecDeque<Value>,
    /// The master as it was at the last of them.
    measured: Option<Master>,
}

/// The master of the subnet, while it has its subnet up and is at rest.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Master {
    /// GUID of its port, as it spells it.
    pub guid: String,
    /// Sweeps so far.
    pub sweeps: u64,
    /// Heavy ones among them.
    pub heavy_sweeps: u64,
    /// Traps so far: nodes report changes by them, and the manager sweeps.
    pub traps: u64,
    /// End ports of its subnet.
    pub end_ports: u64,
}

impl Managers {
    /// Takes the statuses. Returns whether pages must hear of them.
    pub fn update(&mut self, at: u64, statuses: Vec<Value>, log: &mut Log) -> bool {
        let guid = |status: &Value| status["guid"].as_str().unwrap_or_default().to_owned();
        let statuses: BTreeMap<String, Value> = statuses.into_iter().map(|status| (guid(&status), status)).collect();
        if statuses == self.statuses {
            return false;
        }
        for (guid, new) in &statuses {
            report(at, guid, self.statuses.get(guid), new, log);
        }
        for guid in self.statuses.keys().filter(|guid| !statuses.contains_key(*guid)) {
            log.add(at, Topic::Manager, true, format!("the subnet manager on port {guid} ended"));
        }
        self.statuses = statuses;
        true
    }

    /// Returns the master.
    pub fn master(&self) -> Option<Master> {
        let at_rest = |status: &&Value| status["state"] == "master" && status["is_up"] == true && status["left"] == 0;
        let status = self.statuses.values().find(at_rest)?;
        let number = |member: &str| status[member].as_u64().unwrap_or(0);
        Some(Master {
            guid: status["guid"].as_str()?.to_owned(),
            sweeps: number("sweeps"),
            heavy_sweeps: number("heavy_sweeps"),
            traps: number("traps"),
            end_ports: number("end_ports"),
        })
    }

    /// Returns the master if something changed in its subnet since its routes were measured.
    pub fn unmeasured(&self) -> Option<Master> {
        let key = |master: &Master| (master.guid.clone(), master.heavy_sweeps, master.traps);
        let master = self.master()?;
        self.measured.as_ref().is_none_or(|measured| key(measured) != key(&master)).then_some(master)
    }

    /// Adds a measurement of the master's routes.
    pub fn add_routing(&mut self, at: u64, master: Master, quality: &Value, log: &mut Log) {
        let number = |member: &str| quality[member].as_f64().unwrap_or(0.0);
        let loops = if quality["credit_loop_links"].is_null() { "no credit loop" } else { "a CREDIT LOOP" };
        let broken = quality["broken_paths"].as_u64().unwrap_or(0);
        let text = format!(
            "routes of {}: {:.2} hops on average, {broken} paths lead nowhere, {loops}, busiest link {:.2} times the mean",
            quality["engine"].as_str().unwrap_or("?"),
            number("hops_mean"),
            number("load_max_over_mean"),
        );
        let is_bad = broken > 0 || !quality["credit_loop_links"].is_null();
        log.add(at, Topic::Manager, is_bad, text);
        if self.routings.len() == ROUTINGS_MAX {
            self.routings.pop_front();
        }
        self.routings.push_back(json!({"at": at, "sweeps": master.sweeps, "quality": quality}));
        self.measured = Some(master);
    }

    /// Forgets everything: another fabric has other managers.
    pub fn clear(&mut self) {
        *self = Managers::default();
    }

    /// Returns what pages show.
    pub fn value(&self) -> Value {
        json!({"managers": self.statuses.values().collect::<Vec<_>>(), "routings": self.routings})
    }
}

/// Writes what changed at one manager into the log.
fn report(at: u64, guid: &str, old: Option<&Value>, new: &Value, log: &mut Log) {
    let state = new["state"].as_str().unwrap_or("?");
    let Some(old) = old else {
        log.add(at, Topic::Manager, false, format!("a subnet manager runs on port {guid}: {state}"));
        return;
    };
    if old["state"] != new["state"] {
        let text = format!("the subnet manager on port {guid} is {state} now");
        log.add(at, Topic::Manager, state == "not active", text);
    }
    if old["engine"] != new["engine"] {
        let engine = new["engine"].as_str().unwrap_or("?");
        log.add(at, Topic::Manager, false, format!("the subnet manager routes with {engine} now"));
    }
    let more = |member: &str| new[member].as_u64().unwrap_or(0).saturating_sub(old[member].as_u64().unwrap_or(0));
    let (sweeps, heavy, traps) = (more("sweeps"), more("heavy_sweeps"), more("traps"));
    if heavy > 0 || traps > 0 {
        let (total, lost) = (new["heavy_sweeps"].as_u64().unwrap_or(0), more("smps_lost"));
        let text = format!(
            "the subnet manager swept: {heavy} heavy ({total} so far), {} light, {} datagrams sent, {lost} lost, {traps} traps",
            sweeps.saturating_sub(heavy),
            more("smps_sent"),
        );
        log.add(at, Topic::Manager, lost > 0, text);
    }
    if old["is_up"] == true && new["is_up"] == false {
        log.add(at, Topic::Manager, true, "the subnet is not up".to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(state: &str, heavy: u64, left: u64) -> Value {
        json!({"guid": "0x1", "state": state, "is_up": true, "left": left, "engine": "ftree", "sweeps": heavy + 5,
               "heavy_sweeps": heavy, "smps_sent": heavy * 10, "smps_lost": 0, "traps": 0, "end_ports": 8})
    }

    #[test]
    fn sweeps_and_states_are_logged_once() {
        let (mut managers, mut log) = (Managers::default(), Log::default());
        assert!(managers.update(1, vec![status("master", 1, 0)], &mut log));
        assert!(!managers.update(2, vec![status("master", 1, 0)], &mut log));
        let master = managers.master().expect("a master");
        assert_eq!((master.guid.as_str(), master.heavy_sweeps, master.end_ports), ("0x1", 1, 8));
        managers.update(3, vec![status("master", 2, 7)], &mut log);
        assert_eq!(managers.master(), None, "it is sweeping");
        managers.update(4, vec![status("standby", 2, 0)], &mut log);
        managers.update(5, Vec::new(), &mut log);
        let texts: Vec<String> = log.take_new().into_iter().map(|entry| entry.text).collect();
        assert_eq!(texts.len(), 4, "{texts:?}");
        assert!(texts[1].contains("1 heavy (2 so far)") && texts[3].contains("ended"), "{texts:?}");
    }

    #[test]
    fn measurements_are_bounded() {
        let (mut managers, mut log) = (Managers::default(), Log::default());
        let quality = json!({"engine": "ftree", "hops_mean": 2.5, "broken_paths": 0, "credit_loop_links": null, "load_max_over_mean": 1.25});
        managers.update(1, vec![status("master", 1, 0)], &mut log);
        let master = managers.unmeasured().expect("a master");
        log.take_new();
        for at in 0..3 * ROUTINGS_MAX as u64 {
            managers.add_routing(at, master.clone(), &quality, &mut log);
        }
        assert_eq!(managers.unmeasured(), None);
        managers.update(2, vec![status("master", 2, 0)], &mut log);
        assert!(managers.unmeasured().is_some(), "it swept");
        assert_eq!(managers.value()["routings"].as_array().map(Vec::len), Some(ROUTINGS_MAX));
        assert!(log.take_new()[0].text.contains("no credit loop, busiest link 1.25 times"));
    }
}
