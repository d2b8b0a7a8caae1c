//! The processes that see a view: it lasts until the last of them ends.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::fs::Mode;
use weft_sys::epoll::{Epoll, Interest};
use weft_sys::lifetime::Lifetime;
use weft_sys::namespace;

use super::tree::Tree;

/// Umask for the files of a view: all users may read them, as they may read those of the kernel.
pub const UMASK: Mode = Mode::from_bits_truncate(0o022);

/// Where a view's files are, and hence which processes see it.
#[derive(Debug)]
pub enum Sight {
    /// In this process's mount namespace.
    Mounts,
    /// In a directory, for the processes whose environment names it.
    Tree(Tree),
}

impl Sight {
    /// Another process that sees the view.
    fn another_process(&self) -> Option<Lifetime> {
        match self {
            Sight::Mounts => namespace::another_process(),
            Sight::Tree(tree) => tree.another_process(),
        }
    }
}

/// How often a program is looked for whose end has no descriptor.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// A process that sees the view, or the next one after its end.
pub struct Viewer<'a> {
    sight: &'a Sight,
    process: Lifetime,
    token: u64,
}

impl<'a> Viewer<'a> {
    /// Watches `program`, or another process if it has ended, for its end, which raises the epoll event `token`.
    /// `None`: no process sees the view.
    pub fn of(program: u32, sight: &'a Sight, epoll: &Epoll, token: u64) -> io::Result<Option<Viewer<'a>>> {
        let Some(process) = Lifetime::of(program).or_else(|| sight.another_process()) else { return Ok(None) };
        let viewer = Viewer { sight, process, token };
        viewer.watch(epoll)?;
        Ok(Some(viewer))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.process.descriptor().map(AsFd::as_fd)
    }

    fn watch(&self, epoll: &Epoll) -> io::Result<()> {
        self.descriptor().map_or(Ok(()), |descriptor| epoll.add(descriptor, self.token, Interest::READ))
    }

    /// The time until the next look; `None` if the descriptor tells.
    pub fn look_every(&self) -> Option<Duration> {
        self.descriptor().is_none().then_some(LOOK_EVERY)
    }

    /// Turns to another process if this one has ended. `false`: there is none.
    pub fn is_there(&mut self, epoll: &Epoll) -> io::Result<bool> {
        if !self.process.is_over() {
            return Ok(true);
        }
        if let Some(descriptor) = self.descriptor() {
            let _ = epoll.delete(descriptor);
        }
        // Other processes, started by the program, may still see the view.
        let Some(other) = self.sight.another_process() else { return Ok(false) };
        self.process = other;
        self.watch(epoll)?;
        Ok(true)
    }
}
