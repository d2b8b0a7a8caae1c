//! `weft sm check`: finds errors in configuration files, and shows what partitions would change on a subnet, before
//! they go live.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use weft_fabric::topology::{Picture, Topology};
use weft_ipc::Spawn;
use weft_ipc::fabric::unpack;
use weft_sm::Subnet;
use weft_sm::options::{Diagnostic, Level, Options, files as named};
use weft_sm::partition::{self, Config, Plan, Report};
use weft_sm::qos::{Policy, policy};
use weft_tool::fabric::{finish, session, spell};
use weft_tool::topology_source::SourceArgs;

use super::files::{self, Files};
use super::run_args::RunArgs;
use super::simulate;
use crate::output;

/// Options of `weft sm check`.
#[derive(Args, Debug)]
pub struct CheckArgs {
    /// Configuration file [default: opensm.conf in /etc/rdma or /etc/opensm]
    #[arg(short = 'F', long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Partition file to replace the current one [default: the one that the configuration names]
    #[arg(short = 'P', long, visible_alias = "Pconfig", value_name = "FILE")]
    partitions: Option<PathBuf>,
    /// QoS policy file [default: the one that the configuration names]
    #[arg(short = 'Y', long, visible_alias = "qos_policy_file", value_name = "FILE")]
    qos: Option<PathBuf>,
    /// Fabric description file of the subnet [default: the running fabric, if any]
    #[arg(short = 'T', long, value_name = "FILE")]
    topology: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Results of the check.
#[derive(Default)]
struct Findings {
    diagnostics: Vec<Diagnostic>,
    report: Report,
    /// The subnet's part of the report; none if no subnet is known.
    subnet: Option<String>,
}

/// Runs the command. It fails if files have errors.
pub fn run(args: &CheckArgs) -> ExitCode {
    finish("weft sm check", check(args))
}

fn check(args: &CheckArgs) -> Result<(), String> {
    let run = RunArgs::of_config(args.config.clone());
    let files = Files::load(&run).map_err(|error| format!("{error:#}"))?;
    let options = files.options();
    let mut findings = Findings { diagnostics: files.diagnostics().to_vec(), ..Findings::default() };
    named_files(options, &mut findings.diagnostics);
    let in_force = partitions(options.partitions.partition_config_file.as_deref().map(Path::new), false)?;
    let (old, new) = match &args.partitions {
        Some(path) => (in_force.0, partitions(Some(path), true)?),
        None => (Config::Absent, in_force),
    };
    findings.diagnostics.extend(new.1);
    let policy = quality(args.qos.as_deref(), options, &mut findings.diagnostics)?;
    if let Some((name, topology)) = described(args)? {
        let subnet = discover(&topology, options)?;
        findings.report = partition::check(&old, &new.0, &subnet, options);
        let plan = Plan::new(&new.0, &subnet, options, None);
        findings.report.warnings.extend(policy.iter().flat_map(|policy| policy.warnings(&plan)));
        findings.subnet = Some(name);
    }
    output::print(&if args.json { json(&findings) } else { text(&findings) });
    match findings.diagnostics.iter().filter(|diagnostic| diagnostic.level == Level::Error).count() {
        0 => Ok(()),
        1 => Err("there is an error".to_owned()),
        count => Err(format!("there are {count} errors")),
    }
}

/// Reads the files that options name; files at default paths may be missing.
fn named_files(options: &Options, diagnostics: &mut Vec<Diagnostic>) {
    let mut read = |path: &str| files::read(Path::new(path)).map_err(|error| error.root_cause().to_string());
    diagnostics.extend(named::routing(options, &mut read).1);
    let default = Options::default();
    let mut one = |path: &Option<String>, usual: &Option<String>, parse: &dyn Fn(&str, &str) -> Vec<Diagnostic>| {
        let Some(path) = path else { return };
        let name = |path: &str| path.rsplit('/').next().map(str::to_owned);
        match files::read(Path::new(path)) {
            Ok(text) => diagnostics.extend(parse(&text, path)),
            Err(_) if usual.as_deref().and_then(name) == name(path) => {}
            Err(error) => {
                let (file, what) = (path.clone(), format!("cannot be read: {}", error.root_cause()));
                let fix = "name a file that is there, or leave the option out".to_owned();
                diagnostics.push(Diagnostic { level: Level::Error, file, line: 0, column: 0, what, fix });
            }
        }
    };
    one(&options.log.node_name_map_name, &None, &|text, file| named::names(text, file).1);
    let usual = &default.misc.prefix_routes_file;
    one(&options.misc.prefix_routes_file, usual, &|text, file| named::prefix_routes(text, file).1);
    let usual = &default.log.per_module_logging_file;
    one(&options.log.per_module_logging_file, usual, &|text, file| named::modules(text, file).1);
}

/// Reads the partitions of a file; without a file, the default partitions apply.
fn partitions(path: Option<&Path>, must_exist: bool) -> Result<(Config, Vec<Diagnostic>), String> {
    match path {
        Some(path) if must_exist || path.exists() => {
            let text = files::read(path).map_err(|error| format!("{error:#}"))?;
            Ok(partition::parse(&text, &path.to_string_lossy()))
        }
        _ => Ok((Config::Absent, Vec::new())),
    }
}

/// Reads the QoS policy: the given file, or the configuration's, if QoS is on and the file exists.
fn quality(
    named: Option<&Path>,
    options: &Options,
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<Option<Policy>, String> {
    let usual = options.qos.qos_policy_file.as_deref().map(Path::new);
    let usual = usual.filter(|path| options.qos.qos && path.exists());
    let Some(path) = named.or(usual) else { return Ok(None) };
    let text = files::read(path).map_err(|error| format!("{error:#}"))?;
    let (policy, said) = policy::parse(&text, &path.to_string_lossy());
    diagnostics.extend(said);
    Ok(policy)
}

/// The subnet with its name, from a file or from the running fabric.
fn described(args: &CheckArgs) -> Result<Option<(String, Topology)>, String> {
    if let Some(path) = &args.topology {
        let topology = SourceArgs::of_file(path.clone()).load()?;
        return Ok(Some((path.display().to_string(), topology)));
    }
    let Ok(mut client) = session(Spawn::Never) else { return Ok(None) };
    let bytes = match client.fabric_picture() {
        Ok(bytes) => bytes,
        Err(weft_ipc::RequestError::Refused(_)) => return Ok(None),
        Err(error) => return Err(spell(error)),
    };
    let picture: Picture = unpack(&bytes).map_err(|error| error.to_string())?;
    Ok(picture.is_sane().then(|| ("the fabric that is up".to_owned(), picture.topology)))
}

/// The subnet as a manager discovers it when it is alone there.
fn discover(topology: &Topology, options: &Options) -> Result<Subnet, String> {
    let guid = options.device.guid;
    let done =
        simulate::rehearse(topology, |first| weft_sm::manager::Setup::new(if guid == 0 { first } else { guid }))?;
    if done.is_up { Ok(done.manager.subnet().clone()) } else { Err("the subnet would not come up".to_owned()) }
}

fn text(findings: &Findings) -> String {
    let mut lines: Vec<String> = findings.diagnostics.iter().map(ToString::to_string).collect();
    match &findings.subnet {
        None => lines.push("no subnet is known here: say --topology FILE to see what would change".to_owned()),
        Some(name) if findings.report.changes.is_empty() => lines.push(format!("on {name}: nothing would change")),
        Some(name) => {
            lines.push(format!("on {name} would change:"));
            lines.extend(findings.report.changes.iter().map(|change| format!("  {change}")));
        }
    }
    lines.extend(findings.report.warnings.iter().map(|warning| format!("warning: {warning}")));
    lines.join("\n") + "\n"
}

fn json(findings: &Findings) -> String {
    let diagnostics = findings.diagnostics.iter().map(|diagnostic| {
        serde_json::json!({
            "level": diagnostic.level.to_string(), "file": diagnostic.file, "line": diagnostic.line, "column": diagnostic.column,
            "what": diagnostic.what, "fix": diagnostic.fix,
        })
    });
    let diagnostics: Vec<_> = diagnostics.collect();
    let Report { changes, warnings } = &findings.report;
    let value = serde_json::json!({
        "diagnostics": diagnostics, "subnet": findings.subnet, "changes": changes, "warnings": warnings,
    });
    format!("{value}\n")
}
