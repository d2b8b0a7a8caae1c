//! RPC calls and replies (RFC 5531 §9) of the embedded server.

use crate::protocol::credential::Credential;
use crate::protocol::rpc::{AUTH_MAX, AUTH_NONE, AUTH_SYS, CALL, REPLY, RPC_VERSION, VERSION};
use crate::protocol::xdr::{Reader, Writer};

/// A call.
#[derive(Debug)]
pub struct Call<'a> {
    /// Transaction.
    pub xid: u32,
    /// Program number.
    pub program: u32,
    /// Version of the program.
    pub version: u32,
    /// Procedure.
    pub procedure: u32,
    /// The caller.
    pub credential: Credential,
    /// The arguments.
    pub arguments: Reader<'a>,
}

/// Reason why a call is not executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The RPC version is not 2.
    RpcVersion,
    /// The flavor of the credential is not supported.
    AuthTooWeak,
    /// The credential is malformed.
    AuthBadCredential,
    /// The program is unknown.
    Program,
    /// The version of the program is not 3.
    Version,
    /// The procedure is unknown.
    Procedure,
    /// The arguments are malformed.
    Arguments,
}

/// Reads a call up to its arguments.
pub fn parse(bytes: &[u8]) -> Result<Call<'_>, Refusal> {
    let mut xdr = Reader::new(bytes);
    let mut words = [0; 6];
    for word in &mut words {
        *word = xdr.u32().ok_or(Refusal::Arguments)?;
    }
    let [xid, kind, rpc_version, program, version, procedure] = words;
    if kind != CALL {
        return Err(Refusal::Arguments);
    }
    if rpc_version != RPC_VERSION {
        return Err(Refusal::RpcVersion);
    }
    let flavor = xdr.u32().ok_or(Refusal::AuthBadCredential)?;
    let body = xdr.opaque(AUTH_MAX).ok_or(Refusal::AuthBadCredential)?;
    let credential = match flavor {
        AUTH_NONE => Credential::nobody(),
        AUTH_SYS => Credential::read(body).ok_or(Refusal::AuthBadCredential)?,
        _ => return Err(Refusal::AuthTooWeak),
    };
    let verifier = xdr.u32().and_then(|_| xdr.opaque(AUTH_MAX));
    verifier.ok_or(Refusal::Arguments)?;
    Ok(Call { xid, program, version, procedure, credential, arguments: xdr })
}

/// Begins the reply to a call that is executed: accepted, without a verifier, SUCCESS.
pub fn accepted(xid: u32) -> Writer {
    let mut out = Writer::default();
    out.words(&[xid, REPLY, 0, AUTH_NONE, 0, 0]);
    out
}

/// Bytes of [`accepted`].
pub const ACCEPTED_LEN: usize = 24;

/// Returns the reply to a call that is not executed.
pub fn refused(xid: u32, refusal: Refusal) -> Vec<u8> {
    let mut out = Writer::default();
    match refusal {
        // MSG_DENIED: RPC_MISMATCH, or AUTH_ERROR.
        Refusal::RpcVersion => out.words(&[xid, REPLY, 1, 0, RPC_VERSION, RPC_VERSION]),
        Refusal::AuthBadCredential => out.words(&[xid, REPLY, 1, 1, 1]),
        Refusal::AuthTooWeak => out.words(&[xid, REPLY, 1, 1, 5]),
        // MSG_ACCEPTED: PROG_UNAVAIL, PROG_MISMATCH, PROC_UNAVAIL, GARBAGE_ARGS.
        Refusal::Program => out.words(&[xid, REPLY, 0, AUTH_NONE, 0, 1]),
        Refusal::Version => out.words(&[xid, REPLY, 0, AUTH_NONE, 0, 2, VERSION, VERSION]),
        Refusal::Procedure => out.words(&[xid, REPLY, 0, AUTH_NONE, 0, 3]),
        Refusal::Arguments => out.words(&[xid, REPLY, 0, AUTH_NONE, 0, 4]),
    }
    out.0
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::protocol::rpc::NFS_PROGRAM;

    /// Returns a call with AUTH_SYS.
    pub fn call(program: u32, procedure: u32, uid: u32, arguments: &[u8]) -> Vec<u8> {
        let mut body = Writer::default();
        body.u32(7);
        body.opaque(b"host");
        body.words(&[uid, 100, 2, 100, 200]);
        let mut out = Writer::default();
        out.words(&[9, CALL, RPC_VERSION, program, VERSION, procedure, AUTH_SYS]);
        out.opaque(&body.0);
        out.words(&[AUTH_NONE, 0]);
        out.0.extend_from_slice(arguments);
        out.0
    }

    #[test]
    fn a_call_has_its_callers_identity() {
        let bytes = call(NFS_PROGRAM, 1, 1000, &[1, 2, 3, 4]);
        let mut parsed = parse(&bytes).expect("a call");
        assert_eq!(parsed.credential, Credential { uid: 1000, gid: 100, groups: vec![100, 200] });
        assert_eq!((parsed.xid, parsed.arguments.u32()), (9, Some(0x0102_0304)));
    }

    #[test]
    fn calls_that_cannot_be_read_have_a_reason() {
        let good = call(NFS_PROGRAM, 1, 0, &[]);
        let with = |at: usize, value: u8| {
            let mut bytes = good.clone();
            bytes[at] = value;
            parse(&bytes).map(drop)
        };
        assert_eq!(with(11, 3), Err(Refusal::RpcVersion));
        assert_eq!(with(27, 6), Err(Refusal::AuthTooWeak));
        assert_eq!(with(31, 200), Err(Refusal::AuthBadCredential));
        assert_eq!(parse(&good[..40]).map(drop), Err(Refusal::AuthBadCredential));
        assert_eq!(parse(&good[..20]).map(drop), Err(Refusal::Arguments));
        assert_eq!(accepted(1).0.len(), ACCEPTED_LEN);
    }
}
