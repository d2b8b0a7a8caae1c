//! Builds the libraries if cargo built only the command: `cargo run --bin weft`, and `cargo install --path`.
//!
//! Several commands may start at once. The first takes a file lock and builds, the others wait.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use rustix::fs::FlockOperation;

use super::origin::Origin;

/// The lock file of builders, in the build's output directory. Its modification time is that of the last build.
const STAMP: &str = "weft-libraries.stamp";

/// The packages of the libraries.
const PACKAGES: [&str; 7] =
    ["weft-ibverbs", "weft-rdmacm", "weft-ibumad", "weft-audit", "weft-view", "weft-rds-preload", "weft-checker"];

/// Makes cargo build the libraries if `held` finds none, or if cargo built the running command after them. Cargo prints
/// its own errors; the caller reports missing libraries.
pub fn build_if_needed(exe: &Path, origin: Option<&Origin>, held: &dyn Fn() -> Option<PathBuf>) {
    if let Some(builder) = Builder::for_command(exe, origin) {
        build_with(&builder, held);
    }
}

fn build_with(builder: &Builder, held: &dyn Fn() -> Option<PathBuf>) {
    let is_needed = || held().is_none() || builder.is_stale();
    if !is_needed() {
        return;
    }
    let lock = builder.lock();
    let is_held = held().is_some();
    // Leaves another user's build alone.
    if is_held && (lock.is_none() || !builder.is_stale()) {
        return;
    }
    if !is_held {
        crate::errln!("building Weft's libraries in {}: they are not built yet", builder.profile_dir().display());
    }
    match builder.command().status() {
        Ok(status) if status.success() => {
            lock.map(|file| file.set_modified(SystemTime::now()));
        }
        // Cargo has printed the error.
        Ok(_) => {}
        Err(error) => crate::errln!("{}: {}", builder.cargo.display(), crate::errno::text(&error)),
    }
}

/// How to build the libraries for a command.
#[derive(Debug)]
struct Builder {
    cargo: OsString,
    sources: PathBuf,
    target: PathBuf,
    profile: String,
    /// The command that `cargo run` has just built: libraries from an earlier build do not match it.
    fresh_command: Option<PathBuf>,
}

impl Builder {
    /// Returns `None` for a command that cargo neither runs nor installed.
    fn for_command(exe: &Path, origin: Option<&Origin>) -> Option<Builder> {
        let runs = env::var_os("CARGO_PKG_NAME").is_some_and(|name| name == env!("CARGO_PKG_NAME"));
        match (env::var_os("CARGO"), env::var_os("CARGO_MANIFEST_DIR")) {
            (Some(cargo), Some(sources)) if runs => Builder::under_cargo(cargo, sources.into(), exe),
            _ => origin.map(Builder::for_installed),
        }
    }

    fn under_cargo(cargo: OsString, sources: PathBuf, exe: &Path) -> Option<Builder> {
        let dir = exe.parent()?;
        // Test programs are one level further down.
        let is_test = dir.ends_with("deps");
        let profile_dir = if is_test { dir.parent()? } else { dir };
        let profile = match profile_dir.file_name()?.to_str()? {
            "debug" => "dev".to_owned(),
            name => name.to_owned(),
        };
        let fresh_command = (!is_test).then(|| exe.to_path_buf());
        Some(Builder { cargo, sources, target: profile_dir.parent()?.to_path_buf(), profile, fresh_command })
    }

    fn for_installed(origin: &Origin) -> Builder {
        let (sources, target) = (origin.workspace.clone(), origin.target());
        Builder { cargo: "cargo".into(), sources, target, profile: "release".to_owned(), fresh_command: None }
    }

    fn profile_dir(&self) -> PathBuf {
        self.target.join(if self.profile == "dev" { "debug" } else { &self.profile })
    }

    fn command(&self) -> Command {
        let mut build = Command::new(&self.cargo);
        build.current_dir(&self.sources).args(["build", "--quiet", "--profile", &self.profile]);
        build.arg("--target-dir").arg(&self.target);
        build.args(PACKAGES.iter().flat_map(|package| ["--package", package]));
        build
    }

    fn stamp(&self) -> PathBuf {
        self.profile_dir().join(STAMP)
    }

    fn is_stale(&self) -> bool {
        let time = |path: &Path| path.metadata().and_then(|meta| meta.modified()).ok();
        self.fresh_command.as_deref().and_then(time).is_some_and(|built| time(&self.stamp()) < Some(built))
    }

    /// Waits for other builders. Returns `None` if the lock file cannot be created: cargo has a lock of its own, and
    /// reports missing permissions.
    fn lock(&self) -> Option<File> {
        std::fs::create_dir_all(self.profile_dir()).ok()?;
        // A new file's time would look like a build that has just finished.
        let is_new = !self.stamp().exists();
        let file = File::options().create(true).append(true).open(self.stamp()).ok()?;
        if is_new {
            file.set_modified(SystemTime::UNIX_EPOCH).ok()?;
        }
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            crate::errln!("waiting for another weft, which builds the libraries");
            rustix::fs::flock(&file, FlockOperation::LockExclusive).ok()?;
        }
        Some(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn builder(exe: &str) -> Builder {
        Builder::under_cargo("cargo".into(), "/src/bin/weft".into(), Path::new(exe)).unwrap()
    }

    #[test]
    fn the_libraries_go_where_the_command_is() {
        for (exe, profile, dir) in [
            ("/t/release/weft", "release", "/t/release"),
            ("/t/debug/weft", "dev", "/t/debug"),
            ("/t/dist/weft", "dist", "/t/dist"),
            ("/t/debug/deps/weft-0123", "dev", "/t/debug"),
        ] {
            let builder = builder(exe);
            assert_eq!((builder.profile.as_str(), builder.profile_dir()), (profile, dir.into()), "{exe}");
        }
    }

    #[test]
    fn one_builder_works_and_the_others_wait() {
        let target = std::env::temp_dir().join(format!("weft-build-{}", std::process::id()));
        let mut builder = builder("/t/release/weft");
        builder.target.clone_from(&target);
        // A stand-in for cargo that counts builds, slow enough that a second build would start meanwhile.
        let script = target.join("cargo");
        std::fs::create_dir_all(&target).unwrap();
        let words = format!("#!/bin/sh\necho x >> {0}/builds\nsleep 0.2\ntouch {0}/done\n", target.display());
        std::fs::write(&script, words).unwrap();
        std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        builder.cargo = script.into();
        builder.sources.clone_from(&target);
        let done = target.join("done");
        let held = || done.exists().then(|| done.clone());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| build_with(&builder, &held));
            }
        });
        assert_eq!(std::fs::read_to_string(target.join("builds")).unwrap(), "x\n");
        std::fs::remove_dir_all(&target).unwrap();
    }

    #[test]
    fn libraries_older_than_the_command_are_built_again() {
        let target = std::env::temp_dir().join(format!("weft-stale-{}", std::process::id()));
        let mut builder = builder("/t/release/weft");
        builder.target.clone_from(&target);
        let exe = target.join("weft");
        std::fs::create_dir_all(&target).unwrap();
        std::fs::write(&exe, "").unwrap();
        builder.fresh_command = Some(exe.clone());
        assert!(builder.is_stale());
        let lock = builder.lock().unwrap();
        assert!(builder.is_stale());
        lock.set_modified(SystemTime::now()).unwrap();
        assert!(!builder.is_stale());
        builder.fresh_command = None;
        assert!(!builder.is_stale());
        std::fs::remove_dir_all(&target).unwrap();
    }
}
