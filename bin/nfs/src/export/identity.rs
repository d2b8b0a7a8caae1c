//! Identity of a caller, and the identity that its accesses to files have.

use std::cell::RefCell;

use weft_sys::{file_identity, process};

use crate::protocol::credential::{ANONYMOUS, Credential};

/// Treatment of the users that clients claim to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Users {
    /// All are the user that runs the server: an ordinary user cannot act for others, nor can the root of a user namespace that
    /// has no other users.
    Server,
    /// Each is itself, except for root if `squash` is set.
    Claimed {
        /// Root becomes the anonymous user.
        squash: bool,
    },
}

thread_local! {
    /// Identity of this thread's accesses; threads begin as root. `None`: a change failed half way.
    static ASSUMED: RefCell<Option<Credential>> = RefCell::new(Some(Credential::root()));
}

impl Users {
    /// Returns the treatment that this process can carry out.
    pub fn of_this_process(squash: bool) -> Users {
        let may_act_for_others = rustix::process::geteuid().is_root() && process::has_other_users();
        if may_act_for_others { Users::Claimed { squash } } else { Users::Server }
    }

    /// Returns the identity that stands for a caller's.
    pub fn map(self, caller: Credential) -> Credential {
        match self {
            Users::Server => Credential::root(),
            Users::Claimed { squash: true } if caller.uid == 0 => Credential::nobody(),
            Users::Claimed { squash } => {
                // Membership of root's group is root's, too.
                let gid = |gid: u32| if squash && gid == 0 { ANONYMOUS } else { gid };
                let groups = caller.groups.into_iter().map(gid).collect();
                Credential { uid: caller.uid, gid: gid(caller.gid), groups }
            }
        }
    }

    /// Runs accesses to files with a mapped identity.
    pub fn act<R>(self, identity: &Credential, access: impl FnOnce() -> R) -> std::io::Result<R> {
        if self == Users::Server {
            return Ok(access());
        }
        assume(identity)?;
        let result = access();
        assume(&Credential::root())?;
        Ok(result)
    }
}

fn assume(identity: &Credential) -> std::io::Result<()> {
    ASSUMED.with_borrow_mut(|now| {
        if now.as_ref() != Some(identity) {
            *now = None;
            file_identity::assume(identity.uid, identity.gid, &identity.groups)?;
            *now = Some(identity.clone());
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_that_cannot_be_assumed_leaves_no_trace() {
        if !rustix::process::geteuid().is_root() || !process::has_other_users() {
            return;
        }
        let users = Users::Claimed { squash: false };
        // The kernel takes this number as "no change".
        let nobody_at_all = Credential { uid: u32::MAX, gid: 7, groups: vec![7] };
        let group_of_a_new_file = |name: &str| {
            let path = std::env::temp_dir().join(format!("weft-assumed-{}-{name}", std::process::id()));
            let made = users.act(&Credential::root(), || std::fs::write(&path, "")).expect("root");
            made.expect("a file");
            let gid = std::os::unix::fs::MetadataExt::gid(&std::fs::metadata(&path).expect("its attributes"));
            std::fs::remove_file(&path).expect("it was there");
            gid
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(group_of_a_new_file("before"), 0);
                assert!(users.act(&nobody_at_all, || ()).is_err());
                assert_eq!(group_of_a_new_file("after"), 0);
            });
        });
    }

    #[test]
    fn root_is_squashed_with_its_group() {
        let root = Credential::root();
        let user = Credential { uid: 7, gid: 0, groups: vec![0, 8] };
        let squashing = Users::Claimed { squash: true };
        assert_eq!(squashing.map(root.clone()), Credential::nobody());
        assert_eq!(squashing.map(user.clone()), Credential { uid: 7, gid: ANONYMOUS, groups: vec![ANONYMOUS, 8] });
        assert_eq!(Users::Claimed { squash: false }.map(user.clone()), user);
        assert_eq!(Users::Server.map(user), root);
    }
}
