//! LD_PRELOAD library that shows a program Weft's devices in /sys and /dev where `weft run` may not mount them.
//!
//! `WEFT_VIEW` names a directory that `weft run` fills: `DIR/sys/class/infiniband/rxe0` stands for
//! `/sys/class/infiniband/rxe0`. The C library's calls that take a path are wrapped here: a path in a hidden place
//! ([`decide`]) gets the directory in front, any other passes unchanged. Devices of the kernel's are in the hidden
//! places, and thereby out of sight. System calls that a program makes itself pass unseen.
//!
//! The wrappers allocate nothing and take no lock, so that they are as safe in signal handlers and after fork as the
//! calls that they wrap. The library needs nothing but a C library; each process that the program starts loads it.

#![cfg_attr(not(test), no_std)]
// In the tests nothing calls the wrappers' helpers.
#![cfg_attr(test, allow(dead_code))]

mod decide;
mod kernel;
#[cfg(not(test))]
mod next;
#[cfg(not(test))]
mod redirect;
#[cfg(not(test))]
mod shims;
mod text;
mod view;

#[cfg(not(test))]
#[link(name = "c")]
unsafe extern "C" {}

/// Runs when the loader has mapped this library: looks the wrapped calls up while that is safe.
#[cfg(not(test))]
extern "C" fn initialise() {
    view::directory();
    shims::resolve();
}

#[cfg(not(test))]
#[used]
// SAFETY: the loader calls each function in this section once, with arguments that a C function may ignore.
#[unsafe(link_section = ".init_array")]
static INITIALISE: extern "C" fn() = initialise;

#[cfg(not(test))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    kernel::abort()
}

/// Named by the unwind tables of the compiled core library, and never called: a panic aborts.
#[cfg(not(test))]
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

#[cfg(not(test))]
core::arch::global_asm!(".hidden rust_eh_personality");
