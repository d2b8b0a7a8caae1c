//! The list of devices.

use std::ffi::CStr;
use std::io;
use std::path::PathBuf;

use weft_abi_types::{ibv_device, ibv_transport_type};

use super::{Context, Library, check_ptr};

/// All devices that the library found. Freed when dropped; open devices outlive the list.
#[derive(Debug)]
pub struct DeviceList {
    library: Library,
    list: *mut *mut ibv_device,
    len: usize,
}

/// One device of a list.
#[derive(Clone, Copy, Debug)]
pub struct Device<'a> {
    list: &'a DeviceList,
    ptr: *mut ibv_device,
}

impl DeviceList {
    /// Queries the library's devices.
    ///
    /// # Errors
    /// The errno of `ibv_get_device_list`.
    pub fn new(library: Library) -> io::Result<DeviceList> {
        let mut count = 0;
        // SAFETY: the call writes one number and returns an array of that many pointers, or null.
        let list = check_ptr(unsafe { (library.verbs.ibv_get_device_list)(&mut count) })?;
        Ok(DeviceList { library, list, len: usize::try_from(count).unwrap_or(0) })
    }

    /// The devices in the library's order.
    pub fn iter(&self) -> impl Iterator<Item = Device<'_>> {
        (0..self.len).map(move |i| Device {
            list: self,
            // SAFETY: i is below the length that came with the array, which lives until self is dropped.
            ptr: unsafe { *self.list.add(i) },
        })
    }

    /// The device with this name, or the first one.
    pub fn find(&self, name: Option<&str>) -> Option<Device<'_>> {
        self.iter().find(|d| name.is_none_or(|n| d.name() == n))
    }
}

impl Drop for DeviceList {
    fn drop(&mut self) {
        // SAFETY: the list came from ibv_get_device_list of this library and is freed once.
        unsafe { (self.library.verbs.ibv_free_device_list)(self.list) };
    }
}

impl Device<'_> {
    fn raw(&self) -> &ibv_device {
        // SAFETY: devices live as long as their list, and their public part does not change.
        unsafe { &*self.ptr }
    }

    /// Name, such as `rxe0`.
    pub fn name(&self) -> String {
        // SAFETY: the name is an array within the device, ended by a zero.
        let name = unsafe { CStr::from_ptr((self.list.library.verbs.ibv_get_device_name)(self.ptr)) };
        name.to_string_lossy().into_owned()
    }

    /// Node GUID as a number.
    pub fn guid(&self) -> u64 {
        // SAFETY: the device belongs to the list, which is alive.
        u64::from_be(unsafe { (self.list.library.verbs.ibv_get_device_guid)(self.ptr) })
    }

    /// Transport type: InfiniBand (and RoCE), iWARP ...
    pub fn transport_type(&self) -> ibv_transport_type {
        self.raw().transport_type
    }

    /// Directory in sysfs, or the library's substitute for one.
    pub fn sysfs_path(&self) -> PathBuf {
        let bytes: Vec<u8> = self.raw().ibdev_path.iter().take_while(|&&c| c != 0).map(|&c| c as u8).collect();
        PathBuf::from(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Opens the device.
    ///
    /// # Errors
    /// The errno of `ibv_open_device`.
    pub fn open(&self) -> io::Result<Context> {
        // SAFETY: the device is alive, because its list is.
        let ptr = check_ptr(unsafe { (self.list.library.verbs.ibv_open_device)(self.ptr) })?;
        Ok(Context::from_open(self.list.library, ptr))
    }
}
