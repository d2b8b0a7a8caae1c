//! The sockets of ports that programs have open: the daemon's ends, and the programs' with the memory of their rings until
//! they are on their way.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;

use weft_ipc::umad_ring::DaemonRing;
use weft_sys::epoll::Interest;
use weft_sys::unix;

/// What answers may take on their way to a program.
const SEND_BUFFER_BYTES: i32 = 4 << 20;

/// All of them, by the ports' handles.
#[derive(Debug, Default)]
pub struct UmadSockets {
    sockets: BTreeMap<u32, Socket>,
    /// Closed ones that are still watched.
    closed: Vec<OwnedFd>,
    /// New ones that are not watched yet.
    new: Vec<u32>,
}

/// One of them.
#[derive(Debug)]
pub struct Socket {
    /// The daemon's end.
    pub fd: OwnedFd,
    /// What it is watched for.
    pub watched: Option<Interest>,
    programs_end: RefCell<Option<ProgramsEnd>>,
}

/// What a program gets of a port that it opened.
#[derive(Debug)]
pub struct ProgramsEnd {
    /// Its end of the socket.
    pub socket: OwnedFd,
    /// The memory of its rings.
    pub rings: Option<OwnedFd>,
}

impl UmadSockets {
    /// Makes the socket of a port, and its rings. Where there is no memory for them all goes by the socket.
    pub fn open(&mut self, handle: u32) -> io::Result<Option<DaemonRing>> {
        let (fd, socket) = unix::pair()?;
        unix::set_send_buffer(&fd, SEND_BUFFER_BYTES);
        let (ring, rings) = DaemonRing::create().map(|(ring, file)| (ring, OwnedFd::from(file))).ok().unzip();
        let programs_end = RefCell::new(Some(ProgramsEnd { socket, rings }));
        self.sockets.insert(handle, Socket { fd, watched: None, programs_end });
        self.new.push(handle);
        Ok(ring)
    }

    /// Closes it.
    pub fn close(&mut self, handle: u32) {
        self.closed.extend(self.sockets.remove(&handle).map(|socket| socket.fd));
    }

    /// One of them.
    pub fn get(&self, handle: u32) -> Option<&Socket> {
        self.sockets.get(&handle)
    }

    /// One of them.
    pub fn get_mut(&mut self, handle: u32) -> Option<&mut Socket> {
        self.sockets.get_mut(&handle)
    }

    /// The program's end, to be sent to it.
    pub fn take_programs_end(&self, handle: u32) -> Option<ProgramsEnd> {
        self.sockets.get(&handle)?.programs_end.take()
    }

    /// It could not be sent yet.
    pub fn keep_programs_end(&self, handle: u32, end: ProgramsEnd) {
        if let Some(socket) = self.sockets.get(&handle) {
            *socket.programs_end.borrow_mut() = Some(end);
        }
    }

    /// Sockets that were closed, to be watched no longer.
    pub fn take_closed(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.closed)
    }

    /// Sockets that are to be watched.
    pub fn take_new(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.new)
    }
}
