//! Sending and receiving.

use libc::{EINVAL, EIO, ETIMEDOUT, EWOULDBLOCK, c_int, c_void};
use weft_abi_types::ib_user_mad;

use crate::debug::{self, trace, umad_dump};
use crate::errors::{errno, set_errno};

const HEAD: usize = size_of::<ib_user_mad>();

/// Sends the MAD of `length` bytes in the buffer. For a request, a response comes within `timeout_ms` of one of
/// `retries` + 1 attempts, or the buffer comes back with a status of ETIMEDOUT.
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
    // SAFETY: the caller passes a buffer with a head and `length` bytes behind it.
    let written = unsafe {
        let head = umad.cast::<ib_user_mad>();
        (*head).timeout_ms = timeout_ms as u32;
        (*head).retries = retries as u32;
        (*head).agent_id = agent_id as u32;
        if debug::level() > 1 {
            umad_dump(umad);
        }
        libc::write(port_id, umad, whole)
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

/// 0 once the port has something to receive, -ETIMEDOUT if it does not within the time, -EIO if that fails.
fn wait(port_id: c_int, timeout_ms: c_int) -> c_int {
    let mut poll = libc::pollfd { fd: port_id, events: libc::POLLIN, revents: 0 };
    // SAFETY: one structure.
    match unsafe { libc::poll(&raw mut poll, 1, timeout_ms) } {
        1 => 0,
        0 => -ETIMEDOUT,
        _ => -EIO,
    }
}

/// Receives a MAD: the number of the agent it is for, or a negative errno value. `length` is the room behind the head,
/// and then what it was used for, or what it should have been (ENOSPC). A negative `timeout_ms` waits for ever.
pub unsafe extern "C" fn umad_recv(port_id: c_int, umad: *mut c_void, length: *mut c_int, timeout_ms: c_int) -> c_int {
    trace!("umad_recv", "fd {port_id} timeout {timeout_ms}");
    set_errno(0);
    // SAFETY: the caller passes null or the place of a length.
    let (false, Some(length)) = (umad.is_null(), unsafe { length.as_mut() }) else {
        set_errno(EINVAL);
        return -EINVAL;
    };
    if timeout_ms != 0 {
        let result = wait(port_id, timeout_ms);
        if result < 0 {
            if errno() == 0 {
                set_errno(-result);
            }
            return result;
        }
    }
    let room = HEAD + usize::try_from(*length).unwrap_or(0);
    // SAFETY: the caller's buffer has a head and `length` bytes behind it.
    let read = unsafe { libc::read(port_id, umad, room) };
    // SAFETY: as above.
    let head = unsafe { umad.cast::<ib_user_mad>().read() };
    match usize::try_from(read) {
        Ok(read) if read <= room => {
            trace!("umad_recv", "mad received by agent {} length {read}", head.agent_id);
            *length = read.saturating_sub(HEAD) as c_int;
            head.agent_id as c_int
        }
        // ibsim's preloaded library answers so where the kernel says -1 and EAGAIN.
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

/// Waits until the port has something to receive.
pub extern "C" fn umad_poll(port_id: c_int, timeout_ms: c_int) -> c_int {
    trace!("umad_poll", "fd {port_id} timeout {timeout_ms}");
    wait(port_id, timeout_ms)
}
