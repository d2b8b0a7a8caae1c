//! The meanings of the counters.

use std::fmt::Write;

use weft_ipc::stat::{DeviceCounters, PortCounters, ProcessCounters};

/// The counters by what they belong to.
const GROUPS: [(&str, &[(&str, &str)]); 3] = [
    ("devices", DeviceCounters::MEANINGS),
    ("processes", ProcessCounters::MEANINGS),
    ("fabric ports", PortCounters::MEANINGS),
];

/// Formats all counters' names and meanings.
pub fn text() -> String {
    let mut out = String::new();
    for (group, counters) in GROUPS {
        let _ = writeln!(out, "{group}");
        for (name, meaning) in counters {
            let _ = writeln!(out, "  {name:<24} {meaning}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_ipc::stat::QpCounters;

    #[test]
    fn the_reference_page_has_every_counter_and_its_meaning() {
        let page = include_str!("../../../../../docs/reference.md");
        for (group, counters) in GROUPS {
            let rows: String = counters.iter().map(|(name, meaning)| format!("| `{name}` | {meaning} |\n")).collect();
            let table = format!("| of {group} | counts |\n|---|---|\n{rows}\n");
            assert!(page.contains(&table), "docs/reference.md lacks this table:\n{table}");
        }
    }

    #[test]
    fn a_queue_pair_has_counters_of_the_device() {
        let of_device = |name: &str| DeviceCounters::MEANINGS.iter().any(|(known, _)| *known == name);
        let unknown: Vec<_> = QpCounters::MEANINGS.iter().filter(|(name, _)| !of_device(name)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}
