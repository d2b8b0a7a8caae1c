//! Sessions of a client, byte by byte and at once; and clients that send anything.

use super::*;
use crate::fuzzing::{client, exports, next_bytes};
use crate::wire::{ANSWER_MAGIC, MAGIC, answer, info, option};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

const GREETING_LEN: usize = 18;

fn option_bytes(option: u32, data: &[u8]) -> Vec<u8> {
    let header = OptionHeader { magic: OPTION_MAGIC.into(), option: option.into(), length: (data.len() as u32).into() };
    [header.as_bytes(), data].concat()
}

fn go(name: &str, wanted: &[u16]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend(name.as_bytes());
    data.extend((wanted.len() as u16).to_be_bytes());
    data.extend(wanted.iter().flat_map(|kind| kind.to_be_bytes()));
    data
}

fn request_bytes(kind: u16, flags: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let header = RequestHeader {
        magic: REQUEST_MAGIC.into(),
        flags: flags.into(),
        command: kind.into(),
        cookie: cookie.into(),
        offset: offset.into(),
        length: length.into(),
    };
    header.as_bytes().to_vec()
}

fn output(connection: &mut Connection) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(next) = connection.transmit() {
        let bytes = next_bytes(next);
        // Half of what is left, so that data is sent in pieces, too.
        let count = bytes.len().div_ceil(2);
        all.extend(&bytes[..count]);
        connection.sent(count);
    }
    all
}

fn events(connection: &mut Connection, bytes: &[u8]) -> Vec<Event> {
    connection.receive(bytes);
    std::iter::from_fn(|| connection.poll()).collect()
}

/// Returns a connection after the negotiation, which chose this export.
fn chosen(name: &str) -> Connection {
    let mut connection = Connection::new(exports());
    let bytes = [3_u32.to_be_bytes().to_vec(), option_bytes(option::GO, &go(name, &[]))].concat();
    assert_eq!(events(&mut connection, &bytes), []);
    output(&mut connection);
    connection
}

/// Splits answers to options into their types and data.
fn answers(mut bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let mut all = Vec::new();
    while bytes.len() >= 20 {
        let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        assert_eq!(bytes[..8], ANSWER_MAGIC.to_be_bytes());
        let length = word(16) as usize;
        all.push((word(12), bytes[20..20 + length].to_vec()));
        bytes = &bytes[20 + length..];
    }
    assert!(bytes.is_empty());
    all
}

fn reply_of(cookie: u64, error: u32, data: &[u8]) -> Vec<u8> {
    [&REPLY_MAGIC.to_be_bytes()[..], &error.to_be_bytes(), &cookie.to_be_bytes(), data].concat()
}

#[test]
fn a_client_lists_and_chooses_byte_by_byte() {
    let mut connection = Connection::new(exports());
    let greeting = output(&mut connection);
    assert_eq!((greeting.len(), &greeting[..8]), (GREETING_LEN, &MAGIC.to_be_bytes()[..]));
    assert_eq!(greeting[16..], [0, 3]);
    let bytes = [
        3_u32.to_be_bytes().to_vec(),
        option_bytes(8, &[]),
        option_bytes(option::LIST, &[]),
        option_bytes(option::INFO, &go("7", &[])),
        option_bytes(option::GO, &go("2", &[info::NAME, info::DESCRIPTION])),
    ]
    .concat();
    for byte in &bytes {
        assert_eq!(events(&mut connection, &[*byte]), []);
    }
    let found = answers(&output(&mut connection));
    let kinds: Vec<u32> = found.iter().map(|(kind, _)| *kind).collect();
    use answer::{ACK, ERROR_UNKNOWN, ERROR_UNSUPPORTED, INFO, SERVER};
    assert_eq!(kinds, [ERROR_UNSUPPORTED, SERVER, SERVER, ACK, ERROR_UNKNOWN, INFO, INFO, INFO, INFO, ACK]);
    assert_eq!(found[1].1, b"\0\0\0\x011a disk");
    // Size, and flags: read-only, flush, FUA, several connections.
    assert_eq!(found[5].1, [&[0, 0][..], &(1_u64 << 20).to_be_bytes(), &[1, 0b1111]].concat());
    assert_eq!(found[6].1, [0, 3, 0, 0, 2, 0, 0, 0, 16, 0, 2, 0, 0, 0]);
    assert_eq!((&found[7].1[..], &found[8].1[..]), (&b"\0\x012"[..], &b"\0\x02a disk"[..]));
    assert_eq!(connection.export(), 1);
}

#[test]
fn the_old_way_to_choose_works_too() {
    for (flags, zeroes) in [(1_u32, 124), (3, 0)] {
        let mut connection = Connection::new(exports());
        output(&mut connection);
        let bytes = [flags.to_be_bytes().to_vec(), option_bytes(option::EXPORT_NAME, b"")].concat();
        assert_eq!(events(&mut connection, &bytes), []);
        let answer = output(&mut connection);
        assert_eq!((answer.len(), &answer[8..10]), (10 + zeroes, &[1, 0b0110_1101][..]));
    }
    let mut connection = Connection::new(exports());
    let bytes = [1_u32.to_be_bytes().to_vec(), option_bytes(option::EXPORT_NAME, b"x")].concat();
    assert_eq!(events(&mut connection, &bytes), [Event::End]);
}

#[test]
fn requests_are_executed_and_answered_in_any_order() {
    let mut connection = chosen("");
    let bytes = [
        request_bytes(command::READ, 0, 7, 512, 1024),
        request_bytes(command::WRITE, 1, 8, 0, 512),
        vec![9; 512],
        request_bytes(command::FLUSH, 0, 9, 0, 0),
        request_bytes(command::TRIM, 0, 10, 1024, 512),
        request_bytes(command::WRITE_ZEROES, 3, 11, 0, 1 << 20),
    ]
    .concat();
    let found = events(&mut connection, &bytes);
    let commands: Vec<_> = found
        .iter()
        .map(|event| match event {
            Event::Request(request) => request.command.clone(),
            Event::End => panic!("the end"),
        })
        .collect();
    let write = Command::Write { offset: 0, data: vec![9; 512], durable: true };
    let zeroes = Command::WriteZeroes { offset: 0, length: 1 << 20, may_be_hole: false, durable: true };
    let trim = Command::Trim { offset: 1024, length: 512, durable: false };
    assert_eq!(commands, [Command::Read { offset: 512, length: 1024 }, write, Command::Flush, trim, zeroes]);
    // The owner may give back what was written.
    connection.reply(RequestId(1), Ok(Reply::Bytes(vec![9; 512])));
    connection.reply(RequestId(0), Ok(Reply::Data(vec![5; 1024])));
    connection.reply(RequestId(4), Err(ErrorCode::Io));
    connection.reply(RequestId(4), Ok(Reply::default()));
    let expected = [reply_of(8, 0, &[]), reply_of(7, 0, &[5; 1024]), reply_of(11, 5, &[])].concat();
    assert_eq!((output(&mut connection), connection.in_progress()), (expected, 2));
    assert_eq!(events(&mut connection, &request_bytes(command::DISCONNECT, 0, 0, 0, 0)), [Event::End]);
}

#[test]
fn a_read_gets_all_of_its_data_or_fails() {
    let answered = |reply| {
        let mut connection = chosen("1");
        events(&mut connection, &request_bytes(command::READ, 0, 7, 0, 512));
        connection.reply(RequestId(0), Ok(reply));
        output(&mut connection)
    };
    assert_eq!(answered(Reply::Bytes(vec![6; 512])), reply_of(7, 0, &[6; 512]));
    assert_eq!(answered(Reply::Data(vec![6; 512])), reply_of(7, 0, &[6; 512]));
    for reply in [Reply::default(), Reply::Bytes(vec![6; 511]), Reply::Data(vec![6; 513])] {
        assert_eq!(answered(reply), reply_of(7, 5, &[]));
    }
}

#[test]
fn the_owner_appends_received_data_itself() {
    let mut connection = chosen("1");
    assert_eq!(connection.payload(), None);
    let first = [request_bytes(command::WRITE, 0, 7, 512, 1024), vec![1; 100]].concat();
    assert_eq!(events(&mut connection, &first), []);
    connection.payload().expect("data is arriving").extend([2; 900]);
    assert_eq!(connection.poll(), None);
    // More than the data: the next request follows at once.
    let rest = [vec![3; 24], request_bytes(command::FLUSH, 0, 8, 0, 0)].concat();
    connection.payload().expect("data is arriving").extend(rest);
    let data = [vec![1; 100], vec![2; 900], vec![3; 24]].concat();
    let write = Request { id: RequestId(0), command: Command::Write { offset: 512, data, durable: false } };
    let flush = Request { id: RequestId(1), command: Command::Flush };
    assert_eq!(events(&mut connection, &[]), [Event::Request(write), Event::Request(flush)]);
    assert_eq!(connection.payload(), None);
    // A refused WRITE wants no data.
    events(&mut connection, &[request_bytes(command::WRITE, 0, 7, 1 << 20, 512), vec![1; 100]].concat());
    assert_eq!(connection.payload(), None);
    assert_eq!(events(&mut connection, &vec![1; 412]), []);
    assert_eq!(events(&mut connection, &request_bytes(command::FLUSH, 0, 8, 0, 0)).len(), 1);
}

#[test]
fn memory_grows_with_the_data_of_a_long_write() {
    let length = 3 * PAYLOAD_STEP + 512;
    let disk = Export { bytes: 1 << 30, ..exports()[0].clone() };
    let mut connection: Connection = Connection::new([disk].into());
    let choice = [3_u32.to_be_bytes().to_vec(), option_bytes(option::GO, &go("1", &[]))].concat();
    events(&mut connection, &choice);
    events(&mut connection, &request_bytes(command::WRITE, 0, 1, 0, length as u32));
    let mut calls = 0;
    while let Some(data) = connection.payload() {
        assert!(data.capacity() <= (2 * data.len()).max(PAYLOAD_STEP), "{} of {}", data.capacity(), data.len());
        let room = data.capacity() - data.len();
        data.extend(std::iter::repeat_n(6, room));
        calls += 1;
    }
    let write = Command::Write { offset: 0, data: vec![6; length], durable: false };
    assert_eq!(events(&mut connection, &[]), [Event::Request(Request { id: RequestId(0), command: write })]);
    assert!(calls > 2);
}

#[test]
fn a_write_is_executed_once_its_data_is_there() {
    let mut connection = chosen("1");
    let begin = [request_bytes(command::READ, 0, 1, 0, 1024), request_bytes(command::WRITE, 0, 2, 0, 512)].concat();
    assert_eq!(events(&mut connection, &[&begin[..], &[1; 511]].concat()).len(), 1);
    let executing = |connection: &Connection| connection.executing().collect::<Vec<_>>();
    assert_eq!(executing(&connection), [(RequestId(0), 1024)]);
    assert_eq!(events(&mut connection, &[1]).len(), 1);
    assert_eq!(executing(&connection), [(RequestId(0), 1024), (RequestId(1), 512)]);
    connection.reply(RequestId(0), Err(ErrorCode::Io));
    assert_eq!(executing(&connection), [(RequestId(1), 512)]);
}

#[test]
fn requests_outside_of_the_export_fail_with_the_protocols_errors() {
    let answered = |name: &str, bytes: Vec<u8>| {
        let mut connection = chosen(name);
        assert_eq!(events(&mut connection, &bytes), []);
        output(&mut connection)
    };
    let read = |offset, length| request_bytes(command::READ, 0, 1, offset, length);
    for bytes in [read(1, 512), read(0, 513), read(0, 0), read(1 << 20, 512), read(!511, 512)] {
        assert_eq!(answered("1", bytes), reply_of(1, 22, &[]));
    }
    let write = |offset| [request_bytes(command::WRITE, 0, 2, offset, 512), vec![0; 512]].concat();
    assert_eq!(answered("1", write(1 << 20)), reply_of(2, 28, &[]));
    // The data of a refused WRITE is no request.
    let two = [write(0), write(512)].concat();
    assert_eq!(answered("2", two), [reply_of(2, 1, &[]), reply_of(2, 1, &[])].concat());
    assert_eq!(answered("2", request_bytes(command::TRIM, 0, 3, 0, 512)), reply_of(3, 1, &[]));
    assert_eq!(answered("1", request_bytes(7, 0, 3, 0, 512)), reply_of(3, 95, &[]));
    assert_eq!(answered("1", request_bytes(command::READ, 1 << 4, 3, 0, 512)), reply_of(3, 22, &[]));
}

#[test]
fn breaches_end_the_connection() {
    let mut connection = Connection::new(exports());
    assert_eq!(events(&mut connection, &[0x80, 0, 0, 1]), [Event::End]);
    let mut connection = Connection::new(exports());
    assert_eq!(events(&mut connection, &[&[0, 0, 0, 3], &[0; 16][..]].concat()), [Event::End]);
    assert_eq!(events(&mut chosen("1"), &[0; 28]), [Event::End]);
    let too_long = request_bytes(command::WRITE, 0, 1, 0, PAYLOAD_BYTES_MAX + 1);
    assert_eq!(events(&mut chosen("1"), &too_long), [Event::End]);
}

#[test]
fn long_options_are_skipped() {
    let mut connection = Connection::new(exports());
    output(&mut connection);
    let long = vec![1; OPTION_BYTES_MAX as usize + 1];
    let bytes = [3_u32.to_be_bytes().to_vec(), option_bytes(option::GO, &long), option_bytes(option::ABORT, &[])];
    assert_eq!(events(&mut connection, &bytes.concat()), [Event::End]);
    let found: Vec<u32> = answers(&output(&mut connection)).iter().map(|(kind, _)| *kind).collect();
    assert_eq!(found, [answer::ERROR_TOO_BIG, answer::ACK]);
}

#[test]
fn requests_wait_while_too_many_are_in_progress() {
    let mut connection = chosen("1");
    let read = request_bytes(command::READ, 0, 1, 0, 512);
    let found = events(&mut connection, &read.repeat(REQUESTS_MAX + 5));
    assert_eq!((found.len(), connection.wants_input()), (REQUESTS_MAX, false));
    connection.reply(RequestId(3), Ok(Reply::Bytes(vec![0; 512])));
    assert_eq!((events(&mut connection, &[]).len(), connection.wants_input()), (1, false));
    // Data counts, too, until the client has taken it.
    let mut connection = chosen("1");
    let read = request_bytes(command::READ, 0, 1, 0, 1 << 20);
    let found = events(&mut connection, &read.repeat(REQUESTS_MAX));
    assert_eq!(found.len(), REQUESTS_MAX);
    (0..REQUESTS_MAX as u64).for_each(|id| connection.reply(RequestId(id), Ok(Reply::Data(vec![0; 1 << 20]))));
    assert!(!connection.wants_input());
    output(&mut connection);
    assert!(connection.wants_input());
}

#[test]
fn a_server_withstands_any_client() {
    let mut requests = 0;
    for seed in 0..2000 {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut bytes = [3_u32.to_be_bytes().to_vec(), option_bytes(option::GO, &go("1", &[]))].concat();
        for _ in 0..40 {
            let any = random.next_u32();
            let (kind, length) = ((any % 9) as u16, (any >> 4) % 5 * 512 + u32::from(any & 0xf00 == 0));
            match any >> 28 {
                0 => bytes.extend(option_bytes(any % 12, &go("2", &[]))),
                1 => bytes.extend(any.to_be_bytes()),
                _ => bytes.extend(request_bytes(
                    kind,
                    (any >> 9 & 3) as u16,
                    1,
                    u64::from(any >> 20 & 0xff) * 512,
                    length,
                )),
            }
            if kind == command::WRITE {
                bytes.extend(std::iter::repeat_n(0, length as usize));
            }
        }
        requests += client(&bytes);
    }
    assert!(requests > 2000, "{requests} requests");
}
