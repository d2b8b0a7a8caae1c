//! `weft up --test pingall`: every host reaches every other, over its LID (SubnGet of NodeInfo), by verbs (datagrams that
//! are echoed) and over IPoIB (ICMP echo). Like Mininet's pingall, it ends with the share of lost pings.
//!
//! A program runs as each host (`weft pingall-host`, hidden), answers the others and pings them when this process says
//! so, through pipes ([`wire`]).

mod conductor;
mod host;
mod icmp;
mod lids;
mod plan;
mod report;
mod wire;

pub use host::{HostArgs, run as run_host};
pub use report::Report;

use weft_fabric::topology::Topology;

/// Tests all pairs of hosts, or a sample of them.
///
/// # Errors
/// The fabric has fewer than two hosts, or programs cannot start; the text is for the user.
pub fn run(topology: &Topology) -> Result<Report, String> {
    let hosts: Vec<String> = topology.host_names().into_iter().map(str::to_owned).collect();
    if hosts.len() < 2 {
        return Err("pingall needs two hosts".to_owned());
    }
    let mut report = Report::new(&hosts);
    let rounds = plan::rounds(hosts.len());
    for (number, round) in (1..).zip(&rounds) {
        conductor::conduct(&hosts, round, (number, rounds.len()), &mut report)?;
    }
    Ok(report)
}
