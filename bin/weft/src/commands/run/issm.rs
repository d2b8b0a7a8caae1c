//! `/dev/infiniband/issmN`: whoever runs a subnet manager on a port holds it open, and the port says so to the fabric
//! meanwhile. Here it is a named pipe, and what opens and closes it is told to the daemon.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use weft_ipc::{ConnectOptions, UmadClient};
use weft_sys::epoll::{Epoll, Interest};
use weft_sys::fifo;

/// The pipe of one port.
#[derive(Debug)]
pub struct IssmPipe {
    /// A hold on it.
    pub pipe: OwnedFd,
    /// The device.
    pub device: u32,
    /// Number of the port.
    pub port: u8,
}

/// All of them, and the session that says who is a subnet manager; it lasts as long as one is.
pub struct IssmWatch {
    pipes: Vec<(IssmPipe, Option<OwnedFd>)>,
    opened: OwnedFd,
    options: ConnectOptions,
    client: Option<UmadClient>,
}

impl IssmWatch {
    /// Watches them; `token` is that of openings, the numbers above it those of the pipes' ends.
    pub fn new(pipes: Vec<IssmPipe>, options: ConnectOptions, epoll: &Epoll, token: u64) -> io::Result<IssmWatch> {
        let opened = fifo::watch_opens(pipes.iter().map(|pipe| &pipe.pipe))?;
        epoll.add(opened.as_fd(), token, Interest::READ)?;
        let pipes = pipes.into_iter().map(|pipe| (pipe, None)).collect();
        let mut watch = IssmWatch { pipes, opened, options, client: None };
        watch.on_open(epoll, token);
        Ok(watch)
    }

    /// Somebody opened one.
    pub fn on_open(&mut self, epoll: &Epoll, token: u64) {
        fifo::take(&self.opened);
        for (place, (issm, writer)) in (1u64..).zip(&mut self.pipes) {
            if writer.is_some() {
                continue;
            }
            let Ok(Some(end)) = fifo::writer(&issm.pipe) else { continue };
            if epoll.add(end.as_fd(), token + place, Interest::NONE).is_ok() {
                *writer = Some(end);
                let client = self.client.get_or_insert_with(|| UmadClient::new(self.options.clone()));
                // Who may not manage the fabric is refused; its opening counts for nothing, as on a real port that it
                // could not have opened.
                let _ = client.set_is_sm(issm.device, issm.port, true);
            }
        }
    }

    /// Nobody has the pipe of this place open any more.
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
        // It may have been opened again before we closed our end.
        self.on_open(epoll, token);
    }
}
