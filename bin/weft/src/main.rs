//! `weft`: RDMA without the hardware. One binary with many names: `weft COMMAND`, `weft TOOL`, or a link named after a
//! tool of [`tools::all`].

mod cli;
mod commands;
mod rdma_dir;
mod tools;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};
// The modules name these `crate::output`, `crate::errln!` and so on.
use weft_tool::{errln, errno, getopt, outln, output};
use weft_verbs_tools::perf;

use crate::cli::{Cli, Command};
use crate::commands::run::RunArgs;

fn main() -> ExitCode {
    weft_client::locate_by(rdma_dir::locate);
    weft_diags::ib::view::enter_by(|command| commands::run::run(&RunArgs { command, ..RunArgs::default() }));
    output::end(run())
}

fn run() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    if let Some((tool, rest)) = tool_of(&args) {
        return (tool.run)(rest);
    }
    if let Some((own_name, rest)) = args.split_first()
        && let Some(name) = Path::new(own_name).file_name().and_then(OsStr::to_str)
    {
        match name {
            "ip" => return commands::ip::run(rest),
            name if commands::kmod::is_name(name) => return commands::kmod::run(name, rest),
            commands::mount::NAME => return commands::mount::run(rest),
            name if commands::mount_nfs::is_name(name) => return commands::mount_nfs::run(rest),
            "nmcli" => return commands::nmcli::run(rest),
            "systemctl" => return commands::systemctl::run(rest),
            _ => {}
        }
    }
    let args = as_rdma(&args).or_else(|| as_rsh(&args)).unwrap_or(args);
    let args = about_environment(&args).unwrap_or(args);
    let matches = full_command().get_matches_from(args);
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(e) => e.exit(),
    };
    match cli.command {
        Command::Demo(args) => commands::demo::run(&args),
        Command::Run(args) => commands::run::run(&args),
        Command::Check(args) => commands::check::run(&args),
        Command::Record(args) => commands::record::run(&args),
        Command::Explain(args) => commands::explain::run(&args),
        Command::Replay(args) => weft_verbs_tools::replay::run(&args),
        Command::Shell(args) => commands::hosts::shell(&args),
        Command::Exec(args) => commands::hosts::exec(&args),
        Command::Rsh(args) => commands::hosts::rsh(&args),
        Command::Host(args) => commands::host_apply::run(&args),
        Command::Env(args) => commands::env::run(&args),
        Command::Cdi(args) => commands::cdi::run(&args),
        Command::Environment(args) => commands::environment::run(&args),
        Command::Link(args) => commands::link::run(args),
        Command::Dev(args) => commands::dev::run(args),
        Command::Resource(args) => commands::resource::run(args),
        Command::Stat(args) => commands::stat::run(&args),
        Command::Qp(args) => commands::qp::run(&args),
        Command::Top(args) => commands::top::run(&args),
        Command::Ui(args) => weft_ui::run(&args),
        Command::Metrics(args) => commands::metrics::run(&args),
        Command::System(args) => commands::system::run(&args),
        Command::Capture(args) => commands::capture::run(&args),
        Command::Monitor(args) => commands::monitor::run(&args),
        Command::Cm(args) => commands::cm::run(&args),
        Command::Up(args) => commands::up::run(&args),
        Command::Down => commands::up::down(),
        Command::Topology(args) => commands::topology::run(&args),
        Command::Fault(args) => commands::fault::run(args),
        Command::Cable(args) => commands::cable::run(args),
        Command::Node(args) => commands::node::run(args),
        Command::Sm(args) => commands::sm::run(&args),
        Command::Diagnose(args) => commands::diagnose::run(&args),
        Command::Doctor(args) => commands::doctor::run(&args),
        Command::Status(args) => commands::status::run(&args),
        Command::Perf(args) => perf::run(&args),
        Command::Nfs(args) => weft_nfs::run(&args),
        Command::Nvme(args) => weft_nvme_process::run(&args),
        Command::Srp(args) => weft_srp_process::run(&args),
        Command::Rds(args) => weft_rds_process::run(&args),
        Command::Daemon(args) => commands::daemon::run(&args),
        Command::Completions(args) => commands::manual::completions(full_command(), &args),
        Command::ManualPages(args) => commands::manual::pages(full_command(), &args),
        Command::PingallHost(args) => commands::pingall::run_host(&args),
        Command::Version => version(),
    }
}

/// The tool named by the program's own name or by its first argument, with the tool's arguments.
fn tool_of(args: &[OsString]) -> Option<(&'static tools::Tool, &[OsString])> {
    let (own_name, rest) = args.split_first()?;
    let own_name = Path::new(own_name).file_name()?.to_str()?;
    if let Some(tool) = tools::find(own_name) {
        return Some((tool, rest));
    }
    let (first, rest) = rest.split_first()?;
    Some((tools::find(first.to_str()?)?, rest))
}

/// Rewrites iproute2's `rdma -j link show`, under that name or as `weft rdma`: iproute2 takes options before the
/// object, Weft after it.
fn as_rdma(args: &[OsString]) -> Option<Vec<OsString>> {
    let (own_name, rest) = args.split_first()?;
    let rest = if Path::new(own_name).file_name()? == "rdma" {
        rest
    } else {
        rest.split_first().filter(|(first, _)| *first == "rdma")?.1
    };
    let options = rest.iter().take_while(|arg| arg.to_string_lossy().starts_with('-')).count();
    let (options, rest) = rest.split_at(options);
    let mut ours = vec![own_name.clone()];
    let object = rest.first().map(|word| object_of(word).map_or_else(|| word.clone(), OsString::from));
    // Without further words, iproute2 shows the counters of links.
    let shows_links = rest.len() == 1 && object.as_ref().is_some_and(|object| object == "statistic");
    ours.extend(object);
    ours.extend_from_slice(options);
    ours.extend(rest.iter().skip(1).cloned());
    ours.extend(shows_links.then(|| OsString::from("show")));
    Some(ours)
}

/// Rewrites `weft-rsh node1 true`: some launchers take the name of a remote shell without arguments.
fn as_rsh(args: &[OsString]) -> Option<Vec<OsString>> {
    let (own_name, rest) = args.split_first()?;
    let command = [own_name, &OsString::from("rsh")];
    (Path::new(own_name).file_name()? == "weft-rsh").then(|| command.into_iter().chain(rest).cloned().collect())
}

/// The first object of `rdma`, in iproute2's order, that starts with this word.
fn object_of(word: &OsStr) -> Option<&'static str> {
    const OBJECTS: [&str; 7] = ["dev", "help", "link", "resource", "system", "statistic", "monitor"];
    let word = word.to_str().filter(|word| !word.is_empty())?;
    OBJECTS.into_iter().find(|object| object.starts_with(word))
}

/// Rewrites `weft help environment` as `weft environment`, because variables are not a command.
fn about_environment(args: &[OsString]) -> Option<Vec<OsString>> {
    let [own_name, help, environment] = args else { return None };
    (help == "help" && environment == "environment").then(|| vec![own_name.clone(), environment.clone()])
}

/// The command line with the list of tools below its help.
fn full_command() -> clap::Command {
    Cli::command().after_help(tools_help())
}

fn version() -> ExitCode {
    outln!("weft {}", env!("CARGO_PKG_VERSION"));
    ExitCode::SUCCESS
}

fn tools_help() -> String {
    let mut text = "Tools (weft TOOL ..., or a link named TOOL):".to_owned();
    for tool in tools::all() {
        text += &format!("\n  {:<18} {}", tool.name, tool.about);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn a_tool_is_found_by_either_name() {
        for line in ["/usr/bin/ibv_devinfo -v", "weft ibv_devinfo -v"] {
            let args = args(line);
            let (tool, rest) = tool_of(&args).unwrap();
            assert_eq!((tool.name, rest), ("ibv_devinfo", &[OsString::from("-v")][..]));
        }
        assert!(tool_of(&args("weft link")).is_none());
        assert!(tool_of(&args("weft")).is_none());
    }

    #[test]
    fn the_words_of_rdma_are_ours_in_another_order() {
        for line in ["/sbin/rdma -j -p link show rxe0", "weft rdma -j -p link show rxe0"] {
            let ours = as_rdma(&args(line)).unwrap();
            assert_eq!(ours[1..], args("link -j -p show rxe0"));
        }
        assert!(as_rdma(&args("weft link")).is_none());
        for (line, expected) in [
            ("rdma statistic", "statistic show"),
            ("rdma -j stat", "statistic -j show"),
            ("rdma statistic qp", "statistic qp"),
            ("rdma res show qp", "resource show qp"),
            ("rdma sys", "system"),
            ("weft rdma mon", "monitor"),
        ] {
            assert_eq!(as_rdma(&args(line)).unwrap()[1..], args(expected), "{line}");
        }
    }

    #[test]
    fn a_link_is_a_remote_shell() {
        assert_eq!(as_rsh(&args("bin/weft-rsh node1 true")).unwrap()[1..], args("rsh node1 true"));
        assert!(as_rsh(&args("weft rsh node1")).is_none());
    }

    #[test]
    fn variables_have_a_help_page() {
        assert_eq!(about_environment(&args("weft help environment")).unwrap(), args("weft environment"));
        assert!(about_environment(&args("weft help run")).is_none());
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn no_tool_hides_a_command() {
        for command in Cli::command().get_subcommands() {
            assert!(tools::find(command.get_name()).is_none(), "{}", command.get_name());
        }
    }
}
