//! Skips, counted: a test that cannot run here says so where `cargo xtask test` finds it.
//!
//! Rust's test harness has no "skipped at run time"; without this a missing tool would count as a pass. `WEFT_SKIPS`
//! names the file that collects the skips; with `CI=true` a skip is a failure at once.

use std::io::Write;

/// Returns whether this run may not skip anything.
pub fn forbidden() -> bool {
    std::env::var("CI").is_ok_and(|v| v == "true" || v == "1")
}

/// Records that `what` was skipped because of `why`; the caller returns after it.
///
/// # Panics
/// With `CI=true`, where a skip is a failure.
pub fn skip(what: &str, why: &str) {
    assert!(!forbidden(), "{what} cannot run here, and CI=true allows no skip: {why}");
    eprintln!("SKIPPED {what}: {why}");
    if let Some(path) = std::env::var_os("WEFT_SKIPS")
        && let Ok(mut file) = std::fs::OpenOptions::new().append(true).create(true).open(path)
    {
        let _ = writeln!(file, "{what}: {why}");
    }
}

/// Returns whether all `tools` are on PATH; a missing one is recorded as a skip of `what`.
pub fn have(what: &str, tools: &[&str]) -> bool {
    let missing: Vec<_> = tools.iter().copied().filter(|t| on_path(t).is_none()).collect();
    if missing.is_empty() {
        return true;
    }
    skip(what, &format!("not installed: {}; `cargo xtask test` as root installs them", missing.join(", ")));
    false
}

/// Returns the path of `tool` on PATH, the administrator's directories included; a path stands for itself.
pub fn on_path(tool: &str) -> Option<std::path::PathBuf> {
    if tool.starts_with('/') {
        return std::path::Path::new(tool).is_file().then(|| tool.into());
    }
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin:/usr/bin:/bin";
    path.split(':').map(|dir| std::path::Path::new(dir).join(tool)).find(|p| p.is_file())
}
