//! The check itself: reads, compares, reports and clears the counters of all selected ports.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::counters::{DATA, DATA_EXTENDED, ERRORS, Thresholds, is_data, readable};
use crate::ib::address::PortId;
use crate::ib::field::Field;
use crate::ib::fields::perf::{RCV_ERROR_DETAILS, XMIT_DISCARD_DETAILS, class_port_info, port_counters as pc};
use crate::ib::mad::ATTR_CLASS_PORT_INFO;
use crate::ib::names::NodeNames;
use crate::ib::pma::{self, ALL_PORTS};
use crate::ib::port::Port;
use crate::ib::report::warn;
use crate::ibnet::{Fabric, Node};
use crate::tools::iblinkinfo::text::{external, link, remote_text};

/// CounterSelect bits: errors, PortXmitWait, traffic.
const SELECT_ERRORS: u32 = 0xfff;
const SELECT_XMIT_WAIT: u32 = 1 << 16;
const SELECT_DATA: u32 = 0xf000;
/// CounterSelect bits of PortCountersExtended: errors, PortXmitWait.
const SELECT_EXTENDED_ERRORS: u32 = 0xfff_0000;
const SELECT_EXTENDED_XMIT_WAIT: u32 = 1 << 28;

/// Settings of the check.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Thresholds of the error counters.
    pub thresholds: Thresholds,
    /// Errors to ignore.
    pub suppressed: Vec<&'static str>,
    /// Also show traffic of bad ports.
    pub data: bool,
    /// Show only traffic.
    pub data_only: bool,
    /// Show the causes of discards and receive errors.
    pub details: bool,
    /// Show the links of bad ports.
    pub links: bool,
    /// Clear error counters.
    pub clear_errors: bool,
    /// Clear traffic counters.
    pub clear_data: bool,
}

/// Totals of the check.
#[derive(Debug, Default)]
pub struct Summary {
    /// Nodes checked.
    pub nodes: u32,
    /// Nodes with errors.
    pub bad_nodes: u32,
    /// Ports checked.
    pub ports: u32,
    /// Ports with errors.
    pub bad_ports: u32,
    /// Requests without an answer.
    pub failures: u32,
}

/// A reported counter.
struct Counter {
    name: String,
    value: u64,
    readable: Option<String>,
}

impl Counter {
    fn text(&self) -> String {
        match &self.readable {
            Some(readable) => format!(" [{} == {} ({readable})]", self.name, self.value),
            None => format!(" [{} == {}]", self.name, self.value),
        }
    }
}

/// A node under check.
struct Subject<'a> {
    node: &'a Node,
    name: String,
    capabilities: u16,
    capabilities2: u32,
    heading: Option<String>,
    ports: Vec<Value>,
}

impl Subject<'_> {
    fn can(&self, capability: u16) -> bool {
        self.capabilities & capability != 0
    }

    fn has_extended(&self) -> bool {
        self.can(pma::CAP_EXT_WIDTH | pma::CAP_EXT_WIDTH_NOIETF)
    }

    fn has_extended_errors(&self) -> bool {
        self.capabilities2 & pma::CAP2_ADDITIONAL_EXT != 0
    }

    /// The traffic counters that the node supports.
    fn data_fields(&self) -> &'static [Field] {
        match (self.has_extended(), self.can(pma::CAP_EXT_WIDTH)) {
            (true, true) => DATA_EXTENDED,
            (true, false) => &DATA_EXTENDED[..4],
            (false, _) => DATA,
        }
    }

    fn switch_guid(&self) -> u64 {
        self.node.port(0).map_or(self.node.info_port_guid(), |port| port.guid)
    }

    fn head(&mut self, text: String) -> Option<String> {
        self.heading.is_none().then(|| self.heading.insert(text).clone())
    }
}

/// The check of a fabric.
pub struct Check<'a> {
    /// The port that sends the requests.
    pub port: &'a mut Port,
    /// The fabric.
    pub fabric: &'a Fabric,
    /// Names of nodes.
    pub names: &'a NodeNames,
    /// Service levels by LID.
    pub service_levels: Vec<u8>,
    /// Timeout for an answer, in milliseconds.
    pub timeout_ms: u32,
    /// Settings of the check.
    pub options: Options,
    /// Totals of the check.
    pub summary: Summary,
    /// The report.
    pub text: String,
    /// The report as JSON.
    pub json: Vec<Value>,
}

impl Check<'_> {
    /// Checks a node.
    pub fn node(&mut self, node: &Node) {
        let first = if node.is_switch() { Some(0) } else { node.external_ports().next().map(|p| p.num) };
        let number = first.unwrap_or(node.num_ports.saturating_add(1));
        let mut subject = Subject {
            node,
            name: node.called(self.names),
            capabilities: 0,
            capabilities2: 0,
            heading: None,
            ports: Vec::new(),
        };
        let to = self.address(node, number);
        self.ask_capabilities(&mut subject, &to, number);
        let all_at_once = subject.can(pma::CAP_ALL_PORT_SELECT);
        let worth_a_look = self.options.data_only || !all_at_once || {
            let bad = self.errors(&mut subject, &to, ALL_PORTS);
            if !bad {
                self.summary.ports += u32::from(node.num_ports);
            }
            bad
        };
        if worth_a_look {
            self.ports(&mut subject, all_at_once);
        }
        self.summary.nodes += 1;
        if all_at_once {
            self.clear(&subject, &to, ALL_PORTS);
        }
        if !subject.ports.is_empty() {
            let guid = crate::ibnet::json::guid(node.guid);
            self.json.push(json!({"guid": guid, "name": subject.name, "ports": subject.ports}));
        }
    }

    fn ports(&mut self, subject: &mut Subject<'_>, all_at_once: bool) {
        let node = subject.node;
        let from_zero = node.is_switch() && node.enhanced_port0;
        for port in node.ports().filter(|port| port.num != 0 || from_zero) {
            let to = self.address(node, port.num);
            if self.options.data_only {
                self.data(subject, &to, port.num);
            } else {
                self.errors(subject, &to, port.num);
            }
            self.summary.ports += 1;
            if !all_at_once {
                self.clear(subject, &to, port.num);
            }
        }
    }

    fn address(&self, node: &Node, port: u8) -> PortId {
        let lid = node.port(port).map_or(node.sma_lid, |port| Fabric::lid_of(node, port));
        let sl = self.service_levels.get(usize::from(lid)).copied().unwrap_or(0);
        PortId { sl, ..PortId::lid(lid) }
    }

    fn ask(&mut self, to: &PortId, attribute: u16, port: u8) -> Option<pma::Data> {
        self.port.pma_get(to, attribute, port, self.timeout_ms).ok()
    }

    fn failed(&mut self, function: &str, what: &str, subject: &Subject<'_>, to: &PortId, port: u8) {
        warn(function, &format!("{what} query failed on {}, {to} port {port}", subject.name));
        self.summary.failures += 1;
    }

    fn ask_capabilities(&mut self, subject: &mut Subject<'_>, to: &PortId, port: u8) {
        match self.ask(to, ATTR_CLASS_PORT_INFO, port) {
            None => self.failed("query_cap_mask", "classportinfo", subject, to, port),
            Some(info) => {
                subject.capabilities = class_port_info::CAPABILITY_MASK.value(&info) as u16;
                subject.capabilities2 = class_port_info::CAPABILITY_MASK2.value(&info) as u32;
            }
        }
    }

    /// Reports the errors of a port; returns whether there are any.
    fn errors(&mut self, subject: &mut Subject<'_>, to: &PortId, port: u8) -> bool {
        let Some(mut counters) = self.ask(to, pma::COUNTERS, port) else {
            self.failed("print_errors", "IB_GSI_PORT_COUNTERS", subject, to, port);
            return false;
        };
        let mut extended = [0; pma::DATA_LEN];
        if subject.has_extended() {
            let Some(answer) = self.ask(to, pma::COUNTERS_EXTENDED, port) else {
                self.failed("print_errors", "IB_GSI_PORT_COUNTERS_EXT", subject, to, port);
                return false;
            };
            extended = answer;
        }
        if !subject.can(pma::CAP_XMIT_WAIT) {
            pc::PORT_XMIT_WAIT.set(&mut counters, 0);
        }
        let mut found = self.exceeded(subject, to, port, &counters, &extended);
        if found.is_empty() {
            return false;
        }
        if self.options.data {
            let data = if subject.has_extended() { &extended } else { &counters };
            found.extend(traffic(subject, data).into_iter().filter(|counter| counter.value != 0));
        }
        self.report_errors(subject, port, &found);
        true
    }

    fn exceeded(
        &mut self,
        subject: &Subject<'_>,
        to: &PortId,
        port: u8,
        counters: &pma::Data,
        extended: &pma::Data,
    ) -> Vec<Counter> {
        let mut found = Vec::new();
        for (field, extended_field) in ERRORS {
            if self.options.suppressed.contains(&field.name) {
                continue;
            }
            let wide = subject.has_extended_errors();
            let value = if wide { extended_field.value(extended) } else { field.value(counters) };
            if !self.options.thresholds.exceeded(field, value) {
                continue;
            }
            let readable = wide.then(|| readable(value, false));
            found.push(Counter { name: field.name.to_owned(), value, readable });
            if self.options.details && field.name == pc::PORT_XMIT_DISCARDS.name {
                let (what, attribute) = ("PortXmitDiscardDetails", pma::XMIT_DISCARD_DETAILS);
                found.extend(self.details(subject, to, port, (what, attribute, XMIT_DISCARD_DETAILS)));
            } else if self.options.details && field.name == pc::PORT_RCV_ERRORS.name {
                let (what, attribute) = ("PortRcvErrorDetails", pma::RCV_ERROR_DETAILS);
                found.extend(self.details(subject, to, port, (what, attribute, RCV_ERROR_DETAILS)));
            }
        }
        found
    }

    fn details(
        &mut self,
        subject: &Subject<'_>,
        to: &PortId,
        port: u8,
        (what, attribute, fields): (&str, u16, &[Field]),
    ) -> Vec<Counter> {
        let Some(data) = self.ask(to, attribute, port) else {
            self.failed("query_and_dump", what, subject, to, port);
            return Vec::new();
        };
        let counter = |field: &Field| Counter { name: field.label(), value: field.value(&data), readable: None };
        fields.iter().map(counter).filter(|counter| counter.value != 0).collect()
    }

    fn report_errors(&mut self, subject: &mut Subject<'_>, port: u8, found: &[Counter]) {
        let is_switch = subject.node.is_switch();
        let heading = match is_switch {
            true => format!("Errors for {:#x} \"{}\"\n", subject.switch_guid(), subject.name),
            false => format!("Errors for \"{}\"\n", subject.name),
        };
        if let Some(heading) = subject.head(heading) {
            self.text += &heading;
            self.summary.bad_nodes += 1;
        }
        let list: String = found.iter().map(Counter::text).collect();
        if port == ALL_PORTS {
            if is_switch {
                let _ = writeln!(self.text, "   GUID {:#x} port ALL:{list}", subject.switch_guid());
            }
            return;
        }
        let guid = subject.node.port(port).map_or(0, |port| port.guid);
        let _ = writeln!(self.text, "   GUID {guid:#x} port {port}:{list}");
        self.report_link(subject, port);
        self.summary.bad_ports += 1;
        self.keep(subject, port, found);
    }

    fn keep(&self, subject: &mut Subject<'_>, port: u8, found: &[Counter]) {
        let counters: Map<String, Value> = found.iter().map(|c| (c.name.clone(), c.value.into())).collect();
        let mut value = json!({"port": port, "counters": counters});
        if let Some(of) = subject.node.port(port).filter(|_| self.options.links) {
            value["link"] = crate::ibnet::json::port(self.fabric, self.names, subject.node, of);
        }
        subject.ports.push(value);
    }

    fn report_link(&mut self, subject: &Subject<'_>, port: u8) {
        let node = subject.node;
        let Some(port) = node.port(port).filter(|_| self.options.links) else { return };
        let remote = match self.fabric.remote(port) {
            None => "           [  ] \"\" ( )\n".to_owned(),
            Some(remote) => {
                let text = remote_text(self.fabric, self.names, (node, port), remote);
                format!("0x{:016x} {text}", remote.1.guid)
            }
        };
        let (lid, external, link) = (Fabric::lid_of(node, port), external(port), link(node, port));
        let _ = write!(self.text, "       Link info: {lid:6}{external} =={link}==>  {remote}");
    }

    /// Reports the traffic of a port.
    fn data(&mut self, subject: &mut Subject<'_>, to: &PortId, port: u8) {
        let (attribute, name) = match subject.has_extended() {
            true => (pma::COUNTERS_EXTENDED, "IB_GSI_PORT_COUNTERS_EXT"),
            false => (pma::COUNTERS, "IB_GSI_PORT_COUNTERS"),
        };
        let Some(data) = self.ask(to, attribute, port) else {
            return self.failed("print_data_cnts", name, subject, to, port);
        };
        let guid = subject.node.guid;
        if let Some(heading) = subject.head(format!("Data Counters for {guid:#x} \"{}\"\n", subject.name)) {
            self.text += &heading;
        }
        let found = traffic(subject, &data);
        let list: String = found.iter().map(Counter::text).collect();
        let _ = writeln!(self.text, "   GUID {guid:#x} port {port}:{list}");
        self.report_link(subject, port);
        self.keep(subject, port, &found);
    }

    /// Clears the selected counters.
    fn clear(&mut self, subject: &Subject<'_>, to: &PortId, port: u8) {
        let Options { clear_errors, clear_data, details, .. } = self.options;
        let wait = subject.can(pma::CAP_XMIT_WAIT);
        let pick = |wanted: bool, bits: u32| if wanted { bits } else { 0 };
        let mask = pick(clear_errors, SELECT_ERRORS)
            | pick(clear_errors && wait, SELECT_XMIT_WAIT)
            | pick(clear_data, SELECT_DATA);
        if mask != 0 && !self.reset(to, pma::COUNTERS, port, mask) {
            crate::errln!("Failed to reset errors {} port {port}", subject.name);
        }
        if clear_errors && details {
            self.reset(to, pma::XMIT_DISCARD_DETAILS, port, 0xf);
            self.reset(to, pma::RCV_ERROR_DETAILS, port, 0x3f);
        }
        if !subject.has_extended() {
            return;
        }
        let data = if subject.can(pma::CAP_EXT_WIDTH) { 0xff } else { 0x0f };
        let errors = clear_errors && subject.has_extended_errors();
        let mask = pick(clear_data, data)
            | pick(errors, SELECT_EXTENDED_ERRORS)
            | pick(errors && wait, SELECT_EXTENDED_XMIT_WAIT);
        if mask != 0 && !self.reset(to, pma::COUNTERS_EXTENDED, port, mask) {
            crate::errln!("Failed to reset extended data counters {}, {to} port {port}", subject.name);
        }
    }

    fn reset(&mut self, to: &PortId, attribute: u16, port: u8, mask: u32) -> bool {
        self.port.pma_reset(to, attribute, port, mask, self.timeout_ms).is_ok()
    }
}

fn traffic(subject: &Subject<'_>, data: &pma::Data) -> Vec<Counter> {
    let counter = |field: &Field| {
        let value = field.value(data);
        Counter { name: field.name.to_owned(), value, readable: Some(readable(value, is_data(field))) }
    };
    subject.data_fields().iter().map(counter).collect()
}
