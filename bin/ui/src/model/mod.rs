//! The state that all pages show, and the events that bring a page up to date. Pure: no clock, no I/O. Everything in it
//! is bounded, however long the server runs.

mod breaks;
mod cable_name;
mod changes;
pub mod fabric;
pub mod history;
pub mod log;
pub mod machine;
pub mod managers;
mod rates;
pub mod report;

use serde_json::{Value, json};
use weft_fabric::topology::{CableTraffic, LiveState};

use fabric::FabricView;
use history::{History, Sample};
use log::{Log, Topic};
use machine::Machine;
use managers::Managers;
use report::MachineReport;

/// A message to all pages.
#[derive(Clone, PartialEq, Debug)]
pub struct Event {
    /// Its name, by which the page finds its handler.
    pub name: &'static str,
    /// Its content.
    pub data: Value,
}

/// The state.
#[derive(Debug, Default)]
pub struct Model {
    /// Whether pages may change anything.
    pub read_only: bool,
    /// The event log.
    pub log: Log,
    /// Subnet managers.
    pub managers: Managers,
    daemon: Value,
    fabric: Option<FabricView>,
    history: History,
    machine: Machine,
}

impl Model {
    /// Makes an empty one; with `read_only` pages may change nothing.
    pub fn new(read_only: bool) -> Model {
        Model { read_only, ..Model::default() }
    }

    /// Returns everything, for a page that just came.
    pub fn snapshot(&self) -> Vec<Event> {
        let whole = self.fabric.as_ref().map(FabricView::whole);
        let entries: Vec<_> = self.log.entries().iter().collect();
        vec![
            Event { name: "daemon", data: json!({"daemon": self.daemon, "read_only": self.read_only}) },
            Event { name: "fabric", data: json!(whole) },
            Event { name: "machine", data: self.machine.value.clone() },
            Event { name: "managers", data: self.managers.value() },
            Event { name: "log", data: json!({"all": true, "entries": entries}) },
            Event { name: "history", data: json!({"fine": self.history.fine(), "minutes": self.history.minutes()}) },
        ]
    }

    /// Returns the new entries of the log.
    pub fn new_entries(&mut self) -> Option<Event> {
        let entries = self.log.take_new();
        (!entries.is_empty()).then(|| Event { name: "log", data: json!({"all": false, "entries": entries}) })
    }

    /// Returns the fabric.
    pub fn fabric(&self) -> Option<&FabricView> {
        self.fabric.as_ref()
    }

    /// Takes the daemon's status; `Null` while there is no daemon.
    pub fn set_daemon(&mut self, at: u64, daemon: Value) -> Option<Event> {
        if daemon == self.daemon {
            return None;
        }
        let pid = |daemon: &Value| daemon["pid"].as_u64();
        match (pid(&self.daemon), pid(&daemon)) {
            (None, Some(pid)) => self.log.add(at, Topic::Fabric, false, format!("connected to the daemon (pid {pid})")),
            (Some(_), None) => self.log.add(at, Topic::Fabric, true, "the daemon is gone"),
            _ => {}
        }
        self.daemon = daemon;
        Some(Event { name: "daemon", data: json!({"daemon": self.daemon, "read_only": self.read_only}) })
    }

    /// Takes a fabric that came up, or `None` when it is gone.
    pub fn set_fabric(&mut self, at: u64, fabric: Option<FabricView>) -> Vec<Event> {
        match (&self.fabric, &fabric) {
            (None, None) => return Vec::new(),
            (_, Some(new)) => {
                let (title, nodes) = (new.title(), new.node_count());
                self.log.add(at, Topic::Fabric, false, format!("the fabric {title} is up: {nodes} nodes"));
            }
            (Some(_), None) => self.log.add(at, Topic::Fabric, true, "the fabric is down"),
        }
        self.managers.clear();
        self.fabric = fabric;
        let whole = self.fabric.as_ref().map(FabricView::whole);
        vec![Event { name: "fabric", data: json!(whole) }, Event { name: "managers", data: self.managers.value() }]
    }

    /// Takes a new state of the fabric's nodes and cables.
    pub fn set_state(&mut self, at: u64, state: LiveState) -> Option<Event> {
        let fabric = self.fabric.as_mut()?;
        let change = fabric.update(state);
        change.changes.report(at, &mut self.log);
        Some(match change.patch {
            Some(patch) => Event { name: "state", data: patch },
            None => Event { name: "fabric", data: fabric.whole() },
        })
    }

    /// Takes new counters of the fabric's cables.
    pub fn set_traffic(&mut self, at: u64, traffic: &[CableTraffic]) -> Vec<Event> {
        let Some(fabric) = self.fabric.as_mut() else { return Vec::new() };
        let (load, began) = fabric.count(at, traffic);
        let dead = fabric.dead_links();
        let (bytes, packets, errors) = fabric.total();
        if began.len() > crate::limits::CHANGES_LISTED_MAX {
            self.log.add(
                at,
                Topic::Link,
                true,
                format!("{} links count errors; the first is {}", began.len(), began[0]),
            );
        } else {
            for name in began {
                self.log.add(at, Topic::Link, true, format!("{name} counts errors"));
            }
        }
        vec![Event { name: "load", data: load }, self.sample(Sample { at, bytes, packets, errors, dead })]
    }

    /// Takes a report about programs and adapters.
    pub fn set_machine(&mut self, report: MachineReport) -> Vec<Event> {
        let at = report.at_ms;
        let (broken, (bytes, packets, errors)) = self.machine.update(report);
        for broken in broken {
            self.log.add(at, Topic::Program, true, broken.text());
        }
        let mut events = vec![Event { name: "machine", data: self.machine.value.clone() }];
        if self.fabric.is_none() {
            events.push(self.sample(Sample { at, bytes, packets, errors, dead: 0 }));
        }
        events
    }

    fn sample(&mut self, sample: Sample) -> Event {
        self.history.add(sample);
        Event { name: "sample", data: json!(sample) }
    }
}

#[cfg(test)]
mod tests;
