//! The variables that `weft run` and `weft env` set, and checks of the values that the user gave.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

/// `LD_LIBRARY_PATH` with `dir` prepended.
pub fn library_path(dir: &Path) -> OsString {
    let mut value = dir.as_os_str().to_owned();
    if let Some(old) = env::var_os("LD_LIBRARY_PATH").filter(|old| !old.is_empty()) {
        value.push(":");
        value.push(old);
    }
    value
}

/// Checks a fault specification, so that a typo gives an error here instead of a fault that never happens. `from` names
/// the option or variable that holds it.
pub fn check_fault(spec: &str, from: &'static str) -> Result<()> {
    weft_link::FaultSpec::parse(spec).context(from)?;
    Ok(())
}

/// Checks that the capture file is writable, and returns its absolute path, because the program may change its
/// directory.
pub fn check_pcap(file: &Path) -> Result<PathBuf> {
    let absolute = std::path::absolute(file).context("--pcap")?;
    let dir = absolute.parent().unwrap_or(Path::new("/"));
    if absolute.is_dir() {
        bail!("--pcap {}: that is a directory; name a file in it", file.display());
    }
    if !dir.is_dir() {
        bail!("--pcap {}: the directory {} does not exist", file.display(), dir.display());
    }
    Ok(absolute)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_specifications_are_checked() {
        check_fault("loss=1%,reorder=2%,dup=1%,corrupt=0.1%,delay=1ms,seed=7", "--fault").unwrap();
        check_fault("loss=500ppm", "--fault").unwrap();
        for wrong in ["loss", "loss=abc", "loss=1", "loss=0.01", "lose=1%", "delay=1"] {
            assert!(check_fault(wrong, "--fault").is_err(), "{wrong}");
        }
    }

    #[test]
    fn captures_go_to_an_existing_directory() {
        assert!(check_pcap(Path::new("/nonexistent/x.pcapng")).is_err());
        assert!(check_pcap(Path::new("/")).is_err());
        assert!(check_pcap(Path::new("x.pcapng")).unwrap().is_absolute());
    }
}
