//! READ, WRITE and COMMIT.

use rustix::io::Errno;

use super::attributes::Attributes;
use super::errors::{TRY_LATER, errno_of};
use super::message::{self, Handle};
use super::nfs::{Nfs, about, results_of};
use crate::caller::Answer;
use crate::limits::TRANSFER_MAX;
use crate::protocol::credential::Credential;
use crate::protocol::xdr::{Reader, Writer};

const READ: u32 = 6;
const WRITE: u32 = 7;
const COMMIT: u32 = 21;

/// `stable_how`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stable {
    /// The data must be committed.
    Unstable = 0,
    /// Data and attributes are on the disk when the server replies.
    FileSync = 2,
}

/// Data of a file.
#[derive(Clone, Debug)]
pub struct ReadResult {
    /// The bytes.
    pub data: Vec<u8>,
    /// They reach the end of the file.
    pub is_end: bool,
}

/// Result of a WRITE.
#[derive(Clone, Copy, Debug)]
pub struct WriteResult {
    /// Bytes written.
    pub count: u32,
    /// They are on the disk.
    pub is_stable: bool,
    /// Number of the server's run: unstable data of an earlier run is lost.
    pub verifier: u64,
    /// Attributes after it, if the server told them.
    pub attributes: Option<Attributes>,
}

impl Nfs {
    /// READ without waiting for it.
    pub fn read_later(
        &self,
        by: &Credential,
        file: &Handle,
        at: (u64, u32),
        done: impl FnOnce(Result<ReadResult, Errno>) + Send + 'static,
    ) {
        let (mut out, (offset, count)) = (about(file), at);
        out.u64(offset);
        out.u32(count);
        let done = move |answer: Result<Answer, Errno>| done(answer.and_then(|answer| read_result(&answer, count)));
        self.submit(READ, by, &out, Box::new(done));
    }
}

/// Action after a WRITE; it does not block.
pub type WriteDone = Box<dyn FnOnce(Result<WriteResult, Errno>) + Send>;

/// Server that data is written to.
pub trait WriteServer: std::fmt::Debug + Send + Sync {
    /// WRITE without waiting for it, of data at an offset.
    fn write(&self, by: &Credential, file: &Handle, at: (u64, &[u8]), stable: Stable, done: WriteDone);

    /// COMMIT of the whole file. Returns the verifier.
    fn commit(&self, by: &Credential, file: &Handle) -> Result<(u64, Option<Attributes>), Errno>;
}

impl WriteServer for Nfs {
    fn write(&self, by: &Credential, file: &Handle, at: (u64, &[u8]), stable: Stable, done: WriteDone) {
        let (offset, data) = at;
        let mut out = Writer(Vec::with_capacity(128 + data.len()));
        file.write(&mut out);
        out.u64(offset);
        out.words(&[data.len() as u32, stable as u32]);
        out.opaque(data);
        let len = data.len() as u32;
        let done = move |answer: Result<Answer, Errno>| done(answer.and_then(|answer| write_result(&answer, len)));
        self.submit(WRITE, by, &out, Box::new(done));
    }

    fn commit(&self, by: &Credential, file: &Handle) -> Result<(u64, Option<Attributes>), Errno> {
        let mut out = about(file);
        out.u64(0);
        out.u32(0);
        self.call(COMMIT, by, &out, &|_, xdr| {
            let attributes = Attributes::read_wcc(xdr)?;
            Some((xdr.u64()?, attributes))
        })
    }
}

fn read_result(answer: &Answer, asked: u32) -> Result<ReadResult, Errno> {
    let read = |answer: &Answer, xdr: &mut Reader<'_>| {
        Attributes::read_post_op(xdr)?;
        let (count, is_end) = (xdr.u32()?, xdr.bool()?);
        let data = message::data(answer, xdr, asked.min(TRANSFER_MAX) as usize)?;
        (data.len() == count as usize).then_some(ReadResult { data, is_end })
    };
    results_of(answer, &read)?.map_err(errno_of)
}

fn write_result(answer: &Answer, sent: u32) -> Result<WriteResult, Errno> {
    let read = |_: &Answer, xdr: &mut Reader<'_>| {
        let attributes = Attributes::read_wcc(xdr)?;
        let (count, committed) = (xdr.u32()?, xdr.u32()?);
        Some(WriteResult { count: count.min(sent), is_stable: committed != 0, verifier: xdr.u64()?, attributes })
    };
    // The data is sent again.
    results_of(answer, &read)?.map_err(|status| if status == TRY_LATER { Errno::AGAIN } else { errno_of(status) })
}
