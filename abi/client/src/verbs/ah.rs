//! Address vectors and address handles.

use std::io;
use std::rc::Rc;

use weft_abi_types::{ibv_ah, ibv_ah_attr, ibv_gid, ibv_global_route, ibv_grh};

use super::{Buffer, Pd, Wc, check_ptr};

/// An address vector, as in `struct ibv_ah_attr`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Path {
    /// Destination LID (InfiniBand).
    pub dlid: u16,
    /// Service level.
    pub sl: u8,
    /// Local port number.
    pub port_num: u8,
    /// The peer's GID and the row of the local GID, if packets carry a GRH (always on RoCE).
    pub gid: Option<([u8; 16], u8)>,
    /// Hop limit in the GRH.
    pub hop_limit: u8,
}

impl Path {
    /// The C structure.
    pub fn raw(&self) -> ibv_ah_attr {
        let (dgid, sgid_index) = self.gid.unwrap_or_default();
        ibv_ah_attr {
            grh: ibv_global_route {
                dgid: ibv_gid { raw: dgid },
                flow_label: 0,
                sgid_index,
                hop_limit: self.hop_limit,
                traffic_class: 0,
            },
            dlid: self.dlid,
            sl: self.sl,
            src_path_bits: 0,
            static_rate: 0,
            is_global: u8::from(self.gid.is_some()),
            port_num: self.port_num,
        }
    }
}

/// An address handle, shared by its clones.
#[derive(Clone, Debug)]
pub struct Ah(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    pd: Pd,
    ptr: *mut ibv_ah,
}

impl Ah {
    /// Creates an address handle.
    pub fn new(pd: &Pd, path: &Path) -> io::Result<Ah> {
        Ah::from_attr(pd, path.raw())
    }

    /// Creates an address handle from attributes in verbs' form, for example from an event of the connection manager.
    pub fn from_attr(pd: &Pd, mut attr: ibv_ah_attr) -> io::Result<Ah> {
        // SAFETY: the domain is alive and the attributes are complete.
        let ptr = check_ptr(unsafe { (pd.context().library().verbs.ibv_create_ah)(pd.ptr(), &mut attr) })?;
        Ok(Ah(Rc::new(Inner { pd: pd.clone(), ptr })))
    }

    /// Creates an address handle back to the sender of a datagram: `wc` is its completion, and `buffer` starts with its
    /// GRH.
    ///
    /// # Panics
    /// The buffer has no room for a GRH.
    pub fn from_wc(pd: &Pd, wc: &Wc, buffer: &Buffer, port_num: u8) -> io::Result<Ah> {
        assert!(buffer.len() >= size_of::<ibv_grh>(), "a buffer of {} bytes holds no GRH", buffer.len());
        let (mut wc, grh) = (*wc.raw(), buffer.addr() as *mut ibv_grh);
        let create = pd.context().library().verbs.ibv_create_ah_from_wc;
        // SAFETY: domain and buffer are alive, the buffer holds a GRH and is aligned to a page.
        let ptr = check_ptr(unsafe { create(pd.ptr(), &mut wc, grh, port_num) })?;
        Ok(Ah(Rc::new(Inner { pd: pd.clone(), ptr })))
    }

    pub(super) fn ptr(&self) -> *mut ibv_ah {
        self.0.ptr
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: unposted work requests held a clone (SendChain); posted ones have copied what they need.
        unsafe { (self.pd.context().library().verbs.ibv_destroy_ah)(self.ptr) };
    }
}
