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
}

impl KeptInterfaces {
    /// Watches the network that this process is in.
    ///
    /// # Errors
    /// The system has no room for a socket more.
    pub fn new(interfaces: Interfaces) -> io::Result<KeptInterfaces> {
        Ok(KeptInterfaces { interfaces, links: RouteSocket::open(LINKS)? })
    }

    /// Adds the changes of links to the poller, and watches the files that a user may write.
    pub fn register(&self, epoll: &Epoll, links: u64, watch: Option<&WriteWatch>) -> io::Result<()> {
        watch.into_iter().for_each(|watch| self.interfaces.watch(watch));
        epoll.add(&self.links, links, Interest::READ)
    }

    /// Handles a change of the network's interfaces.
    pub fn handle_links(&mut self, watch: Option<&WriteWatch>, options: &ConnectOptions) {
        let mut buffer = vec![0; MESSAGE_BYTES_MAX];
        // An error other than the end of the queue says that there were more changes than it holds.
        while self.links.recv(&mut buffer).is_ok_and(|length| length > 0) {}
        let _ = self.interfaces.refresh(options);
        watch.into_iter().for_each(|watch| self.interfaces.watch(watch));
    }

    /// Does what users wrote to files.
    pub fn handle_writes(&mut self, watch: Option<&WriteWatch>, options: &ConnectOptions) {
        self.interfaces.handle_writes(options, watch.is_some());
        watch.into_iter().for_each(|watch| self.interfaces.watch(watch));
    }
}
