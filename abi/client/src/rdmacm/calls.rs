//! The exported calls of a `librdmacm` as a table of function pointers.

use std::ffi::CString;
use std::io;

use libc::{c_char, c_int, c_uint, c_void, pollfd, sockaddr, socklen_t, ssize_t};
use weft_abi_types::{
    ibv_pd, ibv_qp_attr, ibv_qp_init_attr, ibv_qp_init_attr_ex, rdma_addrinfo, rdma_cm_event, rdma_cm_id,
    rdma_cm_join_mc_attr_ex, rdma_conn_param, rdma_event_channel,
};

macro_rules! calls {
    ($(#[$meta:meta])* $table:ident { $($name:ident: fn($($arg:ty),* $(; $dots:tt)?) $(-> $ret:ty)?;)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy)]
        pub struct $table {
            $(pub(super) $name: unsafe extern "C" fn($($arg),* $(, $dots)?) $(-> $ret)?,)*
        }

        impl $table {
            /// Finds all symbols in a loaded library.
            pub(super) fn find(library: &Loaded) -> io::Result<$table> {
                // SAFETY: the symbols have these types in every library that calls itself librdmacm.
                unsafe {
                    Ok($table {
                        $($name: std::mem::transmute::<
                            *mut c_void,
                            unsafe extern "C" fn($($arg),* $(, $dots)?) $(-> $ret)?,
                        >(library.symbol(stringify!($name))?),)*
                    })
                }
            }
        }
    };
}

calls! {
/// Identifiers, events and addresses.
Calls {
    rdma_create_event_channel: fn() -> *mut rdma_event_channel;
    rdma_destroy_event_channel: fn(*mut rdma_event_channel);
    rdma_create_id: fn(*mut rdma_event_channel, *mut *mut rdma_cm_id, *mut c_void, c_uint) -> c_int;
    rdma_destroy_id: fn(*mut rdma_cm_id) -> c_int;
    rdma_bind_addr: fn(*mut rdma_cm_id, *mut sockaddr) -> c_int;
    rdma_resolve_addr: fn(*mut rdma_cm_id, *mut sockaddr, *mut sockaddr, c_int) -> c_int;
    rdma_resolve_route: fn(*mut rdma_cm_id, c_int) -> c_int;
    rdma_create_qp: fn(*mut rdma_cm_id, *mut ibv_pd, *mut ibv_qp_init_attr) -> c_int;
    rdma_create_qp_ex: fn(*mut rdma_cm_id, *mut ibv_qp_init_attr_ex) -> c_int;
    rdma_destroy_qp: fn(*mut rdma_cm_id);
    rdma_connect: fn(*mut rdma_cm_id, *mut rdma_conn_param) -> c_int;
    rdma_establish: fn(*mut rdma_cm_id) -> c_int;
    rdma_listen: fn(*mut rdma_cm_id, c_int) -> c_int;
    rdma_accept: fn(*mut rdma_cm_id, *mut rdma_conn_param) -> c_int;
    rdma_reject: fn(*mut rdma_cm_id, *const c_void, u8) -> c_int;
    rdma_disconnect: fn(*mut rdma_cm_id) -> c_int;
    rdma_join_multicast_ex: fn(*mut rdma_cm_id, *mut rdma_cm_join_mc_attr_ex, *mut c_void) -> c_int;
    rdma_leave_multicast: fn(*mut rdma_cm_id, *mut sockaddr) -> c_int;
    rdma_get_cm_event: fn(*mut rdma_event_channel, *mut *mut rdma_cm_event) -> c_int;
    rdma_ack_cm_event: fn(*mut rdma_cm_event) -> c_int;
    rdma_event_str: fn(c_uint) -> *const c_char;
    rdma_get_src_port: fn(*mut rdma_cm_id) -> u16;
    rdma_set_option: fn(*mut rdma_cm_id, c_int, c_int, *mut c_void, usize) -> c_int;
    rdma_migrate_id: fn(*mut rdma_cm_id, *mut rdma_event_channel) -> c_int;
    rdma_getaddrinfo: fn(*const c_char, *const c_char, *const rdma_addrinfo, *mut *mut rdma_addrinfo) -> c_int;
    rdma_freeaddrinfo: fn(*mut rdma_addrinfo);
    rdma_init_qp_attr: fn(*mut rdma_cm_id, *mut ibv_qp_attr, *mut c_int) -> c_int;
}
}

calls! {
/// Sockets over RDMA (rsocket). The system's own socket calls have the same types.
RsocketCalls {
    rsocket: fn(c_int, c_int, c_int) -> c_int;
    rbind: fn(c_int, *const sockaddr, socklen_t) -> c_int;
    rlisten: fn(c_int, c_int) -> c_int;
    raccept: fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int;
    rconnect: fn(c_int, *const sockaddr, socklen_t) -> c_int;
    rshutdown: fn(c_int, c_int) -> c_int;
    rclose: fn(c_int) -> c_int;
    rrecv: fn(c_int, *mut c_void, usize, c_int) -> ssize_t;
    rsend: fn(c_int, *const c_void, usize, c_int) -> ssize_t;
    rpoll: fn(*mut pollfd, libc::nfds_t, c_int) -> c_int;
    rfcntl: fn(c_int, c_int; ...) -> c_int;
    rsetsockopt: fn(c_int, c_int, c_int, *const c_void, socklen_t) -> c_int;
    rgetsockopt: fn(c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int;
}
}

/// A library that stays mapped for good.
pub(super) struct Loaded {
    handle: *mut c_void,
    path: String,
}

impl Loaded {
    /// Loads a library from `path`, a file or a name that the loader searches for.
    pub(super) fn open(path: &str) -> io::Result<Loaded> {
        let c_path = CString::new(path)?;
        // SAFETY: a valid C string; loading runs the library's constructors, which is what the caller asks for.
        let handle = unsafe { libc::dlopen(c_path.as_ptr(), libc::RTLD_NOW | libc::RTLD_NODELETE) };
        if handle.is_null() {
            return Err(io::Error::other(format!("cannot load {path}: {}", last_error())));
        }
        Ok(Loaded { handle, path: path.to_owned() })
    }

    fn symbol(&self, name: &str) -> io::Result<*mut c_void> {
        let c_name = CString::new(name)?;
        // SAFETY: the handle is open and the name a valid C string.
        let symbol = unsafe { libc::dlsym(self.handle, c_name.as_ptr()) };
        if symbol.is_null() {
            return Err(io::Error::other(format!("{} has no {name}: is it a librdmacm?", self.path)));
        }
        Ok(symbol)
    }
}

fn last_error() -> String {
    // SAFETY: dlerror returns null or a C string that is valid until this thread's next dl call.
    unsafe {
        let text = libc::dlerror();
        if text.is_null() {
            return "no reason given".to_owned();
        }
        std::ffi::CStr::from_ptr(text).to_string_lossy().into_owned()
    }
}
