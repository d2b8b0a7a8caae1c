//! Parser of the policy, with a keyword per line. A mistake makes the policy void, as in OpenSM; but the parser reports
//! all mistakes.

use super::ulp::{self, By};
use super::{MatchRule, Policy, PortGroup, QosLevel, Ranges};
use crate::options::{Diagnostic, Diagnostics, bounded, clip, lines, number};

/// Maximum number of groups, of levels and of rules of a policy.
const ENTRIES_MAX: usize = 4096;
/// Maximum number of ranges in one list.
const RANGES_MAX: usize = 4096;
/// Name of the level for paths without a matching rule.
const DEFAULT: &str = "default";

/// Sections: the opening word, and the word that opens an entry within.
const SECTIONS: &[(&str, &str)] = &[
    ("port-groups", "port-group"),
    ("qos-levels", "qos-level"),
    ("qos-match-rules", "qos-match-rule"),
    ("qos-ulps", ""),
    ("qos-setup", ""),
];

/// Words of `qos-setup`, which has no effect.
const SETUP: &[&str] = &[
    "vlarb-tables",
    "end-vlarb-tables",
    "vlarb-scope",
    "end-vlarb-scope",
    "group",
    "across",
    "vlarb-high",
    "vlarb-low",
    "vl-high-limit",
    "sl2vl-tables",
    "end-sl2vl-tables",
    "sl2vl-scope",
    "end-sl2vl-scope",
    "to",
    "from",
    "across-to",
    "across-from",
    "sl2vl-table",
];

/// Parses a file; `file` names it in diagnostics. A file with mistakes yields no policy.
pub fn parse(text: &str, file: &str) -> (Option<Policy>, Vec<Diagnostic>) {
    let mut parser = Parser { diagnostics: Diagnostics::of(file), ..Parser::default() };
    if bounded(text).len() < text.len() {
        parser.diagnostics.error((0, 0), "the file is too long to be a policy", "is this the right file?");
    }
    for (at, line) in lines(text) {
        parser.line(at, line);
    }
    parser.end()
}

/// A rule with the names it refers to, which may be declared below it.
#[derive(Default)]
struct Raw {
    rule: MatchRule,
    sources: Vec<String>,
    destinations: Vec<String>,
    level: String,
}

#[derive(Default)]
struct Parser {
    diagnostics: Diagnostics,
    policy: Policy,
    rules: Vec<Raw>,
    /// Rules of `qos-ulps`, which match after the others.
    ulps: Vec<MatchRule>,
    ulp_default: Option<u8>,
    section: Option<(&'static str, &'static str)>,
    entry: Option<Entry>,
    last: u32,
}

enum Entry {
    Group(PortGroup),
    Level(QosLevel),
    Rule(Raw),
}

impl Parser {
    fn line(&mut self, at: u32, line: &str) {
        self.last = at;
        match (self.section, self.entry.is_some()) {
            (None, _) => self.open_section(at, line),
            (Some((section, _)), false) if line.strip_prefix("end-") == Some(section) => self.section = None,
            (Some((_, entry)), false) if !entry.is_empty() && line == entry => self.open_entry(at, entry),
            (Some(("qos-ulps", _)), _) => self.ulp(at, line),
            (Some(("qos-setup", _)), _) => self.setup(at, line),
            (Some((_, entry)), true) if line.strip_prefix("end-") == Some(entry) => self.close_entry(at),
            (Some(_), true) => self.attribute(at, line),
            (Some((section, entry)), false) => {
                let what = format!("{} does not stand in {section}", clip(line));
                self.diagnostics.error((at, 1), what, format!("write {entry} or end-{section}"));
            }
        }
    }

    fn open_section(&mut self, at: u32, line: &str) {
        self.section = SECTIONS.iter().find(|(section, _)| *section == line).copied();
        match self.section {
            Some(("qos-setup", _)) => {
                let what = "qos-setup has no effect: lanes and arbitration stand in opensm.conf";
                self.diagnostics.note((at, 1), what, "see qos_vlarb_high, qos_vlarb_low and qos_sl2vl");
            }
            Some(_) => {}
            None => {
                let sections: Vec<_> = SECTIONS.iter().map(|(section, _)| *section).collect();
                self.diagnostics.error(
                    (at, 1),
                    format!("{} opens no section", clip(line)),
                    format!("sections: {}", sections.join(", ")),
                );
            }
        }
    }

    fn open_entry(&mut self, at: u32, entry: &str) {
        let count = self.policy.groups.len().max(self.policy.levels.len()).max(self.rules.len());
        if count >= ENTRIES_MAX {
            self.diagnostics.error((at, 1), format!("there are more than {ENTRIES_MAX} entries"), "write fewer");
        }
        self.entry = Some(match entry {
            "port-group" => Entry::Group(PortGroup::default()),
            "qos-level" => Entry::Level(QosLevel::default()),
            _ => Entry::Rule(Raw { rule: MatchRule { line: at, ..MatchRule::default() }, ..Raw::default() }),
        });
    }

    fn close_entry(&mut self, at: u32) {
        match self.entry.take() {
            Some(Entry::Group(group)) => {
                self.named(
                    at,
                    &group.name,
                    self.policy.groups.iter().any(|known| known.name.eq_ignore_ascii_case(&group.name)),
                );
                push(&mut self.policy.groups, group);
            }
            Some(Entry::Level(level)) => {
                self.named(
                    at,
                    &level.name,
                    self.policy.levels.iter().any(|known| known.name.eq_ignore_ascii_case(&level.name)),
                );
                if level.sl.is_none() {
                    self.diagnostics.error((at, 1), "the level has no sl", "write sl: 0 to 15");
                }
                push(&mut self.policy.levels, level);
            }
            Some(Entry::Rule(rule)) => {
                if rule.level.is_empty() {
                    self.diagnostics.error((at, 1), "the rule has no qos-level-name", "write the name of a level");
                }
                push(&mut self.rules, rule);
            }
            None => {}
        }
    }

    fn named(&mut self, at: u32, name: &str, known: bool) {
        if name.is_empty() {
            self.diagnostics.error((at, 1), "what ends here has no name", "write name: and one");
        } else if known {
            self.diagnostics.error((at, 1), format!("the name {} stands twice", clip(name)), "write another");
        }
    }

    fn attribute(&mut self, at: u32, line: &str) {
        let (key, value) = line.split_once(':').map_or((line, ""), |(key, value)| (key.trim(), value.trim()));
        let Some(mut entry) = self.entry.take() else { return };
        let done = match &mut entry {
            Entry::Group(group) => group_attribute(group, key, value),
            Entry::Level(level) => level_attribute(level, key, value),
            Entry::Rule(raw) => rule_attribute(raw, key, value),
        };
        self.entry = Some(entry);
        if let Err((what, fix)) = done {
            self.diagnostics.error((at, 1), what, fix);
        }
    }

    fn setup(&mut self, at: u32, line: &str) {
        let word = line.split(':').next().unwrap_or("").trim();
        if !SETUP.contains(&word) {
            self.diagnostics.error(
                (at, 1),
                format!("{} does not stand in qos-setup", clip(word)),
                "write end-qos-setup",
            );
        }
    }

    fn ulp(&mut self, at: u32, line: &str) {
        let Some((criterion, sl)) = line.rsplit_once(':') else {
            self.diagnostics.error(
                (at, 1),
                format!("{} has no service level", clip(line)),
                "write PROTOCOL, CRITERION : SL",
            );
            return;
        };
        let by = ulp::criterion(criterion.trim(), ranges);
        match (by, small(sl.trim(), 15)) {
            (Ok(By::Default), Ok(sl)) => self.ulp_default = Some(sl),
            (Ok(by), Ok(sl)) => self.ulp_rule(at, by, sl),
            (Err(what), _) | (_, Err(what)) => {
                let fix = "protocols: default, sdp, srp, rds, iser, ipoib, any; criteria: port-num, pkey, service-id, target-port-guid, source-port-guid, source-target-port-guid";
                self.diagnostics.error((at, 1), what, fix);
            }
        }
    }

    fn ulp_rule(&mut self, at: u32, by: By, sl: u8) {
        let mut rule = MatchRule { line: at, level: self.policy.levels.len(), ..MatchRule::default() };
        match by {
            By::Default => {}
            By::Service(services) => rule.services = services,
            By::Pkey(pkeys) => rule.pkeys = pkeys,
            By::Target(guids) => rule.destinations = vec![self.group_of(at, guids)],
            By::Source(guids) => rule.sources = vec![self.group_of(at, guids)],
            By::Either(guids) => {
                let group = self.group_of(at, guids);
                (rule.sources, rule.destinations, rule.either) = (vec![group], vec![group], true);
            }
        }
        let level = QosLevel { name: format!("line {at}"), sl: Some(sl), ..QosLevel::default() };
        if self.ulps.len() < ENTRIES_MAX {
            self.policy.levels.push(level);
            self.ulps.push(rule);
        } else if self.ulps.len() == ENTRIES_MAX {
            self.diagnostics.error((at, 1), format!("there are more than {ENTRIES_MAX} rules"), "write fewer");
        }
    }

    fn group_of(&mut self, at: u32, guids: Ranges) -> usize {
        let group = PortGroup { name: format!("line {at}"), guids, ..PortGroup::default() };
        push(&mut self.policy.groups, group);
        self.policy.groups.len() - 1
    }

    fn end(mut self) -> (Option<Policy>, Vec<Diagnostic>) {
        if let Some((section, _)) = self.section {
            self.diagnostics.error((self.last, 0), format!("{section} has no end"), format!("write end-{section}"));
        }
        for raw in std::mem::take(&mut self.rules) {
            self.resolve(raw);
        }
        self.policy.rules.append(&mut self.ulps);
        match (level_of(&self.policy, DEFAULT), self.ulp_default) {
            (Some(level), _) => self.policy.default = level,
            (None, Some(sl)) => {
                self.policy.default = self.policy.levels.len();
                let name = DEFAULT.to_owned();
                self.policy.levels.push(QosLevel { name, sl: Some(sl), ..QosLevel::default() });
            }
            (None, None) => {
                let fix = "write a qos-level with name: DEFAULT, or default : 0 in qos-ulps";
                self.diagnostics.error((0, 0), "there is no default level", fix);
            }
        }
        let policy = (!self.diagnostics.has_errors()).then_some(self.policy);
        if policy.is_none() {
            self.diagnostics.error((0, 0), "the policy has mistakes and is not used", "fix them");
        }
        (policy, self.diagnostics.into_list())
    }

    fn resolve(&mut self, raw: Raw) {
        let Raw { mut rule, sources, destinations, level } = raw;
        for (names, places) in [(sources, &mut rule.sources), (destinations, &mut rule.destinations)] {
            for name in names {
                match self.policy.groups.iter().position(|known| known.name.eq_ignore_ascii_case(&name)) {
                    Some(place) => places.push(place),
                    None => {
                        let what = format!("no port-group is called {}", clip(&name));
                        self.diagnostics.error((rule.line, 0), what, "write the name of one");
                    }
                }
            }
        }
        match level_of(&self.policy, &level) {
            Some(place) => rule.level = place,
            None => self.diagnostics.error(
                (rule.line, 0),
                format!("no qos-level is called {}", clip(&level)),
                "write the name of one",
            ),
        }
        self.policy.rules.push(rule);
    }
}

fn level_of(policy: &Policy, name: &str) -> Option<usize> {
    policy.levels.iter().position(|known| known.name.eq_ignore_ascii_case(name))
}

fn push<T>(list: &mut Vec<T>, value: T) {
    if list.len() < 2 * ENTRIES_MAX {
        list.push(value);
    }
}

/// A mistake and its fix.
type Wrong = (String, &'static str);

fn group_attribute(group: &mut PortGroup, key: &str, value: &str) -> Result<(), Wrong> {
    let numbers = || ranges(value).map_err(|wrong| (wrong, "write numbers and ranges: 0x1, 0x5-0x10"));
    match key {
        "name" => group.name = unquoted(value),
        "use" => group.about = unquoted(value),
        "port-guid" => group.guids.append(&mut numbers()?),
        "pkey" => group.pkeys.append(&mut ulp::without_membership(numbers()?)),
        "partition" => group.partitions.extend(value.split(',').map(unquoted)),
        "port-name" => {
            for item in value.split(',') {
                group.names.push(port_name(&unquoted(item))?);
            }
        }
        "node-type" => {
            for item in value.split(',') {
                node_type(group, item.trim())?;
            }
        }
        _ => {
            let fix = "attributes: name, use, port-guid, port-name, pkey, partition, node-type; or end-port-group";
            return Err((format!("a port-group has no {}", clip(key)), fix));
        }
    }
    Ok(())
}

fn port_name(text: &str) -> Result<(String, u8), Wrong> {
    let wrong = || (format!("{} is no name of a port", clip(text)), "write DESCRIPTION/P1 with the port's number");
    let (name, port) = text.rsplit_once('/').ok_or_else(wrong)?;
    let digits = port.strip_prefix(['p', 'P']).ok_or_else(wrong)?;
    let port = number(digits).ok().and_then(|port| u8::try_from(port).ok()).filter(|port| *port > 0);
    Ok((name.trim().to_owned(), port.ok_or_else(wrong)?))
}

fn node_type(group: &mut PortGroup, word: &str) -> Result<(), Wrong> {
    match word.to_ascii_lowercase().as_str() {
        "ca" => group.cas = true,
        "switch" => group.switches = true,
        "router" => group.routers = true,
        "self" => group.myself = true,
        "all" => (group.cas, group.switches, group.routers) = (true, true, true),
        _ => return Err((format!("{} is no type of node", clip(word)), "write CA, SWITCH, ROUTER, SELF or ALL")),
    }
    Ok(())
}

fn level_attribute(level: &mut QosLevel, key: &str, value: &str) -> Result<(), Wrong> {
    let code = |most| small(value, most).map(Some).map_err(|wrong| (wrong, "write a code as the specification has it"));
    let numbers = || ranges(value).map_err(|wrong| (wrong, "write numbers and ranges: 0x1, 0x5-0x10"));
    match key {
        "name" => level.name = unquoted(value),
        "use" => level.about = unquoted(value),
        "sl" => level.sl = small(value, 15).map(Some).map_err(|wrong| (wrong, "write 0 to 15"))?,
        "mtu-limit" => level.mtu_limit = code(5)?,
        "rate-limit" => level.rate_limit = code(63)?,
        "packet-life" => level.packet_life = code(63)?,
        "pkey" => level.pkeys.append(&mut ulp::without_membership(numbers()?)),
        "path-bits" => level.path_bits.append(&mut numbers()?),
        _ => {
            let fix =
                "attributes: name, use, sl, mtu-limit, rate-limit, packet-life, pkey, path-bits; or end-qos-level";
            return Err((format!("a qos-level has no {}", clip(key)), fix));
        }
    }
    Ok(())
}

fn rule_attribute(raw: &mut Raw, key: &str, value: &str) -> Result<(), Wrong> {
    let numbers = || ranges(value).map_err(|wrong| (wrong, "write numbers and ranges: 0x1, 0x5-0x10"));
    match key {
        "use" => raw.rule.about = unquoted(value),
        "qos-level-name" => raw.level = unquoted(value),
        "source" => raw.sources.extend(value.split(',').map(unquoted)),
        "destination" => raw.destinations.extend(value.split(',').map(unquoted)),
        "qos-class" => raw.rule.classes.append(&mut numbers()?),
        "service-id" => raw.rule.services.append(&mut numbers()?),
        "pkey" => raw.rule.pkeys.append(&mut ulp::without_membership(numbers()?)),
        _ => {
            let fix = "attributes: use, source, destination, qos-class, service-id, pkey, qos-level-name; or end-qos-match-rule";
            return Err((format!("a qos-match-rule has no {}", clip(key)), fix));
        }
    }
    Ok(())
}

fn unquoted(text: &str) -> String {
    let text = text.trim();
    text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text).to_owned()
}

fn small(text: &str, most: u8) -> Result<u8, String> {
    let value = number(text)?;
    u8::try_from(value).ok().filter(|value| *value <= most).ok_or_else(|| format!("{} is above {most}", clip(text)))
}

/// Parses numbers and ranges, separated by commas.
fn ranges(text: &str) -> Result<Ranges, String> {
    let mut ranges = Ranges::new();
    for item in text.split(',').map(str::trim) {
        let (low, high) = item.split_once('-').map_or((item, item), |(low, high)| (low.trim(), high.trim()));
        let (low, high) = (number(low)?, number(high)?);
        if low > high {
            return Err(format!("{} is no range: it ends below its beginning", clip(item)));
        }
        if ranges.len() == RANGES_MAX {
            return Err(format!("there are more than {RANGES_MAX} ranges in one list"));
        }
        ranges.push((low, high));
    }
    Ok(ranges)
}
