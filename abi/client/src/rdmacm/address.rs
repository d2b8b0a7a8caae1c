//! Socket addresses of any family, and name lookup.

use std::ffi::{CStr, CString};
use std::fmt;
use std::mem::{MaybeUninit, offset_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use libc::{c_int, sockaddr, sockaddr_in, sockaddr_in6, sockaddr_storage, socklen_t};
use weft_abi_types::{AF_IB, sockaddr_ib};

/// A `struct sockaddr` of any family.
#[derive(Clone, Copy)]
pub struct SockAddr {
    storage: sockaddr_storage,
    len: socklen_t,
}

impl SockAddr {
    /// 0.0.0.0, port 0.
    pub fn any_v4() -> SockAddr {
        SockAddr::from_bytes(libc::AF_INET, &[])
    }

    /// An InfiniBand address with only a GID.
    pub fn ib(gid: [u8; 16]) -> SockAddr {
        let mut bytes = [0; size_of::<sockaddr_ib>()];
        let at = offset_of!(sockaddr_ib, sib_addr);
        bytes[at..at + gid.len()].copy_from_slice(&gid);
        SockAddr::from_bytes(AF_IB, &bytes[size_of::<u16>()..])
    }

    /// A service on InfiniBand: the P_Key of the path (0: the port's first), the GID (zeros: any of this host), and the
    /// service identifier, all of whose bits count.
    pub fn ib_service(pkey: u16, gid: [u8; 16], service_id: u64) -> SockAddr {
        let mut bytes = [0; size_of::<sockaddr_ib>()];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(offset_of!(sockaddr_ib, sib_pkey), &pkey.to_be_bytes());
        put(offset_of!(sockaddr_ib, sib_addr), &gid);
        put(offset_of!(sockaddr_ib, sib_sid), &service_id.to_be_bytes());
        put(offset_of!(sockaddr_ib, sib_sid_mask), &u64::MAX.to_be_bytes());
        SockAddr::from_bytes(AF_IB, &bytes[size_of::<u16>()..])
    }

    /// An address of this family, with `rest` after the family field.
    fn from_bytes(family: c_int, rest: &[u8]) -> SockAddr {
        // SAFETY: zeroes are a valid sockaddr_storage.
        let mut storage: sockaddr_storage = unsafe { MaybeUninit::zeroed().assume_init() };
        storage.ss_family = family as libc::sa_family_t;
        let at = size_of::<libc::sa_family_t>();
        let room = size_of::<sockaddr_storage>() - at;
        // SAFETY: within the storage, which is plain bytes.
        unsafe {
            let to = (&raw mut storage).cast::<u8>().add(at);
            std::ptr::copy_nonoverlapping(rest.as_ptr(), to, rest.len().min(room));
        }
        SockAddr { storage, len: len_of(family).unwrap_or(size_of::<sockaddr_storage>() as socklen_t) }
    }

    /// Copies the address at `addr`; `None` if that is null.
    ///
    /// # Safety
    /// `addr` is null or a complete address of `len` bytes.
    pub(super) unsafe fn copy(addr: *const sockaddr, len: socklen_t) -> Option<SockAddr> {
        if addr.is_null() {
            return None;
        }
        // SAFETY: as the caller promises; no more than fits is copied.
        unsafe {
            let mut storage: sockaddr_storage = MaybeUninit::zeroed().assume_init();
            let len = (len as usize).min(size_of::<sockaddr_storage>());
            std::ptr::copy_nonoverlapping(addr.cast::<u8>(), (&raw mut storage).cast(), len);
            Some(SockAddr { storage, len: len as socklen_t })
        }
    }

    /// Copies the address at `addr` with the length of its family; `None` if it has none.
    ///
    /// # Safety
    /// `addr` is an address with room for any family.
    pub(super) unsafe fn copy_any(addr: *const sockaddr) -> Option<SockAddr> {
        // SAFETY: as the caller promises.
        unsafe { SockAddr::copy(addr, len_of((*addr).sa_family.into())?) }
    }

    /// The address without the port, if it is an IP address.
    pub fn ip(&self) -> Option<IpAddr> {
        let at = self.ptr().cast::<u8>();
        // SAFETY: as many bytes as each family has lie within the storage.
        unsafe {
            match self.family() {
                libc::AF_INET => Some(IpAddr::V4(u32::from_be(at.cast::<sockaddr_in>().read().sin_addr.s_addr).into())),
                libc::AF_INET6 => Some(IpAddr::V6(at.cast::<sockaddr_in6>().read().sin6_addr.s6_addr.into())),
                _ => None,
            }
        }
    }

    /// The GID, if it is an InfiniBand address.
    pub fn gid(&self) -> Option<[u8; 16]> {
        let at = self.ptr().cast::<u8>();
        // SAFETY: the GID lies within the storage, which is plain bytes.
        (self.family() == AF_IB).then(|| unsafe { at.add(offset_of!(sockaddr_ib, sib_addr)).cast::<[u8; 16]>().read() })
    }

    /// `AF_INET`, `AF_INET6`, `AF_IB` ...
    pub fn family(&self) -> c_int {
        self.storage.ss_family.into()
    }

    /// The same address with another port (IPv4 and IPv6; others stay).
    pub fn with_port(mut self, port: u16) -> SockAddr {
        let at = (&raw mut self.storage).cast::<u8>();
        let offset = match self.family() {
            libc::AF_INET => offset_of!(sockaddr_in, sin_port),
            libc::AF_INET6 => offset_of!(sockaddr_in6, sin6_port),
            _ => return self,
        };
        // SAFETY: the port lies within the storage.
        unsafe { at.add(offset).cast::<u16>().write_unaligned(port.to_be()) };
        self
    }

    pub(super) fn len(&self) -> socklen_t {
        self.len
    }

    pub(super) fn ptr(&self) -> *mut sockaddr {
        // The calls take mutable pointers by convention, and do not write.
        (&raw const self.storage).cast_mut().cast()
    }
}

fn len_of(family: c_int) -> Option<socklen_t> {
    let len = match family {
        libc::AF_INET => size_of::<sockaddr_in>(),
        libc::AF_INET6 => size_of::<sockaddr_in6>(),
        AF_IB => size_of::<sockaddr_ib>(),
        _ => return None,
    };
    Some(len as socklen_t)
}

impl fmt::Debug for SockAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.ptr().cast::<u8>();
        // SAFETY: as many bytes as each family has lie within the storage.
        unsafe {
            match self.family() {
                libc::AF_INET => {
                    let sin = at.cast::<sockaddr_in>().read();
                    let (addr, port) = (Ipv4Addr::from(u32::from_be(sin.sin_addr.s_addr)), u16::from_be(sin.sin_port));
                    write!(f, "{addr}:{port}")
                }
                libc::AF_INET6 => {
                    let sin6 = at.cast::<sockaddr_in6>().read();
                    let (addr, port) = (Ipv6Addr::from(sin6.sin6_addr.s6_addr), u16::from_be(sin6.sin6_port));
                    write!(f, "[{addr}]:{port}")
                }
                family => write!(f, "an address of family {family}"),
            }
        }
    }
}

/// The reason for a failed lookup: the return value of `getaddrinfo`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LookupError(pub c_int);

impl fmt::Display for LookupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: the call takes any number and returns a string that lives for good.
        let text = unsafe { CStr::from_ptr(libc::gai_strerror(self.0)) };
        f.write_str(&text.to_string_lossy())
    }
}

/// Looks up the first stream socket address of a name and port; flags are `AI_...`. Without a name, the result is the
/// wildcard address to listen on (`AI_PASSIVE`) or loopback.
///
/// # Errors
/// The name or the port is unknown.
pub fn lookup(node: Option<&str>, port: Option<&str>, flags: c_int) -> Result<SockAddr, LookupError> {
    let c = |text: Option<&str>| text.map(CString::new).transpose().map_err(|_| LookupError(libc::EAI_NONAME));
    let (node, service) = (c(node)?, c(port)?);
    let ptr = |text: &Option<CString>| text.as_ref().map_or(std::ptr::null(), |text| text.as_ptr());
    // SAFETY: zeroes are a valid addrinfo; names are null or C strings; the list is freed after its first address was
    // copied.
    unsafe {
        let mut hints: libc::addrinfo = MaybeUninit::zeroed().assume_init();
        hints.ai_flags = flags;
        if service.is_some() {
            hints.ai_socktype = libc::SOCK_STREAM;
        }
        let mut list = std::ptr::null_mut();
        match libc::getaddrinfo(ptr(&node), ptr(&service), &hints, &mut list) {
            0 => {}
            error => return Err(LookupError(error)),
        }
        let first = SockAddr::copy((*list).ai_addr, (*list).ai_addrlen);
        libc::freeaddrinfo(list);
        first.ok_or(LookupError(libc::EAI_NONAME))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_looked_up_without_asking_anybody() {
        let v4 = lookup(Some("127.0.0.1"), None, libc::AI_NUMERICHOST).unwrap();
        assert_eq!(format!("{:?}", v4.with_port(7174)), "127.0.0.1:7174");
        let v6 = lookup(Some("::1"), Some("7471"), libc::AI_NUMERICHOST).unwrap();
        assert_eq!((format!("{v6:?}"), v6.family()), ("[::1]:7471".to_owned(), libc::AF_INET6));
        assert_eq!(format!("{:?}", SockAddr::any_v4()), "0.0.0.0:0");
        let error = lookup(Some("no number"), None, libc::AI_NUMERICHOST).unwrap_err();
        assert_eq!(error.to_string(), "Name or service not known");
    }

    #[test]
    fn an_infiniband_address_is_its_gid() {
        let gid = std::array::from_fn(|i| i as u8);
        let addr = SockAddr::ib(gid);
        assert_eq!((addr.family(), addr.len() as usize), (AF_IB, size_of::<sockaddr_ib>()));
        assert_eq!(addr.gid(), Some(gid));
        let addr = SockAddr::ib_service(0xffff, gid, 0x013f_15b3);
        // SAFETY: the storage is larger than a sockaddr_ib and aligned as one.
        let raw = unsafe { addr.ptr().cast::<sockaddr_ib>().read() };
        assert_eq!((raw.sib_addr, u64::from_be(raw.sib_sid), raw.sib_sid_mask), (gid, 0x013f_15b3, u64::MAX));
        assert_eq!((raw.sib_pkey, SockAddr::any_v4().gid()), (0xffff, None));
    }
}
