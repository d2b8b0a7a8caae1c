//! `/dev/infiniband/issmN`: a subnet manager holds its port's node open, and meanwhile the port advertises IsSM to the
//! fabric. Here the node is a named pipe, and this module reports opening and closing to the daemon.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use weft_ipc::{ConnectOptions, UmadClient};
use weft_sys::epoll::{Epoll, Interest};
use weft_sys::fifo;

/// The issm device node of a port, held open by a subnet manager.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IssmNode {
    /// Name below /dev/infiniband.
    pub name: String,
    /// Index of the device.
    pub device: u32,
    /// Port number.
    pub port: u8,
}

/// The pipe of one port.
#[derive(Debug)]
pub struct IssmPipe {
    /// A descriptor that keeps the pipe alive.
    pub pipe: OwnedFd,
    /// Index of the device.
    pub device: u32,
    /// Port number.
    pub port: u8,
}

impl IssmPipe {
    /// Makes the pipe in a directory.
    pub fn make(dir: &Path, node: &IssmNode, mode: u32) -> io::Result<IssmPipe> {
        let path = dir.join(&node.name);
        fifo::make(&path, mode)?;
        Ok(IssmPipe { pipe: fifo::hold(&path)?, device: node.device, port: node.port })
    }
}

/// Watches all pipes, with the session that sets IsSM; the session lasts as long as any pipe is open.
pub struct IssmWatch {
    pipes: Vec<(IssmPipe, Option<OwnedFd>)>,
    /// Readable after an open; `None` if the user has no inotify instance left.
    opened: Option<OwnedFd>,
    options: ConnectOptions,
    client: Option<UmadClient>,
}

impl IssmWatch {
    /// Starts to watch; `token` is the epoll token for opens, the tokens above it are those of the pipes' ends.
    pub fn new(pipes: Vec<IssmPipe>, options: ConnectOptions, epoll: &Epoll, token: u64) -> io::Result<IssmWatch> {
        let opened = fifo::watch_opens(pipes.iter().map(|pipe| &pipe.pipe)).ok();
        opened.as_ref().map_or(Ok(()), |opened| epoll.add(opened.as_fd(), token, Interest::READ))?;
        let pipes = pipes.into_iter().map(|pipe| (pipe, None)).collect();
        let mut watch = IssmWatch { pipes, opened, options, client: None };
        watch.on_open(epoll, token);
        Ok(watch)
    }

    /// Returns whether [`IssmWatch::on_open`] must be called periodically.
    pub fn must_look(&self) -> bool {
        self.opened.is_none()
    }

    /// Handles the opening of any pipe.
    pub fn on_open(&mut self, epoll: &Epoll, token: u64) {
        self.opened.iter().for_each(fifo::take);
        for (place, (issm, writer)) in (1u64..).zip(&mut self.pipes) {
            if writer.is_some() {
                continue;
            }
            let Ok(Some(end)) = fifo::writer(&issm.pipe) else { continue };
            if epoll.add(end.as_fd(), token + place, Interest::NONE).is_ok() {
                *writer = Some(end);
                let client = self.client.get_or_insert_with(|| UmadClient::new(self.options.clone()));
                // The daemon refuses a user who may not manage the fabric. The open then has no effect; on a real port
                // it would have failed.
                let _ = client.set_is_sm(issm.device, issm.port, true);
            }
        }
    }

    /// Handles the last close of pipe number `place`.
    pub fn on_closed(&mut self, epoll: &Epoll, token: u64, place: u64) {
        let Some((issm, writer)) = place.checked_sub(1).and_then(|at| self.pipes.get_mut(at as usize)) else { return };
        if let Some(end) = writer.take() {
            let _ = epoll.delete(end.as_fd());
        }
        if let Some(client) = &self.client {
            let _ = client.set_is_sm(issm.device, issm.port, false);
        }
        if self.pipes.iter().all(|(_, writer)| writer.is_none()) {
            self.client = None;
        }
        // Another process may have opened the pipe before this end was closed.
        self.on_open(epoll, token);
    }
}
