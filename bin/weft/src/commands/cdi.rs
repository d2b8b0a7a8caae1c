//! `weft cdi`: a specification of the Container Device Interface, with which `podman run --device KIND=all` gives a
//! container Weft's command and libraries.
//!
//! A container needs no socket from outside: the daemon's is abstract and belongs to the network namespace, so programs in
//! a container start a daemon of the container's own, or reach the machine's with `--network host`. It needs the files,
//! and the variables by which the loader finds the libraries and these the command.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use serde_json::{Value, json};

use crate::output;
use crate::rdma_dir::{self, AUDIT};

/// Vendor and class of the devices. `.internal` is reserved for private use, so no other vendor has this name.
const KIND: &str = "weft.internal/hca";

/// Version of the specification: the lowest that has what this uses (device names that begin with a digit), because
/// runtimes refuse versions that they do not know (Debian 12's podman refuses 0.6.0).
const CDI_VERSION: &str = "0.5.0";

/// Directory of Weft in the container.
const CONTAINER_DIR: &str = "/opt/weft";

/// Name of the device that stands for all.
const ALL: &str = "all";

/// Maximum number of numbered devices.
const DEVICES_MAX: u32 = 1024;

/// Options of `weft cdi`.
#[derive(Args, Debug)]
pub struct CdiArgs {
    /// Write to this file, such as /etc/cdi/weft.json, instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Name the devices VENDOR/CLASS
    #[arg(long, value_name = "VENDOR/CLASS", default_value = KIND)]
    kind: String,
    /// Number of devices beside `all`, for schedulers that give each container one
    #[arg(long, value_name = "N", default_value_t = 1)]
    devices: u32,
}

/// Runs the command.
pub fn run(args: &CdiArgs) -> ExitCode {
    match write(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            crate::errln!("weft cdi: {e:#}");
            ExitCode::FAILURE
        }
    }
}

fn write(args: &CdiArgs) -> Result<()> {
    check_kind(&args.kind)?;
    if args.devices > DEVICES_MAX {
        bail!("--devices {}: at most {DEVICES_MAX}", args.devices);
    }
    let command = std::env::current_exe().and_then(fs::canonicalize).context("cannot tell where this command is")?;
    let text = format!("{:#}\n", specification(&args.kind, args.devices, &command, &libraries(&rdma_dir::find()?)?));
    let Some(file) = &args.output else {
        output::print(&text);
        return Ok(());
    };
    // Runtimes watch the directory, and must not read half a file.
    let part = file.with_extension("part");
    fs::write(&part, text)
        .and_then(|()| fs::rename(&part, file))
        .with_context(|| format!("cannot write {} (its directory must exist, and is root's)", file.display()))
}

/// The files of Weft's libraries, by name. Links are resolved: a runtime would mount the link's target anyway.
fn libraries(dir: &Path) -> Result<Vec<(&'static str, PathBuf)>> {
    let file = |name: &'static str| {
        let file = dir.join(name);
        Ok((name, file.canonicalize().with_context(|| format!("{}: build all of Weft", file.display()))?))
    };
    rdma_dir::all_names().map(file).collect()
}

fn specification(kind: &str, devices: u32, command: &Path, libraries: &[(&str, PathBuf)]) -> Value {
    let mount = |host: &Path, container: String| json!({"hostPath": host.to_string_lossy(), "containerPath": container, "options": ["ro", "nosuid", "nodev", "bind"]});
    let weft = format!("{CONTAINER_DIR}/bin/weft");
    let library_dir = format!("{CONTAINER_DIR}/lib/weft");
    let mut mounts = vec![mount(command, weft.clone())];
    mounts.extend(libraries.iter().map(|(name, file)| mount(file, format!("{library_dir}/{name}"))));
    // A device without edits of its own is invalid. The mounts are the specification's: a container with two devices
    // gets them once.
    let device = |name: String| json!({"name": name, "containerEdits": {"env": [format!("WEFT_BIN={weft}")]}});
    let names = (0..devices).map(|number| number.to_string()).chain([ALL.to_owned()]);
    let variables = [format!("LD_LIBRARY_PATH={library_dir}"), format!("LD_AUDIT={library_dir}/{AUDIT}")];
    json!({
        "cdiVersion": CDI_VERSION,
        "kind": kind,
        "devices": names.map(device).collect::<Value>(),
        "containerEdits": {"env": variables, "mounts": mounts},
    })
}

/// Checks a kind by the specification's rules: a DNS name, a slash, and a name.
fn check_kind(kind: &str) -> Result<()> {
    let is_name = |text: &str, marks: &str| {
        text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.ends_with(|c: char| c.is_ascii_alphanumeric())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || marks.contains(c))
    };
    match kind.split_once('/') {
        Some((vendor, class)) if is_name(vendor, "_-.") && is_name(class, "_-") => Ok(()),
        _ => bail!("--kind {kind}: a kind is VENDOR/CLASS, such as {KIND}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_gets_the_command_and_the_libraries() {
        let libraries = [("libibverbs.so.1", PathBuf::from("/w/libibverbs.so"))];
        let spec = specification(KIND, 2, Path::new("/w/weft"), &libraries);
        let names: Vec<_> = spec["devices"].as_array().unwrap().iter().map(|device| device["name"].clone()).collect();
        assert_eq!(names, ["0", "1", "all"]);
        let edits = &spec["containerEdits"];
        assert_eq!(edits["mounts"][0]["containerPath"], "/opt/weft/bin/weft");
        assert_eq!(edits["mounts"][1]["hostPath"], "/w/libibverbs.so");
        assert_eq!(edits["mounts"][1]["containerPath"], "/opt/weft/lib/weft/libibverbs.so.1");
        assert_eq!(edits["env"][0], "LD_LIBRARY_PATH=/opt/weft/lib/weft");
        assert_eq!(spec["devices"][0]["containerEdits"]["env"][0], "WEFT_BIN=/opt/weft/bin/weft");
    }

    #[test]
    fn kinds_are_checked() {
        for right in [KIND, "example.com/rdma-hca"] {
            check_kind(right).unwrap();
        }
        for wrong in ["weft", "/hca", "weft.internal/", "a b/hca", "a/b/c", "-a/hca"] {
            assert!(check_kind(wrong).is_err(), "{wrong}");
        }
    }
}
