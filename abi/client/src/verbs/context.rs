//! An open device and its queries.

use std::any::Any;
use std::fmt;
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::rc::Rc;

use weft_abi_types::{
    IBV_GID_TYPE_ROCE_V2, IBV_TRANSPORT_IWARP, ibv_context, ibv_device_attr_ex, ibv_gid, ibv_gid_entry, ibv_port_attr,
    inlines,
};

use super::{Library, check};

/// An open device, shared by its clones; it closes with the last.
#[derive(Clone, Debug)]
pub struct Context(Rc<Inner>);

struct Inner {
    library: Library,
    ptr: *mut ibv_context,
    /// The owner of the open device, if another object opened it and will close it.
    opener: Option<Box<dyn Any>>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("ptr", &self.ptr).finish()
    }
}

/// A row of a GID table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GidRow {
    /// Row number.
    pub index: u32,
    /// The GID.
    pub gid: [u8; 16],
    /// `enum ibv_gid_type`, if the library can tell.
    pub gid_type: Option<u32>,
}

impl GidRow {
    /// Whether the row holds no address.
    pub fn is_empty(&self) -> bool {
        // A null GID may carry the link-local prefix.
        self.gid[8..] == [0; 8]
    }

    /// Whether packets with this GID are RoCE v2.
    pub fn is_roce_v2(&self) -> bool {
        self.gid_type == Some(IBV_GID_TYPE_ROCE_V2)
    }
}

impl Context {
    pub(super) fn from_open(library: Library, ptr: *mut ibv_context) -> Context {
        Context(Rc::new(Inner { library, ptr, opener: None }))
    }

    /// A device that stays open as long as `opener` exists.
    ///
    /// # Safety
    /// `opener` keeps the device open, and `library` opened it.
    pub(crate) unsafe fn from_opener(library: Library, ptr: *mut ibv_context, opener: Box<dyn Any>) -> Context {
        Context(Rc::new(Inner { library, ptr, opener: Some(opener) }))
    }

    pub(super) fn ptr(&self) -> *mut ibv_context {
        self.0.ptr
    }

    /// Whether both are the same open device: objects of one may be used with the other.
    pub fn is_same(&self, other: &Context) -> bool {
        self.0.ptr == other.0.ptr
    }

    /// The library that opened it.
    pub fn library(&self) -> Library {
        self.0.library
    }

    /// `ibv_context::num_comp_vectors`.
    pub fn num_comp_vectors(&self) -> i32 {
        // SAFETY: the context is open.
        unsafe { (*self.0.ptr).num_comp_vectors }
    }

    /// Whether the device speaks iWARP, where the target of a READ needs the right of remote WRITEs.
    pub fn is_iwarp(&self) -> bool {
        // SAFETY: the context is open, and its device lives as long.
        unsafe { (*(*self.0.ptr).device).transport_type == IBV_TRANSPORT_IWARP }
    }

    /// `ibv_query_device_ex`; with an old library, only the old fields are filled and the others are zero.
    pub fn query_device(&self) -> io::Result<ibv_device_attr_ex> {
        let mut attr = MaybeUninit::<ibv_device_attr_ex>::zeroed();
        // SAFETY: the context is open, and zeroes are a valid ibv_device_attr_ex, so it may be assumed initialised.
        unsafe {
            check(inlines::ibv_query_device_ex(
                self.0.library.verbs.ibv_query_device,
                self.0.ptr,
                std::ptr::null(),
                attr.as_mut_ptr(),
            ))?;
            Ok(attr.assume_init())
        }
    }

    /// `ibv_query_port`.
    pub fn query_port(&self, port: u8) -> io::Result<ibv_port_attr> {
        let mut attr = MaybeUninit::<ibv_port_attr>::zeroed();
        // SAFETY: as above.
        unsafe {
            check(inlines::ibv_query_port(self.0.library.verbs.ibv_query_port, self.0.ptr, port, attr.as_mut_ptr()))?;
            Ok(attr.assume_init())
        }
    }

    /// One row of the GID table of `port`, with its type if the library can tell.
    pub fn query_gid(&self, port: u8, index: u32) -> io::Result<GidRow> {
        if let Some(query) = self.0.library.verbs._ibv_query_gid_ex {
            let mut entry = MaybeUninit::<ibv_gid_entry>::zeroed();
            // SAFETY: the context is open, the entry has the size that is passed, and zeroes are valid in it.
            let entry = unsafe {
                let size = size_of::<ibv_gid_entry>();
                let rc = query(self.0.ptr, port.into(), index, entry.as_mut_ptr(), 0, size);
                (rc == 0).then(|| entry.assume_init())
            };
            if let Some(entry) = entry {
                // SAFETY: both members of the union are plain bytes.
                let gid = unsafe { entry.gid.raw };
                return Ok(GidRow { index, gid, gid_type: Some(entry.gid_type) });
            }
            // The extended call reports an empty row as an error; the plain one shows it as zeroes.
        }
        let mut gid = ibv_gid { raw: [0; 16] };
        let row = i32::try_from(index).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: the context is open and `gid` is a local variable to fill.
        unsafe {
            check((self.0.library.verbs.ibv_query_gid)(self.0.ptr, port, row, &mut gid))?;
            Ok(GidRow { index, gid: gid.raw, gid_type: None })
        }
    }

    /// The row to use by default: the first that is RoCE v2 and not link-local, or else the first with an address.
    /// `None` on InfiniBand, which needs no GID.
    pub fn default_gid(&self, port: u8) -> Option<GidRow> {
        let rows = u32::try_from(self.query_port(port).ok()?.gid_tbl_len).ok()?;
        let filled: Vec<GidRow> =
            (0..rows).filter_map(|index| self.query_gid(port, index).ok()).filter(|row| !row.is_empty()).collect();
        let routable = |row: &&GidRow| row.is_roce_v2() && row.gid[..2] != [0xfe, 0x80];
        filled.iter().find(routable).or(filled.first()).copied()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.opener.is_some() {
            return;
        }
        // SAFETY: every object made from the context held a clone of it, so nothing uses it any more. There is no
        // recovery from a failed close.
        unsafe { (self.library.verbs.ibv_close_device)(self.ptr) };
    }
}
