//! Loading of the modules that files list, as systemd-modules-load(8) does it.

use std::fs;
use std::path::Path;

use super::record::Run;
use super::unit::Unit;
use crate::commands::drop_in;
use crate::commands::kmod::{self, LoadError};

/// Longest file of module names in bytes, and names that one run loads: far above any machine's.
const BYTES_MAX: usize = 64 << 10;
const NAMES_MAX: usize = 256;

const RDMA: &str = "/etc/rdma/modules";

/// Directories of modules-load.d(5): a file of an earlier one covers those of its name in later ones.
const AT_BOOT: [&str; 4] =
    ["/etc/modules-load.d", "/run/modules-load.d", "/usr/local/lib/modules-load.d", "/usr/lib/modules-load.d"];

/// Loads the modules of a unit.
pub fn load(unit: &Unit, now: i64) -> Run {
    let mut run = Run { at: now, pid: std::process::id(), ..Run::default() };
    let (files, must_exist) = match unit {
        Unit::LoadModules(instance) => (vec![Path::new(RDMA).join(format!("{instance}.conf"))], true),
        _ => (drop_in::files(&AT_BOOT, "conf"), false),
    };
    let mut names = Vec::new();
    for file in files {
        match read(&file) {
            Ok(found) => names.extend(found),
            Err(message) => run.fail(message),
        }
    }
    for name in names.iter().take(NAMES_MAX) {
        match kmod::load(name) {
            Ok(true) => run.log.push(format!("Inserted module '{name}'")),
            Ok(false) => {}
            // The machine's own modules are not those of a host.
            Err(LoadError::Unknown) if !must_exist => {}
            Err(LoadError::Unknown) => run.fail(format!("Failed to find module '{name}'")),
            Err(LoadError::Refused(why)) => run.fail(format!("Failed to insert module '{name}': {why}")),
        }
    }
    if names.len() > NAMES_MAX {
        run.fail(format!("{} modules are listed; only the first {NAMES_MAX} were loaded", names.len()));
    }
    run
}

impl Run {
    fn fail(&mut self, message: String) {
        self.code = 1;
        self.log.push(message);
    }
}

/// Reads the names of a file.
fn read(path: &Path) -> Result<Vec<String>, String> {
    let failed = |why: String| format!("Failed to open '{}': {why}", path.display());
    let length = fs::metadata(path).map_err(|error| failed(crate::errno::text(&error)))?.len();
    if length > BYTES_MAX as u64 {
        return Err(failed(format!("it has more than {BYTES_MAX} bytes")));
    }
    let text = fs::read_to_string(path).map_err(|error| failed(crate::errno::text(&error)))?;
    Ok(parse(&text))
}

/// Splits a file: one name a line, and comments.
fn parse(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with(['#', ';'])).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_list_one_module_a_line() {
        assert_eq!(parse("# comment\n\n ib_ipoib \n; other\nrdma_ucm\n"), ["ib_ipoib", "rdma_ucm"]);
    }

    #[test]
    fn a_missing_file_fails_the_run() {
        let run = load(&Unit::LoadModules("weft-no-such-file".to_owned()), 7);
        assert_eq!((run.at, run.code, run.log.len()), (7, 1, 1));
        assert!(run.log[0].contains("/etc/rdma/modules/weft-no-such-file.conf"), "{:?}", run.log);
    }
}
