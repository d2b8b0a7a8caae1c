//! `lsmod` and `modinfo` where the system's commands do not read the view's files.

use std::ffi::OsString;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use super::original;
use crate::commands::modules::{self, ModuleFiles};
use crate::output;

const PROC_MODULES: &str = "/proc/modules";

/// Prints the loaded modules; `None` if the system's command can.
pub fn lsmod(files: &ModuleFiles) -> Option<ExitCode> {
    let list = fs::read_to_string(files.list()).ok()?;
    let is_shown = fs::read_to_string(PROC_MODULES).is_ok_and(|shown| shown == list);
    if is_shown && original::command(Some(files), "lsmod").is_some() {
        return None;
    }
    output::print(&table(&list));
    Some(ExitCode::SUCCESS)
}

/// Formats lines of /proc/modules as lsmod does.
fn table(list: &str) -> String {
    let mut text = "Module                  Size  Used by\n".to_owned();
    for line in list.lines() {
        let mut words = line.split(' ');
        let [name, size, count, users] = [(); 4].map(|()| words.next().unwrap_or_default());
        let users = users.trim_end_matches(',').trim_start_matches('-');
        let row = format!("{name:<19} {size:>8}  {count} {users}");
        let _ = writeln!(text, "{}", row.trim_end());
    }
    text
}

/// Describes modules; `None` if the system's command can.
pub fn modinfo(files: &ModuleFiles, args: &[OsString]) -> Option<ExitCode> {
    let words: Vec<&str> = args.iter().map(|arg| arg.to_str()).collect::<Option<_>>()?;
    let all: Vec<_> = words.iter().filter_map(|word| modules::find(word)).collect();
    let tree = Path::new("/lib/modules").join(modules::release());
    if all.is_empty() || all.iter().all(|module| is_known(&tree, module.name)) && is_installed(files) {
        return None;
    }
    if is_installed(files) {
        // The view's tree is not at its usual place here.
        let base = [OsString::from("-b"), files.dir().into()];
        return Some(original::pass(Some(files), "modinfo", &[&base[..], args].concat()));
    }
    let field = words.iter().position(|word| *word == "-F").and_then(|at| words.get(at + 1)).copied();
    for module in all {
        let tree = if tree.join(module.file()).exists() { &tree } else { &files.tree() };
        let file = tree.join(module.file());
        output::print(&text(&format!("filename={}", file.display()), &modules::info(module), field));
    }
    Some(ExitCode::SUCCESS)
}

fn is_installed(files: &ModuleFiles) -> bool {
    original::command(Some(files), "modinfo").is_some()
}

/// Whether the index of a tree has the module.
fn is_known(tree: &Path, name: &str) -> bool {
    let index = fs::read_to_string(tree.join("modules.dep")).unwrap_or_default();
    index.lines().any(|line| line.split(':').next().is_some_and(|file| file.contains(&format!("/{name}.ko"))))
}

/// Formats a module's lines as modinfo does, or the values of one field.
fn text(file: &str, lines: &[String], field: Option<&str>) -> String {
    let all = std::iter::once(file).chain(lines.iter().map(String::as_str)).filter_map(|line| line.split_once('='));
    let mut text = String::new();
    for (key, value) in all {
        match field {
            None => writeln!(text, "{:<15} {value}", format!("{key}:")),
            Some(field) if field == key => writeln!(text, "{value}"),
            Some(_) => Ok(()),
        }
        .unwrap_or_default();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_the_form_of_kmod_s() {
        let list = "ib_cm 4096 2 rdma_cm,ib_ipoib, Live 0x0\nib_umad 24576 0 - Live 0x0\n";
        assert_eq!(
            table(list),
            "Module                  Size  Used by\nib_cm                   4096  2 rdma_cm,ib_ipoib\n\
             ib_umad                24576  0\n"
        );
        let lines = ["version=1".to_owned(), "depends=ib_core".to_owned()];
        assert_eq!(text("filename=/x.ko", &lines, Some("version")), "1\n");
        assert_eq!(
            text("filename=/x.ko", &lines, None),
            "filename:       /x.ko\nversion:        1\ndepends:        ib_core\n"
        );
    }
}
