//! The program's surroundings in a private mount namespace: Weft's libraries and command mounted over the system's, and
//! the devices in /sys and /dev.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;

use weft_sys::namespace::{self, Entered};

use super::configfs::KeptConfig;
use super::interfaces::Interfaces;
use super::libraries::{self, Plan, Replacement};
use super::library_path;
use super::live;
use super::modules::{self, KeptModules};
use super::mounts::{self, Staging};
use super::stand_in::StandIn;
use super::task::Task;
use super::viewer::{Sight, UMASK};
use crate::commands::ip::ORIGINAL;
use crate::commands::modules::ModuleFiles;
use crate::commands::own_view::VIEW_VARIABLE;

/// Files of the system over which Weft's are mounted.
#[derive(Default)]
pub struct Libraries {
    plan: Plan,
    rdma: Option<Replacement>,
    /// On a fabric's host, `ip`.
    ip: Option<Replacement>,
    /// kmod, which is `modprobe`, `lsmod` and others.
    kmod: Option<Replacement>,
    /// The system's `ip` and kmod, where this command runs inside a view: there, Weft's are at their places.
    ip_of_outer_view: Option<OwnedFd>,
    kmod_of_outer_view: Option<OwnedFd>,
    /// On a fabric's host, `nmcli`, `systemctl`, `mount` and `mount.nfs`.
    stand_ins: Vec<StandIn>,
}

impl Libraries {
    /// Finds them; none if the user wants the system's.
    pub fn find(task: &Task<'_>) -> Libraries {
        if task.args.system {
            return Libraries::default();
        }
        let mut plan = libraries::plan(task.dir);
        if let Some(program) = task.program {
            libraries::add_own_copies(&mut plan, task.dir, program);
        }
        let ip = if task.has_network { libraries::command("ip") } else { None };
        let stand_ins = if task.is_on_fabric() { stand_ins(task.has_network) } else { Vec::new() };
        let (rdma, kmod) = (libraries::command("rdma"), libraries::command("kmod"));
        Libraries { plan, rdma, ip, kmod, stand_ins, ..Libraries::default() }
    }

    /// Keeps what the outer view shows, before another one covers it. Only mounts of the new namespace can be bound.
    pub fn hold_outer_view(&mut self) {
        self.ip_of_outer_view = namespace::hold(Path::new(ORIGINAL)).ok();
        self.kmod_of_outer_view = ModuleFiles::own().and_then(|files| namespace::hold(&files.original()).ok());
    }
}

/// Finds the stand-ins of a fabric's host: `nmcli` concerns its network alone.
fn stand_ins(has_network: bool) -> Vec<StandIn> {
    let names = ["systemctl", "mount", "mount.nfs"].into_iter().chain(has_network.then_some("nmcli"));
    names.filter_map(StandIn::find).collect()
}

/// Mounts everything. Reports the mounts that fail; the rest is in place.
pub fn prepare(task: &Task<'_>, staging: &Staging, libraries: Libraries, command: &mut Command) {
    let users = rustix::process::umask(UMASK);
    show(task, staging, libraries, command);
    rustix::process::umask(users);
}

fn show(task: &Task<'_>, staging: &Staging, libraries: Libraries, command: &mut Command) {
    task.say(match staging.entered {
        Entered::Privileged => "private mount namespace",
        Entered::UserNamespace => "private mount and user namespace",
    });
    // A surrounding `weft run` may have set it.
    command.env_remove(VIEW_VARIABLE);
    // The view first: it may cover the directory of libraries.
    let shown = mounts::show(staging, task.view, task.manager, task.modules);
    replace(task, &libraries, command);
    let built = match shown {
        Ok((built, failures)) => {
            failures.iter().for_each(|failure| task.say(failure));
            built
        }
        Err(failure) => return task.say(&failure),
    };
    let files = ModuleFiles::below(Path::new("/sys/class"));
    if !task.args.system
        && let Err(e) = replace_kmod(&files, &libraries, command)
    {
        task.say(&format!("modprobe and lsmod are the system's: {e}"));
    }
    let mut kept = task.kept(built);
    kept.modules = Some(KeptModules::new(files, task.modules, true));
    kept.config = Some(KeptConfig::mounted(task.devices));
    if task.has_network {
        let mut interfaces = Interfaces::default();
        if let Err(e) = interfaces.refresh(&live::options_of(&kept.host)) {
            task.say(&format!("/sys/class/net shows no IPoIB attributes: {e}"));
        }
        kept.interfaces = Some(interfaces);
        if let Some(ip) = &libraries.ip
            && let Err(e) = replace_ip(ip, libraries.ip_of_outer_view.as_ref())
        {
            task.say(&format!("{} shows the IPoIB interfaces as TUNs: {e}", ip.system.display()));
        }
    }
    for stand_in in &libraries.stand_ins {
        if let Err(e) = stand_in.show(command) {
            task.say(&format!("{} is the system's: {e}", stand_in.name()));
        }
    }
    if let Err(e) = live::keep(kept, Sight::Mounts) {
        task.say(&format!("what changes in /sys/class/infiniband stays as it is now: {e}"));
    }
}

/// Mounts Weft's command over `kmod`, which stays reachable for it. Without one, programs find Weft's by PATH.
fn replace_kmod(files: &ModuleFiles, libraries: &Libraries, command: &mut Command) -> io::Result<()> {
    let Some(kmod) = &libraries.kmod else {
        return modules::prepend_commands(files, command);
    };
    fs::write(files.original(), "")?;
    let system = libraries.kmod_of_outer_view.as_ref().map_or_else(|| kmod.system.clone(), namespace::held_path);
    namespace::bind(&system, &files.original())?;
    namespace::bind(&kmod.ours, &kmod.system)
}

/// Mounts Weft's command over `ip`, which stays reachable for it.
fn replace_ip(ip: &Replacement, of_outer_view: Option<&OwnedFd>) -> io::Result<()> {
    let original = Path::new(ORIGINAL);
    fs::create_dir_all(original.parent().unwrap_or(Path::new("/")))?;
    fs::write(original, "")?;
    let system = of_outer_view.map_or_else(|| ip.system.clone(), namespace::held_path);
    namespace::bind(&system, original)?;
    namespace::bind(&ip.ours, &ip.system)
}

fn replace(task: &Task<'_>, Libraries { plan, rdma, .. }: &Libraries, command: &mut Command) {
    let failed = mounts::replace_libraries(&plan.replacements);
    for replacement in &plan.replacements {
        task.say(&format!("{} is {}", replacement.system.display(), replacement.ours.display()));
    }
    for (file, error) in &failed {
        crate::errln!(
            "weft run: {}: cannot mount Weft's library over it: {}; LD_LIBRARY_PATH is set instead",
            file.display(),
            crate::errno::text(error)
        );
    }
    for (file, error) in mounts::replace_libraries(rdma.as_slice()) {
        crate::errln!(
            "weft run: {}: cannot mount Weft's command over it: {}; use `weft rdma`",
            file.display(),
            crate::errno::text(&error)
        );
    }
    if let Some(program) = task.program.filter(|_| !task.args.system) {
        libraries::loads(program, plan).iter().for_each(|line| task.say(line));
    }
    for soname in &plan.unbuilt {
        task.say(&format!("{soname} is not in {}: the system's stays", task.dir.display()));
    }
    if !plan.absent.is_empty() {
        task.say(&format!("not installed here, found by LD_LIBRARY_PATH: {}", plan.absent.join(" ")));
    }
    if !failed.is_empty() || !plan.absent.is_empty() {
        command.env("LD_LIBRARY_PATH", library_path(task.dir));
    }
}
