//! The dependency rule: dependencies point downwards only, and no crate above the I/O line reaches below it.
//!
//! `bin/abi -> daemon/engine -> link/ipc -> shm -> sys` and `engine -> hca -> transport -> iwarp -> verbs -> wire`. Each
//! crate has a height; a crate may depend only on lower ones. The pure crates may depend on each other and on a
//! short list of crates that do no I/O.

use anyhow::{Context, Result};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The crates above the I/O line, lowest first: no unsafe, no clock, no threads, no sockets.
pub const PURE: &[&str] = &[
    "weft-wire",
    "weft-verbs",
    "weft-iwarp",
    "weft-transport",
    "weft-hca",
    "weft-mad",
    "weft-cm",
    "weft-fabric",
    "weft-sm",
    "weft-ipoib",
    "weft-rpcrdma",
    "weft-nvme",
    "weft-nbd",
    "weft-srp",
    "weft-rds",
    "weft-check",
    "weft-record",
    "weft-explain",
    "weft-replay",
];

/// Height of every crate. A new crate needs a line here, or the check fails.
const HEIGHTS: &[(&str, u32)] = &[
    // Pure computation: values in, values out.
    ("weft-wire", 0),
    ("weft-verbs", 1),
    ("weft-iwarp", 2),
    ("weft-transport", 3),
    ("weft-hca", 4),
    ("weft-mad", 2),
    ("weft-cm", 3),
    ("weft-fabric", 3),
    ("weft-sm", 3),
    ("weft-ipoib", 2),
    ("weft-rpcrdma", 0),
    ("weft-nvme", 0),
    ("weft-nbd", 0),
    ("weft-srp", 1),
    ("weft-rds", 0),
    ("weft-check", 2),
    ("weft-record", 2),
    ("weft-explain", 3),
    ("weft-replay", 4),
    // Crates below the I/O line, and those that use them.
    ("weft-sys", 0),
    ("weft-shm", 2),
    ("weft-ipc", 4),
    ("weft-link", 4),
    ("weft-recorder", 4),
    ("weft-daemon", 5),
    ("weft-engine", 5),
    // The C ABI.
    ("weft-symver", 0),
    ("weft-abi-types", 0),
    ("weft-ibverbs", 6),
    ("weft-rdmacm", 7),
    ("weft-ibumad", 6),
    ("weft-audit", 1),
    ("weft-view", 1),
    ("weft-rds-preload", 1),
    ("weft-checker", 3),
    // The other side of it.
    ("weft-client", 1),
    // The command: the parts of its tools, and itself.
    ("weft-metrics", 0),
    ("weft-plot", 0),
    ("weft-tool", 5),
    ("weft-diags", 6),
    ("weft-sm-process", 6),
    ("weft-verbs-tools", 6),
    ("weft-rdma-service", 6),
    ("weft-nfs", 7),
    ("weft-nvme-process", 7),
    ("weft-srp-process", 7),
    ("weft-rds-process", 7),
    ("weft-ui", 7),
    ("weft", 8),
    // Tests and judges: only the chores depend on them.
    ("weft-sim", 9),
    ("weft-interop", 9),
    ("xtask", 10),
];

/// Third-party crates that the pure crates may use: they neither start threads nor touch the system.
const PURE_EXTERNAL: &[&str] = &[
    "bitflags",
    "crc32c",
    "crc32fast",
    "flate2",
    "rand_xoshiro",
    "rustc-hash",
    "serde",
    "serde_json",
    "slab",
    "smallvec",
    "thiserror",
    "toml",
    "zerocopy",
];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
}

/// Returns every breach of the rule in this workspace, in words.
pub fn breaches() -> Result<Vec<String>> {
    let out = crate::cargo::command(&["metadata", "--no-deps", "--format-version", "1"])
        .output()
        .context("cannot run cargo metadata")?;
    if !out.status.success() {
        anyhow::bail!("cargo metadata failed: {}", String::from_utf8_lossy(&out.stderr).trim());
    }
    Ok(judge(&serde_json::from_slice(&out.stdout).context("cargo metadata's answer")?))
}

fn judge(metadata: &Metadata) -> Vec<String> {
    let heights: BTreeMap<_, _> = HEIGHTS.iter().copied().collect();
    let mut breaches = Vec::new();
    for package in &metadata.packages {
        let name = package.name.as_str();
        let Some(height) = heights.get(name) else {
            breaches.push(format!("{name} has no height: give it a line in xtask/src/layers.rs"));
            continue;
        };
        let pure = PURE.contains(&name);
        // Development dependencies do not ship.
        for dependency in package.dependencies.iter().filter(|d| d.kind.as_deref() != Some("dev")) {
            let below = dependency.name.as_str();
            match heights.get(below) {
                Some(lower) if lower >= height => {
                    breaches.push(format!("{name} depends on {below}, which is not below it"));
                }
                Some(_) if pure && !PURE.contains(&below) => {
                    breaches.push(format!("{name} is above the I/O line and depends on {below}"));
                }
                None if pure && !PURE_EXTERNAL.contains(&below) => breaches.push(format!(
                    "{name} is above the I/O line and depends on {below}; if that does no I/O, add it to \
                     PURE_EXTERNAL in xtask/src/layers.rs"
                )),
                _ => {}
            }
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace(packages: &[(&str, &[&str])]) -> Metadata {
        let dependency = |name: &&str| Dependency { name: (*name).to_owned(), kind: None };
        let package = |(name, on): &(&str, &[&str])| Package {
            name: (*name).to_owned(),
            dependencies: on.iter().map(dependency).collect(),
        };
        Metadata { packages: packages.iter().map(package).collect() }
    }

    #[test]
    fn this_workspace_keeps_the_rule() {
        assert_eq!(breaches().expect("cargo metadata"), Vec::<String>::new());
    }

    #[test]
    fn an_arrow_upwards_is_a_breach() {
        assert_eq!(judge(&workspace(&[("weft-wire", &["weft-verbs"])])).len(), 1);
        assert_eq!(judge(&workspace(&[("weft-daemon", &["weft-engine"])])).len(), 1);
        assert!(judge(&workspace(&[("weft-engine", &["weft-hca", "libc"])])).is_empty());
    }

    #[test]
    fn nothing_above_the_line_reaches_below_it() {
        assert_eq!(judge(&workspace(&[("weft-hca", &["weft-sys"])])).len(), 1);
        assert_eq!(judge(&workspace(&[("weft-transport", &["socket2"])])).len(), 1);
    }

    #[test]
    fn an_unknown_crate_must_take_its_place() {
        assert_eq!(judge(&workspace(&[("weft-mystery", &[])])).len(), 1);
    }
}
