//! Fat trees, as extended generalised fat trees (Ohring, Ibel, Das, Kumar, 1995): a switch of level i has `down[i]`
//! children and `up[i+1]` parents. Its name there is a vector of digits: which child on the way down to its subtree,
//! and which parent on the way up to it. Two switches of neighbouring levels are cabled if all other digits agree.

use super::cluster::Cluster;
use super::plan::refuse;
use crate::topology::{Result, limits};

/// Largest sensible number of levels: even with switches of few ports, more exceed every other limit.
const LEVELS_MAX: u8 = 8;

/// Counts of the tree.
struct Numbers {
    /// Children of a switch, by level; at the lowest level, hosts.
    down: Vec<u64>,
    /// Parents of a switch of the level below, by level; 1 at the lowest.
    up: Vec<u64>,
}

impl Numbers {
    /// Returns the switches of a level: the subtrees above times the copies of each below.
    fn switches(&self, level: usize) -> u64 {
        let above: u64 = self.down[level + 1..].iter().fold(1, |all, n| all.saturating_mul(*n));
        self.up[..=level].iter().fold(above, |all, n| all.saturating_mul(*n))
    }

    /// Returns the number of copies of a subtree's top at a level.
    fn copies(&self, level: usize) -> u64 {
        self.up[..=level].iter().product()
    }

    fn levels(&self) -> usize {
        self.down.len()
    }
}

/// Generates the tree.
pub fn draw(c: &mut Cluster<'_>, radix: u8, levels: u8, hosts: Option<u32>, per_leaf: Option<u8>) -> Result<()> {
    let numbers = numbers(radix, levels, per_leaf)?;
    let full = numbers.down.iter().fold(1u64, |all, n| all.saturating_mul(*n));
    let hosts = hosts.map_or(full, u64::from);
    if hosts == 0 || hosts > full {
        return refuse(
            format!("{hosts} hosts in a fat tree of radix {radix} with {levels} levels"),
            format!("it takes 1 to {full}: change the number, or take a larger radix or more levels"),
        );
    }
    let all = (0..numbers.levels()).fold(hosts, |all, level| all.saturating_add(numbers.switches(level)));
    if all > limits::NODES_MAX as u64 {
        return refuse(
            format!("a fat tree of {all} nodes"),
            format!("at most {} fit: take a smaller radix, fewer levels or fewer hosts", limits::NODES_MAX),
        );
    }
    tree(c, &numbers, u32::from(radix), hosts)
}

/// Computes children and parents of each level.
fn numbers(radix: u8, levels: u8, per_leaf: Option<u8>) -> Result<Numbers> {
    if !(2..=limits::PORTS_MAX).contains(&radix) || !(1..=LEVELS_MAX).contains(&levels) {
        return refuse(
            format!("a fat tree of radix {radix} with {levels} levels"),
            format!("the radix is 2 to {}, the levels are 1 to {LEVELS_MAX}: --fat-tree 36,2", limits::PORTS_MAX),
        );
    }
    let (radix, half) = (u64::from(radix), u64::from(radix / 2));
    if levels > 1 && radix % 2 == 1 {
        return refuse(format!("a fat tree of odd radix {radix}"), "half of the ports go up: take an even radix");
    }
    let leaf = per_leaf.map_or(if levels == 1 { radix } else { half }, u64::from);
    if leaf == 0 || leaf > radix || (levels > 1 && leaf == radix) {
        return refuse(
            format!("{leaf} hosts at a leaf of {radix} ports"),
            "leave ports to go up, and at least one for a host",
        );
    }
    let (mut down, mut up) = (vec![half; usize::from(levels)], vec![half; usize::from(levels)]);
    if let Some(top) = down.last_mut() {
        *top = radix;
    }
    (down[0], up[0]) = (leaf, 1);
    if levels > 1 {
        up[1] = radix - leaf;
    }
    Ok(Numbers { down, up })
}

/// Adds the switches level by level with the cables down, then the hosts.
fn tree(c: &mut Cluster<'_>, n: &Numbers, radix: u32, hosts: u64) -> Result<()> {
    // Number of subtrees with hosts, by level; they are the first ones, since leaves fill in order.
    let mut used = vec![hosts.div_ceil(n.down[0])];
    for level in 1..n.levels() {
        used.push(used[level - 1].div_ceil(n.down[level]));
    }
    let mut below: Vec<u32> = Vec::new();
    for level in 0..n.levels() {
        let copies = n.copies(level);
        let mut here = Vec::new();
        for number in 0..used[level] * copies {
            here.push(c.switch(&name(level, n.levels(), number), radix)?);
        }
        for subtree in 0..used[level] {
            for copy in 0..copies {
                let parent = here[(subtree * copies + copy) as usize];
                if level > 0 {
                    children(c, n, level, used[level - 1], subtree, copy, parent, &below)?;
                }
            }
        }
        below = here;
        if level == 0 {
            hang_hosts(c, n, hosts, &below)?;
        }
    }
    Ok(())
}

/// Adds the cables from a switch to the subtrees below it.
#[allow(clippy::too_many_arguments)] // A switch's place in the tree is that many numbers.
fn children(
    c: &mut Cluster<'_>,
    n: &Numbers,
    level: usize,
    used_below: u64,
    subtree: u64,
    copy: u64,
    parent: u32,
    below: &[u32],
) -> Result<()> {
    let copies_below = n.copies(level - 1);
    // The last digit of the copy selects the parent, the others the copy of the children below it.
    let (which, copy_below) = (copy / copies_below, copy % copies_below);
    for child in 0..n.down[level] {
        let subtree_below = subtree * n.down[level] + child;
        if subtree_below >= used_below {
            break;
        }
        let node = below[(subtree_below * copies_below + copy_below) as usize];
        c.cable(node, (n.down[level - 1] + which + 1) as u32, parent, (child + 1) as u32)?;
    }
    Ok(())
}

fn hang_hosts(c: &mut Cluster<'_>, n: &Numbers, hosts: u64, leaves: &[u32]) -> Result<()> {
    for host in 0..hosts {
        c.host_at(leaves[(host / n.down[0]) as usize], (host % n.down[0] + 1) as u32)?;
    }
    Ok(())
}

fn name(level: usize, levels: usize, number: u64) -> String {
    let number = number + 1;
    match (level, levels) {
        (0, 1) => format!("switch{number}"),
        (0, _) => format!("leaf{number}"),
        (1, 2 | 3) => format!("spine{number}"),
        (2, 3) => format!("core{number}"),
        _ => format!("l{}-{number}", level + 1),
    }
}
