//! Sending and receiving.

use libc::{EAGAIN, EINVAL, EIO, ETIMEDOUT, EWOULDBLOCK, c_int, c_void};
use std::time::{Duration, Instant};
use weft_abi_types::ib_user_mad;
use weft_ipc::umad::UmadHead;
use zerocopy::FromBytes;

use crate::debug::{self, trace, umad_dump};
use crate::errors::{errno, set_errno};
use crate::inbox::Received;
use crate::poll::poll;
use crate::socket::Socket;
use crate::virtual_host;

const HEAD: usize = size_of::<ib_user_mad>();

/// Sends the MAD of `length` bytes in the buffer. For a request, either a response arrives within `timeout_ms` of one
/// of `retries` + 1 attempts, or the buffer comes back with status ETIMEDOUT.
pub unsafe extern "C" fn umad_send(
    port_id: c_int,
    agent_id: c_int,
    umad: *mut c_void,
    length: c_int,
    timeout_ms: c_int,
    retries: c_int,
) -> c_int {
    trace!("umad_send", "fd {port_id} agentid {agent_id} timeout {timeout_ms}");
    set_errno(0);
    let (false, Ok(length)) = (umad.is_null(), usize::try_from(length)) else {
        set_errno(EINVAL);
        return -EINVAL;
    };
    let whole = HEAD + length;
    // SAFETY: the caller passes a buffer with a header and `length` bytes after it.
    let written = unsafe {
        let head = umad.cast::<ib_user_mad>();
        (*head).timeout_ms = timeout_ms as u32;
        (*head).retries = retries as u32;
        (*head).agent_id = agent_id as u32;
        if debug::level() > 1 {
            umad_dump(umad);
        }
        match virtual_host::opened(port_id) {
            None => libc::write(port_id, umad, whole),
            Some(opened) => {
                let mad = std::slice::from_raw_parts(umad.cast::<u8>().add(HEAD), length);
                written(port_id, &opened.socket, &umad.cast::<UmadHead>().read_unaligned(), mad)
            }
        }
    };
    if usize::try_from(written) == Ok(whole) {
        return 0;
    }
    trace!("umad_send", "write returned {written} for {whole} bytes ({})", std::io::Error::last_os_error());
    if errno() == 0 {
        set_errno(EIO);
    }
    -EIO
}

/// Sends on a virtual host's port as write(2) does.
fn written(port_id: c_int, socket: &Socket, head: &UmadHead, mad: &[u8]) -> isize {
    match socket.send(port_id, *head, mad) {
        Ok(()) => (HEAD + mad.len()) as isize,
        Err(errno) => {
            set_errno(errno);
            -1
        }
    }
}

/// Waits until the port has something to receive: returns 0, -ETIMEDOUT on timeout, or -EIO on failure; errno holds the
/// same, or the reason of the failure.
fn wait(port_id: c_int, timeout_ms: c_int) -> c_int {
    let waited = match virtual_host::opened(port_id) {
        Some(opened) => opened.socket.wait(port_id, deadline(timeout_ms)),
        None => match poll(port_id, libc::POLLIN, timeout_ms) {
            Ok(0) => Err(ETIMEDOUT),
            Ok(_) => Ok(()),
            Err(errno) => Err(errno),
        },
    };
    match waited {
        Ok(()) => 0,
        Err(errno) => {
            set_errno(errno);
            if errno == ETIMEDOUT { -ETIMEDOUT } else { -EIO }
        }
    }
}

/// Returns the deadline of a timeout; `None` for a negative one, which never ends.
fn deadline(timeout_ms: c_int) -> Option<Instant> {
    Some(Instant::now() + Duration::from_millis(u64::try_from(timeout_ms).ok()?))
}

/// Receives a MAD: returns the number of its agent, or a negative errno value. `length` is the room after the header on
/// entry, and the used or (with ENOSPC) required length on return. A negative `timeout_ms` waits for ever.
pub unsafe extern "C" fn umad_recv(port_id: c_int, umad: *mut c_void, length: *mut c_int, timeout_ms: c_int) -> c_int {
    trace!("umad_recv", "fd {port_id} timeout {timeout_ms}");
    set_errno(0);
    // SAFETY: the caller passes null or the place of a length.
    let (false, Some(length)) = (umad.is_null(), unsafe { length.as_mut() }) else {
        set_errno(EINVAL);
        return -EINVAL;
    };
    if let Some(opened) = virtual_host::opened(port_id) {
        let room = HEAD + usize::try_from(*length).unwrap_or(0);
        // SAFETY: the caller's buffer has a header and `length` bytes after it, and no other code uses it during the
        // call.
        let buffer = unsafe { std::slice::from_raw_parts_mut(umad.cast::<u8>(), room) };
        return receive(port_id, &opened.socket, buffer, length, timeout_ms);
    }
    if timeout_ms != 0 {
        let result = wait(port_id, timeout_ms);
        if result < 0 {
            return result;
        }
    }
    let room = HEAD + usize::try_from(*length).unwrap_or(0);
    // SAFETY: the caller's buffer has a header and `length` bytes after it.
    let read = unsafe { libc::read(port_id, umad, room) };
    // SAFETY: as above.
    let head = unsafe { umad.cast::<ib_user_mad>().read() };
    match usize::try_from(read) {
        Ok(read) if read <= room => {
            trace!("umad_recv", "mad received by agent {} length {read}", head.agent_id);
            *length = read.saturating_sub(HEAD) as c_int;
            head.agent_id as c_int
        }
        // ibsim's preloaded library returns this where the kernel returns -1 and EAGAIN.
        _ if read == -(EWOULDBLOCK as isize) => {
            if errno() == 0 {
                set_errno(EWOULDBLOCK);
            }
            -EWOULDBLOCK
        }
        _ => {
            trace!("umad_recv", "read returned {read} for {room} bytes ({})", std::io::Error::last_os_error());
            *length = head.length.saturating_sub(HEAD as u32) as c_int;
            if errno() == 0 {
                set_errno(EIO);
            }
            -errno()
        }
    }
}

/// Receives from a virtual host's port, with the same results as a kernel port.
fn receive(port_id: c_int, socket: &Socket, buffer: &mut [u8], length: &mut c_int, timeout_ms: c_int) -> c_int {
    let until = if timeout_ms == 0 { None } else { deadline(timeout_ms) };
    let mut thorough = timeout_ms == 0;
    let received = loop {
        match socket.receive(port_id, buffer, thorough) {
            // Another thread may take the datagram that this one was woken for; then this one waits on.
            Err(EAGAIN) if timeout_ms != 0 => {}
            received => break received,
        }
        if let Err(errno) = socket.wait(port_id, until) {
            set_errno(errno);
            return if errno == ETIMEDOUT { -ETIMEDOUT } else { -EIO };
        }
        // The wake-up may mean the end of the port.
        thorough = true;
    };
    let head = || UmadHead::read_from_prefix(buffer).map(|(head, _)| head).unwrap_or_default();
    let errno = match received {
        Ok(Received::Whole(whole)) => {
            *length = whole.saturating_sub(HEAD) as c_int;
            set_errno(0);
            return head().agent as c_int;
        }
        Ok(Received::TooShort(errno)) => {
            *length = (head().length as usize).saturating_sub(HEAD) as c_int;
            errno
        }
        Err(errno) => errno,
    };
    set_errno(errno);
    -errno
}

/// Waits until the port has something to receive.
pub extern "C" fn umad_poll(port_id: c_int, timeout_ms: c_int) -> c_int {
    trace!("umad_poll", "fd {port_id} timeout {timeout_ms}");
    wait(port_id, timeout_ms)
}
