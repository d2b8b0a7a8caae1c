//! The loaded modules as /proc/modules lists them, and their directories in /sys/module.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::table::Module;
use super::tree::content;

/// Memory is counted in pages.
const PAGE_BYTES: usize = 4096;

/// Size in memory: that of the module's file, in whole pages.
fn size(module: &Module) -> usize {
    content(module).len().next_multiple_of(PAGE_BYTES)
}

/// Formats the modules as lines of /proc/modules, the last loaded first.
pub fn list(loaded: &[&Module]) -> String {
    let line = |module: &&Module| {
        let holders = module.holders(loaded);
        let names = if holders.is_empty() { "-".to_owned() } else { holders.join(",") + "," };
        format!("{} {} {} {names} Live 0x0000000000000000\n", module.name, size(module), holders.len())
    };
    loaded.iter().rev().map(line).collect()
}

/// Puts these lines in front of the machine's, without the machine's lines about the same modules.
pub fn merged(list: &str, machine: &str) -> String {
    let name = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
    let ours: Vec<String> = list.lines().map(name).collect();
    let rest = machine.split_inclusive('\n').filter(|line| !ours.contains(&name(line)));
    rest.fold(list.to_owned(), |text, line| text + line)
}

/// Makes the directories below `root` those of the loaded modules.
pub fn write_directories(root: &Path, loaded: &[&Module]) -> io::Result<()> {
    if root.exists() {
        fs::remove_dir_all(root)?;
    }
    fs::create_dir_all(root)?;
    for module in loaded {
        let dir = root.join(module.name);
        let holders = module.holders(loaded);
        fs::create_dir_all(dir.join("holders"))?;
        for holder in &holders {
            symlink(format!("../../{holder}"), dir.join("holders").join(holder))?;
        }
        for (name, text) in [
            ("initstate", "live".to_owned()),
            ("refcnt", holders.len().to_string()),
            ("coresize", size(module).to_string()),
            ("initsize", "0".to_owned()),
            ("taint", String::new()),
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ] {
            fs::write(dir.join(name), text + "\n")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::modules::{find, loaded};

    #[test]
    fn lines_have_the_form_of_linux() {
        let core = [find("ib_core").unwrap(), find("ib_umad").unwrap()];
        assert_eq!(
            list(&core),
            "ib_umad 4096 0 - Live 0x0000000000000000\nib_core 4096 1 ib_umad, Live 0x0000000000000000\n"
        );
    }

    #[test]
    fn the_machine_s_other_modules_stay_listed() {
        let machine = "ib_core 458752 1 mlx5_ib, Live 0x0\next4 1 0 - Live 0x0\n";
        assert_eq!(merged("ib_core 1 0 - Live 0x0\n", machine), "ib_core 1 0 - Live 0x0\next4 1 0 - Live 0x0\n");
    }

    #[test]
    fn directories_name_the_holders() {
        let root = std::env::temp_dir().join(format!("weft-modules-{}", std::process::id()));
        write_directories(&root, &loaded(&[], false, &[])).unwrap();
        assert!(root.join("ib_core/holders/ib_cm/refcnt").exists());
        assert_eq!(fs::read_to_string(root.join("ib_core/refcnt")).unwrap(), "5\n");
        write_directories(&root, &[]).unwrap();
        assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
        fs::remove_dir(&root).unwrap();
    }
}
