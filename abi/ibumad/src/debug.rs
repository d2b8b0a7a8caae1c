//! Debug output: the address and header of a buffer on demand, and the steps of each call once `umad_debug` has raised
//! the level.

use libc::{c_int, c_void};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicI32, Ordering};
use weft_abi_types::{ib_mad_addr, ib_user_mad};

static LEVEL: AtomicI32 = AtomicI32::new(0);

/// Returns the debug level: 1 prints calls, 2 also the headers of sent buffers.
pub(crate) fn level() -> c_int {
    LEVEL.load(Ordering::Relaxed)
}

/// Prints a line in the format of the management tools.
pub(crate) fn warn(function: &str, text: &str) {
    write_to(&mut std::io::stderr(), function, text);
}

/// Writes a line and ignores errors: a closed output must not end the program, as `eprintln!` would.
fn write_to(out: &mut impl std::io::Write, function: &str, text: &str) {
    let _ = out.write_all(format!("ibwarn: [{}] {function}: {text}\n", std::process::id()).as_bytes());
}

/// Prints a step of a call, if the level allows it.
macro_rules! trace {
    ($function:literal, $($text:tt)*) => {
        if $crate::debug::level() > 0 {
            $crate::debug::warn($function, &format!($($text)*));
        }
    };
}
pub(crate) use trace;

/// Sets the level unless it is negative, and returns it.
pub extern "C" fn umad_debug(level: c_int) -> c_int {
    if level >= 0 {
        LEVEL.store(level, Ordering::Relaxed);
    }
    LEVEL.load(Ordering::Relaxed)
}

/// Prints an address.
pub unsafe extern "C" fn umad_addr_dump(addr: *mut ib_mad_addr) {
    // SAFETY: the caller passes null or an address.
    if let Some(addr) = unsafe { addr.as_ref() } {
        warn("umad_addr_dump", &address(addr));
    }
}

fn address(addr: &ib_mad_addr) -> String {
    let mut text = format!(
        "qpn {} qkey 0x{:x} lid {} sl {}\ngrh_present {} gid_index {} hop_limit {} traffic_class {} flow_label 0x{:x} \
         pkey_index 0x{:x}\nGid 0x",
        u32::from_be(addr.qpn),
        u32::from_be(addr.qkey),
        u16::from_be(addr.lid),
        addr.sl,
        addr.grh_present,
        addr.gid_index,
        addr.hop_limit,
        addr.traffic_class,
        u32::from_be(addr.flow_label),
        addr.pkey_index,
    );
    for byte in addr.gid {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Prints the header of a buffer, and the address in it.
pub unsafe extern "C" fn umad_dump(umad: *mut c_void) {
    // SAFETY: the caller passes null or a umad buffer.
    if let Some(head) = unsafe { umad.cast::<ib_user_mad>().as_ref() } {
        let ib_user_mad { agent_id, status, timeout_ms, .. } = *head;
        warn("umad_dump", &format!("agent id {agent_id} status {status:x} timeout {timeout_ms}"));
        warn("umad_addr_dump", &address(&head.addr));
    }
}

#[test]
fn a_full_disk_ends_no_program() {
    let mut full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a full disk");
    write_to(&mut full, "umad_open_port", "no port");
    let mut said = Vec::new();
    write_to(&mut said, "umad_open_port", "no port");
    assert!(said.starts_with(b"ibwarn: [") && said.ends_with(b"] umad_open_port: no port\n"));
}
