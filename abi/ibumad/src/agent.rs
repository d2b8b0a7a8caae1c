//! Agents: a program registers one on a port to send requests of a class, and to receive requests from others.

use libc::{EINVAL, ENOTTY, EPERM, c_int, c_long, c_ulong};
use weft_abi_types::{UMAD_USER_RMPP, umad_reg_attr};
use weft_ipc::umad::UmadAgent;

use crate::debug::trace;
use crate::errors::{errno, set_errno};
use crate::virtual_host::{self, Opened};

/// `_IOWR(0x1b, 1, 28 bytes)`.
const REGISTER_AGENT: c_ulong = 0xc01c_1b01;
/// `_IOW(0x1b, 2, 4 bytes)`.
const UNREGISTER_AGENT: c_ulong = 0x4004_1b02;
/// `_IOWR(0x1b, 4, 40 bytes)`.
const REGISTER_AGENT2: c_ulong = 0xc028_1b04;

const CLASS_SUBN_LID: u8 = 0x01;
const CLASS_SUBN_DIRECTED: u8 = 0x81;
/// Vendor classes that carry an OUI (IBA 13.4.4).
const CLASSES_WITH_OUI: std::ops::RangeInclusive<u8> = 0x30..=0x4f;
/// The OUI that OpenIB uses.
const OUI_OPENIB: u32 = 0x00_1405;

/// The kernel's `struct ib_user_mad_reg_req`.
#[repr(C)]
struct Request {
    id: u32,
    method_mask: [u32; 4],
    qpn: u8,
    mgmt_class: u8,
    mgmt_class_version: u8,
    oui: [u8; 3],
    rmpp_version: u8,
}

/// The kernel's `struct ib_user_mad_reg_req2`.
#[repr(C)]
struct Request2 {
    id: u32,
    qpn: u32,
    mgmt_class: u8,
    mgmt_class_version: u8,
    reserved: u16,
    flags: u32,
    method_mask: [u64; 2],
    oui: u32,
    rmpp_version: u8,
    reserved2: [u8; 3],
}

const _: () = assert!(size_of::<Request>() == 28 && size_of::<Request2>() == 40);

/// Returns the queue pair of a class: 0 for subnet management, 1 for all others.
fn qpn(class: u8) -> u8 {
    u8::from(!matches!(class, CLASS_SUBN_LID | CLASS_SUBN_DIRECTED))
}

fn oui_bytes(oui: u32) -> [u8; 3] {
    let [_, oui @ ..] = oui.to_be_bytes();
    oui
}

impl Request {
    fn register(&mut self, fd: c_int) -> Result<u32, c_int> {
        if let Some(opened) = virtual_host::opened(fd) {
            return self.register_with(&opened);
        }
        // SAFETY: the ioctl reads and writes exactly the size of the structure.
        match unsafe { libc::ioctl(fd, REGISTER_AGENT, &raw mut *self) } {
            0 => Ok(self.id),
            _ => Err(errno()),
        }
    }

    fn register_with(&self, opened: &Opened) -> Result<u32, c_int> {
        let [a, b, c] = self.oui;
        opened.register(UmadAgent {
            qpn: self.qpn,
            class: self.mgmt_class,
            class_version: self.mgmt_class_version,
            oui: u32::from_be_bytes([0, a, b, c]),
            method_mask: mask(self.method_mask),
            rmpp_version: self.rmpp_version,
            user_rmpp: false,
        })
    }
}

/// Converts a method mask, which is an array of longs.
fn mask(words: [u32; 4]) -> u128 {
    let [a, b, c, d] = words;
    let in_order = if cfg!(target_endian = "little") { [a, b, c, d] } else { [b, a, d, c] };
    in_order.iter().rev().fold(0, |mask, word| mask << 32 | u128::from(*word))
}

impl Request2 {
    fn register(&mut self, fd: c_int) -> Result<u32, c_int> {
        if let Some(opened) = virtual_host::opened(fd) {
            return self.register_with(&opened);
        }
        // SAFETY: as above.
        match unsafe { libc::ioctl(fd, REGISTER_AGENT2, &raw mut *self) } {
            0 => Ok(self.id),
            _ => Err(errno()),
        }
    }

    fn register_with(&mut self, opened: &Opened) -> Result<u32, c_int> {
        if self.flags & !UMAD_USER_RMPP != 0 {
            self.flags = UMAD_USER_RMPP;
            return Err(EINVAL);
        }
        let [low, high] = self.method_mask;
        opened.register(UmadAgent {
            qpn: self.qpn as u8,
            class: self.mgmt_class,
            class_version: self.mgmt_class_version,
            oui: self.oui,
            method_mask: u128::from(high) << 64 | u128::from(low),
            rmpp_version: self.rmpp_version,
            user_rmpp: self.flags & UMAD_USER_RMPP != 0,
        })
    }

    /// Returns the same request for kernels without flags.
    fn without_flags(&self) -> Request {
        let word = |n: usize| (self.method_mask[n / 2] >> (32 * (n % 2))) as u32;
        let words = [word(0), word(1), word(2), word(3)];
        let [a, b, c, d] = words;
        Request {
            id: 0,
            method_mask: if cfg!(target_endian = "little") { words } else { [b, a, d, c] },
            qpn: self.qpn as u8,
            mgmt_class: self.mgmt_class,
            mgmt_class_version: self.mgmt_class_version,
            oui: oui_bytes(self.oui),
            rmpp_version: self.rmpp_version,
        }
    }
}

/// Registers an agent and returns its number, or -EPERM on any error.
unsafe fn register(
    fd: c_int,
    class: u8,
    version: u8,
    rmpp_version: u8,
    oui: [u8; 3],
    method_mask: *const c_long,
) -> c_int {
    let mut request = Request {
        id: 0,
        method_mask: [0; 4],
        qpn: qpn(class),
        mgmt_class: class,
        mgmt_class_version: version,
        oui,
        rmpp_version,
    };
    if !method_mask.is_null() {
        // SAFETY: the caller passes 128 bits, aligned for longs or better.
        request.method_mask = unsafe { method_mask.cast::<[u32; 4]>().read_unaligned() };
    }
    match request.register(fd) {
        Ok(id) => {
            trace!("umad_register", "fd {fd} registered to use agent {id} qp {}", request.qpn);
            id as c_int
        }
        Err(errno) => {
            let error = std::io::Error::from_raw_os_error(errno);
            trace!("umad_register", "fd {fd} class 0x{class:x} version {version} failed: {error}");
            -EPERM
        }
    }
}

/// Registers an agent for a class. It receives unsolicited MADs of the methods in the mask (128 bits).
pub unsafe extern "C" fn umad_register(
    port_id: c_int,
    mgmt_class: c_int,
    mgmt_version: c_int,
    rmpp_version: u8,
    method_mask: *mut c_long,
) -> c_int {
    let oui = oui_bytes(OUI_OPENIB);
    // SAFETY: the caller passes null or 128 bits.
    unsafe { register(port_id, mgmt_class as u8, mgmt_version as u8, rmpp_version, oui, method_mask) }
}

/// Registers an agent for a vendor class with OUI.
pub unsafe extern "C" fn umad_register_oui(
    port_id: c_int,
    mgmt_class: c_int,
    rmpp_version: u8,
    oui: *mut u8,
    method_mask: *mut c_long,
) -> c_int {
    let Some(class) = u8::try_from(mgmt_class).ok().filter(|class| CLASSES_WITH_OUI.contains(class)) else {
        trace!("umad_register_oui", "class 0x{mgmt_class:x} has no OUI");
        return -EINVAL;
    };
    if oui.is_null() {
        return -EINVAL;
    }
    // SAFETY: the caller passes three bytes, and null or 128 bits.
    unsafe { register(port_id, class, 1, rmpp_version, oui.cast::<[u8; 3]>().read(), method_mask) }
}

/// Registers an agent with flags; returns an errno value, and the flags that the kernel supports.
pub unsafe extern "C" fn umad_register2(port_fd: c_int, attr: *mut umad_reg_attr, agent_id: *mut u32) -> c_int {
    // SAFETY: the caller passes null or a structure, and null or a place for the number.
    let (Some(attr), Some(agent_id)) = (unsafe { attr.as_mut() }, unsafe { agent_id.as_mut() }) else {
        return EINVAL;
    };
    if CLASSES_WITH_OUI.contains(&attr.mgmt_class) && (attr.oui == 0 || attr.oui > 0xff_ffff) {
        trace!("umad_register2", "class 0x{:x} needs an OUI of 24 bits", attr.mgmt_class);
        return EINVAL;
    }
    let mut request = Request2 {
        id: 0,
        qpn: u32::from(qpn(attr.mgmt_class)),
        mgmt_class: attr.mgmt_class,
        mgmt_class_version: attr.mgmt_class_version,
        reserved: 0,
        flags: attr.flags,
        method_mask: attr.method_mask,
        oui: attr.oui,
        rmpp_version: attr.rmpp_version,
        reserved2: [0; 3],
    };
    let mut result = request.register(port_fd);
    if let Err(ENOTTY | EINVAL) = result {
        // An old kernel knows no flags, and a new one leaves its known flags in `flags`.
        if attr.flags == 0 {
            result = request.without_flags().register(port_fd);
        }
        request.flags = 0;
    }
    match result {
        Ok(id) => {
            trace!("umad_register2", "fd {port_fd} registered to use agent {id} qp {}", request.qpn);
            *agent_id = id;
            0
        }
        Err(errno) => {
            attr.flags = request.flags;
            errno
        }
    }
}

/// Unregisters an agent.
pub extern "C" fn umad_unregister(port_id: c_int, agent_id: c_int) -> c_int {
    trace!("umad_unregister", "fd {port_id} unregistering agent {agent_id}");
    if let Some(opened) = virtual_host::opened(port_id) {
        return match opened.unregister(agent_id as u32) {
            Ok(()) => 0,
            Err(errno) => {
                set_errno(errno);
                -1
            }
        };
    }
    let mut id = agent_id as u32;
    // SAFETY: the ioctl reads four bytes.
    unsafe { libc::ioctl(port_id, UNREGISTER_AGENT, &raw mut id) }
}
