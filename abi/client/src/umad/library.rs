//! Loads `libibumad.so.3`, Weft's or the system's.

use std::ffi::{CStr, CString};
use std::fmt;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use libc::{c_char, c_int, c_long, c_void};

use crate::Which;
use weft_abi_types::{umad_ca, umad_device_node, umad_port};

macro_rules! calls {
    ($($name:ident: fn($($arg:ty),*) -> $ret:ty;)*) => {
        /// The calls that the tools use.
        pub struct Calls {
            $(#[allow(missing_docs)] pub $name: unsafe extern "C" fn($($arg),*) -> $ret,)*
        }

        impl Calls {
            fn load(path: &str) -> Result<Calls> {
                let handle = open(path)?;
                // SAFETY: the symbols have these types in every library that calls itself libibumad.so.3.
                unsafe {
                    Ok(Calls {
                        $($name: std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($arg),*) -> $ret>(
                            symbol(handle, path, stringify!($name))?,
                        ),)*
                    })
                }
            }
        }
    };
}

calls! {
    umad_init: fn() -> c_int;
    umad_debug: fn(c_int) -> c_int;
    umad_size: fn() -> usize;
    umad_get_ca_device_list: fn() -> *mut umad_device_node;
    umad_free_ca_device_list: fn(*mut umad_device_node) -> ();
    umad_get_ca_portguids: fn(*const c_char, *mut u64, c_int) -> c_int;
    umad_get_ca: fn(*const c_char, *mut umad_ca) -> c_int;
    umad_release_ca: fn(*mut umad_ca) -> c_int;
    umad_get_port: fn(*const c_char, c_int, *mut umad_port) -> c_int;
    umad_release_port: fn(*mut umad_port) -> c_int;
    umad_open_port: fn(*const c_char, c_int) -> c_int;
    umad_close_port: fn(c_int) -> c_int;
    umad_get_fd: fn(c_int) -> c_int;
    umad_get_issm_path: fn(*const c_char, c_int, *mut c_char, c_int) -> c_int;
    umad_register: fn(c_int, c_int, c_int, u8, *mut c_long) -> c_int;
    umad_register_oui: fn(c_int, c_int, u8, *mut u8, *mut c_long) -> c_int;
    umad_send: fn(c_int, c_int, *mut c_void, c_int, c_int, c_int) -> c_int;
    umad_recv: fn(c_int, *mut c_void, *mut c_int, c_int) -> c_int;
}

/// Whether ibsim's preloaded library stands in for the kernel's ports; it intercepts poll(2) and read(2).
pub(super) fn is_simulated() -> bool {
    std::env::var("LD_PRELOAD").is_ok_and(|preloaded| preloaded.contains("umad2sim"))
}

fn open(path: &str) -> Result<*mut c_void> {
    let c_path = CString::new(path)?;
    // SAFETY: a valid C string; loading runs the library's constructors, which is what the caller asks for.
    let handle = unsafe { libc::dlopen(c_path.as_ptr(), libc::RTLD_NOW | libc::RTLD_NODELETE) };
    if !handle.is_null() {
        return Ok(handle);
    }
    // SAFETY: dlerror returns null or a C string that is valid until this thread's next dl call.
    let reason = unsafe {
        let text = libc::dlerror();
        if text.is_null() { String::new() } else { CStr::from_ptr(text).to_string_lossy().into_owned() }
    };
    bail!("cannot load {path}: {reason}")
}

fn symbol(handle: *mut c_void, path: &str, name: &str) -> Result<*mut c_void> {
    let c_name = CString::new(name)?;
    // SAFETY: the handle is open and the name a valid C string.
    let symbol = unsafe { libc::dlsym(handle, c_name.as_ptr()) };
    if symbol.is_null() {
        bail!("{path} has no {name}: is it a libibumad?");
    }
    Ok(symbol)
}

/// A loaded library. It is never unloaded, hence freely copied.
#[derive(Clone, Copy)]
pub struct Library {
    pub(super) calls: &'static Calls,
}

#[cfg(feature = "replace")]
thread_local! {
    static REPLACED: std::cell::Cell<Option<&'static Calls>> = const { std::cell::Cell::new(None) };
}

/// Makes this thread use other calls than a library's, or a library's again.
#[cfg(feature = "replace")]
pub fn replace(calls: Option<&'static Calls>) {
    REPLACED.set(calls);
}

/// An open issm node, which sets IsSM on its port; closed when dropped. It is not an `OwnedFd`, because a library that
/// stands in for a kernel's ports returns a number that the kernel does not know.
#[derive(Debug)]
pub struct IssmNode(RawFd);

impl Drop for IssmNode {
    fn drop(&mut self) {
        // SAFETY: `open` returned the number; it is closed once, by the C library's `close`, which such libraries
        // intercept.
        unsafe { libc::close(self.0) };
    }
}

impl Library {
    /// Loads a library and initializes it.
    ///
    /// # Errors
    /// The library is missing, or is no libibumad.
    pub fn load(which: Which) -> Result<Library> {
        #[cfg(feature = "replace")]
        if let Some(calls) = REPLACED.get() {
            return Ok(Library { calls });
        }
        // Such a library has already loaded a libibumad, whose datagram layout it uses; two in one process would
        // disagree.
        let which = if is_simulated() { Which::System } else { which };
        let path = which.path("libibumad.so.3")?;
        let calls = Calls::load(&path).context(match which {
            Which::Ours => "without it no management datagram can be sent; rebuild with `cargo build`",
            Which::System => "install the package libibumad3, or leave --system out",
        })?;
        let library = Library { calls: Box::leak(Box::new(calls)) };
        // SAFETY: the call takes no arguments and may be made more than once.
        if unsafe { (library.calls.umad_init)() } < 0 {
            return Err(io::Error::last_os_error()).context("can't init UMAD library");
        }
        Ok(library)
    }

    /// Path of a port's issm node, which a subnet manager holds open.
    ///
    /// # Errors
    /// There is no such port.
    pub fn issm_path(self, ca: &str, number: u8) -> io::Result<PathBuf> {
        let name = CString::new(ca)?;
        let mut path = [0 as c_char; libc::PATH_MAX as usize];
        // SAFETY: a C string, and room for as many characters as the length says.
        let rc = unsafe {
            (self.calls.umad_get_issm_path)(name.as_ptr(), number.into(), path.as_mut_ptr(), path.len() as c_int)
        };
        if rc < 0 {
            return Err(io::Error::from_raw_os_error(rc.saturating_neg()));
        }
        let bytes: Vec<u8> = path.iter().map(|c| *c as u8).take_while(|c| *c != 0).collect();
        Ok(PathBuf::from(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Opens that node with the C library's `open`, which libraries that stand in for a kernel's ports intercept.
    ///
    /// # Errors
    /// The node is missing, or may not be opened.
    pub fn open_issm(self, path: &Path) -> io::Result<IssmNode> {
        let name = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: a C string; nothing is created, so no mode is read.
        let fd = unsafe { libc::open(name.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(IssmNode(fd))
    }

    /// Sets the debug level of the library; 0 is silent.
    pub fn set_debug(self, level: i32) {
        // SAFETY: a number; any is allowed.
        unsafe { (self.calls.umad_debug)(level) };
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Library")
    }
}
