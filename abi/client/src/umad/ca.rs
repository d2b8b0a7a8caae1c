//! Adapters and their ports, as the library reads them from sysfs or gets them from the daemon.

use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

use libc::{c_char, c_int};

use super::{Library, error_of, forget_error};
use weft_abi_types::{umad_ca, umad_port};

/// Maximum number of devices that are queried.
const CAS_MAX: usize = 64;

/// Maximum number of P_Keys that are copied; no port has more.
const PKEYS_MAX: usize = 1 << 16;

/// A copy of an adapter's attributes.
#[derive(Clone, Debug, Default)]
pub struct Ca {
    /// Name, such as `mlx5_0`.
    pub name: String,
    /// 1 for a channel adapter, 2 for a switch, 3 for a router.
    pub node_type: u32,
    /// Number of ports.
    pub ports_count: u32,
    /// Firmware version.
    pub fw_ver: String,
    /// The vendor's type name.
    pub ca_type: String,
    /// Hardware version.
    pub hw_ver: String,
    /// Node GUID as a number.
    pub node_guid: u64,
    /// System image GUID as a number.
    pub system_guid: u64,
    /// Ports in order of their numbers; a switch has port 0.
    pub ports: Vec<CaPort>,
}

/// A copy of a port's attributes.
#[derive(Clone, Debug, Default)]
pub struct CaPort {
    /// Name of the adapter.
    pub ca_name: String,
    /// Port number.
    pub number: u8,
    /// Base LID.
    pub base_lid: u16,
    /// LID mask control.
    pub lmc: u8,
    /// LID of the subnet manager.
    pub sm_lid: u16,
    /// Service level to the subnet manager.
    pub sm_sl: u8,
    /// PortState, with PortInfo's values.
    pub state: u32,
    /// PortPhysicalState, with PortInfo's values.
    pub phys_state: u32,
    /// Rate in Gb/s, rounded down.
    pub rate: u32,
    /// CapabilityMask.
    pub capability_mask: u32,
    /// Subnet prefix.
    pub gid_prefix: u64,
    /// Port GUID.
    pub port_guid: u64,
    /// P_Keys, 0 for an empty row.
    pub pkeys: Vec<u16>,
    /// `IB`, `InfiniBand` or `Ethernet`.
    pub link_layer: String,
}

impl CaPort {
    /// GID 0 of the port.
    pub fn gid(&self) -> [u8; 16] {
        ((u128::from(self.gid_prefix) << 64) | u128::from(self.port_guid)).to_be_bytes()
    }
}

impl Library {
    /// The names of all devices, sorted.
    ///
    /// # Errors
    /// The call's errno.
    pub fn ca_names(self) -> io::Result<Vec<String>> {
        forget_error();
        // SAFETY: the call takes no arguments and returns a list that this code owns until it frees it.
        let list = unsafe { (self.calls.umad_get_ca_device_list)() };
        if list.is_null() {
            return match io::Error::last_os_error() {
                error if error.raw_os_error().is_none_or(|errno| errno == 0) => Ok(Vec::new()),
                error => Err(error),
            };
        }
        let mut names = Vec::new();
        // SAFETY: each node is alive until the list is freed, and points to the next node or is the last.
        let mut node = unsafe { list.as_ref() };
        while let Some(this) = node.filter(|_| names.len() < CAS_MAX) {
            // SAFETY: the name is a C string that lives as long as its node.
            names.push(unsafe { CStr::from_ptr(this.ca_name) }.to_string_lossy().into_owned());
            // SAFETY: as above.
            node = unsafe { this.next.as_ref() };
        }
        // SAFETY: the list came from umad_get_ca_device_list and is freed once.
        unsafe { (self.calls.umad_free_ca_device_list)(list) };
        names.sort();
        Ok(names)
    }

    /// Port GUIDs of a device, indexed by port number from 0; 0 where there is no such port.
    ///
    /// # Errors
    /// The call's error.
    pub fn port_guids(self, ca: &str) -> io::Result<Vec<u64>> {
        let name = CString::new(ca)?;
        let mut guids = [0u64; CAS_MAX];
        forget_error();
        // SAFETY: a C string, and an array with room for as many GUIDs as its length says.
        let count = unsafe { (self.calls.umad_get_ca_portguids)(name.as_ptr(), guids.as_mut_ptr(), CAS_MAX as c_int) };
        let count = usize::try_from(count).map_err(|_| error_of(count))?;
        Ok(guids.iter().take(count).map(|guid| u64::from_be(*guid)).collect())
    }

    /// Queries a device and its ports.
    ///
    /// # Errors
    /// No device has this name, or it cannot be read.
    pub fn ca(self, name: &str) -> io::Result<Ca> {
        let name = CString::new(name)?;
        let mut raw = MaybeUninit::<umad_ca>::zeroed();
        forget_error();
        // SAFETY: a C string, and a structure for the call to fill.
        let rc = unsafe { (self.calls.umad_get_ca)(name.as_ptr(), raw.as_mut_ptr()) };
        if rc < 0 {
            return Err(error_of(rc));
        }
        // SAFETY: all zeroes is a valid umad_ca, and the call has filled it.
        let raw = unsafe { raw.assume_init_mut() };
        let ca = copy_ca(raw);
        // SAFETY: the structure came from umad_get_ca and is released once.
        unsafe { (self.calls.umad_release_ca)(raw) };
        Ok(ca)
    }

    /// Queries a port: of the named device or of any; with this number or (0) the first active one.
    ///
    /// # Errors
    /// There is no such port, or it cannot be read.
    pub fn port(self, ca: Option<&str>, number: i32) -> io::Result<CaPort> {
        let name = ca.map(CString::new).transpose()?;
        let mut raw = MaybeUninit::<umad_port>::zeroed();
        forget_error();
        // SAFETY: null or a C string, and a structure for the call to fill.
        let rc = unsafe {
            (self.calls.umad_get_port)(name.as_ref().map_or(ptr::null(), |n| n.as_ptr()), number, raw.as_mut_ptr())
        };
        if rc < 0 {
            return Err(error_of(rc));
        }
        // SAFETY: all zeroes is a valid umad_port, and the call has filled it.
        let raw = unsafe { raw.assume_init_mut() };
        let port = copy_port(raw);
        // SAFETY: the structure came from umad_get_port and is released once.
        unsafe { (self.calls.umad_release_port)(raw) };
        Ok(port)
    }
}

fn copy_ca(raw: &umad_ca) -> Ca {
    // SAFETY: each pointer is null or a port that lives until the structure is released.
    let ports = raw.ports.iter().filter_map(|&port| unsafe { port.as_ref() });
    Ca {
        name: text(&raw.ca_name),
        node_type: raw.node_type,
        ports_count: u32::try_from(raw.numports).unwrap_or(0),
        fw_ver: text(&raw.fw_ver),
        ca_type: text(&raw.ca_type),
        hw_ver: text(&raw.hw_ver),
        node_guid: u64::from_be(raw.node_guid),
        system_guid: u64::from_be(raw.system_guid),
        ports: ports.map(copy_port).collect(),
    }
}

fn copy_port(raw: &umad_port) -> CaPort {
    CaPort {
        ca_name: text(&raw.ca_name),
        number: u8::try_from(raw.portnum).unwrap_or(0),
        base_lid: raw.base_lid as u16,
        lmc: raw.lmc as u8,
        sm_lid: raw.sm_lid as u16,
        sm_sl: raw.sm_sl as u8,
        state: raw.state,
        phys_state: raw.phys_state,
        rate: raw.rate,
        capability_mask: u32::from_be(raw.capmask),
        gid_prefix: u64::from_be(raw.gid_prefix),
        port_guid: u64::from_be(raw.port_guid),
        pkeys: pkeys(raw),
        link_layer: text(&raw.link_layer),
    }
}

/// The P_Key table, up to its first [`PKEYS_MAX`] rows.
fn pkeys(raw: &umad_port) -> Vec<u16> {
    if raw.pkeys.is_null() {
        return Vec::new();
    }
    let count = (raw.pkeys_size as usize).min(PKEYS_MAX);
    // SAFETY: the library made a table of this size, in host byte order, which lives until the port is released.
    unsafe { std::slice::from_raw_parts(raw.pkeys, count) }.to_vec()
}

/// The text in an array, up to a NUL or the end of the array.
fn text(array: &[c_char]) -> String {
    let bytes: Vec<u8> = array.iter().map(|&c| c as u8).collect();
    let text = CStr::from_bytes_until_nul(&bytes).map_or(bytes.as_slice(), CStr::to_bytes);
    // Control characters would reach the terminal.
    let tame = |c: char| if c.is_control() && !matches!(c, '\n' | '\t') { ' ' } else { c };
    String::from_utf8_lossy(text).chars().map(tame).collect()
}
