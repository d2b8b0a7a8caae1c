//! The standby. Processes of users whom the daemon does not trust with all sockets cannot bring the pool to a
//! successor. While such a process has a slot, a copy of the daemon sleeps with the anchor in its hands, and becomes
//! the successor when the daemon dies.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use weft_ipc::ConnectOptions;
use weft_sys::unix::{self, Wait};

use crate::log::Log;
use crate::options::Options;
use crate::server::Server;

/// The daemon's end of the socket to its standby.
#[derive(Debug)]
pub(crate) struct Standby {
    line: OwnedFd,
}

impl Standby {
    /// Starts a standby that holds the anchor.
    pub(crate) fn start(options: &Options, anchor: BorrowedFd<'_>) -> io::Result<Standby> {
        let (line, theirs) = unix::pair()?;
        let anchor = anchor.try_clone_to_owned()?;
        let options = options.clone();
        weft_sys::spawn::fork_apart(vec![theirs, anchor], move |keep| {
            if let Ok([line, anchor]) = <[OwnedFd; 2]>::try_from(keep) {
                stand_by(&options, line, anchor);
            }
        })?;
        Ok(Standby { line })
    }

    /// Ends the standby.
    pub(crate) fn dismiss(self) {
        let _ = unix::send(&self.line, &[0], &[], Wait::No);
    }
}

fn stand_by(options: &Options, line: OwnedFd, anchor: OwnedFd) {
    let mut byte = [0];
    // A byte dismisses the standby; an end without one means that the daemon died.
    match unix::recv(&line, &mut byte, 0, Wait::Block) {
        Ok(received) if received.len > 0 => return,
        _ => drop(line),
    }
    let mut log = Log::open(&options.log);
    match Server::new(options, Log::open(&options.log)) {
        Ok(Some(mut server)) => {
            log.note(format_args!("stood by and takes over"));
            server.inherit(&anchor);
            drop(anchor);
            if let Err(error) = server.serve() {
                log.note(format_args!("failed: {error:#}"));
            }
        }
        // A process that outlived the daemon has already started another.
        _ => {
            let connect = ConnectOptions { socket_name: options.socket_name.clone(), ..ConnectOptions::default() };
            if let Err(error) = weft_ipc::offer_anchor(&connect, anchor.as_fd()) {
                log.note(format_args!("standby could not hand over the sockets: {error}"));
            }
        }
    }
}
