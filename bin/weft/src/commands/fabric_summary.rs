//! A fabric in one line.

use weft_fabric::topology::{LinkState, counted};
use weft_ipc::fabric::FabricStatus;

/// Describes a fabric in one line.
pub fn summary(status: &FabricStatus) -> String {
    let mut text = format!("{}: {}", status.title, counted(status.hosts, "host"));
    if status.adapters != status.hosts {
        text += &format!(" with {}", counted(status.adapters, "adapter"));
    }
    text += &format!(", {}", counted(status.switches, "switch"));
    if status.routers > 0 {
        text += &format!(", {}", counted(status.routers, "router"));
    }
    format!("{text}, {}", links(status))
}

/// Counts links by state: `1296 links (1290 active, 6 down)`.
fn links(status: &FabricStatus) -> String {
    let by_state = LinkState::ALL.iter().zip(status.links).filter(|(_, count)| *count > 0);
    let words: Vec<String> = by_state.map(|(state, count)| format!("{count} {}", state.word())).collect();
    let all: u32 = status.links.iter().sum();
    if words.is_empty() { "no links".to_owned() } else { format!("{} ({})", counted(all, "link"), words.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_counts_hosts_switches_and_links() {
        let status = FabricStatus {
            title: "pair".into(),
            hosts: 2,
            adapters: 2,
            links: [1, 0, 0, 0, 0],
            ..FabricStatus::default()
        };
        assert_eq!(summary(&status), "pair: 2 hosts, 0 switches, 1 link (1 active)");
    }
}
