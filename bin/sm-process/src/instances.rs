//! `weft sm instances`: a manager for each port that the machine's files name, as OpenSM's service starts them. Each is
//! a process of its own and restarts after a failure; all end with this process.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use weft_sm::options::{DIRECTORIES, Instance, instances, sysconfig};
use weft_sys::epoll::wait_readable;
use weft_sys::signals::SignalQueue;

use super::files::{CACHE_VARIABLE, cache_directory};
use super::port::port_guids;
use weft_client::Which;
use weft_client::umad::Library;

/// Options of `weft sm instances`.
#[derive(Args, Debug)]
pub struct InstancesArgs {
    /// Directory of opensm.conf or opensm.conf.1, opensm.conf.2, ... [default: /etc/rdma or /etc/opensm]
    #[arg(long, value_name = "DIRECTORY")]
    directory: Option<PathBuf>,
    /// File with GUIDS and PRIORITY [default: /etc/sysconfig/opensm or /etc/default/opensm]
    #[arg(long, value_name = "FILE")]
    sysconfig: Option<PathBuf>,
    /// Print the managers that would be started, without starting them
    #[arg(long)]
    dry_run: bool,
}

/// Where distributions store the file with GUIDS and PRIORITY.
const SYSCONFIGS: [&str; 2] = ["/etc/sysconfig/opensm", "/etc/default/opensm"];
/// Interval between checks that all managers run.
const LOOK: Duration = Duration::from_millis(500);
/// Time between a manager's failure and its restart.
const PAUSE: Duration = Duration::from_secs(2);

/// A manager that should run.
struct Running {
    instance: Instance,
    /// Whether there are other instances.
    several: bool,
    child: Option<Child>,
    /// Time of the next start, if the manager is not running.
    start: Instant,
}

/// Runs the command.
///
/// # Errors
/// There is nothing to run, or it cannot be started.
pub fn run(args: &InstancesArgs) -> Result<()> {
    let wanted = find(args)?;
    if wanted.is_empty() {
        bail!("{}: no port to manage; name one in GUIDS", sysconfig_path(args).display());
    }
    let several = wanted.len() > 1;
    if args.dry_run {
        for instance in &wanted {
            crate::outln!("{}: weft {}", instance.name, words(instance).join(" "));
        }
        return Ok(());
    }
    let signals = SignalQueue::new(&[libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGUSR1, libc::SIGCHLD])?;
    let now = Instant::now();
    let mut all: Vec<Running> =
        wanted.into_iter().map(|instance| Running { instance, several, child: None, start: now }).collect();
    loop {
        for one in &mut all {
            one.look()?;
        }
        wait_readable(&signals, LOOK)?;
        while let Some(signal) = signals.take() {
            if signal == libc::SIGCHLD {
                continue;
            }
            all.iter().filter_map(|one| one.child.as_ref()).for_each(|child| tell(child, signal));
            if matches!(signal, libc::SIGTERM | libc::SIGINT) {
                all.iter_mut().filter_map(|one| one.child.as_mut()).for_each(|child| drop(child.wait()));
                return Ok(());
            }
        }
    }
}

impl Running {
    /// Checks whether the manager runs, and starts it if it is due.
    fn look(&mut self) -> Result<()> {
        if let Some(child) = &mut self.child
            && let Some(status) = child.try_wait()?
        {
            crate::errln!("weft sm: instance {} ended with {status}; it is started again", self.instance.name);
            (self.child, self.start) = (None, Instant::now() + PAUSE);
        }
        if self.child.is_none() && Instant::now() >= self.start {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(words(&self.instance));
            if self.several {
                // Managers of two subnets would overwrite each other's LIDs in a shared file.
                command.env(CACHE_VARIABLE, cache_directory().join(&self.instance.name));
            }
            self.child =
                Some(weft_sys::signals::spawn_unblocked(&mut command).context("cannot start a subnet manager")?);
        }
        Ok(())
    }
}

fn tell(child: &Child, signal: i32) {
    // A manager that ended meanwhile has not been waited for, so its process ID is not reused.
    let _ = weft_sys::signals::send(child.id(), signal);
}

/// Finds the instances that the machine's files name where distributions keep them.
///
/// # Errors
/// The ports of the machine cannot be listed.
pub fn of_the_machine() -> Result<Vec<Instance>> {
    find(&InstancesArgs { directory: None, sysconfig: None, dry_run: false })
}

/// Finds the instances that the machine's files name.
fn find(args: &InstancesArgs) -> Result<Vec<Instance>> {
    let known = || DIRECTORIES.iter().map(PathBuf::from).find(|directory| directory.join("opensm.conf").exists());
    let directory = args.directory.clone().or_else(known).unwrap_or_else(|| PathBuf::from(DIRECTORIES[0]));
    let path = sysconfig_path(args);
    let text = match crate::named_file::read(&path) {
        Err(error) if args.sysconfig.is_some() => bail!("cannot read {}: {error}", path.display()),
        text => text.unwrap_or_default(),
    };
    let (mut said, diagnostics) = sysconfig(&text, &path.to_string_lossy());
    for diagnostic in diagnostics {
        crate::errln!("weft sm: {diagnostic}");
    }
    if said.all_ports {
        said.guids = port_guids(Library::load(Which::Ours)?)?;
    }
    Ok(instances(&said, &directory.to_string_lossy(), &names(&directory)))
}

fn sysconfig_path(args: &InstancesArgs) -> PathBuf {
    let known = || SYSCONFIGS.iter().map(PathBuf::from).find(|path| path.exists());
    args.sysconfig.clone().or_else(known).unwrap_or_else(|| PathBuf::from(SYSCONFIGS[0]))
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// The command line of an instance.
pub fn words(instance: &Instance) -> Vec<String> {
    let mut words = vec!["sm".to_owned()];
    let mut add = |name: &str, value: String| words.extend([name.to_owned(), value]);
    if let Some(config) = &instance.config {
        add("--config", config.clone());
    }
    if let Some(guid) = instance.guid {
        add("--guid", format!("0x{guid:016x}"));
    }
    if let Some(priority) = instance.priority {
        add("--priority", priority.to_string());
    }
    if let Some(prefix) = instance.subnet_prefix {
        add("--set", format!("subnet_prefix=0x{prefix:016x}"));
    }
    words.extend(instance.options.iter().cloned());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_start_where_distributions_lack_each_others_units() {
        let units = [
            include_str!("../../../dist/systemd/weft-sm.service"),
            include_str!("../../../dist/systemd/weft-sm@.service"),
        ];
        // systemd refuses a unit that requires another that is not installed.
        for unit in units {
            assert!(!unit.lines().any(|line| line.starts_with("Requires=") || line.starts_with("BindsTo=")), "{unit}");
        }
    }

    #[test]
    fn two_ports_are_two_managers_on_two_subnets() {
        let (said, _) = sysconfig("GUIDS=\"0x10 0x20\"\nPRIORITY=14\n", "sysconfig");
        let lines: Vec<String> = instances(&said, "/etc/rdma", &["opensm.conf".to_owned()])
            .iter()
            .map(|instance| words(instance).join(" "))
            .collect();
        assert_eq!(
            lines[0],
            "sm --config /etc/rdma/opensm.conf --guid 0x0000000000000010 --priority 14 --set \
                              subnet_prefix=0xfe80000000000000"
        );
        assert!(lines[1].contains("--guid 0x0000000000000020") && lines[1].ends_with("0001"), "{}", lines[1]);
        let numbered = instances(&said, "/etc/rdma", &["opensm.conf".to_owned(), "opensm.conf.1".to_owned()]);
        assert_eq!(numbered.iter().map(words).collect::<Vec<_>>(), [["sm", "--config", "/etc/rdma/opensm.conf.1"]]);
    }
}
