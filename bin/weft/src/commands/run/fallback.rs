//! The messages for a system that allows no private mount namespace, or no namespaces of virtual hosts: the reason, the
//! consequences and the remedy. Each user sees each of them once per boot.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

/// Prints the message, unless `quiet` is set or this user has seen it since boot.
pub fn tell(error: &io::Error, quiet: bool) {
    if quiet || !is_first_time("told") {
        return;
    }
    crate::errln!(
        "weft run: no private mount namespace ({}): Weft's libraries and devices reach programs by LD_AUDIT and \
         LD_PRELOAD instead, and statically linked programs see no devices; {}; -q or WEFT_QUIET=1 silences this line, \
         which comes once",
        crate::errno::text(error),
        remedy(&setting)
    );
}

/// The same for the namespaces of a virtual host; `may_manage`: the daemon would let this user enter them.
pub fn tell_network(host: &str, why: &str, may_manage: bool, quiet: bool) {
    if quiet || !is_first_time("told-network") {
        return;
    }
    let remedy = if may_manage { format!("{}; ", remedy(&setting)) } else { String::new() };
    crate::errln!(
        "weft run: the program has the machine's network and host name, not those of {host} ({}): hosts have no IP over \
         InfiniBand, and programs of all hosts meet at 127.0.0.1; {remedy}-q or WEFT_QUIET=1 silences this line, which \
         comes once",
        why.trim()
    );
}

/// Reads a setting below /proc/sys.
fn setting(name: &str) -> Option<String> {
    fs::read_to_string(PathBuf::from("/proc/sys").join(name)).ok().map(|text| text.trim().to_owned())
}

/// Settings that may forbid user namespaces; for each, the forbidding and the allowing value.
const SETTINGS: [(&str, &str, &str); 3] = [
    ("kernel/unprivileged_userns_clone", "0", "1"),
    ("kernel/apparmor_restrict_unprivileged_userns", "1", "0"),
    ("user/max_user_namespaces", "0", "10000"),
];

/// The remedy for an administrator.
pub fn remedy(setting: &dyn Fn(&str) -> Option<String>) -> String {
    let guilty = SETTINGS.iter().find(|(name, forbids, _)| setting(name).as_deref() == Some(forbids));
    match guilty {
        Some((name, _, allows)) => {
            format!("to allow it: `sysctl -w {}={allows}` as root", name.replace('/', "."))
        }
        None => {
            "in a container: allow it with `--security-opt seccomp=unconfined --security-opt apparmor=unconfined`, \
                 or `--cap-add SYS_ADMIN`; in a chroot it is never allowed"
                .to_owned()
        }
    }
}

/// Whether this user has not seen the message of this name since boot. If that cannot be recorded, every time counts as
/// the first.
fn is_first_time(message: &str) -> bool {
    let boot = setting("kernel/random/boot_id").unwrap_or_default();
    let mark = std::env::temp_dir().join(format!("weft-{message}-{}-{boot}", weft_sys::process::euid()));
    // Creates a new file or fails: a file that another user put in its place stays untouched.
    match File::options().write(true).create_new(true).open(mark) {
        Err(error) => error.kind() != io::ErrorKind::AlreadyExists,
        Ok(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_names_the_setting_that_forbids_it() {
        let of = |name: &'static str, value: &'static str| remedy(&move |asked| (asked == name).then(|| value.into()));
        assert!(of("kernel/unprivileged_userns_clone", "0").contains("sysctl -w kernel.unprivileged_userns_clone=1"));
        assert!(of("kernel/apparmor_restrict_unprivileged_userns", "1").contains("userns=0"));
        assert!(of("user/max_user_namespaces", "0").contains("user.max_user_namespaces=10000"));
        assert!(of("user/max_user_namespaces", "4096").contains("--security-opt"));
    }
}
