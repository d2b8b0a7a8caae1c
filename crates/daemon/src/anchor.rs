//! The anchor keeps the pool's sockets alive when the daemon dies. The kernel numbers the sockets of a reuseport group
//! and moves the last one into the position of a closed one. The daemon holds duplicates of all the sockets, so its
//! death would shuffle the packets of surviving processes. Therefore the sockets also lie in flight in the queue of a
//! Unix socket, and every process holds that queue open. No process receives them: a new daemon peeks, which duplicates
//! them.
//!
//! ```text
//! message: "WA" | kind u8 | with IPv6 u8 | first slot u16 | slots u16 (little-endian), with the sockets of the slots,
//!          IPv4 and IPv6 alternating; or, for the other kind, with the file of the state

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use weft_sys::unix::{self, MESSAGE_FDS_MAX, Wait};

const MAGIC: [u8; 2] = *b"WA";
const KIND_SOCKETS: u8 = 1;
const KIND_STATE: u8 = 2;
const HEADER_BYTES: usize = 8;

/// Maximum number of messages in an anchor: enough for the largest pool grown in the smallest steps.
const MESSAGES_MAX: usize = 64;

/// A queue with sockets in it.
#[derive(Debug)]
pub struct Anchor {
    tx: OwnedFd,
    rx: OwnedFd,
}

/// Contents of an anchor.
#[derive(Debug)]
pub struct Parked {
    /// IPv4 sockets by slot.
    pub v4: Vec<OwnedFd>,
    /// IPv6 sockets by slot; empty on a machine without IPv6.
    pub v6: Vec<OwnedFd>,
    /// State file.
    pub state: File,
}

impl Anchor {
    /// Makes an anchor with only the state in it.
    pub fn new(state: &File) -> io::Result<Anchor> {
        let (tx, rx) = unix::stream_pair()?;
        let anchor = Anchor { tx, rx };
        anchor.send(KIND_STATE, false, 0, 0, &[state.as_fd()])?;
        Ok(anchor)
    }

    /// Returns the end that processes hold.
    pub fn keeper(&self) -> BorrowedFd<'_> {
        self.rx.as_fd()
    }

    /// Adds the sockets of the slots from `first` on; `v6` is empty or as long as `v4`.
    pub fn park(&self, first: usize, v4: &[OwnedFd], v6: &[OwnedFd]) -> io::Result<()> {
        let has_v6 = !v6.is_empty();
        let per_message = if has_v6 { MESSAGE_FDS_MAX / 2 } else { MESSAGE_FDS_MAX };
        let mut at = first;
        let mut v6 = v6.chunks(per_message);
        for v4 in v4.chunks(per_message) {
            let mut second = v6.next().unwrap_or_default().iter();
            let mut fds = Vec::with_capacity(MESSAGE_FDS_MAX);
            for socket in v4 {
                fds.push(socket.as_fd());
                fds.extend(second.next().map(AsFd::as_fd));
            }
            self.send(KIND_SOCKETS, has_v6, at, v4.len(), &fds)?;
            at += v4.len();
        }
        Ok(())
    }

    fn send(&self, kind: u8, has_v6: bool, first: usize, slots: usize, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut header = Vec::with_capacity(HEADER_BYTES);
        header.extend(MAGIC);
        header.extend([kind, u8::from(has_v6)]);
        header.extend((first as u16).to_le_bytes());
        header.extend((slots as u16).to_le_bytes());
        unix::send(&self.tx, &header, fds, Wait::No)?;
        Ok(())
    }
}

/// Duplicates the contents of an anchor and leaves them in it. Returns an error if it is not a complete anchor.
pub fn peek(keeper: &OwnedFd) -> io::Result<Parked> {
    unix::set_peek_offset(keeper, 0)?;
    let (mut v4, mut v6, mut state) = (Vec::new(), Vec::new(), None);
    for _ in 0..MESSAGES_MAX {
        let mut header = [0; HEADER_BYTES];
        let message = match unix::peek(keeper, &mut header, MESSAGE_FDS_MAX, Wait::No) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Ok(message) if message.len == 0 => break,
            result => result?,
        };
        let [m0, m1, kind, has_v6, first0, first1, slots0, slots1] = header;
        let first = usize::from(u16::from_le_bytes([first0, first1]));
        let slots = usize::from(u16::from_le_bytes([slots0, slots1]));
        let fds_wanted = if has_v6 != 0 { slots * 2 } else { slots };
        let mut fds = message.fds.into_iter();
        match kind {
            _ if [m0, m1] != MAGIC || message.len != HEADER_BYTES => return Err(broken("an unknown message")),
            KIND_STATE => state = fds.next(),
            KIND_SOCKETS if first == v4.len() && fds.len() == fds_wanted => {
                while let Some(socket) = fds.next() {
                    v4.push(socket);
                    if has_v6 != 0 {
                        v6.extend(fds.next());
                    }
                }
            }
            _ => return Err(broken("a gap")),
        }
    }
    if v4.is_empty() || !(v6.is_empty() || v6.len() == v4.len()) {
        return Err(broken("a part missing"));
    }
    Ok(Parked { v4, v6, state: File::from(state.ok_or_else(|| broken("no state"))?) })
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the anchor has {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn any_sockets(count: usize) -> Vec<OwnedFd> {
        (0..count).map(|_| unix::pair().unwrap().0).collect()
    }

    fn cookies(fds: &[OwnedFd]) -> Vec<u64> {
        fds.iter().map(|fd| weft_sys::sockopt::cookie(fd).unwrap()).collect()
    }

    #[test]
    fn all_sockets_outlive_the_daemon_in_order() {
        let _ = weft_sys::process::raise_descriptor_limit();
        let state = weft_sys::memory::anonymous_file("test").unwrap();
        let (v4, v6) = (any_sockets(300), any_sockets(300));
        let anchor = Anchor::new(&state).unwrap();
        anchor.park(0, &v4[..64], &v6[..64]).unwrap();
        anchor.park(64, &v4[64..], &v6[64..]).unwrap();
        let expected = (cookies(&v4), cookies(&v6));
        let keeper = anchor.keeper().try_clone_to_owned().unwrap();
        drop((anchor, v4, v6));
        for _ in 0..2 {
            let parked = peek(&keeper).unwrap();
            assert_eq!((cookies(&parked.v4), cookies(&parked.v6)), expected);
        }
    }

    #[test]
    fn what_is_no_anchor_is_told_apart() {
        let (a, b) = unix::stream_pair().unwrap();
        assert!(peek(&b).is_err());
        unix::send(&a, b"garbage that is longer than a header", &[b.as_fd()], Wait::No).unwrap();
        assert!(peek(&b).is_err());
        assert!(peek(&OwnedFd::from(File::open("/dev/null").unwrap())).is_err());
    }
}
