//! Constants of ONC RPC (RFC 5531), and of the programs that NFSv3 needs.

use super::xdr::Writer;

/// NFS.
pub const NFS_PROGRAM: u32 = 100_003;
/// MOUNT (RFC 1813 appendix I).
pub const MOUNT_PROGRAM: u32 = 100_005;
/// The port mapper (RFC 1833), version 2.
pub const PORTMAP_PROGRAM: u32 = 100_000;
/// Version of NFS and of MOUNT.
pub const VERSION: u32 = 3;

/// `msg_type` of a call.
pub const CALL: u32 = 0;
/// `msg_type` of a reply.
pub const REPLY: u32 = 1;
/// Version of RPC itself.
pub const RPC_VERSION: u32 = 2;
/// Flavor of empty credentials.
pub const AUTH_NONE: u32 = 0;
/// Flavor of credentials with a user's numbers.
pub const AUTH_SYS: u32 = 1;
/// Longest body of a credential, in bytes.
pub const AUTH_MAX: usize = 400;
/// Groups of a credential.
pub const GROUPS_MAX: u32 = 16;
/// Longest name of a machine in a credential, in bytes.
pub const MACHINE_NAME_MAX: usize = 255;
/// Longest handle of NFSv3, in bytes.
pub const HANDLE_MAX: usize = 64;

/// Returns the reply that reports SYSTEM_ERR.
pub fn system_error(xid: u32) -> Vec<u8> {
    let mut out = Writer::default();
    out.words(&[xid, REPLY, 0, AUTH_NONE, 0, 5]);
    out.0
}
