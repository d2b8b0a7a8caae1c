//! The tree of /lib/modules/RELEASE: a file for each module, and the indices in which kmod looks modules up.

use std::fs;
use std::io;
use std::path::Path;

use super::table::{MODULES, Module, normal};
use super::{index, object};

/// A file that only trees of Weft have.
pub const RELEASE_MARK: &str = ".weft";

/// Returns what modinfo prints of a module, as lines of its file.
pub fn info(module: &Module) -> Vec<String> {
    let mut lines = vec![
        format!("version={}", env!("CARGO_PKG_VERSION")),
        format!("description={}", module.description),
        "license=MIT OR Apache-2.0".to_owned(),
    ];
    lines.extend(module.aliases.iter().map(|alias| format!("alias={alias}")));
    lines.push(format!("depends={}", module.uses.join(",")));
    lines.push(format!("name={}", module.name));
    lines
}

/// The module's file.
pub(super) fn content(module: &Module) -> Vec<u8> {
    object::write(&info(module))
}

/// Builds the tree of all modules.
pub fn write_tree(tree: &Path) -> io::Result<()> {
    write_files(tree, &MODULES.iter().collect::<Vec<_>>())?;
    fs::write(tree.join(RELEASE_MARK), "")?;
    write_index(tree, "modules.dep", &dependencies().map(|(_, line)| line).collect::<Vec<_>>(), |line| line.clone())?;
    let entries: Vec<(String, String)> = dependencies().map(|(name, line)| (name.to_owned(), line)).collect();
    fs::write(tree.join("modules.dep.bin"), index::write(&entries))?;
    write_index(tree, "modules.order", &MODULES.iter().collect::<Vec<_>>(), |module| module.file())?;
    let aliases: Vec<(String, String)> =
        MODULES.iter().flat_map(|one| one.aliases.iter().map(|alias| (normal(alias), one.name.to_owned()))).collect();
    write_index(tree, "modules.alias", &aliases, |(alias, name)| format!("alias {alias} {name}"))?;
    fs::write(tree.join("modules.alias.bin"), index::write(&aliases))?;
    for empty in ["modules.symbols.bin", "modules.builtin.bin", "modules.builtin.alias.bin"] {
        fs::write(tree.join(empty), index::write(&[]))?;
    }
    let texts = ["modules.symbols", "modules.softdep", "modules.builtin", "modules.builtin.modinfo"];
    texts.iter().try_for_each(|name| fs::write(tree.join(name), ""))
}

fn write_files(tree: &Path, modules: &[&Module]) -> io::Result<()> {
    for module in modules {
        let file = tree.join(module.file());
        fs::create_dir_all(file.parent().unwrap_or(tree))?;
        fs::write(file, content(module))?;
    }
    Ok(())
}

fn write_index<T>(tree: &Path, name: &str, rows: &[T], line: impl Fn(&T) -> String) -> io::Result<()> {
    fs::write(tree.join(name), rows.iter().map(|row| line(row) + "\n").collect::<String>())
}

/// Names and lines of modules.dep: each file, then the files of all modules that it needs.
fn dependencies() -> impl Iterator<Item = (&'static str, String)> {
    MODULES.iter().map(|module| {
        let used =
            MODULES.iter().rev().filter(|other| needs(module, other)).map(|other| " ".to_owned() + &other.file());
        (module.name, format!("{}:{}", module.file(), used.collect::<String>()))
    })
}

fn needs(module: &Module, other: &Module) -> bool {
    let used = MODULES.iter().filter(|used| module.uses.contains(&used.name));
    used.clone().any(|used| used == other) || used.clone().any(|used| needs(used, other))
}

/// Builds, in `tree`, the files that a machine's tree lacks: Weft's modules, and the index of both. Returns `false` if
/// the machine has the RDMA core itself: its own files then describe modules of the same names.
pub fn merge_dependencies(tree: &Path, machine: &Path) -> io::Result<bool> {
    let theirs = fs::read_to_string(machine.join("modules.dep"))?;
    let mut entries: Vec<(String, String)> =
        theirs.lines().filter_map(|line| Some((name_of(line)?, line.to_owned()))).collect();
    let has = |entries: &[(String, String)], name: &str| entries.iter().any(|(known, _)| known == name);
    if has(&entries, "ib_core") {
        return Ok(false);
    }
    let missing: Vec<&Module> = MODULES.iter().filter(|module| !has(&entries, module.name)).collect();
    write_files(tree, &missing)?;
    let lines = dependencies().filter(|(name, _)| missing.iter().any(|module| module.name == *name));
    entries.extend(lines.map(|(name, line)| (name.to_owned(), line)));
    write_index(tree, "modules.dep", &entries, |(_, line)| line.clone())?;
    fs::write(tree.join("modules.dep.bin"), index::write(&entries))?;
    Ok(true)
}

/// The name of the module that a line of modules.dep is about.
fn name_of(line: &str) -> Option<String> {
    let (file, _) = line.split_once(':')?;
    let (name, _) = file.rsplit('/').next()?.split_once('.')?;
    Some(normal(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("weft-module-{name}-{}", std::process::id()))
    }

    #[test]
    fn every_module_has_a_file_and_a_line() {
        let tree = directory("tree");
        write_tree(&tree).unwrap();
        let dep = fs::read_to_string(tree.join("modules.dep")).unwrap();
        for module in &MODULES {
            assert!(tree.join(module.file()).exists());
            assert!(dep.lines().any(|line| line.starts_with(&format!("{}:", module.file()))), "{dep}");
        }
        let ipoib = dep.lines().find(|line| line.contains("ib_ipoib.ko:")).unwrap();
        assert!(ipoib.ends_with(
            "/ib_ipoib.ko: kernel/drivers/infiniband/core/ib_cm.ko kernel/drivers/infiniband/core/ib_core.ko"
        ));
        fs::remove_dir_all(tree).unwrap();
    }

    #[test]
    fn a_machine_without_rdma_modules_keeps_its_own() {
        let (tree, machine) = (directory("merged"), directory("machine"));
        fs::create_dir_all(&machine).unwrap();
        fs::create_dir_all(&tree).unwrap();
        fs::write(machine.join("modules.dep"), "kernel/fs/ext4/ext4.ko.xz: kernel/lib/crc16.ko.xz\n").unwrap();
        assert!(merge_dependencies(&tree, &machine).unwrap());
        let dep = fs::read_to_string(tree.join("modules.dep")).unwrap();
        assert!(dep.starts_with("kernel/fs/ext4/ext4.ko.xz:") && dep.contains("/ib_core.ko:"), "{dep}");
        fs::write(machine.join("modules.dep"), "kernel/drivers/infiniband/core/ib_core.ko.zst:\n").unwrap();
        assert!(!merge_dependencies(&tree, &machine).unwrap());
        fs::remove_dir_all(tree).unwrap();
        fs::remove_dir_all(machine).unwrap();
    }
}
