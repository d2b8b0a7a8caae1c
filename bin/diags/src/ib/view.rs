//! Standalone tools that read sysfs: `weft ibstat` instead of `weft run -- ibstat`.
//!
//! If the system shows no devices, the tool restarts in the view that `weft run` gives programs. The user then wants
//! Weft's ports, and the verbs tools need no `weft run` either.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::sync::OnceLock;

use super::sysfs;

/// Runs a command in the view; returns only if that fails, and has printed the error.
pub type RunInView = fn(Vec<OsString>) -> ExitCode;

static RUN_IN_VIEW: OnceLock<RunInView> = OnceLock::new();

/// Sets the function that runs a command in the view. Without it, tools show what the system shows.
pub fn enter_by(run: RunInView) {
    // The first one stays.
    let _ = RUN_IN_VIEW.set(run);
}

/// Marks a process started in the view, so that a tool does not restart forever if no view can be made.
const ENTERED_VARIABLE: &str = "WEFT_TOOL_IN_VIEW";

/// Replaces this process with the same tool in the view if the system shows no devices. Returns `None` if it shows
/// some, and the exit code if the view cannot be entered; the error is already printed.
pub fn enter(tool: &str, args: &[OsString]) -> Option<ExitCode> {
    // A preloaded library may answer for sysfs, as ibsim's does; tests call tools as functions.
    let is_settled = std::env::var_os(ENTERED_VARIABLE).is_some() || std::env::var_os("LD_PRELOAD").is_some();
    if cfg!(test) || is_settled || shows_devices(Path::new(sysfs::INFINIBAND)) {
        return None;
    }
    let run = RUN_IN_VIEW.get()?;
    let exe = std::env::current_exe().ok()?;
    let marked = |name: &str, value: &str| OsString::from(format!("{name}={value}"));
    let mut command = vec!["env".into(), marked(ENTERED_VARIABLE, "1"), exe.clone().into_os_string()];
    if exe.file_name().is_none_or(|name| name != tool) {
        command.push(tool.into());
    }
    command.extend(args.iter().cloned());
    Some(run(command))
}

fn shows_devices(class: &Path) -> bool {
    std::fs::read_dir(class).is_ok_and(|mut names| names.next().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_without_devices_shows_none() {
        assert!(!shows_devices(Path::new("/nonexistent")));
        let empty = std::env::temp_dir().join(format!("weft-view-{}", std::process::id()));
        std::fs::create_dir_all(&empty).unwrap();
        assert!(!shows_devices(&empty));
        std::fs::write(empty.join("rxe0"), "").unwrap();
        assert!(shows_devices(&empty));
        std::fs::remove_dir_all(&empty).unwrap();
    }
}
