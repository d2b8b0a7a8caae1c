//! Private mount namespaces, with which `weft run` shows programs Weft's libraries and devices.

use std::io;

use weft_sys::probe::Probe;

use crate::commands::doctor::machine::Machine;
use crate::commands::doctor::report::Finding;
use crate::commands::run;

/// Whether `weft run` can make a namespace, and mount in it.
pub fn namespaces(machine: &dyn Machine) -> Vec<Finding> {
    let finding = match (machine.attempt(Probe::MountNamespace), machine.attempt(Probe::Mount)) {
        (Ok(()), Ok(())) => Finding::well("`weft run` can make a private mount namespace"),
        (Err(error), _) => refused(machine, "make a private mount namespace", &error),
        (Ok(()), Err(error)) => refused(machine, "mount in its private namespace", &error),
    };
    vec![finding]
}

fn refused(machine: &dyn Machine, what: &str, error: &io::Error) -> Finding {
    let reason = crate::errno::text(error);
    Finding::warning(
        format!(
            "`weft run` cannot {what} ({reason}): the loader gives programs Weft's libraries (LD_AUDIT), and a preloaded \
             library shows the devices in /sys/class/infiniband (LD_PRELOAD), but not to statically linked programs"
        ),
        run::remedy(&|name| machine.read(&format!("/proc/sys/{name}")).map(|text| text.trim().to_owned())),
    )
}

/// Filters and profiles that confine this process. They matter only to what they refuse.
pub fn confinement(machine: &dyn Machine) -> Vec<Finding> {
    let status = machine.read("/proc/self/status").unwrap_or_default();
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let mut by = Vec::new();
    if field("Seccomp:") == Some("2") {
        by.push("a seccomp filter".to_owned());
    }
    let profile = machine.read("/proc/self/attr/current").unwrap_or_default();
    let profile = profile.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    if !profile.is_empty() && profile != "unconfined" {
        by.push(format!("AppArmor's profile {profile}"));
    }
    if field("NoNewPrivs:") == Some("1") {
        by.push("no_new_privs".to_owned());
    }
    if by.is_empty() {
        return vec![Finding::well("none")];
    }
    vec![Finding::note(format!("by {}: calls refused below or above may be due to that", by.join(", ")))]
}
