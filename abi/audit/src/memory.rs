//! The functions that compiled Rust calls and that a C library would define. They move bytes one by one: paths are
//! short, and the compiler must not recognise a loop and call the function that it is in.

use core::arch::global_asm;
use core::ffi::{c_char, c_int};

// For this library alone.
global_asm!(".hidden memcpy", ".hidden memmove", ".hidden memset", ".hidden memcmp", ".hidden bcmp", ".hidden strlen");
global_asm!(".hidden rust_eh_personality");

/// # Safety
/// As memcpy(3).
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, length: usize) -> *mut u8 {
    for at in 0..length {
        // SAFETY: the caller's promise.
        unsafe { to.add(at).write_volatile(*from.add(at)) };
    }
    to
}

/// # Safety
/// As memmove(3).
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, length: usize) -> *mut u8 {
    let is_ahead = to.addr() > from.addr();
    for step in 0..length {
        let at = if is_ahead { length - 1 - step } else { step };
        // SAFETY: the caller's promise.
        unsafe { to.add(at).write_volatile(from.add(at).read_volatile()) };
    }
    to
}

/// # Safety
/// As memset(3).
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: c_int, length: usize) -> *mut u8 {
    for at in 0..length {
        // SAFETY: the caller's promise.
        unsafe { to.add(at).write_volatile(byte as u8) };
    }
    to
}

/// # Safety
/// As memcmp(3). A build without optimisation calls it where others call bcmp.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, length: usize) -> c_int {
    for at in 0..length {
        // SAFETY: the caller's promise.
        let (a, b) = unsafe { (a.add(at).read_volatile(), b.add(at).read_volatile()) };
        if a != b {
            return c_int::from(a) - c_int::from(b);
        }
    }
    0
}

/// # Safety
/// As bcmp(3).
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, length: usize) -> c_int {
    // SAFETY: the caller's promise.
    let differ = |at| unsafe { a.add(at).read_volatile() != b.add(at).read_volatile() };
    c_int::from((0..length).any(differ))
}

/// # Safety
/// As strlen(3).
#[unsafe(no_mangle)]
unsafe extern "C" fn strlen(text: *const c_char) -> usize {
    let mut length = 0;
    // SAFETY: the caller's promise.
    while unsafe { text.add(length).read_volatile() } != 0 {
        length += 1;
    }
    length
}

/// Named by the unwind tables of the compiled core library, and never called: a panic aborts.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
