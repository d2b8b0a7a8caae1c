//! Weft's devices, and those of others that programs may find instead.

use weft_sys::probe::Probe;

use crate::commands::doctor::machine::Machine;
use crate::commands::doctor::report::Finding;

/// Weft's devices.
pub fn devices(machine: &dyn Machine) -> Vec<Finding> {
    match own(machine) {
        None => Vec::new(),
        Some(names) if names.is_empty() => vec![Finding::error(
            "none: no interface of this network namespace has an address",
            "`ip link set lo up` as root, or `ip addr add 10.0.0.1/24 dev eth0`",
        )],
        Some(names) => vec![Finding::well(names.join(", "))],
    }
}

/// Names of Weft's devices; `None` if the daemon does not answer.
fn own(machine: &dyn Machine) -> Option<Vec<String>> {
    machine.daemon().session.and_then(Result::ok).map(|session| session.devices)
}

/// Devices of the kernel's.
pub fn foreign(machine: &dyn Machine) -> Vec<Finding> {
    let own = own(machine).unwrap_or_default();
    let shown = machine.list("/sys/class/infiniband");
    let foreign: Vec<&str> = shown.iter().filter(|name| !own.contains(name)).map(String::as_str).collect();
    if foreign.is_empty() {
        return vec![Finding::well("the kernel shows no other RDMA devices")];
    }
    let names = foreign.join(", ");
    if machine.attempt(Probe::Mount).is_ok() {
        return vec![Finding::note(format!("the kernel has {names}, which `weft run` hides"))];
    }
    vec![Finding::note(format!(
        "the kernel has {names}, which `weft run` hides from programs that the loader starts, and from no other here"
    ))]
}

/// Permissions of the kernel's nodes: Weft's own need none.
pub fn nodes(machine: &dyn Machine) -> Vec<Finding> {
    const DIR: &str = "/dev/infiniband";
    let closed: Vec<String> =
        machine.list(DIR).into_iter().filter(|node| !machine.may_use(&format!("{DIR}/{node}"))).collect();
    if closed.is_empty() {
        return Vec::new();
    }
    let closed = closed.join(", ");
    vec![Finding::note(format!(
        "this user may not open {closed} in {DIR}: only the kernel's own devices, and `weft sm` on them, need that"
    ))]
}
