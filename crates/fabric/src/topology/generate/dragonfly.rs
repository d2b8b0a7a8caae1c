//! Dragonflies (Kim, Dally, Scott, Abts, 2008): within a group every two switches are cabled, and so are every two
//! groups. A switch's ports are, in order: hosts, its group, the other groups.

use super::cluster::Cluster;
use super::plan::refuse;
use crate::topology::{Result, limits};

/// Generates the network.
pub fn draw(c: &mut Cluster<'_>, per_group: u32, hosts: u8, global: u32, groups: Option<u32>) -> Result<()> {
    let channels = u64::from(per_group) * u64::from(global);
    let groups = groups.map_or(channels + 1, u64::from);
    let nodes = groups.saturating_mul(u64::from(per_group)).saturating_mul(1 + u64::from(hosts));
    let ports = u64::from(hosts) + u64::from(per_group) + u64::from(global);
    if per_group == 0 || groups == 0 || nodes > limits::NODES_MAX as u64 || ports > u64::from(limits::PORTS_MAX) + 1 {
        return refuse(
            format!("a dragonfly of {groups} groups of {per_group} switches, {hosts} hosts and {global} global each"),
            format!(
                "switches have at most {} ports, and there are at most {} nodes: --dragonfly 8,4,4",
                limits::PORTS_MAX,
                limits::NODES_MAX
            ),
        );
    }
    if groups > channels + 1 {
        return refuse(
            format!("{groups} groups with {channels} global cables each"),
            format!("every two groups are cabled: at most {} groups, or more cables from each switch", channels + 1),
        );
    }
    let (groups, per_group) = (groups as u32, u64::from(per_group) as u32);
    let mut places = Vec::new();
    for group in 0..groups {
        places.push(draw_group(c, group, per_group, hosts, global)?);
    }
    for group in 0..groups {
        cable_group(c, &places, group, per_group * global, |switch| {
            u32::from(hosts) + per_group - 1 + switch % global.max(1) + 1
        })?;
    }
    Ok(())
}

/// Adds the switches of a group, with their hosts and the cables among them.
fn draw_group(c: &mut Cluster<'_>, group: u32, per_group: u32, hosts: u8, global: u32) -> Result<Vec<u32>> {
    let hosts = u32::from(hosts);
    let mut places = Vec::new();
    for switch in 0..per_group {
        let place = c.switch(&format!("g{}-s{}", group + 1, switch + 1), hosts + per_group - 1 + global)?;
        places.push(place);
        for host in 1..=hosts {
            c.host_at(place, host)?;
        }
    }
    // Port `hosts + n` leads to the n-th other switch, not counting the switch itself.
    for a in 0..per_group {
        for b in a + 1..per_group {
            c.cable(places[a as usize], hosts + b, places[b as usize], hosts + a + 1)?;
        }
    }
    Ok(places)
}

/// Adds the cables from a group to the next groups on the circle, which have the matching cables to previous groups.
/// Channels are assigned in full rounds over the other groups.
fn cable_group(
    c: &mut Cluster<'_>,
    places: &[Vec<u32>],
    group: u32,
    channels: u32,
    port: impl Fn(u32) -> u32,
) -> Result<()> {
    let groups = places.len() as u32;
    let others = groups - 1;
    let rounds = channels.checked_div(others).unwrap_or(0);
    for channel in 0..rounds * others {
        let (round, offset) = (channel / others, channel % others + 1);
        let peer = (group + offset) % groups;
        let peer_channel = round * others + (groups - offset) - 1;
        // Both groups come to each cable: the lower one adds it.
        if group < peer {
            let per_switch = channels / places[0].len() as u32;
            let switch = |group: u32, channel: u32| places[group as usize][(channel / per_switch) as usize];
            c.cable(switch(group, channel), port(channel), switch(peer, peer_channel), port(peer_channel))?;
        }
    }
    Ok(())
}
