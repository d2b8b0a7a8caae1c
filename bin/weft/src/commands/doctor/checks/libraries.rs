//! Weft's libraries beside the command.

use weft_ipc::Build;

use crate::commands::doctor::machine::{Library, Machine};
use crate::commands::doctor::report::Finding;

/// Presence of the libraries, and whether they are of the command's build.
pub fn libraries(machine: &dyn Machine) -> Vec<Finding> {
    let libraries = match machine.libraries() {
        Ok(libraries) => libraries,
        Err(error) => return vec![Finding::error(error, "build or install the libraries beside the command")],
    };
    let own = Build::own();
    let wrong: Vec<Finding> = libraries.iter().filter_map(|library| judge(library, &own)).collect();
    if wrong.is_empty() {
        let count = libraries.len();
        return vec![Finding::well(format!("{count} libraries of this command's version, {}", own.version))];
    }
    wrong
}

fn judge(library: &Library, own: &Build) -> Option<Finding> {
    let soname = library.soname;
    let Some(path) = &library.path else {
        return Some(Finding::error(
            format!("{soname} is missing beside the command: programs that need it get the system's"),
            "build or install all of Weft again",
        ));
    };
    match &library.build {
        Some(build) if build == own => None,
        Some(build) => Some(Finding::error(
            format!(
                "{path} is of version {} (protocol {}), this command of {} (protocol {})",
                build.version, build.protocol, own.version, own.protocol
            ),
            "install the command and the libraries of one build",
        )),
        None => Some(Finding::error(
            format!("{path} is not a library of Weft, or of an older build"),
            "install the command and the libraries of one build",
        )),
    }
}
