//! The program's surroundings where no private mount namespace is allowed: a preloaded library shows it the devices,
//! from a directory tree; the loader finds Weft's libraries by LD_LIBRARY_PATH and LD_AUDIT.

use std::io;
use std::process::Command;

use anyhow::{Context as _, Result};

use super::environment::{library_path, preload};
use super::modules::{self, KeptModules};
use super::task::Task;
use super::tree::Tree;
use super::viewer::{Sight, UMASK};
use super::{fallback, live};
use crate::commands::modules::{ModuleFiles, write_tree};
use crate::commands::own_view::VIEW_VARIABLE;

/// Builds the tree and sets the variables. `refused` is why there is no namespace.
pub fn prepare(task: &Task<'_>, refused: &io::Error, command: &mut Command) {
    fallback::tell(refused, task.is_quiet);
    if !task.args.system {
        command.env("LD_LIBRARY_PATH", library_path(task.dir));
    }
    let users = rustix::process::umask(UMASK);
    let shown = show(task, command);
    rustix::process::umask(users);
    // Without the view most programs still work.
    if let Err(error) = shown {
        crate::errln!("weft run: /sys/class/infiniband and /dev/infiniband show no devices: {error:#}");
        command.env_remove(VIEW_VARIABLE);
    }
}

fn show(task: &Task<'_>, command: &mut Command) -> Result<()> {
    let list = preload(task.dir)?;
    let (tree, built) = Tree::build(task.view, task.manager).context("cannot build the view")?;
    let files = ModuleFiles::below(&tree.dir().join("sys/class"));
    let modules = build_modules(&files, task, command);
    task.say(&format!("/sys and /dev show the devices of {}", tree.dir().display()));
    command.env(VIEW_VARIABLE, tree.dir());
    command.env("LD_PRELOAD", list);
    let mut kept = task.kept(built);
    match modules {
        Ok(()) => kept.modules = Some(KeptModules::new(files, task.modules, false)),
        Err(e) => task.say(&format!("modprobe and lsmod are the system's: {e}")),
    }
    if let Err(e) = live::keep(kept, Sight::Tree(tree)) {
        task.say(&format!("what changes in /sys/class/infiniband stays as it is now: {e}"));
    }
    Ok(())
}

fn build_modules(files: &ModuleFiles, task: &Task<'_>, command: &mut Command) -> io::Result<()> {
    modules::build(files, &task.modules.loaded)?;
    write_tree(&files.tree())?;
    modules::prepend_commands(files, command)
}
