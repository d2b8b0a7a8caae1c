//! An open port: agents for management classes, datagrams out and in.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::ptr;
use std::time::Duration;

use libc::{c_int, c_long, c_void};

use super::library::is_simulated;
use super::{Library, Packet, error_of, forget_error};

/// Maximum length in bytes of an answer in several segments: more than any table of a full subnet needs.
const ANSWER_LEN_MAX: usize = 64 << 20;

/// Longest wait under a library that does not poll foreign descriptors.
const SIMULATED_WAIT: Duration = Duration::from_millis(2);

/// An open port; closed when dropped.
#[derive(Debug)]
pub struct Port {
    library: Library,
    id: c_int,
    /// Whether ibsim's preloaded library is in use, which intercepts poll(2) and read(2).
    simulated: bool,
}

/// Registration of an agent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Registration {
    /// Management class.
    pub class: u8,
    /// Version of the class.
    pub class_version: u8,
    /// 1 if answers may come in several segments.
    pub rmpp_version: u8,
    /// The vendor, for classes 0x30 to 0x4f.
    pub oui: Option<u32>,
    /// Unsolicited methods to receive; none for a mere client.
    pub methods: Option<MethodMask>,
}

/// One bit for each method.
pub type MethodMask = u128;

impl Port {
    /// Opens a port: of the named device or of any; with this number or (0) the first active one.
    ///
    /// # Errors
    /// There is no such port, or it may not be opened.
    pub fn open(library: Library, ca: Option<&str>, number: i32) -> io::Result<Port> {
        let name = ca.map(CString::new).transpose()?;
        forget_error();
        let name = name.as_ref().map_or(ptr::null(), |n| n.as_ptr());
        // SAFETY: null or a C string.
        let id = unsafe { (library.calls.umad_open_port)(name, number) };
        if id < 0 {
            return Err(error_of(id));
        }
        Ok(Port { library, id, simulated: is_simulated() })
    }

    /// Registers an agent and returns its number.
    ///
    /// # Errors
    /// The class belongs to another agent, or is unknown.
    pub fn register(&self, what: &Registration) -> io::Result<i32> {
        let mut mask = what.methods.map(|m| [m as u64 as c_long, (m >> 64) as u64 as c_long]);
        let mask = mask.as_mut().map_or(ptr::null_mut(), |m| m.as_mut_ptr());
        let class = c_int::from(what.class);
        forget_error();
        let agent = match what.oui {
            Some(oui) => {
                let [_, a, b, c] = oui.to_be_bytes();
                let mut oui = [a, b, c];
                // SAFETY: three bytes of OUI, and null or 128 bits of methods.
                unsafe {
                    (self.library.calls.umad_register_oui)(self.id, class, what.rmpp_version, oui.as_mut_ptr(), mask)
                }
            }
            // SAFETY: null or 128 bits of methods.
            None => unsafe {
                let version = c_int::from(what.class_version);
                (self.library.calls.umad_register)(self.id, class, version, what.rmpp_version, mask)
            },
        };
        if agent < 0 { Err(error_of(agent)) } else { Ok(agent) }
    }

    /// Sends the datagram of `packet`. Unless `timeout_ms` is 0, the library waits that long for an answer; after a
    /// timeout the packet comes back with a status.
    ///
    /// # Errors
    /// It could not be sent.
    pub fn send(&self, agent: i32, packet: &mut Packet, timeout_ms: i32, retries: i32) -> io::Result<()> {
        let (at, len) = packet.raw();
        forget_error();
        // SAFETY: the buffer holds a head and `len` bytes of datagram.
        let rc = unsafe {
            (self.library.calls.umad_send)(self.id, agent, at.cast::<c_void>(), len as c_int, timeout_ms, retries)
        };
        if rc < 0 { Err(error_of(rc)) } else { Ok(()) }
    }

    /// Receives into `packet`, which grows if the answer is longer. Waits up to `timeout_ms`, without limit if that is
    /// negative. Returns the number of the agent that the datagram is for.
    ///
    /// # Errors
    /// No datagram came in time, or it could not be read.
    pub fn recv(&self, packet: &mut Packet, timeout_ms: i32) -> io::Result<i32> {
        loop {
            let (at, room) = packet.raw();
            let mut len = room as c_int;
            forget_error();
            // SAFETY: the buffer has room for a head and `len` bytes of datagram.
            let agent = unsafe { (self.library.calls.umad_recv)(self.id, at.cast::<c_void>(), &mut len, timeout_ms) };
            let len = usize::try_from(len).unwrap_or(0);
            if agent >= 0 {
                packet.shorten(len);
                return Ok(agent);
            }
            let error = error_of(agent);
            // A datagram that does not fit stays queued, and the length tells the room it needs.
            if error.raw_os_error() != Some(libc::ENOSPC) || len <= room || len > ANSWER_LEN_MAX {
                return Err(error);
            }
            packet.grow(len);
        }
    }

    /// Descriptor that is readable when a datagram is pending.
    pub fn fd(&self) -> RawFd {
        // SAFETY: the port is open.
        unsafe { (self.library.calls.umad_get_fd)(self.id) }
    }

    /// Receives a pending datagram into `packet`; `None` if there is none.
    ///
    /// # Errors
    /// It could not be read.
    pub fn try_recv(&self, packet: &mut Packet) -> io::Result<Option<i32>> {
        match self.recv(packet, 0) {
            Ok(agent) => Ok(Some(agent)),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted => Ok(None),
                _ => Err(error),
            },
        }
    }

    /// Waits until a datagram can be received, `others` is readable, or the timeout ends; returns which of the two is
    /// ready. Uses poll(2), which libraries that stand in for a kernel's ports intercept; ibsim's does not know
    /// `others`, so under it the wait is short and the caller checks them now and then ([`Port::wait_for_others`]).
    ///
    /// # Errors
    /// poll(2) failed.
    pub fn wait(&self, others: Option<BorrowedFd<'_>>, timeout: Option<Duration>) -> io::Result<(bool, bool)> {
        let longest = if self.simulated { Some(SIMULATED_WAIT) } else { None };
        let timeout = [timeout, longest].into_iter().flatten().min();
        let of = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // poll(2) ignores negative descriptors.
        let mut fds = [of(self.fd()), of(others.map_or(-1, |fd| fd.as_raw_fd()))];
        let wait = timeout.map_or(-1, |time| c_int::try_from(time.as_micros().div_ceil(1000)).unwrap_or(c_int::MAX));
        // SAFETY: the array has two records, as the count says.
        let rc = unsafe { libc::poll(fds.as_mut_ptr(), 2, wait) };
        if rc < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok((false, false)) } else { Err(error) };
        }
        Ok((fds[0].revents != 0, fds[1].revents != 0))
    }

    /// Waits until `others` is readable or the timeout ends, regardless of datagrams; returns whether it is readable.
    /// Uses ppoll(2), which ibsim's library does not intercept.
    ///
    /// # Errors
    /// ppoll(2) failed.
    pub fn wait_for_others(&self, others: BorrowedFd<'_>, timeout: Option<Duration>) -> io::Result<bool> {
        let limit = timeout.unwrap_or(SIMULATED_WAIT).min(SIMULATED_WAIT);
        let limit = libc::timespec { tv_sec: 0, tv_nsec: c_long::from(limit.subsec_nanos()) };
        let mut other = libc::pollfd { fd: others.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one record, a timeout, and a null signal mask.
        let rc = unsafe { libc::ppoll(&mut other, 1, &limit, ptr::null()) };
        if rc < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(false) } else { Err(error) };
        }
        Ok(rc > 0)
    }

    /// Whether the port is one of ibsim's, whose library can wait only for datagrams.
    pub fn is_simulated(&self) -> bool {
        self.simulated
    }

    /// The library that opened the port.
    pub fn library(&self) -> Library {
        self.library
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        // SAFETY: the port was opened by this library and is closed once.
        unsafe { (self.library.calls.umad_close_port)(self.id) };
    }
}
