//! Socket addresses between C and the connection manager.

use libc::{AF_INET, AF_INET6, c_int, sockaddr, sockaddr_in, sockaddr_in6, sockaddr_storage, socklen_t};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use weft_abi_types::{AF_IB, sockaddr_ib};

/// A C socket address of any family.
#[derive(Clone, Copy)]
pub(crate) struct Address(sockaddr_storage);

impl Address {
    /// Creates an address with nothing but a family.
    pub(crate) fn of_family(family: c_int) -> Address {
        // SAFETY: a structure of plain numbers, for which zero is a value.
        let mut storage: sockaddr_storage = unsafe { std::mem::zeroed() };
        storage.ss_family = family as libc::sa_family_t;
        Address(storage)
    }

    /// Copies a program's address of the stated length; EINVAL for null, and for one that is too short for its family.
    ///
    /// # Safety
    /// `addr` is null or has `length` bytes.
    pub(crate) unsafe fn read(addr: *const sockaddr, length: socklen_t) -> Result<Address, c_int> {
        let mut address = Address::of_family(0);
        let length = (length as usize).min(size_of::<sockaddr_storage>());
        if addr.is_null() || length < size_of::<libc::sa_family_t>() {
            return Err(libc::EINVAL);
        }
        // SAFETY: the caller's bytes, no more than the storage holds.
        unsafe { (&raw mut address.0).cast::<u8>().copy_from_nonoverlapping(addr.cast(), length) };
        if length < address.needed() as usize { Err(libc::EINVAL) } else { Ok(address) }
    }

    /// Copies an address of the connection manager.
    ///
    /// # Safety
    /// `addr` points to as many bytes as a `sockaddr_storage` has.
    pub(crate) unsafe fn copy(addr: *const sockaddr_storage) -> Address {
        // SAFETY: the caller upholds the contract.
        Address(unsafe { addr.read_unaligned() })
    }

    /// Returns a pointer for calls that read it.
    pub(crate) fn raw(&self) -> *const sockaddr {
        (&raw const self.0).cast()
    }

    /// Returns its family.
    pub(crate) fn family(&self) -> c_int {
        self.0.ss_family.into()
    }

    /// Returns the length of its family's address.
    pub(crate) fn needed(&self) -> socklen_t {
        let bytes = match self.family() {
            AF_INET => size_of::<sockaddr_in>(),
            AF_IB => size_of::<sockaddr_ib>(),
            _ => size_of::<sockaddr_in6>(),
        };
        bytes as socklen_t
    }

    /// Writes the address to the program's buffer, truncated to its room, and sets `length` to the full length.
    ///
    /// # Safety
    /// `length` is null or a number; `addr` is null or has as many bytes.
    pub(crate) unsafe fn write(&self, addr: *mut sockaddr, length: *mut socklen_t) {
        if length.is_null() {
            return;
        }
        let needed = self.needed();
        // SAFETY: the caller upholds the contract.
        unsafe {
            let room = (*length).min(needed);
            if !addr.is_null() {
                addr.cast::<u8>().copy_from_nonoverlapping(self.raw().cast(), room as usize);
            }
            *length = needed;
        }
    }

    /// Converts to an IP address; `None` for another family.
    pub(crate) fn ip(&self) -> Option<SocketAddr> {
        // SAFETY: the storage is as large and as aligned as every address.
        unsafe {
            match self.family() {
                AF_INET => {
                    let sin = &*(&raw const self.0).cast::<sockaddr_in>();
                    let ip = Ipv4Addr::from(u32::from_be(sin.sin_addr.s_addr));
                    Some(SocketAddrV4::new(ip, u16::from_be(sin.sin_port)).into())
                }
                AF_INET6 => {
                    let sin6 = &*(&raw const self.0).cast::<sockaddr_in6>();
                    let ip = Ipv6Addr::from(sin6.sin6_addr.s6_addr);
                    let (flow, scope) = (u32::from_be(sin6.sin6_flowinfo), sin6.sin6_scope_id);
                    Some(SocketAddrV6::new(ip, u16::from_be(sin6.sin6_port), flow, scope).into())
                }
                _ => None,
            }
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(ip: SocketAddr) -> Address {
        let mut address = Address::of_family(0);
        // SAFETY: the storage is as large and as aligned as every address.
        unsafe {
            match ip {
                SocketAddr::V4(v4) => {
                    let sin = &mut *(&raw mut address.0).cast::<sockaddr_in>();
                    sin.sin_family = AF_INET as libc::sa_family_t;
                    sin.sin_port = v4.port().to_be();
                    sin.sin_addr.s_addr = u32::from(*v4.ip()).to_be();
                }
                SocketAddr::V6(v6) => {
                    let sin6 = &mut *(&raw mut address.0).cast::<sockaddr_in6>();
                    sin6.sin6_family = AF_INET6 as libc::sa_family_t;
                    sin6.sin6_port = v6.port().to_be();
                    sin6.sin6_flowinfo = v6.flowinfo().to_be();
                    sin6.sin6_addr.s6_addr = v6.ip().octets();
                    sin6.sin6_scope_id = v6.scope_id();
                }
            }
        }
        address
    }
}

/// Whether an IP address names no interface, or the loopback: peers then need another address.
pub(crate) fn unspecific(ip: IpAddr) -> bool {
    ip.is_unspecified() || ip.is_loopback()
}
