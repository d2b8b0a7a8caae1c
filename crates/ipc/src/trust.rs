//! Which daemons this process trusts to hand out access to its memory: root's, or its own user's. In a user namespace
//! root may have no UID; the program that makes the namespace checks the daemon first and names it in the environment.

use weft_sys::process::{OVERFLOW_UID, euid, gained_privilege, start_time, tells_users_apart};
use weft_sys::unix::Credentials;

/// Environment variable that names the daemon found to belong to root or to the user: process ID and start time.
pub const DAEMON_VARIABLE: &str = "WEFT_DAEMON";

/// Returns the name of a daemon's process, for [`DAEMON_VARIABLE`]; `None` if the process is not visible from here.
pub fn name_of(daemon: &Credentials) -> Option<String> {
    Some(format!("{}:{}", daemon.pid, start_time(daemon.pid)?))
}

/// Returns whether a daemon belongs to root or to this process's user.
pub fn is_trusted(daemon: &Credentials) -> bool {
    let vouched =
        || !gained_privilege() && std::env::var(DAEMON_VARIABLE).is_ok_and(|name| name_of(daemon) == Some(name));
    is_known(daemon.uid, euid(), tells_users_apart()) || vouched()
}

fn is_known(daemon: u32, own: u32, tells_apart: bool) -> bool {
    let unknown = daemon == OVERFLOW_UID && !tells_apart;
    !unknown && [0, own].contains(&daemon)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_anybody_may_have_is_nobodys() {
        assert!(is_known(0, 1000, true) && is_known(0, 1000, false));
        assert!(is_known(1000, 1000, false) && !is_known(1001, 1000, true));
        assert!(is_known(OVERFLOW_UID, OVERFLOW_UID, true));
        assert!(!is_known(OVERFLOW_UID, OVERFLOW_UID, false));
    }

    #[test]
    fn a_process_that_is_gone_has_no_name() {
        let own = Credentials { pid: std::process::id(), uid: 0, gid: 0 };
        assert_eq!(name_of(&own), name_of(&own));
        assert!(name_of(&own).is_some());
        assert_eq!(name_of(&Credentials { pid: 0, ..own }), None);
    }
}
