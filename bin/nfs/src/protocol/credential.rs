//! User of a call, as AUTH_SYS carries it (RFC 5531 appendix A).

use super::rpc::{AUTH_MAX, GROUPS_MAX, MACHINE_NAME_MAX};
use super::xdr::{Reader, Writer};

/// User and group of accesses without a known user, as in Linux's exports(5).
pub const ANONYMOUS: u32 = 65534;

/// User of a call.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Credential {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Further groups.
    pub groups: Vec<u32>,
}

impl Credential {
    /// Returns the anonymous user.
    pub fn nobody() -> Credential {
        Credential { uid: ANONYMOUS, gid: ANONYMOUS, groups: Vec::new() }
    }

    /// Returns root.
    pub fn root() -> Credential {
        Credential { uid: 0, gid: 0, groups: vec![0] }
    }

    /// Reads `authsys_parms`.
    pub fn read(body: &[u8]) -> Option<Credential> {
        let mut xdr = Reader::new(body);
        let _stamp = xdr.u32()?;
        xdr.opaque(MACHINE_NAME_MAX)?;
        let (uid, gid) = (xdr.u32()?, xdr.u32()?);
        let count = xdr.u32().filter(|count| *count <= GROUPS_MAX)?;
        let groups = (0..count).map(|_| xdr.u32()).collect::<Option<Vec<_>>>()?;
        Some(Credential { uid, gid, groups })
    }

    /// Returns `authsys_parms`. Groups beyond the protocol's limit are left out, as all clients do.
    pub fn to_bytes(&self, machine: &[u8]) -> Vec<u8> {
        let mut out = Writer::default();
        out.u32(0);
        out.opaque(machine.get(..MACHINE_NAME_MAX).unwrap_or(machine));
        let groups = self.groups.get(..GROUPS_MAX as usize).unwrap_or(&self.groups);
        out.words(&[self.uid, self.gid, groups.len() as u32]);
        out.words(groups);
        debug_assert!(out.0.len() <= AUTH_MAX, "authsys_parms is within its bound");
        out.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_survives_the_wire_without_its_17th_group() {
        let credential = Credential { uid: 1000, gid: 100, groups: (0..20).collect() };
        let bytes = credential.to_bytes(&[b'h'; 300]);
        let read = Credential::read(&bytes).expect("a credential");
        assert_eq!((read.uid, read.gid, read.groups.len()), (1000, 100, GROUPS_MAX as usize));
        assert_eq!(Credential::read(&bytes[..bytes.len() - 1]), None);
    }
}
