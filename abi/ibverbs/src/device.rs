//! Devices, and the list from which programs choose.

use libc::{c_char, c_int};
use std::cell::UnsafeCell;
use std::ptr::{null, null_mut};
use std::sync::{Mutex, PoisonError};
use weft_abi_types::{
    IBV_NODE_CA, IBV_NODE_RNIC, IBV_TRANSPORT_IB, IBV_TRANSPORT_IWARP, be64, ibv_device, verbs_device,
};
use weft_verbs::{DeviceAttr, DeviceId};

use crate::errors::fail_null;
use crate::object::{Object, zeroed};
use crate::process::Process;

/// A device. It is never freed: programs keep pointers to devices that they did not open, despite the manual page, and
/// a process sees few devices.
#[repr(C)]
pub(crate) struct Device {
    public: UnsafeCell<verbs_device>,
    pub(crate) id: DeviceId,
    node_guid: u64,
}

// SAFETY: repr(C), and ibv_device is the first field of verbs_device.
unsafe impl Object for Device {
    type Public = ibv_device;
}

// SAFETY: the public part is written before the device is shared, and only read afterwards.
unsafe impl Sync for Device {}

/// All devices seen so far.
static KNOWN: Mutex<Vec<&'static Device>> = Mutex::new(Vec::new());

/// Copies as much of `text` as fits, with a zero at the end.
fn copy_text(to: &mut [c_char], text: &str) {
    let room = to.len().saturating_sub(1);
    for (to, from) in to.iter_mut().zip(text.bytes().take(room)) {
        *to = from as c_char;
    }
}

impl Device {
    /// Creates a device. `number` is that of its node in /dev/infiniband, as `weft run` shows it: UCX and others check
    /// that the node exists.
    fn new(id: DeviceId, attr: &DeviceAttr, number: u32) -> Device {
        let mut v: verbs_device = zeroed();
        v.ops = null();
        v.refcount = 1;
        let d = &mut v.device;
        (d.node_type, d.transport_type) = match attr.is_iwarp {
            true => (IBV_NODE_RNIC, IBV_TRANSPORT_IWARP),
            false => (IBV_NODE_CA, IBV_TRANSPORT_IB),
        };
        copy_text(&mut d.name, &attr.name);
        copy_text(&mut d.dev_name, &format!("uverbs{number}"));
        copy_text(&mut d.dev_path, &format!("/sys/class/infiniband_verbs/uverbs{number}"));
        copy_text(&mut d.ibdev_path, &format!("/sys/class/infiniband/{}", attr.name));
        Device { public: UnsafeCell::new(v), id, node_guid: attr.node_guid }
    }

    fn name(&self) -> *const c_char {
        // SAFETY: only the address of a field is taken.
        unsafe { (&raw const (*self.public()).name).cast() }
    }

    fn is(&self, id: DeviceId, attr: &DeviceAttr) -> bool {
        // SAFETY: the name is zero-terminated, and is never written again.
        let name = unsafe { std::ffi::CStr::from_ptr(self.name()) };
        self.id == id && self.node_guid == attr.node_guid && name.to_bytes() == attr.name.as_bytes()
    }
}

/// Returns the object of a device: the one from earlier lists, or a new one.
fn object_of(id: DeviceId, attr: &DeviceAttr, number: u32) -> *mut ibv_device {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(device) = known.iter().find(|device| device.is(id, attr)) {
        return device.public();
    }
    let public = Device::new(id, attr, number).leak();
    // SAFETY: just leaked, so it lives for ever.
    known.push(unsafe { Device::of(public) });
    public
}

/// Returns the available devices, followed by a null.
pub unsafe extern "C" fn ibv_get_device_list(num_devices: *mut c_int) -> *mut *mut ibv_device {
    if !num_devices.is_null() {
        // SAFETY: the caller passes null or a place for the count.
        unsafe { *num_devices = 0 };
    }
    let devices = match Process::this().and_then(Process::devices) {
        Ok(devices) => devices,
        Err(errno) => return fail_null(errno),
    };
    let mut adapters = 0..;
    let numbered = devices.iter().map(|(id, attr)| {
        // A virtual host numbers its own adapters, whatever else is in the daemon.
        let number = if attr.fabric().is_some() { adapters.next() } else { None };
        object_of(*id, attr, number.unwrap_or(id.0))
    });
    let mut list: Vec<*mut ibv_device> = numbered.collect();
    let count = list.len();
    list.push(null_mut());
    if !num_devices.is_null() {
        // SAFETY: as above.
        unsafe { *num_devices = count as c_int };
    }
    Box::leak(list.into_boxed_slice()).as_mut_ptr()
}

/// Frees the list; the devices in it stay.
pub unsafe extern "C" fn ibv_free_device_list(list: *mut *mut ibv_device) {
    if list.is_null() {
        return;
    }
    let mut len = 1;
    // SAFETY: the list came from ibv_get_device_list: a boxed slice whose last element is its only null.
    unsafe {
        while !(*list.add(len - 1)).is_null() {
            len += 1;
        }
        drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(list, len)));
    }
}

/// Returns the device's name.
pub unsafe extern "C" fn ibv_get_device_name(device: *mut ibv_device) -> *const c_char {
    if device.is_null() {
        return fail_null(libc::EINVAL);
    }
    // SAFETY: a device of ours.
    unsafe { Device::of(device).name() }
}

/// Returns the node GUID, in network order.
pub unsafe extern "C" fn ibv_get_device_guid(device: *mut ibv_device) -> be64 {
    if device.is_null() {
        return 0;
    }
    // SAFETY: a device of ours.
    unsafe { Device::of(device).node_guid.to_be() }
}

/// Returns the index of the device on this machine.
pub unsafe extern "C" fn ibv_get_device_index(device: *mut ibv_device) -> c_int {
    if device.is_null() {
        return -1;
    }
    // SAFETY: a device of ours.
    unsafe { Device::of(device).id.0 as c_int }
}
