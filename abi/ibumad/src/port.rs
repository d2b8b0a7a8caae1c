//! Ports: their state, and opening them.

use libc::{EINVAL, EIO, ENODEV, EOPNOTSUPP, c_char, c_int, c_ulong};
use std::ffi::CString;
use weft_abi_types::umad_port;

use crate::adapter::Port;
use crate::debug::{trace, warn};
use crate::errors::errno;
use crate::source::{self, NODES};
use crate::{kernel, resolve, text, virtual_host};

/// Version of the kernel interface in use; every kernel since 2.6.24 supports it.
const ABI_VERSION: u32 = 5;
/// `_IO(0x1b, 3)`: enables the P_Key index in buffer headers.
const ENABLE_PKEY: c_ulong = 0x1b03;

/// Describes a port; a null name and port 0 mean the best one. `umad_release_port` frees the result.
pub unsafe extern "C" fn umad_get_port(ca_name: *const c_char, portnum: c_int, port: *mut umad_port) -> c_int {
    trace!("umad_get_port", "portnum {portnum}");
    // SAFETY: the caller passes null or a C string.
    let name = unsafe { text::name(ca_name) };
    let found = resolve::place(name, portnum, false).and_then(|(ca, number)| {
        let number = u8::try_from(number).map_err(|_| EIO)?;
        Ok((source::port(&ca, number).map_err(|_| EIO)?, ca))
    });
    match found {
        Err(errno) => -errno,
        // SAFETY: the caller passes a place for the structure, whose old content is ignored.
        Ok((from, ca)) => match unsafe { fill(port, &ca, &from) } {
            true => 0,
            false => -EIO,
        },
    }
}

/// Fills a structure; false if there is no memory for the P_Keys.
unsafe fn fill(to: *mut umad_port, ca: &[u8], from: &Port) -> bool {
    // SAFETY: a new array, or null; exactly its elements are written.
    let pkeys = unsafe {
        let pkeys = libc::calloc(from.pkeys.len(), size_of::<u16>()).cast::<u16>();
        if pkeys.is_null() {
            return false;
        }
        pkeys.copy_from_nonoverlapping(from.pkeys.as_ptr(), from.pkeys.len());
        pkeys
    };
    // SAFETY: the caller passes a place for the structure, which consists of integers and pointers.
    let port = unsafe {
        to.write_bytes(0, 1);
        &mut *to
    };
    text::put(&mut port.ca_name, ca);
    text::put(&mut port.link_layer, &from.link_layer);
    port.portnum = c_int::from(from.number);
    port.base_lid = from.lid;
    port.lmc = from.lmc;
    port.sm_lid = from.sm_lid;
    port.sm_sl = from.sm_sl;
    port.state = from.state;
    port.phys_state = from.phys_state;
    port.rate = from.rate;
    port.capmask = from.capabilities.to_be();
    port.gid_prefix = from.gid_prefix.to_be();
    port.port_guid = from.guid.to_be();
    port.pkeys_size = from.pkeys.len() as u32;
    port.pkeys = pkeys;
    true
}

/// Allocates a structure for a port.
pub(crate) fn allocate(ca: &[u8], from: &Port) -> Option<*mut umad_port> {
    // SAFETY: new memory of the structure's size, or null.
    unsafe {
        let port = libc::calloc(1, size_of::<umad_port>()).cast::<umad_port>();
        if port.is_null() {
            return None;
        }
        if !fill(port, ca, from) {
            libc::free(port.cast());
            return None;
        }
        Some(port)
    }
}

/// Frees a structure from [`allocate`]; ignores null.
pub(crate) unsafe fn free(port: *mut umad_port) {
    // SAFETY: the caller passes null or a structure from `allocate`.
    unsafe {
        if let Some(port) = port.as_mut() {
            release(port);
        }
        libc::free(port.cast());
    }
}

fn release(port: &mut umad_port) {
    // SAFETY: from `fill`; no pointer to it is used again.
    unsafe { libc::free(port.pkeys.cast()) };
    port.pkeys = std::ptr::null_mut();
    port.pkeys_size = 0;
}

/// Frees what `umad_get_port` allocated.
pub unsafe extern "C" fn umad_release_port(port: *mut umad_port) -> c_int {
    // SAFETY: the caller passes null or a structure from `umad_get_port`.
    match unsafe { port.as_mut() } {
        None => -ENODEV,
        Some(port) => {
            release(port);
            0
        }
    }
}

/// Writes the path of the file that a subnet manager on the port holds open.
pub unsafe extern "C" fn umad_get_issm_path(
    ca_name: *const c_char,
    portnum: c_int,
    path: *mut c_char,
    max: c_int,
) -> c_int {
    trace!("umad_get_issm_path", "port {portnum}");
    // SAFETY: the caller passes null or a C string.
    let name = unsafe { text::name(ca_name) };
    let (ca, port) = match resolve::place(name, portnum, false) {
        Ok(place) => place,
        Err(errno) => return -errno,
    };
    let Some(number) = source::node_number(&ca, port) else { return -EINVAL };
    let text = format!("{NODES}/issm{number}");
    let Some(room) = usize::try_from(max).ok().and_then(|max| max.checked_sub(1)) else { return 0 };
    let length = text.len().min(room);
    // SAFETY: the caller has room for `max` characters, which is more than `length`.
    unsafe {
        path.copy_from_nonoverlapping(text.as_ptr().cast(), length);
        path.add(length).write(0);
    }
    0
}

fn open(name: Option<&[u8]>, portnum: c_int, smi: bool) -> Result<c_int, c_int> {
    if virtual_host::is_ours() {
        let (ca, port) = resolve::place(name, portnum, smi)?;
        return virtual_host::open(&ca, port);
    }
    match kernel::abi_version() {
        Ok(version) if version >= ABI_VERSION => {}
        Ok(version) => {
            warn("umad_open_port", &format!("kernel umad version {version}; version {ABI_VERSION} is required"));
            return Err(EOPNOTSUPP);
        }
        Err((path, errno)) => {
            let error = std::io::Error::from_raw_os_error(errno);
            let mend = "is the ib_umad module loaded, or is `weft run --host NODE` missing?";
            warn("umad_open_port", &format!("cannot read {path} ({error}): {mend}"));
            return Err(EOPNOTSUPP);
        }
    }
    let (ca, port) = resolve::place(name, portnum, smi)?;
    let number = source::node_number(&ca, port).ok_or(EINVAL)?;
    let path = CString::new(format!("{NODES}/umad{number}")).map_err(|_| EINVAL)?;
    // SAFETY: the path is a C string; the descriptor belongs to the program from here on, or is closed below.
    unsafe {
        let fd = libc::open(path.as_ptr(), libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC);
        if fd < 0 {
            trace!("umad_open_port", "open {path:?} failed: {}", std::io::Error::from_raw_os_error(errno()));
            return Err(EIO);
        }
        if libc::ioctl(fd, ENABLE_PKEY, std::ptr::null_mut::<u8>()) != 0 {
            libc::close(fd);
            return Err(EOPNOTSUPP);
        }
        trace!("umad_open_port", "opened {path:?} fd {fd} portid {number}");
        Ok(fd)
    }
}

/// Opens a port for management datagrams; returns its descriptor, or a negative errno value.
pub unsafe extern "C" fn umad_open_port(ca_name: *const c_char, portnum: c_int) -> c_int {
    trace!("umad_open_port", "port {portnum}");
    // SAFETY: the caller passes null or a C string.
    open(unsafe { text::name(ca_name) }, portnum, false).unwrap_or_else(|errno| -errno)
}

/// Opens a port that carries subnet management.
pub unsafe extern "C" fn umad_open_smi_port(ca_name: *const c_char, portnum: c_int) -> c_int {
    trace!("umad_open_smi_port", "port {portnum}");
    // SAFETY: the caller passes null or a C string.
    open(unsafe { text::name(ca_name) }, portnum, true).unwrap_or_else(|errno| -errno)
}

/// Closes a port and its agents.
pub extern "C" fn umad_close_port(port_id: c_int) -> c_int {
    virtual_host::close(port_id);
    // SAFETY: the descriptor is the caller's to close.
    unsafe { libc::close(port_id) };
    trace!("umad_close_port", "closed fd {port_id}");
    0
}

/// Returns the descriptor of a port, which is the port ID itself.
pub extern "C" fn umad_get_fd(port_id: c_int) -> c_int {
    port_id
}
