//! The processes whose events `weft fault run` reads.

use std::fs;
use std::os::fd::AsFd;

use weft_sys::process::euid;
use weft_sys::unix::Credentials;
use weft_sys::{pidfd, unix};

/// Longest chain of parents that is followed.
const GENERATIONS_MAX: usize = 1000;

/// Whether the peer of a connection is a process of this user or, if the user is root, one that this process started:
/// it may have changed its user.
pub(super) fn is_permitted(stream: impl AsFd) -> bool {
    let Ok(peer) = unix::peer_credentials(&stream) else { return false };
    peer.uid == euid() || euid() == 0 && is_started_by_us(&stream, peer)
}

fn is_started_by_us(stream: impl AsFd, peer: Credentials) -> bool {
    let Some(process) = unix::peer_pidfd(stream) else { return false };
    // A process that is gone has left its number to others: it is compared after the walk.
    is_descendant(peer.pid) && pidfd::number(process).and_then(|pid| u32::try_from(pid).ok()) == Some(peer.pid)
}

/// Whether a process is this one, its child, a child of its child and so on.
fn is_descendant(pid: u32) -> bool {
    let ancestry = std::iter::successors(Some(pid), |pid| parent(*pid));
    ancestry.take(GENERATIONS_MAX).any(|ancestor| ancestor == std::process::id())
}

/// Returns the parent of a process; `None` if the process is gone.
fn parent(pid: u32) -> Option<u32> {
    parent_in(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?).filter(|parent| *parent > 0)
}

fn parent_in(stat: &str) -> Option<u32> {
    // The program's name, in parentheses, may contain any byte; the state and the parent follow it.
    let (_, behind) = stat.rsplit_once(')')?;
    behind.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::net::UnixStream;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_parent_stands_behind_a_name_with_any_bytes() {
        assert_eq!(parent_in("4711 (a ) S 9 b) S 42 2 3"), Some(42));
        assert_eq!(parent_in("4711 (a"), None);
        assert_eq!(parent(std::process::id()), Some(std::os::unix::process::parent_id()));
    }

    #[test]
    fn descendants_are_permitted_and_other_processes_are_not() {
        // The shell prints the number of its child, which sleeps until its input ends, and waits for it.
        let mut shell = Command::new("sh");
        shell.args(["-c", "exec 3<&0; cat <&3 >/dev/null & echo $!; exec >&-; wait"]);
        let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut printed = String::new();
        shell.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
        let grandchild: u32 = printed.trim().parse().unwrap();
        assert!([std::process::id(), shell.id(), grandchild].into_iter().all(is_descendant));
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert!(
            [0, std::os::unix::process::parent_id(), shell.id(), grandchild].into_iter().all(|pid| !is_descendant(pid))
        );
    }

    #[test]
    fn this_process_is_permitted_by_its_user_and_its_number() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        assert!(is_permitted(&ours));
        let peer = unix::peer_credentials(&ours).unwrap();
        assert!(is_started_by_us(&ours, peer));
        assert!(!is_started_by_us(&ours, Credentials { pid: std::os::unix::process::parent_id(), ..peer }));
    }
}
