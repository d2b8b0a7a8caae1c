//! `weft sm --create-config FILE`: a commented opensm.conf with every option, usable by this manager and by OpenSM.

use std::path::Path;

use anyhow::{Context, Result};

use weft_sm::options::DIRECTORIES;

use super::files::Files;
use super::run_args::RunArgs;
use crate::output;

/// Writes the options in force to a file; `-` is standard output. A file at a default path of the configuration names
/// the files beside it, as a manager would use them without the file.
///
/// # Errors
/// The configuration cannot be read, or the file cannot be written.
pub fn run(args: &RunArgs, path: &Path) -> Result<()> {
    let files = Files::load_for(args, home(path))?;
    for diagnostic in files.diagnostics() {
        crate::errln!("weft sm: {diagnostic}");
    }
    if path == Path::new("-") {
        output::print(&files.shown());
        return Ok(());
    }
    std::fs::write(path, files.shown()).with_context(|| format!("cannot write {}", path.display()))
}

/// The directory of a file that managers find by default.
fn home(path: &Path) -> Option<&'static str> {
    DIRECTORIES.into_iter().find(|directory| Path::new(directory).join("opensm.conf") == path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_stand_beside_the_configuration_that_names_them() {
        let written = |path: &str, words: &[&str]| {
            let set = words.iter().map(|word| (*word).to_owned()).collect();
            let mut args = RunArgs::for_preview(None, None, set);
            args.no_config = false;
            let files = Files::load_for(&args, home(Path::new(path))).unwrap();
            files.options().partitions.partition_config_file.clone().unwrap()
        };
        let named = ["partition_config_file=/srv/p.conf"];
        assert_eq!(written("/etc/rdma/opensm.conf", &named), "/srv/p.conf");
        assert_eq!((home(Path::new("-")), home(Path::new("/tmp/opensm.conf"))), (None, None));
        // On a machine with a configuration of its own, the options in force come from there.
        if DIRECTORIES.iter().any(|directory| Path::new(directory).join("opensm.conf").exists()) {
            return;
        }
        assert_eq!(written("/etc/rdma/opensm.conf", &[]), "/etc/rdma/partitions.conf");
        assert_eq!(written("/etc/opensm/opensm.conf", &[]), "/etc/opensm/partitions.conf");
    }
}
