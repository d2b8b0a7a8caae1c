//! Clients of a server, on a socket of its own.

use super::*;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

const GREETING_AND_SIZE: usize = 18 + 10;
const READ: u16 = 0;
const WRITE: u16 = 1;
const LONG: u32 = 32 << 20;

fn server(name: &str, exports: usize) -> (NbdServer, std::path::PathBuf) {
    let path = std::env::temp_dir().join(format!("weft-nbd-{name}-{}", std::process::id()));
    let export = Export {
        name: "1".into(),
        description: "a disk".into(),
        bytes: 1 << 30,
        block_bytes: 512,
        read_only: false,
        has_trim: true,
        has_write_zeroes: true,
    };
    let _ = std::fs::remove_file(&path);
    (NbdServer::bind(&path, vec![export; exports]).expect("a socket"), path)
}

fn option(kind: u32, data: &[u8]) -> Vec<u8> {
    [b"IHAVEOPT", &kind.to_be_bytes()[..], &(data.len() as u32).to_be_bytes(), data].concat()
}

fn request(kind: u16, cookie: u64, length: u32) -> Vec<u8> {
    let fields: [&[u8]; 6] = [
        &0x2560_9513_u32.to_be_bytes(),
        &[0, 0],
        &kind.to_be_bytes(),
        &cookie.to_be_bytes(),
        &0_u64.to_be_bytes(),
        &length.to_be_bytes(),
    ];
    fields.concat()
}

/// Lets the server do what it can.
fn turns(server: &mut NbdServer) -> Vec<NbdRequest> {
    let mut requests = Vec::new();
    for _ in 0..8 {
        server.on_ready(&mut requests).expect("a turn");
    }
    requests
}

/// Connects, and chooses the export.
fn client(server: &mut NbdServer, path: &Path) -> UnixStream {
    let mut client = UnixStream::connect(path).expect("connected");
    let choice = [3_u32.to_be_bytes().to_vec(), option(1, b"1")].concat();
    client.write_all(&choice).expect("written");
    turns(server);
    client.read_exact(&mut [0; GREETING_AND_SIZE]).expect("the export");
    client
}

#[test]
fn requests_of_clients_that_have_gone_are_bounded() {
    let (mut server, path) = server("orphans", 1);
    let mut left = Vec::new();
    for _ in 0..5 {
        let mut client = client(&mut server, &path);
        client.write_all(&[request(READ, 1, LONG), request(READ, 2, LONG)].concat()).expect("written");
        left.extend(turns(&mut server));
        // A WRITE whose data never comes is nothing that would end.
        client.write_all(&[request(WRITE, 3, LONG), vec![0; 1000]].concat()).expect("written");
        assert!(turns(&mut server).is_empty());
        drop(client);
        turns(&mut server);
    }
    assert_eq!((left.len(), server.orphan_bytes, server.clients.len()), (10, 10 * LONG as usize, 0));
    let waiting = UnixStream::connect(&path).expect("the kernel has room");
    turns(&mut server);
    assert_eq!(server.clients.len(), 0);
    let mut requests = Vec::new();
    for request in left.drain(..2) {
        server.reply(request.name, Err(ErrorCode::Io), &mut requests).expect("no client is there");
    }
    turns(&mut server);
    assert_eq!((server.orphan_bytes, server.clients.len()), (8 * LONG as usize, 1));
    drop(waiting);
    for request in left {
        server.reply(request.name, Err(ErrorCode::Io), &mut requests).expect("no client is there");
    }
    assert_eq!((server.orphan_bytes, server.orphans.len(), requests.len()), (0, 0, 0));
    std::fs::remove_file(path).expect("removed");
}

#[test]
fn answers_that_did_not_fit_follow() {
    const LIST: u32 = 3;
    const COUNT: usize = 15;
    const EXPORTS: usize = 200;
    let (mut server, path) = server("answers", EXPORTS);
    let mut client = UnixStream::connect(&path).expect("connected");
    // The server keeps no more than 64 KiB of answers, and the socket takes all of those at once.
    let bytes = [3_u32.to_be_bytes().to_vec(), option(LIST, b"").repeat(COUNT)].concat();
    client.write_all(&bytes).expect("written");
    client.set_nonblocking(true).expect("a socket");
    let (mut answers, mut piece) = (0, [0; 4096]);
    for _ in 0..100 {
        turns(&mut server);
        if let Ok(count) = client.read(&mut piece) {
            answers += count;
        }
    }
    // Answers for the exports, with their names and descriptions, and the end of the list.
    assert_eq!(answers, 18 + COUNT * (EXPORTS * (20 + 4 + 1 + 6) + 20));
    std::fs::remove_file(path).expect("removed");
}
