//! Calls to the embedded server as bytes, and their replies.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::exported::{Export, ExportOptions};
use super::message::{CallBytes, ReplyBytes};
use super::rpc::ACCEPTED_LEN;
use super::rpc::tests::call;
use crate::protocol::rpc::{MOUNT_PROGRAM, NFS_PROGRAM};
use crate::protocol::xdr::{Reader, Writer};

/// A directory that is removed at the end.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("weft-nfs-{name}-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).expect("a directory");
        Scratch(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Server {
    export: Export,
    scratch: Scratch,
}

/// Attributes that set nothing.
const NO_ATTRIBUTES: [u32; 6] = [0; 6];

impl Server {
    fn new(read_only: bool) -> Server {
        let scratch = Scratch::new("export");
        let options = ExportOptions { read_only, root_squash: false };
        Server { export: Export::open(scratch.path(), options).expect("a directory"), scratch }
    }

    /// Executes a call and returns the words behind the RPC header, the status first.
    fn run(&self, program: u32, procedure: u32, arguments: &Writer) -> Vec<u8> {
        let message = CallBytes::Inline(call(program, procedure, 0, &arguments.0));
        let reply = self.export.execute("client", &message, None);
        let ReplyBytes::Bytes(bytes) = reply.message else { panic!("no memory was given") };
        assert!(reply.results.iter().all(|result| result.end <= bytes.len()));
        bytes[ACCEPTED_LEN..].to_vec()
    }

    fn nfs(&self, procedure: u32, arguments: &Writer) -> Vec<u8> {
        self.run(NFS_PROGRAM, procedure, arguments)
    }

    fn root(&self) -> Vec<u8> {
        let mut arguments = Writer::default();
        arguments.opaque(b"/");
        let reply = self.run(MOUNT_PROGRAM, 1, &arguments);
        let mut xdr = Reader::new(&reply);
        assert_eq!(xdr.u32(), Some(0));
        xdr.opaque(64).expect("a handle").to_vec()
    }

    /// CREATE, with a number that tells calls apart.
    fn create(&self, dir: &[u8], name: &str, how: u32) -> (u32, Vec<u8>) {
        let mut arguments = named(dir, name);
        arguments.u32(how);
        arguments.words(&NO_ATTRIBUTES);
        let reply = self.nfs(8, &arguments);
        let mut xdr = Reader::new(&reply);
        let status = xdr.u32().expect("a status");
        xdr.u32();
        (status, xdr.opaque(64).unwrap_or_default().to_vec())
    }
}

fn handle(handle: &[u8]) -> Writer {
    let mut out = Writer::default();
    out.opaque(handle);
    out
}

fn named(dir: &[u8], name: &str) -> Writer {
    let mut out = handle(dir);
    out.opaque(name.as_bytes());
    out
}

fn status(reply: &[u8]) -> u32 {
    Reader::new(reply).u32().expect("a status")
}

#[test]
fn what_is_written_is_read_and_on_the_disk() {
    let server = Server::new(false);
    let root = server.root();
    let (created, file) = server.create(&root, "file", 1);
    assert_eq!(created, 0);
    assert_eq!(server.create(&root, "file", 1).0, 0, "the same call, repeated, has the same reply");
    let mut arguments = handle(&file);
    arguments.u64(2);
    arguments.words(&[5, 2]);
    arguments.opaque(b"hello");
    assert_eq!(status(&server.nfs(7, &arguments)), 0);
    assert_eq!(std::fs::read(server.scratch.path().join("file")).expect("the file"), b"\0\0hello");
    let mut arguments = handle(&file);
    arguments.u64(1);
    arguments.u32(100);
    let reply = server.nfs(6, &arguments);
    // Status and attributes; count, end, data.
    let mut xdr = Reader::new(&reply[4 + 88..]);
    assert_eq!((xdr.u32(), xdr.bool(), xdr.opaque(100)), (Some(6), Some(true), Some(&b"\0hello"[..])));
    // A length that the message does not have.
    let mut arguments = handle(&file);
    arguments.u64(0);
    arguments.words(&[500, 2, 500]);
    let message = CallBytes::Inline(call(NFS_PROGRAM, 7, 0, &arguments.0));
    let ReplyBytes::Bytes(reply) = server.export.execute("client", &message, None).message else { panic!() };
    assert_eq!(reply[20..24], [0, 0, 0, 4], "GARBAGE_ARGS");
}

#[test]
fn names_lead_nowhere_else() {
    let server = Server::new(false);
    let root = server.root();
    for name in ["..", ".", "", "a/b", "../x", "a\0"] {
        for procedure in [9, 12, 13] {
            let mut arguments = named(&root, name);
            arguments.words(&NO_ATTRIBUTES);
            assert_eq!(status(&server.nfs(procedure, &arguments)), 22, "{procedure} {name:?}");
        }
    }
    assert_eq!(status(&server.nfs(3, &named(&root, "a/b"))), 22);
    assert_eq!(status(&server.nfs(3, &named(&root, &"x".repeat(256)))), 63);
    assert_eq!(status(&server.nfs(3, &named(&root, "missing"))), 2);
    // The directory above the root is the root.
    let up = server.nfs(3, &named(&root, ".."));
    assert_eq!(Reader::new(&up[4..]).opaque(64), Some(&root[..]));
    // A file is no directory.
    let (_, file) = server.create(&root, "file", 0);
    assert_eq!(status(&server.nfs(3, &named(&file, "x"))), 20);
    assert_eq!(status(&server.nfs(1, &handle(b"foreign"))), 10001);
    let mut arguments = Writer::default();
    arguments.opaque(b"/../etc");
    assert_eq!(status(&server.run(MOUNT_PROGRAM, 1, &arguments)), 13);
}

#[test]
fn a_long_directory_is_listed_in_parts() {
    let server = Server::new(false);
    let root = server.root();
    for number in 0..500 {
        std::fs::write(server.scratch.path().join(format!("entry-{number}")), "").expect("a file");
    }
    for procedure in [16, 17] {
        let (mut cookie, mut names, mut parts) = (0, Vec::new(), 0);
        loop {
            let mut arguments = handle(&root);
            arguments.u64(cookie);
            arguments.u64(0);
            arguments.u32(8192);
            if procedure == 17 {
                arguments.u32(8192);
            }
            let reply = server.nfs(procedure, &arguments);
            assert!(reply.len() <= 8192, "{}", reply.len());
            parts += 1;
            let mut xdr = Reader::new(&reply);
            assert_eq!(xdr.u32(), Some(0));
            xdr.take(88 + 8).expect("attributes and verifier");
            while xdr.bool().expect("an entry, or the end") {
                xdr.u64().expect("a number");
                names.push(xdr.opaque(255).expect("a name").to_vec());
                cookie = xdr.u64().expect("a cookie");
                if procedure == 17 {
                    if xdr.bool().expect("attributes") {
                        xdr.take(84).expect("attributes");
                    }
                    if xdr.bool().expect("a handle") {
                        xdr.opaque(64).expect("a handle");
                    }
                }
            }
            if xdr.bool().expect("the end") {
                break;
            }
        }
        names.sort();
        names.dedup();
        assert!(names.len() == 502 && parts > 2, "{} names in {parts} parts", names.len());
    }
    let mut arguments = handle(&root);
    arguments.u64(0);
    arguments.u64(0);
    arguments.u32(16);
    assert_eq!(status(&server.nfs(16, &arguments)), 10005, "TOOSMALL");
}

#[test]
fn a_read_only_export_refuses_every_change() {
    let server = Server::new(true);
    let root = server.root();
    for procedure in [2, 7, 8, 9, 10, 11, 12, 13, 14, 15, 21] {
        assert_eq!(status(&server.nfs(procedure, &named(&root, "name"))), 30, "{procedure}");
    }
    assert_eq!(status(&server.nfs(1, &handle(&root))), 0);
    let mut arguments = handle(&root);
    arguments.u32(0x3f);
    let reply = server.nfs(4, &arguments);
    assert_eq!(reply[4 + 88..], 3_u32.to_be_bytes(), "READ and LOOKUP");
}

#[test]
fn unknown_programs_and_procedures_are_refused() {
    let server = Server::new(false);
    let refused = |program, procedure| {
        let message = CallBytes::Inline(call(program, procedure, 0, &[]));
        let ReplyBytes::Bytes(reply) = server.export.execute("client", &message, None).message else { panic!() };
        u32::from_be_bytes(*reply[20..].first_chunk().expect("a status"))
    };
    assert_eq!((refused(100_000, 0), refused(NFS_PROGRAM, 22), refused(MOUNT_PROGRAM, 9)), (1, 3, 3));
    assert_eq!((refused(NFS_PROGRAM, 0), refused(NFS_PROGRAM, 1)), (0, 4));
    // The port of MOUNT has no NFS.
    let reply = server.export.execute_mount(&call(NFS_PROGRAM, 0, 0, &[]));
    assert_eq!(reply[20..24], [0, 0, 0, 1]);
    for len in 0..60 {
        let bytes: Vec<u8> = (0..len).map(|byte: u8| byte.wrapping_mul(37)).collect();
        server.export.execute("client", &CallBytes::Inline(bytes), None);
    }
}
