//! Fuzz target: bytes of a client.

use std::sync::Arc;

use crate::limits::{PAYLOAD_BYTES_MAX, RECEIVE_BYTES, REQUESTS_MAX};
use crate::{Command, Connection, ErrorCode, Event, Export, Reply, Request, Transmit};

/// Size of the export, and of its blocks.
const BYTES: u64 = 1 << 20;
const BLOCK: u32 = 512;

/// Returns two exports: the second is read-only.
pub fn exports() -> Arc<[Export]> {
    let disk = Export {
        name: "1".into(),
        description: "a disk".into(),
        bytes: BYTES,
        block_bytes: BLOCK,
        read_only: false,
        has_trim: true,
        has_write_zeroes: true,
    };
    [disk.clone(), Export { name: "2".into(), read_only: true, ..disk }].into()
}

/// Feeds a client's bytes to a connection, in pieces whose lengths come from the bytes, and replies to its requests late. Returns
/// the number of requests.
pub fn client(bytes: &[u8]) -> usize {
    let mut connection = Connection::new(exports());
    let mut waiting: Vec<Request> = Vec::new();
    let (mut requests, mut rest) = (0, bytes);
    let mut is_over = false;
    while let Some(first) = rest.first() {
        let (piece, after) = rest.split_at((usize::from(*first) + 1).min(rest.len()));
        rest = after;
        if connection.wants_input() {
            let piece = piece.get(..piece.len().min(RECEIVE_BYTES)).unwrap_or_default();
            match connection.payload().filter(|_| *first & 2 == 0) {
                Some(data) => data.extend(piece),
                None => connection.receive(piece),
            }
        }
        while let Some(event) = connection.poll() {
            match event {
                Event::Request(request) => {
                    assert!(!is_over);
                    requests += 1;
                    check(&request.command);
                    waiting.push(request);
                }
                Event::End => {
                    assert!(!std::mem::replace(&mut is_over, true), "it ends once");
                }
            }
        }
        // A WRITE whose data is on its way counts, too.
        let in_progress = connection.in_progress();
        assert!(waiting.len() <= REQUESTS_MAX && (waiting.len()..=waiting.len() + 1).contains(&in_progress));
        if *first & 1 == 0 {
            waiting.drain(..).for_each(|request| reply(&mut connection, &request));
        }
        let next = connection.transmit().map(next_bytes);
        if let Some(count) = next.map(|bytes| bytes.len().min(usize::from(*first) + 1)) {
            connection.sent(count);
        }
    }
    requests
}

/// Returns the bytes that are to be sent next.
pub fn next_bytes(next: Transmit<'_, Vec<u8>>) -> &[u8] {
    match next {
        Transmit::Bytes(bytes) => bytes,
        Transmit::Data(data, from) => data.get(from..).unwrap_or_default(),
    }
}

fn reply(connection: &mut Connection, request: &Request) {
    let result = match &request.command {
        Command::Read { offset: 0, length } => Ok(Reply::Bytes(vec![0; *length as usize])),
        // Too little: the client gets an error.
        Command::Read { offset: 512, length } => Ok(Reply::Data(vec![0; *length as usize - 1])),
        Command::Read { length, .. } => Ok(Reply::Data(vec![0; *length as usize])),
        Command::Flush => Err(ErrorCode::Io),
        _ => Ok(Reply::default()),
    };
    connection.reply(request.id, result);
}

/// Every request lies within the export.
fn check(command: &Command) {
    let (offset, length) = match command {
        Command::Read { offset, length }
        | Command::Trim { offset, length, .. }
        | Command::WriteZeroes { offset, length, .. } => (*offset, u64::from(*length)),
        Command::Write { offset, data, .. } => (*offset, data.len() as u64),
        Command::Flush => return,
    };
    assert!(length > 0 && offset + length <= BYTES && length <= u64::from(PAYLOAD_BYTES_MAX));
    assert!(offset.is_multiple_of(BLOCK.into()) && length.is_multiple_of(BLOCK.into()));
}
