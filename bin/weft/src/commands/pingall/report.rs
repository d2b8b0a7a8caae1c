//! The result of pingall.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};

use super::wire::{Method, PEERS_MAX};

/// Failed pairs named in the text; JSON has all.
const NAMED_MAX: usize = 64;

/// Pings in one way.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Tally {
    sent: usize,
    /// Failed pings: from, to, why.
    failed: Vec<(usize, usize, String)>,
}

/// The results of all rounds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    hosts: Vec<String>,
    tallies: BTreeMap<Method, Tally>,
    is_without_ip: bool,
}

impl Report {
    /// A report without results.
    pub fn new(hosts: &[String]) -> Report {
        Report { hosts: hosts.to_vec(), tallies: BTreeMap::new(), is_without_ip: false }
    }

    /// The hosts have the machine's network: IPoIB is not tested.
    pub fn has_no_ip(&mut self) {
        self.is_without_ip = true;
        self.tallies.remove(&Method::Ipoib);
    }

    /// Adds the pings of a host: how many, and those that failed, with the reason.
    pub fn add(&mut self, method: Method, from: usize, sent: usize, failed: Vec<(usize, String)>) {
        if method == Method::Ipoib && self.is_without_ip {
            return;
        }
        let tally = self.tallies.entry(method).or_default();
        tally.sent += sent;
        tally.failed.extend(failed.into_iter().map(|(to, why)| (from, to, why)));
    }

    /// Pings, and how many of them failed.
    pub fn counts(&self) -> (usize, usize) {
        let sum = |count: fn(&Tally) -> usize| self.tallies.values().map(count).sum();
        (sum(|tally| tally.sent), sum(|tally| tally.failed.len()))
    }

    /// The text for the user.
    pub fn text(&self) -> String {
        let count = self.hosts.len();
        let mut text = if self.is_sample() {
            format!("pingall: {count} hosts; each pings a sample of {PEERS_MAX} others\n")
        } else {
            format!("pingall: {count} hosts; each pings the {} others\n", count - 1)
        };
        for (method, tally) in &self.tallies {
            let label = match method {
                Method::Lids => "LIDs (NodeInfo)",
                Method::Verbs => "verbs (UD)",
                Method::Ipoib => "IPoIB (ICMP)",
            };
            let _ = writeln!(text, "  {label:<16} {}/{} received", tally.sent - tally.failed.len(), tally.sent);
        }
        if self.is_without_ip {
            text += "  IPoIB (ICMP)     not tested: the hosts have the machine's network\n";
        }
        let mut failed = self.tallies.iter().flat_map(|(method, tally)| tally.failed.iter().map(move |f| (method, f)));
        for (method, (from, to, why)) in failed.by_ref().take(NAMED_MAX) {
            let _ = writeln!(text, "  {} -> {} ({}): {why}", self.name(*from), self.name(*to), method.word());
        }
        let (sent, lost) = self.counts();
        if lost > NAMED_MAX {
            let _ = writeln!(text, "  and {} more; --json lists all", lost - NAMED_MAX);
        }
        let percent = if sent == 0 { 0.0 } else { lost as f64 * 100.0 / sent as f64 };
        let _ = writeln!(text, "Results: {percent:.0}% lost ({}/{sent} received)", sent - lost);
        text
    }

    /// The same as JSON.
    pub fn json(&self) -> Value {
        let failed = |tally: &Tally| -> Value {
            let pairs = tally.failed.iter();
            pairs.map(|(from, to, why)| json!({"from": self.name(*from), "to": self.name(*to), "why": why})).collect()
        };
        let tests = self.tallies.iter().map(|(method, tally)| {
            json!({"method": method.word(), "sent": tally.sent, "received": tally.sent - tally.failed.len(),
                   "failed": failed(tally)})
        });
        json!({"hosts": self.hosts.len(), "sample": self.is_sample(), "tests": tests.collect::<Value>()})
    }

    fn is_sample(&self) -> bool {
        self.hosts.len() > PEERS_MAX + 1
    }

    fn name(&self, host: usize) -> &str {
        self.hosts.get(host).map_or("?", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(count: usize) -> Report {
        Report::new(&(1..=count).map(|number| format!("node{number}")).collect::<Vec<_>>())
    }

    #[test]
    fn failed_pairs_are_named() {
        let mut report = report(3);
        for host in 0..3 {
            report.add(Method::Lids, host, 2, Vec::new());
        }
        report.add(Method::Verbs, 0, 2, vec![(2, "no answer".to_owned())]);
        assert_eq!(
            report.text(),
            "pingall: 3 hosts; each pings the 2 others\n  LIDs (NodeInfo)  6/6 received\n  verbs (UD)       1/2 \
             received\n  node1 -> node3 (verbs): no answer\nResults: 12% lost (7/8 received)\n"
        );
        assert_eq!(report.counts(), (8, 1));
        assert_eq!(report.json()["tests"][1]["failed"][0]["to"], "node3");
    }

    #[test]
    fn many_failures_are_counted_and_a_sample_is_called_one() {
        let mut report = report(100);
        report.has_no_ip();
        report.add(Method::Ipoib, 0, 64, Vec::new());
        report.add(Method::Lids, 0, 64, (1..65).map(|host| (host, "no answer".to_owned())).collect());
        report.add(Method::Lids, 1, 64, vec![(0, "no answer".to_owned())]);
        let text = report.text();
        assert!(text.starts_with("pingall: 100 hosts; each pings a sample of 64 others\n"), "{text}");
        assert!(text.contains("and 1 more") && text.contains("not tested"), "{text}");
        assert!(text.ends_with("Results: 51% lost (63/128 received)\n"), "{text}");
    }
}
