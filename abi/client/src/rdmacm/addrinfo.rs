//! Names resolved by the connection manager: `rdma_getaddrinfo`.

use std::ffi::CString;
use std::mem::MaybeUninit;
use std::ptr::null;

use libc::c_int;
use weft_abi_types::{RAI_PASSIVE, rdma_addrinfo, rdma_port_space};

use super::{CmLibrary, LookupError, SockAddr};

/// The kind of address to resolve.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hints {
    /// `RAI_...`.
    pub flags: c_int,
    /// Address family, with `RAI_FAMILY`.
    pub family: c_int,
    /// `IBV_QPT_...`, 0 for any.
    pub qp_type: u32,
    /// Port space.
    pub port_space: rdma_port_space,
}

/// The first address found.
#[derive(Clone, Debug, Default)]
pub struct AddrInfo {
    /// The local address.
    pub src: Option<SockAddr>,
    /// The peer's address.
    pub dst: Option<SockAddr>,
    /// Private data for the connection.
    pub connect: Vec<u8>,
    /// Resolved paths, for `RDMA_ROUTE`.
    pub route: Vec<u8>,
}

impl AddrInfo {
    /// Resolves a peer's address, bound to the local address `src` if given; with `RAI_PASSIVE`, the address `src` to
    /// listen on.
    ///
    /// # Errors
    /// There is no such address.
    pub fn resolve(
        library: CmLibrary,
        src: Option<&str>,
        dst: Option<&str>,
        port: &str,
        hints: Hints,
    ) -> Result<AddrInfo, LookupError> {
        if hints.flags & RAI_PASSIVE != 0 {
            return AddrInfo::find(library, src, Some(port), hints, None);
        }
        let local = match src {
            Some(src) => {
                let hints = Hints { flags: hints.flags | RAI_PASSIVE, ..hints };
                AddrInfo::find(library, Some(src), None, hints, None)?.src
            }
            None => None,
        };
        AddrInfo::find(library, dst, Some(port), hints, local)
    }

    fn find(
        library: CmLibrary,
        node: Option<&str>,
        service: Option<&str>,
        hints: Hints,
        local: Option<SockAddr>,
    ) -> Result<AddrInfo, LookupError> {
        let c = |text: Option<&str>| text.map(CString::new).transpose().map_err(|_| LookupError(libc::EAI_NONAME));
        let (node, service) = (c(node)?, c(service)?);
        let ptr = |text: &Option<CString>| text.as_ref().map_or(null(), |text| text.as_ptr());
        // SAFETY: zeroes are a valid rdma_addrinfo; names are null or C strings; the list is freed once its first entry
        // was copied.
        unsafe {
            let mut raw: rdma_addrinfo = MaybeUninit::zeroed().assume_init();
            raw.ai_flags = hints.flags;
            raw.ai_family = hints.family;
            raw.ai_qp_type = hints.qp_type as c_int;
            raw.ai_port_space = hints.port_space as c_int;
            if let Some(local) = &local {
                raw.ai_src_addr = local.ptr();
                raw.ai_src_len = local.len();
            }
            let mut list = std::ptr::null_mut();
            match (library.calls.rdma_getaddrinfo)(ptr(&node), ptr(&service), &raw, &mut list) {
                0 if !list.is_null() => {}
                0 => return Err(LookupError(libc::EAI_NONAME)),
                error => return Err(LookupError(error)),
            }
            let first = AddrInfo::copy(&*list);
            (library.calls.rdma_freeaddrinfo)(list);
            Ok(first)
        }
    }

    /// # Safety
    /// The entry is from the library and not freed.
    unsafe fn copy(entry: &rdma_addrinfo) -> AddrInfo {
        // SAFETY: lengths say what lies at the pointers, or the pointers are null.
        unsafe {
            AddrInfo {
                src: SockAddr::copy(entry.ai_src_addr, entry.ai_src_len),
                dst: SockAddr::copy(entry.ai_dst_addr, entry.ai_dst_len),
                connect: bytes(entry.ai_connect.cast(), entry.ai_connect_len),
                route: bytes(entry.ai_route.cast(), entry.ai_route_len),
            }
        }
    }
}

/// # Safety
/// `at` is null or `len` bytes lie there.
unsafe fn bytes(at: *const u8, len: usize) -> Vec<u8> {
    if at.is_null() {
        return Vec::new();
    }
    // SAFETY: as the caller promises.
    unsafe { std::slice::from_raw_parts(at, len) }.to_vec()
}
