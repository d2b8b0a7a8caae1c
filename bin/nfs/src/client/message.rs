//! Messages of calls and replies.

use rustix::io::Errno;

use crate::caller::Answer;
use crate::protocol::credential::Credential;
use crate::protocol::rpc::{AUTH_NONE, AUTH_SYS, CALL, HANDLE_MAX, REPLY, RPC_VERSION, VERSION};
use crate::protocol::xdr::{Reader, Writer};

/// A file handle.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Handle(Vec<u8>);

impl Handle {
    /// Reads a handle.
    pub fn read(xdr: &mut Reader<'_>) -> Option<Handle> {
        xdr.opaque(HANDLE_MAX).map(|bytes| Handle(bytes.to_vec()))
    }

    /// Writes it.
    pub fn write(&self, out: &mut Writer) {
        out.opaque(&self.0);
    }
}

/// Returns a call up to its arguments; the transaction is filled in when it is sent.
pub fn call(program: u32, procedure: u32, credential: &Credential, machine: &[u8]) -> Writer {
    let mut out = Writer::default();
    out.words(&[0, CALL, RPC_VERSION, program, VERSION, procedure, AUTH_SYS]);
    out.opaque(&credential.to_bytes(machine));
    out.words(&[AUTH_NONE, 0]);
    out
}

/// Returns the results of a reply.
///
/// # Errors
/// The server did not execute the call: EACCES if it does not take the credentials, or else EOPNOTSUPP or EIO.
pub fn results(message: &[u8]) -> Result<Reader<'_>, Errno> {
    let mut xdr = Reader::new(message);
    let mut word = || xdr.u32().ok_or(Errno::IO);
    let (_xid, kind, is_denied) = (word()?, word()?, word()?);
    if kind != REPLY {
        return Err(Errno::IO);
    }
    if is_denied != 0 {
        // RPC_MISMATCH, or AUTH_ERROR.
        return Err(if word()? == 1 { Errno::ACCESS } else { Errno::IO });
    }
    let _flavor = word()?;
    xdr.opaque(crate::protocol::rpc::AUTH_MAX).ok_or(Errno::IO)?;
    match xdr.u32() {
        Some(0) => Ok(xdr),
        Some(1..=3) => Err(Errno::OPNOTSUPP),
        _ => Err(Errno::IO),
    }
}

/// Returns the data of an answer's only result: it is in memory of its own, or in the message. `None`: malformed.
pub fn data(answer: &Answer, xdr: &mut Reader<'_>, max: usize) -> Option<Vec<u8>> {
    match answer.results.first().filter(|written| !written.is_empty()) {
        Some(written) => {
            let len = usize::try_from(xdr.u32()?).ok()?;
            (len == written.len() && len <= max).then(|| written.clone())
        }
        None => xdr.opaque(max).map(<[u8]>::to_vec),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_that_are_not_results_are_errors() {
        let errno = |words: &[u32]| {
            let mut out = Writer::default();
            out.words(words);
            results(&out.0).map(|xdr| xdr.at())
        };
        assert_eq!(errno(&[9, 1, 0, 0, 0, 0]), Ok(24));
        assert_eq!(errno(&[9, 1, 0, 0, 0, 1]), Err(Errno::OPNOTSUPP));
        assert_eq!(errno(&[9, 1, 0, 0, 0, 5]), Err(Errno::IO));
        assert_eq!(errno(&[9, 1, 1, 1, 5]), Err(Errno::ACCESS));
        assert_eq!(errno(&[9, 1, 1, 0, 2, 2]), Err(Errno::IO));
        assert_eq!((errno(&[9, 0, 0, 0, 0, 0]), errno(&[9, 1])), (Err(Errno::IO), Err(Errno::IO)));
    }
}
