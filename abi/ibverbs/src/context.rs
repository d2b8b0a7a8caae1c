//! The context: an open device, with its events and the objects created on it.

use libc::c_int;
use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::mem::offset_of;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use weft_abi_types::{ibv_context, verbs_context};
use weft_engine::ContextId;
use weft_verbs::{DeviceAttr, DeviceId};

use crate::async_item::AsyncItem;
use crate::owned::Owned;
use crate::process::Process;
use crate::queue::EventQueue;

/// An open device.
#[repr(C)]
pub(crate) struct Context {
    public: UnsafeCell<verbs_context>,
    pub(crate) device: DeviceId,
    /// The engine in which its objects live.
    pub(crate) process: Process,
    /// Asynchronous events; `async_fd` is their descriptor.
    pub(crate) events: Arc<EventQueue<AsyncItem>>,
    /// `cmd_fd`: carries no commands, but programs may pass it around as a descriptor.
    _cmd_fd: OwnedFd,
    /// The engine's ID of the context.
    pub(crate) engine_id: OnceLock<ContextId>,
    /// The device at the time of opening, for a forked child, which cannot query it.
    pub(crate) at_open: OnceLock<DeviceAttr>,
    /// The remaining objects, and how often each was opened (XRC domains and their targets can be shared).
    owned: Mutex<BTreeMap<Owned, u32>>,
}

impl Context {
    /// Returns the context behind a pointer from the program.
    ///
    /// # Safety
    /// The pointer came from `ibv_open_device`, and the program has not closed the context.
    pub(crate) unsafe fn of<'a>(context: *mut ibv_context) -> &'a Context {
        // SAFETY: ibv_open_device returns the `context` field of the verbs_context at the start of a Context.
        unsafe { &*context.byte_sub(offset_of!(verbs_context, context)).cast::<Context>() }
    }

    /// Returns the public pointer.
    pub(crate) fn public(&self) -> *mut ibv_context {
        // SAFETY: only the address of a field is taken.
        unsafe { &raw mut (*self.public.get()).context }
    }

    /// Returns the context whose public pointer has this address.
    ///
    /// # Safety
    /// It is open.
    pub(crate) unsafe fn at<'a>(address: usize) -> &'a Context {
        // SAFETY: by the contract; the address was exposed when the context was opened.
        unsafe { Context::of(std::ptr::with_exposed_provenance_mut(address)) }
    }

    /// Creates a context that the engine does not know yet.
    pub(crate) fn new(
        public: verbs_context,
        device: DeviceId,
        process: Process,
        events: Arc<EventQueue<AsyncItem>>,
        cmd_fd: OwnedFd,
    ) -> Context {
        Context {
            public: UnsafeCell::new(public),
            device,
            process,
            events,
            _cmd_fd: cmd_fd,
            engine_id: OnceLock::new(),
            at_open: OnceLock::new(),
            owned: Mutex::default(),
        }
    }

    fn owned(&self) -> MutexGuard<'_, BTreeMap<Owned, u32>> {
        self.owned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the device's current attributes.
    pub(crate) fn device_attr(&self) -> Result<DeviceAttr, c_int> {
        match self.at_open.get() {
            Some(attr) if self.process.is_dead() => Ok(attr.clone()),
            _ => self.process.device(self.device),
        }
    }

    /// Takes the objects that the program left.
    pub(crate) fn take_owned(&self) -> BTreeMap<Owned, u32> {
        std::mem::take(&mut *self.owned())
    }

    /// Records a created object.
    pub(crate) fn own(&self, object: Owned) {
        *self.owned().entry(object).or_default() += 1;
    }

    /// Records a destroyed object.
    pub(crate) fn disown(&self, object: Owned) {
        let mut owned = self.owned();
        if let Some(count) = owned.get_mut(&object) {
            *count -= 1;
            if *count == 0 {
                owned.remove(&object);
            }
        }
    }
}

/// Refuses to create an object from parts of different contexts: closing a context destroys only its own objects. Null
/// stands for a missing part.
pub(crate) fn of_one(context: *mut ibv_context, parts: &[*mut ibv_context]) -> Result<(), c_int> {
    let foreign = parts.iter().any(|part| !part.is_null() && *part != context);
    if foreign { Err(libc::EINVAL) } else { Ok(()) }
}

/// Returns the contexts of parts, null for null parts; for [`of_one`]. Unsafe: the parts are null or objects of ours.
macro_rules! contexts_of {
    ($($part:expr),*) => {
        [$($part.as_ref().map_or(std::ptr::null_mut(), |part| part.context)),*]
    };
}
pub(crate) use contexts_of;
