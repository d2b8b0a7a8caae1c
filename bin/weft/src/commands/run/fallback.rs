//! The message where no private mount namespace can be made: why, what that costs, and what would help. Once a user and
//! boot is enough.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

/// Says it unless `quiet`, or unless this user has read it before.
pub fn tell(error: &io::Error, quiet: bool) {
    if quiet || !is_first_time() {
        return;
    }
    crate::errln!(
        "weft run: no private mount namespace ({}): programs get Weft's libraries by LD_LIBRARY_PATH and do not see \
         Weft's devices in /sys/class/infiniband and /dev/infiniband, which Debian's `ibstatus` reads; \
         `ibstat` and the programs of verbs work; {}; -q or WEFT_QUIET=1 silences this line, which comes once",
        crate::errno::text(error),
        remedy(&setting)
    );
}

/// A setting below /proc/sys, as text.
fn setting(name: &str) -> Option<String> {
    fs::read_to_string(PathBuf::from("/proc/sys").join(name)).ok().map(|text| text.trim().to_owned())
}

/// Settings that forbid user namespaces, the values with which they do, and those with which they do not.
const SETTINGS: [(&str, &str, &str); 3] = [
    ("kernel/unprivileged_userns_clone", "0", "1"),
    ("kernel/apparmor_restrict_unprivileged_userns", "1", "0"),
    ("user/max_user_namespaces", "0", "10000"),
];

/// The remedy that an administrator has.
fn remedy(setting: &dyn Fn(&str) -> Option<String>) -> String {
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

/// Whether this user has not been told since the machine started. Where that cannot be kept, every time is the first.
fn is_first_time() -> bool {
    let boot = setting("kernel/random/boot_id").unwrap_or_default();
    let mark = std::env::temp_dir().join(format!("weft-told-{}-{boot}", weft_sys::process::euid()));
    // A new file, or none: what others put in its place is not touched.
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
