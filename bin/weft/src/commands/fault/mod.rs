//! `weft fault`: faults of running programs.

mod list;
mod scenario;
mod session;
mod target;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use weft_fabric::topology::counted;
use weft_ipc::{FaultEntry, FaultLifetime, FaultTarget, Spawn};
use weft_tool::fabric::{finish, spell};

use crate::outln;
use session::connect;
use target::{TargetArgs, count_processes};

/// Options of `weft fault`.
#[derive(Args, Debug)]
pub struct FaultArgs {
    #[command(subcommand)]
    command: FaultCommand,
}

#[derive(Subcommand, Debug)]
enum FaultCommand {
    /// Add a fault to running programs: weft fault add loss=1%, weft fault add status=RETRY_EXC_ERR,count=1
    ///
    /// The specification is one of WEFT_FAULT. Its numbers and times begin when a program gets it. Programs that open a
    /// device later get it, too, unless --pid names one process. Faults end with the daemon.
    Add {
        /// The fault, e.g. loss=1%,seed=7 or errno=ENOMEM,call=ibv_reg_mr or event=PORT_ERR,for=2s
        spec: String,
        #[command(flatten)]
        target: TargetArgs,
    },
    /// List faults: number, strikes, number of processes, programs concerned, specification
    #[command(visible_alias = "show")]
    List {
        /// Print JSON
        #[arg(short, long)]
        json: bool,
    },
    /// Run a scenario of faults, cut cables and dead nodes: weft fault run SCENARIO.toml -- PROGRAM
    ///
    /// The file has a seed and steps, each with an effect and its time or event; each is printed when it happens. Without a program
    /// the faults concern programs that run already.
    Run(scenario::RunArgs),
    /// List the scenarios that Weft brings for `weft fault run`, or print one as a file to change
    Scenarios {
        /// Name of a scenario
        name: Option<String>,
    },
    /// Remove a fault, or all
    #[command(visible_aliases = ["delete", "remove"])]
    Del {
        /// Number of the fault
        #[arg(required_unless_present = "all")]
        number: Option<u32>,
        /// Remove all faults: an ordinary user his own, root everyone's
        #[arg(long, conflicts_with = "number")]
        all: bool,
    },
}

/// Runs the command.
pub fn run(args: FaultArgs) -> ExitCode {
    let result = match args.command {
        FaultCommand::Add { spec, target } => add(&spec, &target),
        FaultCommand::List { json } => list::run(json),
        FaultCommand::Del { number, .. } => remove(number),
        FaultCommand::Scenarios { name } => scenario::list(name.as_deref()),
        FaultCommand::Run(args) => {
            return scenario::run(&args).unwrap_or_else(|message| finish("weft fault run", Err(message)));
        }
    };
    finish("weft fault", result)
}

fn add(spec: &str, target: &TargetArgs) -> Result<(), String> {
    let (target, spec) = target.apply(spec)?;
    let entry = connect(Spawn::IfNeeded)?.add_fault(&spec, target, FaultLifetime::Daemon).map_err(spell)?;
    outln!("{}", added(&entry));
    Ok(())
}

fn remove(number: Option<u32>) -> Result<(), String> {
    let count = connect(Spawn::Never)?.remove_faults(number).map_err(spell)?;
    match number {
        Some(number) => outln!("fault {number} is removed"),
        None => outln!("{} removed", counted(count, "fault")),
    }
    Ok(())
}

/// Returns the sentence about an added fault.
fn added(entry: &FaultEntry) -> String {
    let FaultEntry { number, processes, without_packets, target, .. } = entry;
    let later = if matches!(target, FaultTarget::Pid(_)) { "" } else { ", and those that open a device later" };
    let mut text = format!("fault {number}: {}{later}", count_processes(*processes));
    if *without_packets > 0 {
        let verb = if *without_packets == 1 { "has" } else { "have" };
        text += &format!(
            "\n{} {verb} no packets to damage: on a fabric use `weft cable`, on one host start programs with \
             WEFT_LOOPBACK=wire",
            count_processes(*without_packets)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(processes: u32, without_packets: u32, target: FaultTarget) -> FaultEntry {
        FaultEntry { number: 101, spec: "loss=1%".into(), target, uid: 0, processes, without_packets, struck: 0 }
    }

    #[test]
    fn the_answer_names_the_processes_and_those_without_effect() {
        assert_eq!(added(&entry(1, 0, FaultTarget::Pid(7))), "fault 101: 1 process");
        let text = added(&entry(3, 1, FaultTarget::All));
        assert!(
            text.starts_with("fault 101: 3 processes, and those that open a device later\n1 process has no packets")
        );
    }
}
