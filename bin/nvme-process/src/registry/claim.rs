//! Registry, and a claim of a place in it.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};

use super::directory;
use super::state::ControllerState;
use crate::limits::{CONTROLLERS_MAX, STATE_BYTES_MAX};

const LOCK: &str = "lock";
const STATE: &str = "controller.json";
const SOCKET: &str = "nbd.sock";

/// Registry of this user.
#[derive(Debug)]
pub struct Registry(PathBuf);

/// Place of this process. Dropping it removes it.
#[derive(Debug)]
pub struct Claim {
    directory: PathBuf,
    state: ControllerState,
    _lock: File,
}

impl Registry {
    /// Opens the registry.
    ///
    /// # Errors
    /// There is no place for it.
    pub fn open() -> Result<Registry> {
        directory::own().map(Registry)
    }

    #[cfg(test)]
    fn at(directory: &Path) -> Registry {
        Registry(directory.to_owned())
    }

    /// Returns the connected controllers, by their device names.
    pub fn controllers(&self) -> Vec<ControllerState> {
        let of = |number: usize| self.directory(number);
        (0..CONTROLLERS_MAX).filter_map(|number| live(&of(number))).collect()
    }

    fn directory(&self, number: usize) -> PathBuf {
        self.0.join(format!("nvme{number}"))
    }

    /// Whether a controller's process still holds its place.
    pub fn is_held(&self, controller: &ControllerState) -> bool {
        live(&self.0.join(&controller.device)).is_some_and(|found| found.pid == controller.pid)
    }

    /// Takes a place for a controller.
    ///
    /// # Errors
    /// The same controller is connected, or there are too many.
    pub fn claim(&self, mut state: ControllerState, may_be_duplicate: bool) -> Result<Claim> {
        let all = File::open(&self.0).with_context(|| format!("{}", self.0.display()))?;
        // Two processes do not look for duplicates, or for a place, at the same time.
        flock(&all, FlockOperation::LockExclusive).context("the lock of the connections")?;
        let duplicate = self.controllers().into_iter().find(|other| other.is_like(&state));
        if let Some(other) = duplicate.filter(|_| !may_be_duplicate) {
            bail!(
                "already connected as {}; `weft nvme list` shows its namespaces, --duplicate-connect connects again",
                other.device
            );
        }
        for number in 0..CONTROLLERS_MAX {
            let directory = self.directory(number);
            if let Some(lock) = lock(&directory)? {
                // A process that was killed leaves them.
                let _ = fs::remove_file(directory.join(SOCKET));
                let _ = fs::remove_file(directory.join(STATE));
                state.device = format!("nvme{number}");
                state.socket = directory.join(SOCKET);
                let claim = Claim { directory, state, _lock: lock };
                claim.save()?;
                return Ok(claim);
            }
        }
        bail!("{CONTROLLERS_MAX} controllers are connected already; disconnect some with `weft nvme disconnect`")
    }
}

/// Makes a directory with a lock, and takes the lock. `None`: another process has it.
fn lock(directory: &Path) -> Result<Option<File>> {
    let name = || directory.display().to_string();
    fs::create_dir_all(directory).with_context(name)?;
    let path = directory.join(LOCK);
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path).with_context(name)?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(None);
    }
    // The process before may have removed the file just now.
    let is_current = fs::metadata(&path).is_ok_and(|now| file.metadata().is_ok_and(|own| own.ino() == now.ino()));
    Ok(is_current.then_some(file))
}

/// Returns the controller of a directory, if a process holds it.
fn live(directory: &Path) -> Option<ControllerState> {
    let lock = File::open(directory.join(LOCK)).ok()?;
    if flock(&lock, FlockOperation::NonBlockingLockShared).is_ok() {
        return None;
    }
    let path = directory.join(STATE);
    let size = fs::metadata(&path).ok()?.len();
    let text = (size <= STATE_BYTES_MAX).then(|| fs::read_to_string(&path).ok()).flatten()?;
    serde_json::from_str(&text).ok()
}

impl Claim {
    /// Description of the controller; [`Claim::save`] tells it to others.
    pub fn state(&mut self) -> &mut ControllerState {
        &mut self.state
    }

    /// Path of the socket for NBD.
    pub fn socket(&self) -> PathBuf {
        self.state.socket.clone()
    }

    /// Tells the description to others.
    ///
    /// # Errors
    /// The disk is full.
    pub fn save(&self) -> Result<()> {
        let new = self.directory.join("new");
        fs::write(&new, serde_json::to_vec_pretty(&self.state)?).with_context(|| new.display().to_string())?;
        // Readers see the old description, or the new one.
        fs::rename(&new, self.directory.join(STATE)).with_context(|| new.display().to_string())
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // The lock's file goes last: a process that finds it unlocked may take the place.
        for name in ["new", STATE, SOCKET, LOCK] {
            let _ = fs::remove_file(self.directory.join(name));
        }
        let _ = fs::remove_dir(&self.directory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(service: u16) -> ControllerState {
        ControllerState::new(("host", service, false), "nqn.2026-01.io.weft:disk", ("nqn.2014-08.org:x", "id"))
    }

    #[test]
    fn places_are_taken_and_freed() {
        let directory = std::env::temp_dir().join(format!("weft-nvme-registry-{}", std::process::id()));
        fs::create_dir(&directory).expect("a directory");
        let registry = Registry::at(&directory);
        let first = registry.claim(state(1), false).expect("a place");
        let error = registry.claim(state(1), false).expect_err("twice").to_string();
        assert!(error.starts_with("already connected as nvme0"), "{error}");
        let second = registry.claim(state(1), true).expect("a second place");
        let names =
            |registry: &Registry| registry.controllers().iter().map(|found| found.device.clone()).collect::<Vec<_>>();
        assert_eq!(names(&registry), ["nvme0", "nvme1"]);
        let known = registry.controllers()[0].clone();
        assert!(registry.is_held(&known));
        drop(first);
        assert!(!registry.is_held(&known));
        assert_eq!(names(&registry), ["nvme1"]);
        let third = registry.claim(state(2), false).expect("a place");
        assert_eq!(names(&registry), ["nvme0", "nvme1"]);
        // A killed process leaves files that are no controller, and its place is free.
        let left = directory.join("nvme5");
        fs::create_dir(&left).expect("a directory");
        fs::copy(directory.join("nvme0").join(STATE), left.join(STATE)).expect("copied");
        fs::write(left.join(LOCK), "").expect("a lock");
        assert_eq!(names(&registry), ["nvme0", "nvme1"]);
        drop((second, third));
        assert!(lock(&left).expect("a directory").is_some());
        fs::remove_dir_all(&directory).expect("removed");
    }
}
