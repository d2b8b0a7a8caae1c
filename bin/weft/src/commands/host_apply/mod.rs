//! `weft host apply`: brings the interfaces of a fabric's host into the state that an administrator's files describe.

mod files;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use weft_ipc::HOST_VARIABLE;

use super::profiles::activate::{self, Failure};
use super::profiles::plan::{self, Goal, HostPlan};
use super::profiles::session::Session;
use super::run::{self, AdapterArgs, RunArgs};
use files::Found;

const NAME: &str = "weft host apply";

/// Options of `weft host`.
#[derive(Args, Debug)]
pub struct HostArgs {
    #[command(subcommand)]
    command: HostCommand,
}

#[derive(Subcommand, Debug)]
enum HostCommand {
    /// Configure the IPoIB interfaces of a host from NetworkManager keyfiles, a playbook of the RHEL system role
    /// "network", or udev rules
    ///
    /// Files are told apart by their names: FILE.nmconnection is a keyfile, FILE.yml or FILE.yaml has
    /// network_connections, FILE.rules has rules with NAME= (70-persistent-ipoib.rules). Names come first, then
    /// profiles with autoconnect, interfaces of ports before their children.
    Apply(ApplyArgs),
}

#[derive(Args, Debug)]
struct ApplyArgs {
    /// Files to apply
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print the steps and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Host of the running fabric [default: the host that the command runs as]
    #[arg(long, value_name = "NODE")]
    host: Option<String>,
}

/// Runs the command.
pub fn run(args: &HostArgs) -> ExitCode {
    let HostCommand::Apply(args) = &args.command;
    if let Some(host) = &args.host {
        return as_host(host, args);
    }
    match apply(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            crate::errln!("{NAME}: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the command again, as a program of the host. Returns only if that fails.
fn as_host(host: &str, args: &ApplyArgs) -> ExitCode {
    let own = match std::env::current_exe() {
        Ok(own) => own,
        Err(error) => {
            crate::errln!("{NAME}: cannot find this program: {}", crate::errno::text(&error));
            return ExitCode::FAILURE;
        }
    };
    let mut command: Vec<OsString> = vec![own.into(), "host".into(), "apply".into()];
    command.extend(args.dry_run.then(|| "--dry-run".into()));
    command.push("--".into());
    command.extend(args.files.iter().map(Into::into));
    ExitCode::from(run::start(&RunArgs { adapters: AdapterArgs::of_host(host), command, ..RunArgs::default() }))
}

fn apply(args: &ApplyArgs) -> Result<(), String> {
    let found = Found::read(&args.files)?;
    for warning in &found.warnings {
        crate::errln!("{NAME}: {warning}");
    }
    if std::env::var_os(HOST_VARIABLE).is_none_or(|host| host.is_empty()) {
        return Err("no host is named: add --host NODE, or run it under `weft run --host NODE --`".to_owned());
    }
    let mut session = Session::open(NAME)?;
    let planned = plan::host(&found.rules, &found.wanted, &session.seen()?)?;
    if args.dry_run {
        print(&planned);
        return Ok(());
    }
    carry_out(&mut session, planned)
}

/// Prints the steps, and below each profile its notes.
fn print(planned: &HostPlan) {
    for step in &planned.renames {
        crate::outln!("{step}");
    }
    for (profile, goal) in &planned.profiles {
        let activation = match goal {
            Goal::Up(activation) => activation,
            Goal::Down => {
                crate::outln!("# profile {}: kept, deactivated", profile.id);
                continue;
            }
            Goal::AsItIs => {
                crate::outln!("# profile {}: kept, its state unchanged", profile.id);
                continue;
            }
        };
        crate::outln!("# profile {} on {}", profile.id, activation.interface);
        for step in &activation.steps {
            crate::outln!("{step}");
        }
        for note in &activation.notes {
            crate::outln!("# {note}");
        }
    }
}

fn carry_out(session: &mut Session, planned: HostPlan) -> Result<(), String> {
    activate::carry_out(session, &planned.renames)?;
    for (mut profile, goal) in planned.profiles {
        let id = profile.id.clone();
        let failed = |why: String| format!("profile {id}: {why}");
        session.save(&mut profile).map_err(failed)?;
        match goal {
            Goal::Up(_) => {}
            Goal::Down => {
                deactivate(session, &profile.uuid).map_err(failed)?;
                continue;
            }
            Goal::AsItIs => continue,
        }
        let (activation, _) = activate::activate(session, &profile).map_err(|failure| match failure {
            Failure::Obstacle(obstacle) => failed(obstacle.to_string()),
            Failure::Step(why) => failed(why),
        })?;
        for note in activation.notes {
            crate::errln!("{NAME}: profile {id}: {note}");
        }
    }
    Ok(())
}

fn deactivate(session: &mut Session, uuid: &str) -> Result<(), String> {
    let all = session.profiles()?;
    let stored = all.iter().find(|one| one.profile.uuid == uuid);
    stored.map_or(Ok(()), |stored| activate::deactivate(session, stored))
}
