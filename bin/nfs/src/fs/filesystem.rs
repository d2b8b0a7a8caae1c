//! The kernel's requests, each answered by the part of the client that carries it out.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use fuser::{
    AccessFlags, BsdFileFlags, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use rustix::io::Errno;

use super::convert::{errno, new_time};
use super::mounted::Mounted;
use super::names::EntryReply;
use crate::limits::{FUSE_BACKGROUND, NAME_MAX};
use crate::protocol::new_attributes::NewAttributes;

/// Unit of a file system's size.
const BLOCK: u64 = 4096;

/// The file system.
#[derive(Debug)]
pub struct FileSystem(pub Arc<Mounted>);

fn answer_entry(reply: ReplyEntry, result: Result<EntryReply, Errno>) {
    match result {
        Ok(entry) => {
            reply.entry_with_ttls(&entry.valid, &entry.name_valid, &entry.attributes, entry.generation());
        }
        Err(error) => reply.error(errno(error)),
    }
}

fn answer_empty(reply: ReplyEmpty, result: Result<(), Errno>) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(error)),
    }
}

impl Filesystem for FileSystem {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let wanted = [
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_AUTO_INVAL_DATA,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_ASYNC_DIO,
        ];
        // A kernel without one of them works as well.
        for flag in wanted {
            let _ = config.add_capabilities(flag);
        }
        let _ = config.set_max_write(self.0.options.write_max);
        let _ = config.set_max_background(FUSE_BACKGROUND);
        Ok(())
    }

    fn lookup(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let (fs, by) = (&self.0, self.0.users.of(req));
        answer_entry(reply, fs.node(parent).and_then(|dir| fs.look_up(&dir, &by, name.as_bytes())));
    }

    fn forget(&self, _: &Request, ino: INodeNo, nlookup: u64) {
        self.0.nodes.forget(ino.0, nlookup);
    }

    fn getattr(&self, req: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let (fs, by) = (&self.0, self.0.users.of(req));
        match fs.node(ino).and_then(|node| fs.get_attributes(&node, &by)) {
            Ok((valid, attributes)) => reply.attr(&valid, &attributes),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn setattr(
        &self,
        req: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        fh: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let fs = &self.0;
        // A file that is open stays accessible for its user.
        let by = match fh.and_then(|fh| fs.file(fh).ok()) {
            Some(file) => file.by.clone(),
            None => fs.users.of(req),
        };
        let mode = mode.map(|mode| mode & 0o7777);
        let new = NewAttributes { mode, uid, gid, size, accessed: new_time(atime), modified: new_time(mtime) };
        match fs.node(ino).and_then(|node| fs.change(&node, &by, &new)) {
            Ok((valid, attributes)) => reply.attr(&valid, &attributes),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn readlink(&self, req: &Request, ino: INodeNo, reply: ReplyData) {
        let (fs, by) = (&self.0, self.0.users.of(req));
        match fs.node(ino).and_then(|node| fs.link_text(&node, &by)) {
            Ok(text) => reply.data(&text),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn mknod(&self, req: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, rdev: u32, reply: ReplyEntry) {
        let (fs, by) = (&self.0, self.0.users.of(req));
        answer_entry(reply, fs.node(parent).and_then(|dir| fs.create_node(&dir, &by, name.as_bytes(), mode, rdev)));
    }

    fn mkdir(&self, req: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        let (fs, by) = (&self.0, self.0.users.of(req));
        answer_entry(reply, fs.node(parent).and_then(|dir| fs.create_directory(&dir, &by, name.as_bytes(), mode)));
    }

    fn unlink(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (fs, by) = (&self.0, self.0.users.of(req));
        answer_empty(reply, fs.node(parent).and_then(|dir| fs.remove_file(&dir, &by, name.as_bytes())));
    }

    fn rmdir(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (fs, by) = (&self.0, self.0.users.of(req));
        answer_empty(reply, fs.node(parent).and_then(|dir| fs.remove_directory(&dir, &by, name.as_bytes())));
    }

    fn symlink(&self, req: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let (fs, by, text) = (&self.0, self.0.users.of(req), target.as_os_str().as_bytes());
        answer_entry(reply, fs.node(parent).and_then(|dir| fs.create_link(&dir, &by, name.as_bytes(), text)));
    }

    fn rename(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (fs, by) = (&self.0, self.0.users.of(req));
        // The protocol has no other renames; programs do without.
        if !flags.is_empty() {
            return reply.error(errno(Errno::INVAL));
        }
        let renamed = fs.node(parent).and_then(|from| {
            let to = fs.node(newparent)?;
            fs.rename(&by, (&from, name.as_bytes()), (&to, newname.as_bytes()))
        });
        answer_empty(reply, renamed);
    }

    fn link(&self, req: &Request, ino: INodeNo, newparent: INodeNo, newname: &OsStr, reply: ReplyEntry) {
        let (fs, by) = (&self.0, self.0.users.of(req));
        let linked = fs.node(ino).and_then(|file| {
            let dir = fs.node(newparent)?;
            fs.create_hard_link(&file, &by, &dir, newname.as_bytes())
        });
        answer_entry(reply, linked);
    }

    fn open(&self, req: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let (fs, by) = (&self.0, self.0.users.of(req));
        match fs.node(ino).and_then(|node| fs.open(&node, &by, flags)) {
            Ok((number, flags)) => reply.opened(FileHandle(number), flags),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn create(&self, req: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, flags: i32, reply: ReplyCreate) {
        let (fs, by) = (&self.0, self.0.users.of(req));
        let is_new = flags & rustix::fs::OFlags::EXCL.bits() as i32 != 0;
        let created = fs.node(parent).and_then(|dir| fs.create_file(&dir, &by, name.as_bytes(), mode, is_new));
        match created {
            Ok(entry) => {
                let number = fs.files.add(entry.node.clone(), by);
                let (generation, flags) = (Generation(entry.node.generation), FopenFlags::FOPEN_KEEP_CACHE);
                reply.created(&entry.valid, &entry.attributes, generation, FileHandle(number), flags);
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.0.file(fh).and_then(|file| self.0.read(&file, offset, size)) {
            Ok(data) => reply.data(&data),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.0.file(fh).and_then(|file| self.0.write(&file, offset, data)) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, fh: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        answer_empty(reply, self.0.file(fh).and_then(|file| self.0.flush(&file)));
    }

    fn fsync(&self, _: &Request, _: INodeNo, fh: FileHandle, _: bool, reply: ReplyEmpty) {
        answer_empty(reply, self.0.file(fh).and_then(|file| self.0.flush(&file)));
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        answer_empty(reply, self.0.release(fh.0));
    }

    fn opendir(&self, req: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let (fs, by) = (&self.0, self.0.users.of(req));
        match fs.node(ino) {
            Ok(node) => reply.opened(FileHandle(fs.files.add(node, by)), FopenFlags::empty()),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn readdir(&self, _: &Request, _: INodeNo, fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        match self.0.file(fh).and_then(|dir| self.0.list(&dir, offset, &mut reply)) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn readdirplus(&self, _: &Request, _: INodeNo, fh: FileHandle, offset: u64, mut reply: ReplyDirectoryPlus) {
        match self.0.file(fh).and_then(|dir| self.0.list_with_attributes(&dir, offset, &mut reply)) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn releasedir(&self, _: &Request, _: INodeNo, fh: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.0.files.remove(fh.0);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        // Servers change directories on the disk before they reply.
        reply.ok();
    }

    fn statfs(&self, req: &Request, _: INodeNo, reply: ReplyStatfs) {
        match self.0.size(&self.0.users.of(req)) {
            Ok(size) => {
                let [blocks, free, available] = size.bytes.map(|bytes| bytes / BLOCK);
                let [files, files_free, _] = size.files;
                reply.statfs(blocks, free, available, files, files_free, BLOCK as u32, NAME_MAX as u32, BLOCK as u32);
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn access(&self, req: &Request, ino: INodeNo, mask: AccessFlags, reply: ReplyEmpty) {
        let (fs, by) = (&self.0, self.0.users.of(req));
        answer_empty(reply, fs.node(ino).and_then(|node| fs.check_access(&node, &by, mask)));
    }
}
