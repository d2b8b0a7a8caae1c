//! The program that the user named: whether Weft can serve it.

use crate::commands::doctor::machine::{Asked, Machine};
use crate::commands::doctor::report::Finding;
use crate::commands::run::program::Program;
use crate::rdma_dir;

/// Set-user-ID and set-group-ID.
const SET_ID: u32 = 0o6000;

/// Whether Weft can serve the program.
pub fn program(machine: &dyn Machine) -> Vec<Finding> {
    let Some(asked) = machine.program() else { return Vec::new() };
    let name = asked.name.to_string_lossy();
    let Some(path) = &asked.path else {
        return vec![Finding::error(format!("there is no program {name}"), "name an installed program, or a path")];
    };
    let mut findings = Vec::new();
    if let Some(line) = &asked.first_line {
        findings.push(Finding::note(format!("{path} is a script for {line}, which is looked at here")));
    }
    let Some(program) = asked.program else {
        findings.push(Finding::error(
            format!("{path} is neither an ELF program nor a script of an installed interpreter, or cannot be read"),
            "name the program that it starts",
        ));
        return findings;
    };
    findings.extend(set_id(&asked, path));
    match program.obstacle() {
        Some(obstacle) => {
            let text = format!("{}: {}", program.path().display(), obstacle.reason);
            findings.push(match obstacle.is_certain {
                true => Finding::error(text, obstacle.remedy),
                false => Finding::warning(text, obstacle.remedy),
            });
        }
        None => findings.push(libraries(program)),
    }
    findings
}

fn set_id(asked: &Asked<'_>, path: &str) -> Option<Finding> {
    (asked.mode & SET_ID != 0).then(|| {
        Finding::warning(
            format!(
                "{path} is set-user-ID or set-group-ID: the loader and Weft ignore the environment there, and in a user \
                 namespace the program does not get its owner's rights"
            ),
            "run `weft run` as root, or a copy of the program without that bit",
        )
    })
}

fn libraries(program: &Program) -> Finding {
    let path = program.path().display();
    let copies = program.own_copies(|name| rdma_dir::soname_of(name).is_some());
    if copies.is_empty() {
        return Finding::well(format!("{path}: the loader gives it Weft's libraries"));
    }
    let files = copies.iter().map(|(_, file)| file.display().to_string()).collect::<Vec<_>>().join(", ");
    Finding::note(format!("{path} brings {files}, in whose place the loader gives it Weft's"))
}
