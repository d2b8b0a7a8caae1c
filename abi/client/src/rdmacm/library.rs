//! Selection and loading of the `librdmacm` that the tools use.

use std::ffi::CStr;
use std::fmt;

use anyhow::{Context as _, Result};
use weft_abi_types::rdma_cm_event_type;

use super::calls::{Calls, Loaded, RsocketCalls};
use super::socket::SocketCalls;
use crate::Which;
use crate::verbs::Library;

/// A loaded library, with its `libibverbs`. It is never unloaded, hence freely copied.
#[derive(Clone, Copy)]
pub struct CmLibrary {
    pub(super) calls: &'static Calls,
    rsocket: &'static RsocketCalls,
    verbs: Library,
}

impl CmLibrary {
    /// Loads a library.
    ///
    /// # Errors
    /// The library is missing, or is no librdmacm.
    pub fn load(which: Which) -> Result<CmLibrary> {
        // Loaded first, so that the loader finds it by name for librdmacm.
        let verbs = Library::load(which)?;
        let path = which.path("librdmacm.so.1")?;
        let hint = match which {
            Which::Ours => "without it no connection can be made; rebuild with `cargo build`",
            Which::System => "install the package librdmacm1, or leave --system out",
        };
        let loaded = Loaded::open(&path).context(hint)?;
        let calls = Box::leak(Box::new(Calls::find(&loaded).context(hint)?));
        let rsocket = Box::leak(Box::new(RsocketCalls::find(&loaded).context(hint)?));
        Ok(CmLibrary { calls, rsocket, verbs })
    }

    /// The `libibverbs` of its devices and queue pairs.
    pub fn verbs(&self) -> Library {
        self.verbs
    }

    /// Sockets over RDMA.
    pub fn sockets(&self) -> SocketCalls {
        SocketCalls::rsockets(self.rsocket)
    }

    /// The library's name of an event, `RDMA_CM_EVENT_...`.
    pub fn event_name(&self, kind: rdma_cm_event_type) -> String {
        // SAFETY: the call takes any number and returns a string that lives for good.
        let text = unsafe { CStr::from_ptr((self.calls.rdma_event_str)(kind)) };
        text.to_string_lossy().into_owned()
    }
}

impl fmt::Debug for CmLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CmLibrary")
    }
}
