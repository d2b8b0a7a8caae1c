//! `/sys/class/infiniband_srp/srp-DEVICE-PORT/add_target`: a program such as `srp_daemon` writes an SRP login there, and
//! Linux's `ib_srp` logs in. Here the file is a named pipe, and the view's keeper starts `weft srp connect` with the login.
//! A write succeeds in any case: `weft srp list` tells whether the login did.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use weft_ipc::HOST_VARIABLE;
use weft_sys::epoll::{Epoll, Interest};
use weft_sys::{fifo, spawn};

/// Epoll token of the first pipe.
const TOKENS: u64 = 1 << 32;
/// Ports of a host whose pipes are watched.
const PIPES_MAX: usize = 256;
/// Logins of one read.
const LOGINS_PER_READ_MAX: usize = 16;
/// Every login begins with this word: writers end it with nothing, so two may come together.
const FIRST_WORD: &str = "id_ext=";

/// The pipes of a view.
pub struct SrpLogins {
    pipes: Vec<OwnedFd>,
    /// Host that logs in.
    host: String,
}

impl SrpLogins {
    /// Watches pipes.
    pub fn new(pipes: Vec<OwnedFd>, host: &str, epoll: &Epoll) -> io::Result<SrpLogins> {
        let mut logins = SrpLogins { pipes: Vec::new(), host: host.to_owned() };
        logins.add(pipes, epoll)?;
        Ok(logins)
    }

    /// Watches more pipes, up to a number of them.
    pub fn add(&mut self, pipes: Vec<OwnedFd>, epoll: &Epoll) -> io::Result<()> {
        for pipe in pipes.into_iter().take(PIPES_MAX.saturating_sub(self.pipes.len())) {
            epoll.add(&pipe, TOKENS + self.pipes.len() as u64, Interest::READ)?;
            self.pipes.push(pipe);
        }
        Ok(())
    }

    /// Handles an event; returns whether it was about these pipes.
    pub fn handle(&self, token: u64) -> bool {
        let pipe = token.checked_sub(TOKENS).and_then(|index| self.pipes.get(usize::try_from(index).ok()?));
        pipe.into_iter().for_each(|pipe| self.read(pipe));
        pipe.is_some()
    }

    /// Starts the logins that were written last, before the end of the view.
    pub fn finish(&self) {
        self.pipes.iter().for_each(|pipe| self.read(pipe));
    }

    fn read(&self, pipe: &OwnedFd) {
        let mut text = [0; 4096];
        let Ok(length @ 1..) = fifo::read(pipe, &mut text) else { return };
        let text = String::from_utf8_lossy(&text[..length]);
        for login in logins(&text).take(LOGINS_PER_READ_MAX) {
            // There is no one to report a failure to: the writer's call has succeeded.
            let _ = self.connect(login);
        }
    }

    fn connect(&self, login: &str) -> io::Result<()> {
        let weft = std::env::current_exe()?;
        let others = std::env::vars_os().filter(|(name, _)| name != HOST_VARIABLE);
        let host = (OsString::from(HOST_VARIABLE), OsString::from(&self.host));
        let env: Vec<(OsString, OsString)> = others.chain([host]).collect();
        let env: Vec<(&OsStr, &OsStr)> = env.iter().map(|(name, value)| (&**name, &**value)).collect();
        let args = ["weft", "srp", "connect", "--", login].map(OsStr::new);
        spawn::spawn_detached(Path::new(&weft), &args, &env)
    }
}

/// Returns the logins in what programs wrote.
fn logins(text: &str) -> impl Iterator<Item = &str> {
    let mut starts: Vec<usize> = text.match_indices(FIRST_WORD).map(|(at, _)| at).collect();
    starts.push(text.len());
    let pieces: Vec<&str> = starts.windows(2).filter_map(|ends| text.get(ends[0]..ends[1])).collect();
    pieces.into_iter().map(|piece| piece.trim().trim_end_matches(','))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_that_came_together_are_separated() {
        let found: Vec<&str> = logins("id_ext=1,ioc_guid=2,initiator_ext=3id_ext=4,ioc_guid=5\nid_ext=6").collect();
        assert_eq!(found, ["id_ext=1,ioc_guid=2,initiator_ext=3", "id_ext=4,ioc_guid=5", "id_ext=6"]);
        assert_eq!(logins("ioc_guid=2\n").count(), 0);
    }
}
