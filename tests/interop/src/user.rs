//! The users that run programs in a lab, and the way into a lab for the user who runs the tests.

use anyhow::{Result, bail};
use std::process::{Child, Command, Stdio};

/// User and group id of "an ordinary user" (www-data). Not 65534: in a user namespace that number stands for every
/// unmapped id, so processes with it may not copy from each other's memory.
pub const ORDINARY_UID: u32 = 33;

/// Reason to skip a test that needs two users who are strangers to each other.
pub const ONE_USER: &str = "the tests run as an ordinary user, who has one id";

/// User that a program runs as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Who {
    /// Root (or root of the user namespace, where the tests run as an ordinary user).
    Root,
    /// An ordinary user without any capability.
    Ordinary,
}

impl Who {
    /// Both, the easier to satisfy first.
    pub const BOTH: [Who; 2] = [Who::Root, Who::Ordinary];
}

/// Access to a place where namespaces can be made.
#[derive(Debug)]
pub enum Door {
    /// The tests run as root.
    Root,
    /// The tests run as an ordinary user: a process holds a user and a mount namespace open, and another one the inner user
    /// namespace of all its ordinary users' programs. They are one user to each other and to their daemons.
    Holder {
        /// The first process.
        outer: Child,
        /// The second one.
        inner: Child,
    },
}

/// Names of the outer holder's namespaces, for nsenter.
const OUTER: [&str; 4] = ["-U", "-m", "-n", "--preserve-credentials"];

impl Door {
    /// Gets access, or returns the reason why it is forbidden.
    pub fn open() -> Result<Door> {
        if rustix::process::geteuid().is_root() {
            return Ok(Door::Root);
        }
        // Its own /run, so that `ip netns add` has a place; its own /var/cache, where Debian's scripts of
        // infiniband-diags keep a topology.
        let places = "mount -t tmpfs none /run && mount -t tmpfs none /var/cache";
        let mut outer = Command::new("unshare");
        let outer = held(outer.args(["-Urnm", "--propagation", "private", "sh", "-c"]), places)?;
        let id = ORDINARY_UID;
        let mut inner = Command::new("nsenter");
        inner.args(["-t", &outer.id().to_string()]).args(OUTER).args(["unshare", "-U"]);
        let inner = held(
            inner.args([format!("--map-user={id}"), format!("--map-group={id}"), "sh".into(), "-c".into()]),
            "true",
        );
        match inner {
            Ok(inner) => Ok(Door::Holder { outer, inner }),
            Err(error) => {
                end(outer);
                Err(error)
            }
        }
    }

    /// Returns the command prefix that runs a command inside.
    pub fn enter(&self) -> Vec<String> {
        match self {
            Door::Root => Vec::new(),
            Door::Holder { outer, .. } => {
                let pid = outer.id().to_string();
                ["nsenter", "-t", &pid].iter().chain(&OUTER).map(|word| (*word).to_owned()).collect()
            }
        }
    }

    /// Returns the command prefix that runs a command as `who`, once inside.
    pub fn become_user(&self, who: Who) -> Vec<String> {
        let id = ORDINARY_UID;
        let words = match (self, who) {
            (_, Who::Root) => return Vec::new(),
            (Door::Root, Who::Ordinary) => {
                vec!["setpriv".into(), format!("--reuid={id}"), format!("--regid={id}"), "--clear-groups".into()]
            }
            // Only one id is mapped in here: in the inner user namespace it is not root, so programs start without
            // capabilities.
            (Door::Holder { inner, .. }, Who::Ordinary) => {
                ["nsenter", "-t", &inner.id().to_string(), "-U", "--preserve-credentials"].map(str::to_owned).to_vec()
            }
        };
        words.into_iter().chain(["--".to_owned()]).collect()
    }
}

/// Starts a process that holds its namespaces open, with a shell command that prepares them first. A pipe signals that they
/// are ready.
fn held(command: &mut Command, prepare: &str) -> Result<Child> {
    let script = format!("{prepare} && echo ready && exec sleep infinity");
    let mut child = command.arg(script).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let mut ready = [0u8; 5];
    let told = child.stdout.take().map(|mut out| std::io::Read::read_exact(&mut out, &mut ready));
    if !matches!(told, Some(Ok(()))) {
        end(child);
        bail!(
            "cannot create a user namespace with mounts; run the tests as root, or allow user namespaces \
             (sysctl kernel.unprivileged_userns_clone=1, and AppArmor's restriction off)"
        );
    }
    Ok(child)
}

fn end(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
}

impl Drop for Door {
    fn drop(&mut self) {
        if let Door::Holder { outer, inner } = self {
            for child in [inner, outer] {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}
