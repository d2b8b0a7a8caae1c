//! Calls of NFSv3: their frame, and their repetition if the server asks for it.

use std::time::Duration;

use rustix::io::Errno;

use super::errors::{TRY_LATER, errno_of};
use super::inbox::Done;
use super::message::{self, Handle};
use super::transport::Transport;
use crate::caller::Answer;
use crate::protocol::credential::Credential;
use crate::protocol::rpc::NFS_PROGRAM;
use crate::protocol::status::Status;
use crate::protocol::xdr::{Reader, Writer};

/// Pauses before a call that the server asked to repeat: the first, and the longest.
const LATER: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// The procedures of NFSv3 on one server.
#[derive(Debug)]
pub struct Nfs {
    transport: Transport,
    machine: Vec<u8>,
}

/// Results after NFS3_OK.
type Read<'a, T> = &'a dyn Fn(&Answer, &mut Reader<'_>) -> Option<T>;

impl Nfs {
    /// Begins to use a transport.
    pub fn new(transport: Transport) -> Nfs {
        Nfs { transport, machine: rustix::system::uname().nodename().to_bytes().to_vec() }
    }

    /// Makes a call of any program, and returns its answer.
    pub(super) fn raw(&self, program: u32, procedure: u32, by: &Credential, arguments: &[u8]) -> Result<Answer, Errno> {
        let mut out = message::call(program, procedure, by, &self.machine);
        out.0.extend_from_slice(arguments);
        self.transport.call(out.0)
    }

    /// Makes a call with a status.
    pub(super) fn call<T>(
        &self,
        procedure: u32,
        by: &Credential,
        arguments: &Writer,
        read: Read<'_, T>,
    ) -> Result<T, Errno> {
        let mut pause = LATER.0;
        loop {
            let answer = self.raw(NFS_PROGRAM, procedure, by, &arguments.0)?;
            match results_of(&answer, read)? {
                Ok(results) => return Ok(results),
                Err(TRY_LATER) => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(LATER.1);
                }
                Err(status) => return Err(errno_of(status)),
            }
        }
    }

    /// Makes a call without waiting for its answer.
    pub(super) fn submit(&self, procedure: u32, by: &Credential, arguments: &Writer, done: Done) {
        let mut out = message::call(NFS_PROGRAM, procedure, by, &self.machine);
        out.0.extend_from_slice(&arguments.0);
        self.transport.submit(out.0, done);
    }
}

/// Returns the results of an answer, or the status of the failed operation.
///
/// # Errors
/// The answer is malformed, or the server did not execute the call.
pub(super) fn results_of<T>(answer: &Answer, read: Read<'_, T>) -> Result<Result<T, Status>, Errno> {
    let mut xdr = message::results(&answer.head)?;
    match xdr.u32().ok_or(Errno::IO)? {
        0 => read(answer, &mut xdr).map(Ok).ok_or(Errno::IO),
        status => Ok(Err(Status(status))),
    }
}

/// Begins arguments with a handle.
pub(super) fn about(handle: &Handle) -> Writer {
    let mut out = Writer::default();
    handle.write(&mut out);
    out
}

/// Begins arguments with a name in a directory.
pub(super) fn named(dir: &Handle, name: &[u8]) -> Writer {
    let mut out = about(dir);
    out.opaque(name);
    out
}
