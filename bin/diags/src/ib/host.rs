//! The host name that a server reports.

/// Size of the buffer for a name, in bytes.
const NAME_LEN: usize = 256;

/// The host's name, followed by a dot and its domain if it has one.
pub fn name_and_domain() -> String {
    // SAFETY: both calls write at most `len` bytes at `at`.
    let host = name(|at, len| unsafe { libc::gethostname(at, len) }, "?hostname?");
    // SAFETY: as above.
    let domain = name(|at, len| unsafe { libc::getdomainname(at, len) }, "?domainname?");
    if domain.is_empty() { host } else { format!("{host}.{domain}") }
}

fn name(call: impl Fn(*mut libc::c_char, usize) -> libc::c_int, unknown: &str) -> String {
    let mut bytes = [0u8; NAME_LEN];
    if call(bytes.as_mut_ptr().cast(), NAME_LEN - 1) < 0 {
        return unknown.to_owned();
    }
    super::format::text_until_zero(&bytes)
}
