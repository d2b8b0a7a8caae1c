//! Descriptors that are RDS sockets, with what the program set on them. A table of atomics: it needs no lock, so that it works
//! in signal handlers and after fork.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use libc::c_int;
use weft_rds::limits::{RECEIVE_BUFFER_BYTES, SEND_BUFFER_BYTES};

/// Descriptors that can be RDS sockets.
const DESCRIPTORS: usize = 65536;
/// Bit of a packed address: there is one.
const PRESENT: u64 = 1 << 48;

/// An RDS socket.
#[derive(Debug)]
pub struct Socket {
    /// Inode of the Unix socket; 0: the descriptor is none. It tells a descriptor that was closed by a system call and used
    /// again.
    inode: AtomicU64,
    bound: AtomicU64,
    peer: AtomicU64,
    /// Size of the send buffer.
    pub send_buffer: AtomicU32,
    /// Size of the receive buffer.
    pub receive_buffer: AtomicU32,
    /// Options that are on or off: bit `1 << option`.
    pub switches: AtomicU32,
}

static SOCKETS: [Socket; DESCRIPTORS] = [const {
    Socket {
        inode: AtomicU64::new(0),
        bound: AtomicU64::new(0),
        peer: AtomicU64::new(0),
        send_buffer: AtomicU32::new(0),
        receive_buffer: AtomicU32::new(0),
        switches: AtomicU32::new(0),
    }
}; DESCRIPTORS];

fn slot(fd: c_int) -> Option<&'static Socket> {
    usize::try_from(fd).ok().and_then(|fd| SOCKETS.get(fd))
}

fn inode_of(fd: c_int) -> Option<u64> {
    // SAFETY: the number is one of the program's; fstat fails on one that is closed.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    rustix::fs::fstat(fd).ok().map(|stat| stat.st_ino)
}

/// Returns the socket of a descriptor, if it is an RDS socket.
pub fn find(fd: c_int) -> Option<&'static Socket> {
    let socket = slot(fd)?;
    let inode = socket.inode.load(Ordering::Acquire);
    if inode == 0 {
        return None;
    }
    if inode_of(fd) == Some(inode) {
        return Some(socket);
    }
    socket.inode.store(0, Ordering::Release);
    None
}

/// Makes a descriptor an RDS socket. Returns whether its number is small enough.
pub fn add(fd: c_int) -> bool {
    let (Some(socket), Some(inode)) = (slot(fd), inode_of(fd)) else { return false };
    socket.bound.store(0, Ordering::Relaxed);
    socket.peer.store(0, Ordering::Relaxed);
    socket.switches.store(0, Ordering::Relaxed);
    socket.send_buffer.store(SEND_BUFFER_BYTES, Ordering::Relaxed);
    socket.receive_buffer.store(RECEIVE_BUFFER_BYTES, Ordering::Relaxed);
    socket.inode.store(inode, Ordering::Release);
    true
}

/// A descriptor is closed.
pub fn remove(fd: c_int) {
    if let Some(socket) = slot(fd)
        && socket.inode.load(Ordering::Relaxed) != 0
    {
        socket.inode.store(0, Ordering::Release);
    }
}

/// A descriptor is a duplicate of another.
pub fn copy(from: c_int, to: c_int) {
    if from == to {
        return;
    }
    remove(to);
    if let (Some(from), Some(to)) = (find(from), slot(to)) {
        for (from, to) in [(&from.bound, &to.bound), (&from.peer, &to.peer)] {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        for (from, to) in [
            (&from.send_buffer, &to.send_buffer),
            (&from.receive_buffer, &to.receive_buffer),
            (&from.switches, &to.switches),
        ] {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        to.inode.store(from.inode.load(Ordering::Relaxed), Ordering::Release);
    }
}

fn pack(address: SocketAddrV4) -> u64 {
    PRESENT | u64::from(u32::from(*address.ip())) << 16 | u64::from(address.port())
}

fn unpack(packed: u64) -> Option<SocketAddrV4> {
    (packed & PRESENT != 0).then(|| SocketAddrV4::new(Ipv4Addr::from((packed >> 16) as u32), packed as u16))
}

impl Socket {
    /// Address of the socket.
    pub fn bound(&self) -> Option<SocketAddrV4> {
        unpack(self.bound.load(Ordering::Relaxed))
    }

    /// Sets the address.
    pub fn set_bound(&self, address: SocketAddrV4) {
        self.bound.store(pack(address), Ordering::Relaxed);
    }

    /// Address to which datagrams go that name none.
    pub fn peer(&self) -> Option<SocketAddrV4> {
        unpack(self.peer.load(Ordering::Relaxed))
    }

    /// Sets that address.
    pub fn set_peer(&self, address: SocketAddrV4) {
        self.peer.store(pack(address), Ordering::Relaxed);
    }
}
