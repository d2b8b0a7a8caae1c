//! Sockets of ports that programs have open: the daemon's ends, and the programs' ends with the memory of their rings
//! until they are sent.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;

use weft_ipc::umad_ring::DaemonRing;
use weft_sys::epoll::Interest;
use weft_sys::unix;

/// Send buffer for answers on their way to a program.
const SEND_BUFFER_BYTES: i32 = 4 << 20;

/// All sockets, by the ports' handles.
#[derive(Debug, Default)]
pub struct UmadSockets {
    sockets: BTreeMap<u32, Socket>,
    /// Closed ones that epoll still watches.
    closed: Vec<OwnedFd>,
    /// New ones that epoll does not watch yet.
    new: Vec<u32>,
}

/// The socket of one port.
#[derive(Debug)]
pub struct Socket {
    /// The daemon's end.
    pub fd: OwnedFd,
    /// Events that it is watched for.
    pub watched: Option<Interest>,
    programs_end: RefCell<Option<ProgramsEnd>>,
}

/// A program's end of a port that it opened.
#[derive(Debug)]
pub struct ProgramsEnd {
    /// Program's end of the socket.
    pub socket: OwnedFd,
    /// The memory of its rings.
    pub rings: Option<OwnedFd>,
}

impl UmadSockets {
    /// Makes the socket of a port, and its rings. If there is no memory for rings, all datagrams take the socket.
    pub fn open(&mut self, handle: u32) -> io::Result<Option<DaemonRing>> {
        let (fd, socket) = unix::pair()?;
        unix::set_send_buffer(&fd, SEND_BUFFER_BYTES);
        let (ring, rings) = DaemonRing::create().map(|(ring, file)| (ring, OwnedFd::from(file))).ok().unzip();
        let programs_end = RefCell::new(Some(ProgramsEnd { socket, rings }));
        self.sockets.insert(handle, Socket { fd, watched: None, programs_end });
        self.new.push(handle);
        Ok(ring)
    }

    /// Closes the socket of a port.
    pub fn close(&mut self, handle: u32) {
        self.closed.extend(self.sockets.remove(&handle).map(|socket| socket.fd));
    }

    /// Returns the socket of a port.
    pub fn get(&self, handle: u32) -> Option<&Socket> {
        self.sockets.get(&handle)
    }

    /// Returns the socket of a port, mutably.
    pub fn get_mut(&mut self, handle: u32) -> Option<&mut Socket> {
        self.sockets.get_mut(&handle)
    }

    /// Takes the program's end, to send it.
    pub fn take_programs_end(&self, handle: u32) -> Option<ProgramsEnd> {
        self.sockets.get(&handle)?.programs_end.take()
    }

    /// Puts back a program's end that could not be sent yet.
    pub fn keep_programs_end(&self, handle: u32, end: ProgramsEnd) {
        if let Some(socket) = self.sockets.get(&handle) {
            *socket.programs_end.borrow_mut() = Some(end);
        }
    }

    /// Takes the closed sockets, to stop watching them.
    pub fn take_closed(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.closed)
    }

    /// Takes the new sockets, to start watching them.
    pub fn take_new(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.new)
    }
}
