//! Holders of UDP port 4791, and the words for them.

use std::collections::BTreeSet;

use weft_sys::roce_port::{self, Family};

use crate::limits::SURVIVING_SOCKETS_MIN;

/// Owner of the programs that hold the port after a daemon's death.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Survivors {
    /// None: the port is free, or its holder is not a pool.
    None,
    /// This user: a daemon of the same user made the pool.
    Ours,
    /// Another user: only a daemon of that user can add sockets to the pool, and its processes trust only that one.
    Others,
}

/// Returns whether the holder of the port looks like a pool whose daemon died.
pub fn survivors() -> Survivors {
    if roce_port::port_is_free(Family::V4).unwrap_or(true) {
        return Survivors::None;
    }
    let holders = roce_port::holders();
    // Without /proc the holders are unknown, so assume survivors.
    if !holders.is_empty() && holders.len() < SURVIVING_SOCKETS_MIN {
        return Survivors::None;
    }
    let euid = weft_sys::process::euid();
    if holders.iter().all(|holder| holder.uid == euid) { Survivors::Ours } else { Survivors::Others }
}

/// Returns who holds the port, and the remedy.
pub fn describe() -> String {
    describe_these(&roce_port::holders(), kernel_rxe_is_loaded())
}

/// Returns whether the kernel's own RoCE v2 module is loaded. It holds the port by a socket that looks like a root
/// program's.
fn kernel_rxe_is_loaded() -> bool {
    std::path::Path::new("/sys/module/rdma_rxe").exists()
}

fn describe_these(holders: &[roce_port::Holder], kernel_rxe: bool) -> String {
    const WHERE: &str = "UDP port 4791, the port of RoCE v2, is in use in this network namespace";
    let users: BTreeSet<u32> = holders.iter().map(|holder| holder.uid).collect();
    let by_root = users.is_empty() || users.contains(&0);
    let users = users.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    if holders.len() >= SURVIVING_SOCKETS_MIN {
        format!(
            "{WHERE} by programs of user {users} that outlived a weft daemon and did not come back to this one: end them"
        )
    } else if by_root && kernel_rxe {
        format!(
            "{WHERE}, by the kernel's rdma_rxe module as it seems: use its devices, or remove them with `rdma link \
             delete NAME` or `modprobe -r rdma_rxe`"
        )
    } else if users.is_empty() {
        format!("{WHERE} (the kernel's rdma_rxe module?): `ss -ulpn sport = 4791` shows by whom")
    } else {
        format!("{WHERE} by a program of user {users}: `ss -ulpn sport = 4791` shows which; end it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_sys::roce_port::Holder;

    #[test]
    fn who_holds_the_port_is_said() {
        let root = Holder { uid: 0, inode: 4 };
        let user = Holder { uid: 1000, inode: 5 };
        assert!(describe_these(&[root], true).contains("rdma_rxe"));
        assert!(describe_these(&[root], false).contains("a program of user 0"));
        assert!(describe_these(&[user], true).contains("a program of user 1000"));
        assert!(describe_these(&[user; 64], true).contains("outlived"));
        assert!(describe_these(&[], false).contains("rdma_rxe"));
    }
}
