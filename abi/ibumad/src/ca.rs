//! Adapters: their names, their properties, the GUIDs of their ports.

use libc::{ENODEV, ENOMEM, c_char, c_int};
use weft_abi_types::{UMAD_CA_NAME_LEN, be64, umad_ca};

use crate::adapter::Ca;
use crate::debug::trace;
use crate::{port, resolve, source, text};

/// Does nothing: there is nothing to set up.
pub extern "C" fn umad_init() -> c_int {
    trace!("umad_init", "umad_init");
    0
}

/// Does nothing: there is nothing to tear down.
pub extern "C" fn umad_done() -> c_int {
    trace!("umad_done", "umad_done");
    0
}

/// Writes the names of at most `max` adapters, sorted, and returns their number.
pub unsafe extern "C" fn umad_get_cas_names(cas: *mut [c_char; UMAD_CA_NAME_LEN], max: c_int) -> c_int {
    trace!("umad_get_cas_names", "max {max}");
    let mut names = source::ca_names().unwrap_or_default();
    names.sort();
    let max = usize::try_from(max).unwrap_or(0);
    for (at, name) in names.iter().take(max).enumerate() {
        // SAFETY: the caller has room for `max` names.
        text::put(unsafe { &mut *cas.add(at) }, name);
    }
    names.len().min(max) as c_int
}

/// Writes the GUIDs of ports 0, 1, ... and returns their number; 0 stands for a missing port.
pub unsafe extern "C" fn umad_get_ca_portguids(ca_name: *const c_char, guids: *mut be64, max: c_int) -> c_int {
    // SAFETY: the caller passes null or a C string.
    let name = unsafe { text::name(ca_name) };
    let ca = match resolve::ca_name(name).and_then(|name| source::ca(&name).map_err(|_| 1)) {
        Ok(ca) => ca,
        Err(errno) => return -errno,
    };
    if guids.is_null() {
        return 0;
    }
    let count = c_int::from(ca.port_count()) + 1;
    if count > max {
        return -ENOMEM;
    }
    for number in 0..count {
        let guid = ca.port(number).map_or(0, |port| port.guid);
        // SAFETY: the caller has room for `max` GUIDs.
        unsafe { guids.add(number as usize).write(guid.to_be()) };
    }
    count
}

/// Describes an adapter and its ports; null means the one with the best port. `umad_release_ca` frees the result.
pub unsafe extern "C" fn umad_get_ca(ca_name: *const c_char, ca: *mut umad_ca) -> c_int {
    // SAFETY: the caller passes null or a C string.
    let name = unsafe { text::name(ca_name) };
    let found = match resolve::ca_name(name).and_then(|name| source::ca(&name)) {
        Ok(found) => found,
        Err(errno) => return -errno,
    };
    // SAFETY: the caller passes a place for the answer, whose old content is ignored.
    match unsafe { fill(ca, &found) } {
        Ok(()) => 0,
        Err(errno) => -errno,
    }
}

unsafe fn fill(to: *mut umad_ca, from: &Ca) -> Result<(), c_int> {
    // SAFETY: the caller passes a place for the structure, which consists of integers and pointers.
    let ca = unsafe {
        to.write_bytes(0, 1);
        &mut *to
    };
    text::put(&mut ca.ca_name, &from.name);
    text::put(&mut ca.fw_ver, &from.fw_ver);
    text::put(&mut ca.hw_ver, &from.hw_ver);
    text::put(&mut ca.ca_type, &from.ca_type);
    ca.node_type = from.node_type;
    ca.numports = c_int::from(from.port_count());
    ca.node_guid = from.node_guid.to_be();
    ca.system_guid = from.system_guid.to_be();
    for port in &from.ports {
        let Some(slot) = ca.ports.get_mut(usize::from(port.number)) else { continue };
        match port::allocate(&from.name, port) {
            Some(allocated) => *slot = allocated,
            None => {
                release(ca);
                return Err(ENOMEM);
            }
        }
    }
    Ok(())
}

fn release(ca: &mut umad_ca) {
    for port in &mut ca.ports {
        // SAFETY: null, or from `port::allocate`; no pointer to it is used again.
        unsafe { port::free(*port) };
        *port = std::ptr::null_mut();
    }
}

/// Frees what `umad_get_ca` allocated.
pub unsafe extern "C" fn umad_release_ca(ca: *mut umad_ca) -> c_int {
    // SAFETY: the caller passes null or a structure from `umad_get_ca`.
    match unsafe { ca.as_mut() } {
        None => -ENODEV,
        Some(ca) => {
            release(ca);
            0
        }
    }
}
