//! A libibumad for tests with a fabric that gives false answers, wrong in every way in which a management agent, subnet
//! administration or a vendor's agent can be wrong. No call waits, so that whole tools can run millions of times.
//!
//! The same seed gives the same answers. [`tell`] makes this thread use the library; [`silence`] ends that.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ffi::{CStr, CString};

use libc::{c_char, c_int, c_long, c_void};
use weft_abi_types::{umad_ca, umad_device_node, umad_port};

use weft_client::umad::{Calls, replace};

mod answers;
mod random;
mod state;

pub use random::Random;
use state::{FuzzUmad, HEAD};

/// Number of requests after which a tool counts as looping forever.
const QUESTIONS_MAX: u64 = 400_000;
/// Maximum number of unsolicited requests, sent to a server that waits without limit.
const UNASKED_MAX: u32 = 40;

thread_local! {
    static LIAR: RefCell<Option<FuzzUmad>> = const { RefCell::new(None) };
}

/// Makes this thread use the false fabric from now on.
pub fn tell(seed: u64) {
    let mut random = Random::new(seed);
    let fabric = random.next();
    let fuzz_umad = FuzzUmad { random, fabric, waiting: VecDeque::new(), questions: 0, unasked: 0, agents: 0 };
    LIAR.with_borrow_mut(|slot| *slot = Some(fuzz_umad));
    replace(Some(&CALLS));
}

/// Ends it. Returns whether the tool would have looped forever.
pub fn silence() -> bool {
    replace(None);
    LIAR.with_borrow_mut(Option::take).is_some_and(|fuzz_umad| fuzz_umad.questions > QUESTIONS_MAX)
}

static CALLS: Calls = Calls {
    umad_init: init,
    umad_debug: debug,
    umad_size: size,
    umad_get_ca_device_list: device_list,
    umad_free_ca_device_list: free_device_list,
    umad_get_ca_portguids: port_guids,
    umad_get_ca: get_ca,
    umad_release_ca: release_ca,
    umad_get_port: get_port,
    umad_release_port: release_port,
    umad_open_port: open_port,
    umad_close_port: close_port,
    umad_get_fd: get_fd,
    umad_get_issm_path: issm_path,
    umad_register: register,
    umad_register_oui: register_oui,
    umad_send: send,
    umad_recv: recv,
};

fn with<T: Default>(act: impl FnOnce(&mut FuzzUmad) -> T) -> T {
    LIAR.with_borrow_mut(|fuzz_umad| fuzz_umad.as_mut().map(act)).unwrap_or_default()
}

extern "C" fn init() -> c_int {
    0
}

extern "C" fn debug(_: c_int) -> c_int {
    0
}

extern "C" fn size() -> usize {
    HEAD
}

extern "C" fn device_list() -> *mut umad_device_node {
    let name = CString::new("liar0").expect("a name").into_raw();
    Box::into_raw(Box::new(umad_device_node { next: std::ptr::null_mut(), ca_name: name }))
}

extern "C" fn free_device_list(list: *mut umad_device_node) {
    // SAFETY: both came from `device_list`, and are freed once.
    unsafe {
        let node = Box::from_raw(list);
        drop(CString::from_raw(node.ca_name.cast_mut()));
    }
}

extern "C" fn port_guids(_: *const c_char, guids: *mut u64, max: c_int) -> c_int {
    let count = with(|fuzz_umad| fuzz_umad.random.below(max as u64 + 1)) as usize;
    for at in 0..count {
        // SAFETY: the caller has room for `max` of them.
        unsafe { guids.add(at).write(with(|fuzz_umad| fuzz_umad.random.next())) };
    }
    count as c_int
}

/// A port as a hostile kernel might describe it: unterminated names, numbers beyond every range.
fn a_port(fuzz_umad: &mut FuzzUmad) -> umad_port {
    let mut bytes = [0_u8; size_of::<umad_port>()];
    fuzz_umad.random.fill(&mut bytes);
    // SAFETY: numbers and characters may have any value; the pointer is set before anything follows it.
    let mut port = unsafe { bytes.as_ptr().cast::<umad_port>().read_unaligned() };
    port.pkeys = std::ptr::null_mut();
    if fuzz_umad.random.one_in(2) {
        (port.portnum, port.base_lid, port.sm_lid, port.sm_sl) = (1, 5, 1, 0);
    }
    port
}

extern "C" fn get_ca(_: *const c_char, ca: *mut umad_ca) -> c_int {
    with(|fuzz_umad| {
        let mut bytes = [0_u8; size_of::<umad_ca>()];
        fuzz_umad.random.fill(&mut bytes);
        // SAFETY: as in `a_port`; the pointers are all set here.
        let mut made = unsafe { bytes.as_ptr().cast::<umad_ca>().read_unaligned() };
        let ports = fuzz_umad.random.below(made.ports.len() as u64) as usize;
        for (at, port) in made.ports.iter_mut().enumerate() {
            *port = if at < ports { Box::into_raw(Box::new(a_port(fuzz_umad))) } else { std::ptr::null_mut() };
        }
        // SAFETY: the caller passes a structure to fill.
        unsafe { ca.write(made) };
    });
    0
}

extern "C" fn release_ca(ca: *mut umad_ca) -> c_int {
    // SAFETY: filled by `get_ca`, released once.
    for port in unsafe { (*ca).ports } {
        if !port.is_null() {
            // SAFETY: made by `get_ca`.
            drop(unsafe { Box::from_raw(port) });
        }
    }
    0
}

extern "C" fn get_port(_: *const c_char, _: c_int, port: *mut umad_port) -> c_int {
    with(|fuzz_umad| {
        if fuzz_umad.random.one_in(20) {
            return -libc::ENODEV;
        }
        // SAFETY: the caller passes a structure to fill.
        unsafe { port.write(a_port(fuzz_umad)) };
        0
    })
}

extern "C" fn release_port(_: *mut umad_port) -> c_int {
    0
}

extern "C" fn open_port(_: *const c_char, _: c_int) -> c_int {
    0
}

extern "C" fn close_port(_: c_int) -> c_int {
    0
}

extern "C" fn get_fd(_: c_int) -> c_int {
    -1
}

extern "C" fn issm_path(_: *const c_char, _: c_int, path: *mut c_char, _: c_int) -> c_int {
    // SAFETY: room for one character at least.
    unsafe { path.write(0) };
    0
}

fn next_agent() -> c_int {
    with(|fuzz_umad| {
        fuzz_umad.agents += 1;
        fuzz_umad.agents
    })
}

extern "C" fn register(_: c_int, _: c_int, _: c_int, _: u8, _: *mut c_long) -> c_int {
    next_agent()
}

extern "C" fn register_oui(_: c_int, _: c_int, _: u8, _: *mut u8, _: *mut c_long) -> c_int {
    next_agent()
}

extern "C" fn send(_: c_int, _: c_int, packet: *mut c_void, len: c_int, timeout: c_int, _: c_int) -> c_int {
    // SAFETY: the caller guarantees that a head and `len` bytes are there.
    let packet = unsafe { std::slice::from_raw_parts(packet.cast::<u8>(), HEAD + len as usize) };
    with(|fuzz_umad| {
        fuzz_umad.questions += 1;
        if fuzz_umad.questions > QUESTIONS_MAX || fuzz_umad.random.one_in(2000) {
            return -libc::EIO;
        }
        if timeout != 0 {
            answers::to(fuzz_umad, packet);
        }
        0
    })
}

extern "C" fn recv(_: c_int, packet: *mut c_void, len: *mut c_int, timeout: c_int) -> c_int {
    with(|fuzz_umad| {
        if fuzz_umad.waiting.is_empty() && timeout < 0 && fuzz_umad.unasked < UNASKED_MAX {
            fuzz_umad.unasked += 1;
            let question = answers::question(fuzz_umad);
            fuzz_umad.waiting.push_back(question);
        }
        let Some(whole) = fuzz_umad.waiting.front() else {
            return if timeout < 0 { -libc::EIO } else { -libc::ETIMEDOUT };
        };
        // SAFETY: the caller passes a valid length, and a buffer with a head and that much room behind it.
        let room = unsafe { *len };
        let said = (whole.len() - HEAD) as c_int;
        // SAFETY: the caller's length is writable.
        unsafe { *len = said };
        if said > room {
            return -libc::ENOSPC;
        }
        // SAFETY: there is room for a head and `room` bytes.
        unsafe { std::ptr::copy_nonoverlapping(whole.as_ptr(), packet.cast::<u8>(), whole.len()) };
        fuzz_umad.waiting.pop_front();
        1
    })
}

#[test]
fn the_list_of_devices_is_given_back() {
    let list = device_list();
    // SAFETY: `list` was made just above.
    assert_eq!(unsafe { CStr::from_ptr((*list).ca_name) }.to_bytes(), b"liar0");
    free_device_list(list);
}
