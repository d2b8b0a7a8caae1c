//! Devices: each is opened once for all identifiers of the process, with one protection domain for identifiers without
//! their own. A context stays open for good; the domains are freed with the last identifier.

use libc::{c_int, c_void};
use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::Arc;
use weft_abi_types::inlines::{ibv_close_xrcd, ibv_open_xrcd};
use weft_abi_types::{
    IBV_XRCD_INIT_ATTR_FD, IBV_XRCD_INIT_ATTR_OFLAGS, ibv_context, ibv_device, ibv_device_attr, ibv_pd, ibv_xrcd,
    ibv_xrcd_init_attr,
};
use weft_cm::rdma_cm::DeviceRef;

use crate::errors::{fail_null, made, verbs};
use crate::verbs::{
    ibv_alloc_pd, ibv_close_device, ibv_dealloc_pd, ibv_free_device_list, ibv_get_device_guid, ibv_get_device_index,
    ibv_get_device_list, ibv_open_device, ibv_query_device,
};

/// A device that an identifier of the process uses or used.
pub(crate) struct Device {
    device: *mut ibv_device,
    pub(crate) verbs: *mut ibv_context,
    /// READs and atomics that a queue pair may have outstanding.
    pub(crate) max_initiator_depth: u8,
    /// READs and atomics that a queue pair accepts at the same time.
    pub(crate) max_responder_resources: u8,
    shared: Mutex<Shared>,
}

/// Objects shared by identifiers without their own.
struct Shared {
    users: usize,
    pd: *mut ibv_pd,
    xrcd: *mut ibv_xrcd,
}

// SAFETY: the pointers name verbs objects, which any thread may use.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

/// The open devices, and the process that opened them: a child of fork opens its own.
struct Opened {
    process: u32,
    devices: Vec<Arc<Device>>,
}

static OPENED: Mutex<Opened> = Mutex::new(Opened { process: 0, devices: Vec::new() });

/// Returns the devices opened by this process.
fn opened() -> MappedMutexGuard<'static, Vec<Arc<Device>>> {
    let mut opened = OPENED.lock();
    let process = std::process::id();
    if opened.process != process {
        opened.process = process;
        // The parent's contexts are useless here, and not ours to close.
        opened.devices.clear();
    }
    MutexGuard::map(opened, |opened| &mut opened.devices)
}

/// The device list of verbs, freed on drop.
struct List(*mut *mut ibv_device, usize);

impl List {
    fn new() -> Result<List, c_int> {
        let mut count = 0;
        // SAFETY: a place for the count.
        let list = unsafe { ibv_get_device_list(&mut count) };
        if list.is_null() { Err(libc::ENODEV) } else { Ok(List(list, usize::try_from(count).unwrap_or(0))) }
    }

    fn devices(&self) -> &[*mut ibv_device] {
        // SAFETY: the list has as many devices as verbs counted.
        unsafe { std::slice::from_raw_parts(self.0, self.1) }
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: made by ibv_get_device_list. Devices outlive their list.
        unsafe { ibv_free_device_list(self.0) };
    }
}

/// Fails with ENODEV if there are no devices, as every call that starts something does.
pub(crate) fn present() -> Result<(), c_int> {
    if !opened().is_empty() {
        return Ok(());
    }
    if List::new()?.devices().is_empty() { Err(libc::ENODEV) } else { Ok(()) }
}

/// Opens the daemon's device if necessary, and counts one more user: see [`Device::release`].
pub(crate) fn acquire(wanted: &DeviceRef) -> Result<Arc<Device>, c_int> {
    let mut opened = opened();
    let is_wanted = |device: *mut ibv_device| {
        // SAFETY: a device of verbs; they are never freed.
        let (index, guid) = unsafe { (ibv_get_device_index(device), ibv_get_device_guid(device)) };
        u32::try_from(index) == Ok(wanted.index) && u64::from_be(guid) == wanted.node_guid
    };
    let device = match opened.iter().find(|device| is_wanted(device.device)) {
        Some(device) => device.clone(),
        None => {
            let list = List::new()?;
            let found = list.devices().iter().copied().find(|device| is_wanted(*device)).ok_or(libc::ENODEV)?;
            open(&mut opened, found)?
        }
    };
    device.use_once()?;
    Ok(device)
}

/// Returns a device that is already open, or opens it.
fn open(opened: &mut Vec<Arc<Device>>, device: *mut ibv_device) -> Result<Arc<Device>, c_int> {
    if let Some(known) = opened.iter().find(|known| known.device == device) {
        return Ok(known.clone());
    }
    // SAFETY: a device of verbs.
    let verbs_context = unsafe { made(ibv_open_device(device))? };
    let mut attr = MaybeUninit::<ibv_device_attr>::zeroed();
    // SAFETY: an open context, and a place for the attributes, which are plain numbers.
    let attr = unsafe {
        if let Err(errno) = verbs(ibv_query_device(verbs_context, attr.as_mut_ptr())) {
            ibv_close_device(verbs_context);
            return Err(errno);
        }
        attr.assume_init()
    };
    let new = Arc::new(Device {
        device,
        verbs: verbs_context,
        max_initiator_depth: u8::try_from(attr.max_qp_init_rd_atom).unwrap_or(u8::MAX),
        max_responder_resources: u8::try_from(attr.max_qp_rd_atom).unwrap_or(u8::MAX),
        shared: Mutex::new(Shared { users: 0, pd: null_mut(), xrcd: null_mut() }),
    });
    opened.push(new.clone());
    Ok(new)
}

impl Device {
    /// Counts one more identifier; creates the protection domain for the first one.
    fn use_once(&self) -> Result<(), c_int> {
        let mut shared = self.shared.lock();
        if shared.pd.is_null() {
            // SAFETY: an open context.
            shared.pd = unsafe { made(ibv_alloc_pd(self.verbs))? };
        }
        shared.users += 1;
        Ok(())
    }

    /// Counts one identifier less; frees the shared domains with the last one.
    pub(crate) fn release(&self) {
        let mut shared = self.shared.lock();
        shared.users = shared.users.saturating_sub(1);
        if shared.users > 0 {
            return;
        }
        // SAFETY: objects created here; verbs refuses if a program still uses them, and then they stay for later.
        unsafe {
            if !shared.xrcd.is_null() && ibv_close_xrcd(shared.xrcd) == 0 {
                shared.xrcd = null_mut();
            }
            if !shared.pd.is_null() && ibv_dealloc_pd(shared.pd) == 0 {
                shared.pd = null_mut();
            }
        }
    }

    /// Returns the protection domain for identifiers without their own.
    pub(crate) fn pd(&self) -> *mut ibv_pd {
        self.shared.lock().pd
    }

    /// Returns the XRC domain for identifiers without their own.
    pub(crate) fn xrcd(&self) -> Result<*mut ibv_xrcd, c_int> {
        let mut shared = self.shared.lock();
        if shared.xrcd.is_null() {
            let comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
            let mut attr = ibv_xrcd_init_attr { comp_mask, fd: -1, oflags: libc::O_CREAT };
            // SAFETY: an open context, and attributes that live through the call.
            shared.xrcd = unsafe { made(ibv_open_xrcd(self.verbs, &mut attr))? };
        }
        Ok(shared.xrcd)
    }
}

/// Returns every device that can be opened.
pub(crate) fn open_all() -> Result<Vec<Arc<Device>>, c_int> {
    let list = List::new()?;
    if list.devices().is_empty() {
        return Err(libc::ENODEV);
    }
    let mut opened = opened();
    Ok(list.devices().iter().filter_map(|device| open(&mut opened, *device).ok()).collect())
}

/// Returns the contexts that identifiers use, followed by a null.
pub unsafe extern "C" fn rdma_get_devices(num_devices: *mut c_int) -> *mut *mut ibv_context {
    let list = open_all().and_then(|devices| {
        // SAFETY: memory from malloc, freed by rdma_free_devices, or by free(3) in a careless program.
        let list: *mut *mut ibv_context =
            unsafe { made(libc::calloc(devices.len() + 1, size_of::<*mut c_void>()))?.cast() };
        for (i, device) in devices.iter().enumerate() {
            // SAFETY: there is room for all of them and a null.
            unsafe { list.add(i).write(device.verbs) };
        }
        Ok((list, devices.len()))
    });
    if !num_devices.is_null() {
        // SAFETY: the caller passes null or a place for the count.
        unsafe { *num_devices = list.map_or(0, |(_, count)| count as c_int) };
    }
    match list {
        Ok((list, _)) => list,
        Err(errno) => fail_null(errno),
    }
}

/// Frees the list; the contexts stay open.
pub unsafe extern "C" fn rdma_free_devices(list: *mut *mut ibv_context) {
    // SAFETY: from rdma_get_devices, or null.
    unsafe { libc::free(list.cast()) };
}
