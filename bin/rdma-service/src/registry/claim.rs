//! Registry, and a claim of a place in it.

use std::fs::{self, File, OpenOptions};
use std::marker::PhantomData;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use weft_tool::errno;

use super::directory;
use super::registered::Registered;
use crate::limits::{DISCONNECT_POLLS_EVERY, DISCONNECTS_WITHIN, REGISTERED_MAX, STATE_BYTES_MAX};

const LOCK: &str = "lock";
const STATE: &str = "state.json";
const SOCKET: &str = "nbd.sock";

/// Registry of this user's processes of one kind.
#[derive(Debug)]
pub struct Registry<S>(PathBuf, PhantomData<S>);

/// Place of this process. Dropping it removes it.
#[derive(Debug)]
pub struct Claim<S> {
    directory: PathBuf,
    state: S,
    socket: PathBuf,
    _lock: File,
}

impl<S: Registered> Registry<S> {
    /// Opens the registry.
    ///
    /// # Errors
    /// There is no place for it.
    pub fn open() -> Result<Registry<S>> {
        directory::own(S::DIRECTORY).map(|directory| Registry(directory, PhantomData))
    }

    #[cfg(test)]
    fn at(directory: &Path) -> Registry<S> {
        Registry(directory.to_owned(), PhantomData)
    }

    /// Returns the processes' descriptions, by their device names.
    pub fn all(&self) -> Vec<S> {
        let of = |number: usize| self.directory(number);
        (0..REGISTERED_MAX).filter_map(|number| live(&of(number))).collect()
    }

    fn directory(&self, number: usize) -> PathBuf {
        self.0.join(format!("{}{number}", S::PREFIX))
    }

    /// Whether a process still holds its place.
    pub fn is_held(&self, state: &S) -> bool {
        live::<S>(&self.0.join(state.device())).is_some_and(|found| found.pid() == state.pid())
    }

    /// Takes a place for this process.
    ///
    /// # Errors
    /// The same is connected, or there are too many.
    pub fn claim(&self, mut state: S, may_be_duplicate: bool) -> Result<Claim<S>> {
        let all = File::open(&self.0).with_context(|| format!("{}", self.0.display()))?;
        // Two processes do not look for duplicates, or for a place, at the same time.
        flock(&all, FlockOperation::LockExclusive).context("the lock of the connections")?;
        let duplicate = self.all().into_iter().find(|other| other.is_like(&state));
        if let Some(other) = duplicate.filter(|_| !may_be_duplicate) {
            bail!("already connected as {}; {}", other.device(), S::DUPLICATE_ADVICE);
        }
        for number in 0..REGISTERED_MAX {
            let directory = self.directory(number);
            if let Some(lock) = lock(&directory)? {
                let socket = directory.join(SOCKET);
                // A process that was killed leaves them.
                let _ = fs::remove_file(&socket);
                let _ = fs::remove_file(directory.join(STATE));
                state.place(format!("{}{number}", S::PREFIX), socket.clone());
                let claim = Claim { directory, state, socket, _lock: lock };
                claim.save()?;
                return Ok(claim);
            }
        }
        bail!("{REGISTERED_MAX} are connected already; {}", S::DISCONNECT_ADVICE)
    }

    /// Ends processes, and waits for their end.
    ///
    /// # Errors
    /// A process does not end.
    pub fn end(&self, chosen: &[S]) -> Result<()> {
        // A process removes its place before it gives up the lock.
        let locks: Vec<_> =
            chosen.iter().map(|state| File::open(self.0.join(state.device()).join(LOCK)).ok()).collect();
        for state in chosen {
            let (device, number) = (state.device(), state.pid());
            let pid = i32::try_from(number).ok().and_then(Pid::from_raw);
            let pid = pid.with_context(|| format!("{device}: its process is unknown"))?;
            if let Err(error) = kill_process(pid, Signal::TERM)
                && self.is_held(state)
            {
                bail!("{device}: process {number}: {}", errno::text(&error.into()));
            }
        }
        let until = Instant::now() + DISCONNECTS_WITHIN;
        let is_free = |lock: &File| flock(lock, FlockOperation::NonBlockingLockShared).is_ok();
        for (state, lock) in chosen.iter().zip(&locks) {
            while lock.as_ref().is_some_and(|lock| !is_free(lock)) {
                let seconds = Duration::as_secs(&DISCONNECTS_WITHIN);
                ensure!(
                    Instant::now() < until,
                    "{}: process {} has not ended after {seconds} s; end it with `kill -9 {1}`",
                    state.device(),
                    state.pid()
                );
                std::thread::sleep(DISCONNECT_POLLS_EVERY);
            }
        }
        Ok(())
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

/// Returns the description in a directory, if a process holds it.
fn live<S: Registered>(directory: &Path) -> Option<S> {
    let lock = File::open(directory.join(LOCK)).ok()?;
    if flock(&lock, FlockOperation::NonBlockingLockShared).is_ok() {
        return None;
    }
    let path = directory.join(STATE);
    let size = fs::metadata(&path).ok()?.len();
    let text = (size <= STATE_BYTES_MAX).then(|| fs::read_to_string(&path).ok()).flatten()?;
    serde_json::from_str(&text).ok()
}

impl<S: Registered> Claim<S> {
    /// Description of the process; [`Claim::save`] tells it to others.
    pub fn state(&mut self) -> &mut S {
        &mut self.state
    }

    /// Path of the socket for NBD.
    pub fn socket(&self) -> PathBuf {
        self.socket.clone()
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

impl<S> Drop for Claim<S> {
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
    use serde::{Deserialize, Serialize};

    #[derive(Clone, Debug, Default, Serialize, Deserialize)]
    struct Disk {
        device: String,
        pid: u32,
        target: u16,
    }

    impl Registered for Disk {
        const DIRECTORY: &'static str = "weft-test";
        const PREFIX: &'static str = "nvme";
        const DUPLICATE_ADVICE: &'static str = "a hint";
        const DISCONNECT_ADVICE: &'static str = "another";

        fn device(&self) -> &str {
            &self.device
        }

        fn pid(&self) -> u32 {
            self.pid
        }

        fn place(&mut self, device: String, _socket: PathBuf) {
            self.device = device;
        }

        fn is_like(&self, other: &Disk) -> bool {
            self.target == other.target
        }
    }

    fn state(target: u16) -> Disk {
        Disk { target, pid: std::process::id(), ..Disk::default() }
    }

    #[test]
    fn places_are_taken_and_freed() {
        let directory = std::env::temp_dir().join(format!("weft-registry-{}", std::process::id()));
        fs::create_dir(&directory).expect("a directory");
        let registry: Registry<Disk> = Registry::at(&directory);
        let first = registry.claim(state(1), false).expect("a place");
        let error = registry.claim(state(1), false).expect_err("twice").to_string();
        assert_eq!(error, "already connected as nvme0; a hint");
        let second = registry.claim(state(1), true).expect("a second place");
        let names =
            |registry: &Registry<Disk>| registry.all().iter().map(|found| found.device.clone()).collect::<Vec<_>>();
        assert_eq!(names(&registry), ["nvme0", "nvme1"]);
        let known = registry.all()[0].clone();
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
