//! Embedded NFSv3 server (RFC 1813): a directory of this machine, for calls that arrive in any way.
//!
//! - `tree` turns handles into files, `handle` is their form;
//! - `nfs3` has the table of procedures, `files`, `names`, `listing` and `volume` execute them;
//! - `mount` is the protocol that gives out the first handle;
//! - `identity` is the user of an access, `open_files` and `replies` are what is kept between calls;
//! - `workers` are the threads.
//!
//! Crates exist for the protocol. Their XDR allocates as much as a length field says, before any byte of it arrived, and
//! their servers insist on a TCP port, which would bypass what the RDMA side enforces.

mod attributes;
mod files;
mod handle;
mod identity;
mod listing;
mod mount;
mod names;
mod nfs3;
mod open_files;
mod replies;
mod rpc;
mod status;
mod tree;
mod volume;
mod workers;
mod xdr;

use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result};
use rustix::fs::Mode;
use weft_client::verbs::Memory;

use crate::limits::HEAD_MAX;
use identity::{Credential, Users};
use open_files::OpenFiles;
use replies::Replies;
use tree::Tree;

pub use mount::MountPort;
pub use rpc::system_error;
pub use workers::{Done, Job, Workers};

/// Properties of an export.
#[derive(Clone, Copy, Debug)]
pub struct ExportOptions {
    /// Nothing may be changed.
    pub read_only: bool,
    /// The clients' root is the anonymous user.
    pub root_squash: bool,
}

/// Exported directory.
#[derive(Debug)]
pub struct Export {
    tree: Tree,
    users: Users,
    read_only: bool,
    open_files: OpenFiles,
    replies: Replies,
    /// Number of this run: clients send unstable data again when it changes.
    verifier: u64,
}

/// Message of a call.
#[derive(Debug)]
pub enum CallBytes {
    /// It was inline.
    Inline(Vec<u8>),
    /// So many bytes of registered memory.
    Registered(Memory, usize),
}

/// Reply to a call.
#[derive(Debug)]
pub struct Reply {
    /// The message.
    pub message: ReplyBytes,
    /// Its DDP-eligible results.
    pub results: Vec<Range<usize>>,
}

/// Message of a reply.
#[derive(Debug)]
pub enum ReplyBytes {
    /// Bytes.
    Bytes(Vec<u8>),
    /// So many bytes of the memory that was provided for it.
    Registered(usize),
}

/// A call with its circumstances.
#[derive(Debug)]
struct Circumstances<'a> {
    /// User, mapped.
    identity: Credential,
    message: &'a CallBytes,
    /// Memory for a reply with data.
    memory: Option<&'a Memory>,
    /// Data that the procedure left in the memory, and results.
    results: Vec<Range<usize>>,
    in_memory: bool,
}

impl CallBytes {
    /// Returns the first bytes, in which the arguments are.
    pub fn head(&self) -> Vec<u8> {
        match self {
            CallBytes::Inline(bytes) => bytes.get(..HEAD_MAX).unwrap_or(bytes).to_vec(),
            CallBytes::Registered(memory, len) => {
                let mut head = vec![0; (*len).min(HEAD_MAX)];
                memory.read(0, &mut head);
                head
            }
        }
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        match self {
            CallBytes::Inline(bytes) => bytes.len(),
            CallBytes::Registered(_, len) => *len,
        }
    }
}

impl Export {
    /// Opens a directory for export.
    ///
    /// # Errors
    /// It cannot be opened, or the system lacks a call that the server needs.
    pub fn open(path: &Path, options: ExportOptions) -> Result<Export> {
        std::fs::metadata("/proc/self/fd").context("/proc/self/fd: the server needs a mounted /proc")?;
        // Clients apply their own masks.
        rustix::process::umask(Mode::empty());
        Ok(Export {
            tree: Tree::open(path)?,
            users: Users::of_this_process(options.root_squash),
            read_only: options.read_only,
            open_files: OpenFiles::default(),
            replies: Replies::default(),
            verifier: weft_sys::random::u64(),
        })
    }

    /// Executes a call of NFS or MOUNT; `client` tells clients apart. Replies with data of files go to `memory`.
    pub fn execute(&self, client: &str, call: &CallBytes, memory: Option<&Memory>) -> Reply {
        let head = call.head();
        let xid = head.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
        let refused = |refusal| Reply { message: ReplyBytes::Bytes(rpc::refused(xid, refusal)), results: Vec::new() };
        match rpc::parse(&head) {
            Ok(parsed) if parsed.version != rpc::VERSION => refused(rpc::Refusal::Version),
            Ok(parsed) => match parsed.program {
                rpc::NFS_PROGRAM => self.execute_nfs(client, &head, parsed, call, memory).unwrap_or_else(refused),
                rpc::MOUNT_PROGRAM => match mount::execute(self, parsed) {
                    Ok(bytes) => Reply { message: ReplyBytes::Bytes(bytes), results: Vec::new() },
                    Err(refusal) => refused(refusal),
                },
                _ => refused(rpc::Refusal::Program),
            },
            Err(refusal) => refused(refusal),
        }
    }

    /// Executes a call of MOUNT, on the port for it: other programs are not available there.
    fn execute_mount(&self, bytes: &[u8]) -> Vec<u8> {
        let xid = bytes.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
        let executed = rpc::parse(bytes).and_then(|call| match (call.program, call.version) {
            (rpc::MOUNT_PROGRAM, rpc::VERSION) => mount::execute(self, call),
            (rpc::MOUNT_PROGRAM, _) => Err(rpc::Refusal::Version),
            _ => Err(rpc::Refusal::Program),
        });
        executed.unwrap_or_else(|refusal| rpc::refused(xid, refusal))
    }
}

#[cfg(test)]
mod tests;
