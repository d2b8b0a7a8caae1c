//! Requests about files' content.

use std::sync::{Arc, mpsc};

use fuser::{FopenFlags, OpenAccMode, OpenFlags};
use rustix::io::Errno;

use super::files::OpenFile;
use super::metadata::{EXECUTE, EXTEND, MODIFY, READ};
use super::mounted::Mounted;
use super::nodes::Node;
use crate::client::ReadResult;
use crate::protocol::credential::Credential;

/// The kernel opens the file to execute it.
const FOR_EXECUTION: i32 = 0x20;

impl Mounted {
    /// Opens a file: the server grants the access, and content that the kernel has stays if it is the server's.
    pub fn open(&self, node: &Arc<Node>, by: &Arc<Credential>, flags: OpenFlags) -> Result<(u64, FopenFlags), Errno> {
        let (reads, writes) = match flags.acc_mode() {
            OpenAccMode::O_RDONLY => (true, false),
            OpenAccMode::O_WRONLY => (false, true),
            OpenAccMode::O_RDWR => (true, true),
        };
        if node.writes.is_dirty() {
            self.writes.settle(node);
        }
        let (granted, attributes) = self.nfs.access(by, &node.handle, READ | EXECUTE | MODIFY | EXTEND)?;
        let has = |rights: u32| granted & rights == rights;
        // Execution over the network is reading.
        let may_read = has(READ) || flags.0 & FOR_EXECUTION != 0 && has(EXECUTE);
        if reads && !may_read || writes && !has(MODIFY | EXTEND) {
            return Err(Errno::ACCESS);
        }
        let attributes = attributes.map_or_else(|| self.nfs.attributes(by, &node.handle), Ok)?;
        let is_same = node.is_same(&attributes);
        if !is_same {
            self.forget_attributes(node);
        }
        node.note(&attributes, &self.options.times);
        let keep = if is_same { FopenFlags::FOPEN_KEEP_CACHE } else { FopenFlags::empty() };
        Ok((self.files.add(node.clone(), by.clone()), keep))
    }

    /// READ: in several calls at a time if it is longer than one.
    pub fn read(&self, file: &OpenFile, offset: u64, size: u32) -> Result<Vec<u8>, Errno> {
        if file.node.writes.is_dirty() {
            self.writes.settle(&file.node);
        }
        let mut whole = Vec::new();
        let parts: Vec<_> =
            self.parts(offset, size).map(|(at, len)| (at, len, self.begin_read(file, at, len))).collect();
        for (at, len, part) in parts {
            let first = part.recv().unwrap_or(Err(Errno::NOTCONN))?;
            let part = self.complete(file, at, len, first)?;
            let is_short = part.len() < len as usize;
            whole.extend_from_slice(&part);
            if is_short {
                break;
            }
        }
        Ok(whole)
    }

    fn parts(&self, offset: u64, size: u32) -> impl Iterator<Item = (u64, u32)> + use<> {
        let max = self.options.read_max;
        (0..size).step_by(max as usize).map(move |at| (offset + u64::from(at), max.min(size - at)))
    }

    fn begin_read(&self, file: &OpenFile, at: u64, len: u32) -> mpsc::Receiver<Result<ReadResult, Errno>> {
        let (sender, receiver) = mpsc::sync_channel(1);
        // The receiver is gone if an earlier part failed.
        self.nfs.read_later(&file.by, &file.node.handle, (at, len), move |result| drop(sender.send(result)));
        receiver
    }

    /// Reads on, after a server that returned less than it was asked for and not the end.
    fn complete(&self, file: &OpenFile, at: u64, len: u32, first: ReadResult) -> Result<Vec<u8>, Errno> {
        let ReadResult { mut data, mut is_end } = first;
        while !is_end && !data.is_empty() && data.len() < len as usize {
            let (next, left) = (at + data.len() as u64, len - data.len() as u32);
            let more = self.begin_read(file, next, left).recv().unwrap_or(Err(Errno::NOTCONN))?;
            is_end = more.is_end || more.data.is_empty();
            data.extend_from_slice(&more.data);
        }
        Ok(data)
    }

    /// WRITE.
    pub fn write(&self, file: &OpenFile, offset: u64, data: &[u8]) -> Result<(), Errno> {
        if self.writes.write(&file.node, &file.by, offset, data)? {
            self.collects(&file.node);
        }
        if self.options.is_sync { self.flush(file) } else { Ok(()) }
    }

    /// FLUSH and FSYNC: waits until the server has committed all data.
    pub fn flush(&self, file: &OpenFile) -> Result<(), Errno> {
        self.writes.flush(&file.node)
    }

    /// RELEASE.
    pub fn release(&self, number: u64) -> Result<(), Errno> {
        let Some((file, is_last)) = self.files.remove(number) else { return Ok(()) };
        let flushed = self.writes.flush(&file.node);
        if is_last {
            self.remove_hidden(&file.node, &file.by);
        }
        flushed
    }
}
