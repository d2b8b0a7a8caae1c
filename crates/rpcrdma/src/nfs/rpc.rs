//! Headers of RPC calls and replies (RFC 5531 §9).

use crate::wire::xdr::XdrReader;

/// Program number of NFS.
pub(super) const NFS_PROGRAM: u32 = 100_003;
/// Longest body of a credential or verifier (RFC 5531 §8.2), in bytes.
const AUTH_MAX_BYTES: usize = 400;
/// Longest header of a reply that was accepted: six words, and the verifier.
pub(super) const REPLY_HEADER_MAX_BYTES: usize = 24 + AUTH_MAX_BYTES;

const CALL: u32 = 0;
const REPLY: u32 = 1;
const RPC_VERSION: u32 = 2;
const MSG_ACCEPTED: u32 = 0;
const SUCCESS: u32 = 0;
/// AUTH_NONE, AUTH_SYS, AUTH_SHORT. RPCSEC_GSS may protect arguments and results, and data that is encrypted or summed
/// must not leave the message (RFC 8166 §3.4.2).
const PLAIN_FLAVORS: std::ops::RangeInclusive<u32> = 0..=2;

/// Call that is in the clear.
#[derive(Clone, Copy, Debug)]
pub(super) struct RpcCall {
    pub(super) program: u32,
    pub(super) version: u32,
    pub(super) procedure: u32,
}

/// Reads up to the arguments. `None`: it is no call, or its arguments are protected.
pub(super) fn read_call(xdr: &mut XdrReader<'_>) -> Option<RpcCall> {
    let _xid = xdr.u32()?;
    if xdr.u32()? != CALL || xdr.u32()? != RPC_VERSION {
        return None;
    }
    let call = RpcCall { program: xdr.u32()?, version: xdr.u32()?, procedure: xdr.u32()? };
    if !PLAIN_FLAVORS.contains(&xdr.u32()?) {
        return None;
    }
    xdr.opaque(AUTH_MAX_BYTES)?;
    let _verifier_flavor = xdr.u32()?;
    xdr.opaque(AUTH_MAX_BYTES)?;
    Some(call)
}

/// Reads up to the results. `None`: the call did not succeed.
pub(super) fn read_reply(xdr: &mut XdrReader<'_>) -> Option<()> {
    let _xid = xdr.u32()?;
    if xdr.u32()? != REPLY || xdr.u32()? != MSG_ACCEPTED {
        return None;
    }
    let _verifier_flavor = xdr.u32()?;
    xdr.opaque(AUTH_MAX_BYTES)?;
    (xdr.u32()? == SUCCESS).then_some(())
}
