//! Sentences for the log about the differences of two states of a fabric.

use std::collections::BTreeMap;

use weft_fabric::topology::draw::LinkClass;
use weft_fabric::topology::{LiveCable, LiveNode, LiveState, Topology};

use super::cable_name::spell;
use super::log::{Log, Topic};
use crate::limits::CHANGES_LISTED_MAX;

/// The differences.
#[derive(Debug, Default)]
pub struct Changes {
    /// Names of cables by their class before and now.
    links: BTreeMap<(LinkClass, LinkClass), Vec<String>>,
    /// Names of nodes by what happened to them.
    nodes: BTreeMap<&'static str, Vec<String>>,
    /// Number of new cables.
    added: Vec<String>,
}

impl Changes {
    /// Compares.
    pub fn between(topology: &Topology, old: &LiveState, new: &LiveState) -> Changes {
        let mut changes = Changes::default();
        for (place, new) in new.cables.iter().enumerate() {
            match old.cables.get(place).filter(|old| old.ends == new.ends) {
                None => changes.added.push(spell(topology, new)),
                Some(old) if class(old) != class(new) => {
                    changes.links.entry((class(old), class(new))).or_default().push(spell(topology, new));
                }
                Some(_) => {}
            }
        }
        for ((node, old), new) in topology.nodes.iter().zip(&old.nodes).zip(&new.nodes) {
            if let Some(event) = happened(old, new) {
                changes.nodes.entry(event).or_default().push(node.name.clone());
            }
        }
        changes
    }

    /// Writes them into the log: one by one if they are few, else together.
    pub fn report(self, at: u64, log: &mut Log) {
        for (event, names) in self.nodes {
            write(at, log, Topic::Node, !event.starts_with("has"), &names, "nodes", event);
        }
        for ((before, now), names) in self.links {
            let verb = format!("{}: {}", now.word(), meaning(before, now));
            write(at, log, Topic::Link, now > before, &names, "links", &verb);
        }
        write(at, log, Topic::Link, false, &self.added, "cables", "new");
    }
}

fn write(at: u64, log: &mut Log, topic: Topic, bad: bool, names: &[String], kind: &str, event: &str) {
    if names.len() <= CHANGES_LISTED_MAX {
        names.iter().for_each(|name| log.add(at, topic, bad, format!("{name} {event}")));
    } else if let Some(first) = names.first() {
        log.add(at, topic, bad, format!("{} {kind} {event}; the first is {first}", names.len()));
    }
}

fn class(cable: &LiveCable) -> LinkClass {
    LinkClass::of(cable.state, cable.limited, cable.errors_ppm)
}

fn happened(old: &LiveNode, new: &LiveNode) -> Option<&'static str> {
    match (old.powered, new.powered, old.agent_fault, new.agent_fault) {
        (true, false, ..) => Some("lost power"),
        (false, true, ..) => Some("has power again"),
        (_, _, false, true) => Some("management agents answer wrongly"),
        (_, _, true, false) => Some("has correct management agents again"),
        _ => None,
    }
}

fn meaning(before: LinkClass, now: LinkClass) -> &'static str {
    match now {
        LinkClass::Active if before == LinkClass::Slow => "full rate again",
        LinkClass::Active => "carries data",
        LinkClass::Armed => "configured",
        LinkClass::Init => "trained, waits for a manager",
        LinkClass::Slow => "limited below what its ports support",
        LinkClass::Errors => "damages packets",
        LinkClass::Down => "no link",
        LinkClass::Cut => "the cable is unplugged",
    }
}
