//! Tori and meshes: a grid of switches of any number of dimensions. Ports 1 and 2 go up and down the first dimension, 3
//! and 4 the second, and so on; the hosts come after them.

use super::cluster::Cluster;
use super::plan::refuse;
use crate::topology::{Result, limits};

/// Largest sensible number of dimensions; such a hypercube has 4096 switches.
const DIMENSIONS_MAX: usize = 12;

/// Generates the grid.
pub fn draw(c: &mut Cluster<'_>, sizes: &[u32], hosts_per_switch: u8, wraps: bool) -> Result<()> {
    let all = sizes.iter().fold(1u64, |all, size| all.saturating_mul(u64::from(*size)));
    let with_hosts = all.saturating_mul(1 + u64::from(hosts_per_switch));
    if sizes.is_empty() || sizes.len() > DIMENSIONS_MAX || all == 0 || with_hosts > limits::NODES_MAX as u64 {
        return refuse(
            format!("a grid of {} with {hosts_per_switch} hosts a switch", super::parse::by_x(sizes)),
            format!(
                "1 to {DIMENSIONS_MAX} dimensions of at least 1, at most {} nodes in all: --torus 4x4x4",
                limits::NODES_MAX
            ),
        );
    }
    let first_host = 2 * sizes.len() as u32;
    let mut places = Vec::new();
    for number in 0..all {
        let name = format!("sw{}", super::parse::joined(&digits(number, sizes), "-"));
        let switch = c.switch(&name, first_host + u32::from(hosts_per_switch))?;
        places.push(switch);
        for host in 1..=u32::from(hosts_per_switch) {
            c.host_at(switch, first_host + host)?;
        }
    }
    for number in 0..all {
        for dimension in 0..sizes.len() {
            if let Some(next) = neighbour(number, sizes, dimension, wraps) {
                let port = 2 * dimension as u32 + 1;
                c.cable(places[number as usize], port, places[next as usize], port + 1)?;
            }
        }
    }
    Ok(())
}

/// Returns a switch's coordinates; the first changes fastest.
fn digits(mut number: u64, sizes: &[u32]) -> Vec<u32> {
    let mut out = Vec::new();
    for size in sizes {
        out.push((number % u64::from(*size)) as u32);
        number /= u64::from(*size);
    }
    out
}

/// Returns the next switch up a dimension, if there is a cable to it: a ring of two has one cable, not two.
fn neighbour(number: u64, sizes: &[u32], dimension: usize, wraps: bool) -> Option<u64> {
    let stride: u64 = sizes[..dimension].iter().map(|size| u64::from(*size)).product();
    let size = u64::from(sizes[dimension]);
    let at = number / stride % size;
    match at + 1 < size {
        true => Some(number + stride),
        false if wraps && size > 2 => Some(number - at * stride),
        false => None,
    }
}
