//! `weft run`: runs an unmodified program with Weft's libraries in place of the system's, and Weft's devices in view.
//!
//! The program replaces this process (there is no parent in between), so its exit status, signals and terminal are its
//! own.

mod adapter_args;
mod args;
mod built;
mod configfs;
mod counters;
mod cpus;
mod detach;
mod environment;
mod ethernet;
mod fallback;
mod following;
mod infiniband;
pub(super) mod interfaces;
mod issm;
mod libraries;
mod live;
mod live_file;
mod modules;
mod mounted;
mod mounts;
mod network;
mod node_rules;
mod nodes;
mod pci;
mod preloaded;
pub(super) mod program;
mod srp_logins;
mod stand_in;
mod sys_files;
mod task;
mod tree;
mod unheard;
mod union;
mod view;
mod viewer;
mod wait_port;
mod words;
mod writers;

pub use adapter_args::AdapterArgs;
pub use args::{FAILED, RunArgs};
pub use detach::{LISTENS_WITHIN, listens, run_command as detach_command, words};
pub use environment::{REPORT_VARIABLE, audit, library_path, preload_check};
pub use fallback::remedy;
#[cfg(test)]
pub use view::tests::rxe0 as test_device;
pub use wait_port::is_listened_on;
pub use words::Words;

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use anyhow::Result;
use weft_fabric::topology;
use weft_ipc::ethernet::ETHERNET_VARIABLE;
use weft_ipc::stat::StatReport;
use weft_ipc::{Client, ConnectOptions, DeviceInfo, HOST_VARIABLE, trust};

use super::modules::{Module, loaded_with};
use crate::rdma_dir;
use network::Network;
use program::Program;
use task::Task;

/// Exit codes of a program that cannot run, as in env(1), nohup(1) and docker.
const CANNOT_EXECUTE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Runs the command. Returns only if that fails, or if the program goes to the background.
pub fn run(args: &RunArgs) -> ExitCode {
    if args.detach {
        return detach::run(args);
    }
    ExitCode::from(start(args))
}

/// Replaces this process by the program. Returns the exit code of a failure, which is already printed.
pub fn start(args: &RunArgs) -> u8 {
    match prepare(args) {
        Ok(mut command) => {
            let error = command.exec();
            crate::errln!(
                "weft run: cannot run {}: {}",
                command.get_program().to_string_lossy(),
                crate::errno::text(&error)
            );
            if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { CANNOT_EXECUTE }
        }
        Err(e) => {
            crate::errln!("weft run: {e:#}");
            FAILED
        }
    }
}

fn prepare(args: &RunArgs) -> Result<Command> {
    let [program, rest @ ..] = args.command.as_slice() else {
        anyhow::bail!("no command given; usage: weft run [OPTIONS] [--] CMD [ARGS]...");
    };
    if let Some(message) = unheard::unknown_option(program) {
        anyhow::bail!(message);
    }
    let mut command = Command::new(program);
    command.args(rest).envs(args.variables.iter().map(|(name, value)| (name, value)));
    if let Some(spec) = &args.adapters.fault {
        environment::check_fault(spec, "--fault")?;
        command.env("WEFT_FAULT", spec);
    } else if let Ok(spec) = std::env::var("WEFT_FAULT") {
        environment::check_fault(&spec, "WEFT_FAULT")?;
    }
    if let Some(seed) = args.adapters.strict {
        command.env("WEFT_STRICT", seed.to_string());
    }
    // The libraries log nothing by default. A user of `weft run` wants to know why a device does not open, or that the
    // daemon died.
    if std::env::var_os("WEFT_LOG").is_none() {
        command.env("WEFT_LOG", "stderr");
    }
    if let Some(file) = &args.adapters.pcap {
        command.env("WEFT_PCAP", environment::check_pcap(file)?);
    }
    let dir = rdma_dir::find()?;
    rdma_dir::announce_daemon();
    let mut options =
        ConnectOptions { program: "weft run".to_owned(), library_dir: Some(dir.clone()), ..ConnectOptions::default() };
    let ethernet = match &args.adapters.host {
        Some(host) => ethernet::enter(host)?,
        None => None,
    };
    if ethernet.is_some() && args.adapters.machine_network {
        anyhow::bail!("--machine-network: an Ethernet host's devices are in its own network; leave the option out");
    }
    // From here on, this process is on a machine of its own.
    let fabric_host = args.adapters.host.as_ref().filter(|_| ethernet.is_none());
    if let Some(host) = args.adapters.host.as_ref().filter(|_| ethernet.is_some()) {
        command.env(ETHERNET_VARIABLE, host).env_remove(HOST_VARIABLE);
        options.host.clear();
    }
    if let Some(host) = fabric_host {
        options.host.clone_from(host);
        command.env(HOST_VARIABLE, host);
    }
    let on_host = !options.host.is_empty();
    if let Some(port) = args.wait_port.filter(|_| !on_host) {
        wait_port::wait(port, &options.host)?;
    }
    let Found { devices, roce_v1, counted, ports, daemon, packets, may_manage, network, loaded } =
        find(&options, on_host && !args.adapters.machine_network)?;
    if on_host {
        for line in wished(args).without_effect(packets) {
            crate::errln!("weft run: {line}");
        }
    }
    match daemon {
        Some(name) => command.env(trust::DAEMON_VARIABLE, name),
        None => command.env_remove(trust::DAEMON_VARIABLE),
    };
    task::say(args, &topology::counted(devices.len(), "device"));

    let program = Program::read(program);
    let is_quiet = args.quiet || std::env::var_os("WEFT_QUIET").is_some();
    if let Some(program) = program.as_ref().filter(|_| !is_quiet) {
        program.warn();
    }
    if args.ld_library_path {
        command.env("LD_LIBRARY_PATH", library_path(&dir));
        environment::preload_wanted(args, &dir, &mut command)?;
        return Ok(command);
    }
    let cpus = cpus::Cpus::of_machine();
    let view = view::View::of(&devices, &counted, &ports, &cpus);
    // Mounts cannot foresee the files that the loader opens later, such as a wheel's own copy.
    if !args.system
        && let Some(list) = audit(&dir)
    {
        command.env("LD_AUDIT", list);
    }
    let network = match network.map(|found| found.and_then(Network::entered)) {
        Some(Err(why)) => {
            fallback::tell_network(&options.host, &why, may_manage, is_quiet);
            None
        }
        network => network.and_then(Result::ok).or(ethernet),
    };
    // Servers of the host listen in its network.
    if let Some(port) = args.wait_port.filter(|_| on_host) {
        wait_port::wait(port, &options.host)?;
    }
    let view = match &network {
        Some(network) => view::View { hosts_file: Some(network.hosts_file()), ..view },
        None => view,
    };
    let manager = nodes::Manager { host: &options.host, may_manage };
    let has_network = network.is_some();
    // An ordinary user cannot write there, and root installs packages on the machine, not on its virtual hosts.
    let may_cover = on_host || weft_sys::process::euid() != 0;
    let modules = modules::ShownModules { loaded, may_cover };
    let task = Task {
        args,
        dir: &dir,
        program: program.as_ref(),
        view: &view,
        manager,
        cpus: &cpus,
        roce_v1,
        is_quiet,
        has_network,
        modules: &modules,
        devices: &devices,
    };
    // Looked for before entering the namespace: inside, this command's path may lead nowhere.
    let mut libraries = mounted::Libraries::find(&task);
    match mounts::Staging::enter() {
        Ok(staging) => {
            libraries.hold_outer_view();
            if has_network {
                network::show_interfaces(&task);
                network::wait_for_links(&devices);
            }
            mounted::prepare(&task, &staging, libraries, &mut command);
        }
        Err(error) => preloaded::prepare(&task, &error, &mut command),
    }
    environment::preload_wanted(args, &dir, &mut command)?;
    Ok(command)
}

/// The daemon's answers.
struct Found {
    devices: Vec<DeviceInfo>,
    /// Whether they have RoCE v1 GIDs.
    roce_v1: bool,
    counted: StatReport,
    ports: counters::PortCounters,
    /// Name of the daemon, if it may be trusted with memory. Checked here, because a process in a user namespace can no
    /// longer tell.
    daemon: Option<String>,
    /// Whether individual packets cross the switches of the host's fabric.
    packets: bool,
    /// Whether the daemon lets this user send management datagrams.
    may_manage: bool,
    /// The namespaces of the fabric's host that the program runs as, or why there are none.
    network: Option<Result<Network, String>>,
    /// Kernel modules that are loaded.
    loaded: Vec<&'static Module>,
}

/// Whether the faults asked for are faults in packets, and not injected failures alone.
fn damages_packets(args: &RunArgs) -> bool {
    let spec = args.adapters.fault.clone().or_else(|| std::env::var("WEFT_FAULT").ok());
    weft_link::FaultPlan::parse(&spec.unwrap_or_default()).is_ok_and(|plan| plan.needs_packets())
}

/// Options and variables in use that may have no effect on a fabric.
fn wished(args: &RunArgs) -> unheard::Wished<'static> {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let from = |option: bool, long: &'static str, name: &'static str| match option {
        true => Some(long),
        false => set(name).then_some(name),
    };
    unheard::Wished {
        fault: from(args.adapters.fault.is_some(), "--fault", "WEFT_FAULT").filter(|_| damages_packets(args)),
        pcap: from(args.adapters.pcap.is_some(), "--pcap", "WEFT_PCAP"),
        wire: std::env::var("WEFT_LOOPBACK").is_ok_and(|value| value == "wire"),
    }
}

/// Starts the daemon if none runs (it must not start inside the namespaces made next), and fetches the devices and
/// their counters; `enters`: and the network of the program's host. The connection ends here; the daemon waits a while
/// for the program's own.
fn find(options: &ConnectOptions, enters: bool) -> Result<Found> {
    let mut client = Client::connect(options)?;
    let mut devices = client.list_devices()?;
    let counted = client.stat()?;
    let on_host = !options.host.is_empty();
    let packets = on_host && client.fabric_status()?.is_some_and(|status| status.packets);
    let roce_v1 = weft_sys::packet::are_allowed();
    if roce_v1 {
        devices.iter_mut().for_each(DeviceInfo::add_roce_v1);
    }
    let credentials = client.daemon_credentials().ok();
    let own = weft_sys::process::euid();
    let may_manage = own == 0 || credentials.is_some_and(|daemon| daemon.uid == own);
    let network = enters.then(|| Network::of(&mut client));
    let loaded = loaded_with(&mut client, &devices)?;
    let daemon = credentials.filter(trust::is_trusted).as_ref().and_then(trust::name_of);
    let ports = if on_host { infiniband::fetch(options)?.1 } else { counters::PortCounters::new() };
    Ok(Found { devices, roce_v1, counted, ports, daemon, packets, may_manage, network, loaded })
}
