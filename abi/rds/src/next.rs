//! The C library's own calls, which this library stands in front of.

use std::ffi::{CStr, c_void};
use std::mem::transmute;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Looks a call up once.
fn find(cache: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let known = cache.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    // SAFETY: the name is a C string; the loader returns the next definition after this library's.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if found.is_null() {
        // The C library has every call of this file; without one, nothing can go on.
        std::process::abort();
    }
    cache.store(found, Ordering::Relaxed);
    found
}

macro_rules! calls {
    ($($name:ident($($arg:ident: $kind:ty),*) -> $result:ty;)*) => {
        $(
            /// The C library's call of this name.
            ///
            /// # Safety
            /// As the call.
            pub unsafe fn $name($($arg: $kind),*) -> $result {
                static CACHE: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
                const NAME: &str = concat!(stringify!($name), "\0");
                let name = CStr::from_bytes_until_nul(NAME.as_bytes()).unwrap_or(c"");
                // SAFETY: the C library's call has this type.
                let call = unsafe { transmute::<*mut c_void, unsafe extern "C" fn($($kind),*) -> $result>(find(&CACHE, name)) };
                // SAFETY: the caller's promise.
                unsafe { call($($arg),*) }
            }
        )*
    };
}

use libc::{c_int, msghdr, size_t, sockaddr, socklen_t, ssize_t};

calls! {
    socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    close(fd: c_int) -> c_int;
    dup(fd: c_int) -> c_int;
    dup2(fd: c_int, to: c_int) -> c_int;
    dup3(fd: c_int, to: c_int, flags: c_int) -> c_int;
    bind(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int;
    connect(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int;
    getsockname(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int;
    getpeername(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int;
    send(fd: c_int, data: *const c_void, length: size_t, flags: c_int) -> ssize_t;
    sendto(
        fd: c_int, data: *const c_void, length: size_t, flags: c_int, to: *const sockaddr, to_length: socklen_t
    ) -> ssize_t;
    sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    recv(fd: c_int, data: *mut c_void, length: size_t, flags: c_int) -> ssize_t;
    recvfrom(
        fd: c_int, data: *mut c_void, length: size_t, flags: c_int, from: *mut sockaddr, from_length: *mut socklen_t
    ) -> ssize_t;
    recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
    read(fd: c_int, data: *mut c_void, length: size_t) -> ssize_t;
    write(fd: c_int, data: *const c_void, length: size_t) -> ssize_t;
    __recv_chk(fd: c_int, data: *mut c_void, length: size_t, size: size_t, flags: c_int) -> ssize_t;
    __recvfrom_chk(
        fd: c_int, data: *mut c_void, length: size_t, size: size_t, flags: c_int, from: *mut sockaddr,
        from_length: *mut socklen_t
    ) -> ssize_t;
    __read_chk(fd: c_int, data: *mut c_void, length: size_t, size: size_t) -> ssize_t;
    setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, length: socklen_t) -> c_int;
    getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, length: *mut socklen_t) -> c_int;
}
