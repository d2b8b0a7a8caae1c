//! Shapes as text: `fat-tree` with `36,2`, `torus` with `4x4x4`, and the reverse.

use std::fmt;

use super::plan::{Shape, refuse};
use crate::topology::{Error, Result};

/// The generators: name on the command line and in files, description of the parameters, and an example.
pub const KINDS: &[(&str, &str, &str)] = &[
    ("pair", "none", ""),
    ("star", "HOSTS", "8"),
    ("fat-tree", "RADIX,LEVELS", "36,2"),
    ("torus", "AxBxC..., switches along each dimension", "4x4x4"),
    ("mesh", "AxBxC..., switches along each dimension", "4x4"),
    ("dragonfly", "SWITCHES,HOSTS,GLOBAL[,GROUPS]: switches a group, hosts and global cables a switch", "8,4,4"),
    ("random", "SWITCHES,DEGREE[,SEED]", "64,5"),
];

/// Parameters outside the short form of a shape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extra {
    /// Hosts of a fat tree, if not as many as fit.
    pub hosts: Option<u32>,
    /// Hosts at each switch (of a fat tree: at each leaf).
    pub hosts_per_switch: Option<u8>,
}

impl Shape {
    /// Parses a generator's name and parameters.
    pub fn parse(kind: &str, parameters: &str, extra: Extra) -> Result<Shape> {
        let per_switch = extra.hosts_per_switch;
        let shape = match kind {
            "pair" => Shape::Pair,
            "star" => Shape::Star { hosts: one(kind, parameters)? },
            "fat-tree" => match numbers(kind, parameters, ',', 2..=2)?[..] {
                [radix, levels] => Shape::FatTree {
                    radix: small(kind, radix)?,
                    levels: small(kind, levels)?,
                    hosts: extra.hosts,
                    hosts_per_leaf: per_switch,
                },
                _ => return misshapen(kind, parameters),
            },
            "torus" | "mesh" => Shape::Torus {
                sizes: numbers(kind, parameters, 'x', 1..=12)?,
                hosts_per_switch: per_switch.unwrap_or(1),
                wraps: kind == "torus",
            },
            "dragonfly" => match numbers(kind, parameters, ',', 3..=4)?[..] {
                [a, p, h, ref groups @ ..] => Shape::Dragonfly {
                    switches_per_group: a,
                    hosts_per_switch: small(kind, p)?,
                    global_per_switch: h,
                    groups: groups.first().copied(),
                },
                _ => return misshapen(kind, parameters),
            },
            "random" => match numbers(kind, parameters, ',', 2..=3)?[..] {
                [switches, degree, ref seed @ ..] => Shape::Random {
                    switches,
                    degree: small(kind, degree)?,
                    hosts_per_switch: per_switch.unwrap_or(1),
                    seed: seed.first().copied().unwrap_or(1).into(),
                },
                _ => return misshapen(kind, parameters),
            },
            _ => {
                let known: Vec<&str> = KINDS.iter().map(|(name, ..)| *name).collect();
                return refuse(format!("there is no generator {kind:?}"), format!("there are {}", known.join(", ")));
            }
        };
        shape.takes(kind, extra)?;
        Ok(shape)
    }

    /// Refuses parameters that a shape does not take: to ignore them would give another network than intended.
    fn takes(&self, kind: &str, extra: Extra) -> Result<()> {
        if extra.hosts.is_some() && !matches!(self, Shape::FatTree { .. }) {
            return refuse(
                format!("a number of hosts for {kind}"),
                "only a fat tree takes it: others have hosts at every switch",
            );
        }
        let fixed = matches!(self, Shape::Pair | Shape::Star { .. } | Shape::Dragonfly { .. });
        if extra.hosts_per_switch.is_some() && fixed {
            return refuse(format!("hosts a switch for {kind}"), "its parameters say that already: leave it out");
        }
        Ok(())
    }
}

fn misshapen<T>(kind: &str, parameters: &str) -> Result<T> {
    Err(bad(kind, parameters))
}

fn bad(kind: &str, parameters: &str) -> Error {
    let (_, form, example) = KINDS.iter().find(|(name, ..)| *name == kind).copied().unwrap_or_default();
    Error::of(format!("{kind} does not take {parameters:?}"), format!("it takes {form}, for example {example}"))
}

fn one(kind: &str, parameters: &str) -> Result<u32> {
    Ok(numbers(kind, parameters, ',', 1..=1)?[0])
}

fn small(kind: &str, number: u32) -> Result<u8> {
    u8::try_from(number).map_err(|_| bad(kind, &number.to_string()))
}

fn numbers(kind: &str, text: &str, separator: char, count: std::ops::RangeInclusive<usize>) -> Result<Vec<u32>> {
    let parts: Option<Vec<u32>> =
        text.split(separator).take(count.end() + 1).map(|part| part.trim().parse().ok()).collect();
    parts.filter(|parts| count.contains(&parts.len())).ok_or_else(|| bad(kind, text))
}

/// Joins numbers with a separator.
pub fn joined(numbers: &[u32], between: &str) -> String {
    let words: Vec<String> = numbers.iter().map(u32::to_string).collect();
    words.join(between)
}

/// Formats as `4x4x4`.
pub fn by_x(sizes: &[u32]) -> String {
    joined(sizes, "x")
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shape::Pair => write!(f, "pair"),
            Shape::Star { hosts } => write!(f, "star {hosts}"),
            Shape::FatTree { radix, levels, hosts, hosts_per_leaf } => {
                write!(f, "fat-tree {radix},{levels}")?;
                hosts.map_or(Ok(()), |n| write!(f, ", {n} hosts"))?;
                hosts_per_leaf.map_or(Ok(()), |n| write!(f, ", {n} hosts a leaf"))
            }
            Shape::Torus { sizes, hosts_per_switch, wraps } => {
                let kind = if *wraps { "torus" } else { "mesh" };
                write!(f, "{kind} {}, {} a switch", by_x(sizes), hosts_in_words(*hosts_per_switch))
            }
            Shape::Dragonfly { switches_per_group, hosts_per_switch, global_per_switch, groups } => {
                write!(f, "dragonfly {switches_per_group},{hosts_per_switch},{global_per_switch}")?;
                groups.map_or(Ok(()), |n| write!(f, ",{n}"))
            }
            Shape::Random { switches, degree, hosts_per_switch, seed } => {
                write!(f, "random {switches},{degree},{seed}, {} a switch", hosts_in_words(*hosts_per_switch))
            }
        }
    }
}

fn hosts_in_words(count: u8) -> String {
    if count == 1 { "1 host".to_owned() } else { format!("{count} hosts") }
}
