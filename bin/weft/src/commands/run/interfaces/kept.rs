//! The interfaces in a view, kept up to date by the view's keeper.

use std::io;

use weft_ipc::ConnectOptions;
use weft_sys::epoll::{Epoll, Interest};
use weft_sys::netlink::RouteSocket;
use weft_sys::write_watch::WriteWatch;

use super::Interfaces;

/// Group to listen to: RTMGRP_LINK.
const LINKS: u32 = 1;
/// Longest message of the kernel about interfaces; its content does not matter.
const MESSAGE_BYTES_MAX: usize = 1 << 15;

/// The interfaces, and what changes them.
pub struct KeptInterfaces {
    interfaces: Interfaces,
    links: RouteSocket,
    writers: WriteWatch,
}

impl KeptInterfaces {
    /// Watches the network that this process is in.
    ///
    /// # Errors
    /// The system has no room for a socket or a watch more.
    pub fn new(interfaces: Interfaces) -> io::Result<KeptInterfaces> {
        let kept = KeptInterfaces { interfaces, links: RouteSocket::open(LINKS)?, writers: WriteWatch::new()? };
        kept.interfaces.watch(&kept.writers);
        Ok(kept)
    }

    /// Adds both sources of changes to the poller.
    pub fn register(&self, epoll: &Epoll, links: u64, writers: u64) -> io::Result<()> {
        epoll.add(&self.links, links, Interest::READ)?;
        epoll.add(&self.writers, writers, Interest::READ)
    }

    /// Handles a change of the network's interfaces.
    pub fn handle_links(&mut self, options: &ConnectOptions) {
        let mut buffer = vec![0; MESSAGE_BYTES_MAX];
        // An error other than the end of the queue says that there were more changes than it holds.
        while self.links.recv(&mut buffer).is_ok_and(|length| length > 0) {}
        let _ = self.interfaces.refresh(options);
        self.interfaces.watch(&self.writers);
    }

    /// Does what users wrote to files.
    pub fn handle_writes(&mut self, options: &ConnectOptions) {
        self.writers.take();
        self.interfaces.handle_writes(options);
        self.interfaces.watch(&self.writers);
    }
}
