//! The false answers.

use super::random::Random;
use super::state::{FuzzUmad, HEAD, STATUS_AT};
use crate::ib::mad::{self, DATA_AT, MAD_LEN, SA_DATA_AT};

/// Maximum number of NodeGUIDs in a fabric: walks through more nodes test no other code.
const GUIDS_MAX: u64 = 7;
/// Maximum length of a long answer in bytes.
const LONG_MAX: u64 = 40_000;
/// Byte offsets of a directed route's hop count and path, and of the subnet administration's AttributeOffset.
const HOP_COUNT_AT: usize = 7;
const PATH_AT: usize = 128;
const ATTRIBUTE_OFFSET_AT: usize = 44;

/// Texts that could confuse a terminal or a parser.
const TEXTS: &[&[u8]] = &[
    b"\x1b]0;title\x07\x1b[2J\x1b[31m",
    b"\x9b31m\xc2\x9b2J",
    b"\xff\xfe\xf0\x28\x8c\x28",
    b"line\nfeed\rreturn\ttab\x08\x7f",
    b"\"quotes\" \\ # {brackets} %s%n",
    b"MF0;\x1b[5m:MTS\xff/L99999999999/U999",
    b"MF0;sw:MTS3600/S255/U255",
    b"",
    b"no end, no end, no end, no end, no end, no end, no end, no end, no end, no end",
    b"honest",
];

/// Queues answers to a request, or none.
pub fn to(fuzz_umad: &mut FuzzUmad, packet: &[u8]) {
    let (head, question) = packet.split_at(HEAD);
    let mut answer = |mut head: Vec<u8>, status: i32, mad: &[u8]| {
        head[STATUS_AT..STATUS_AT + 4].copy_from_slice(&status.to_ne_bytes());
        head.extend(mad);
        fuzz_umad.waiting.push_back(head);
    };
    let mut random = fuzz_umad.random.clone();
    match random.below(40) {
        0 => {}
        1 => answer(head.to_vec(), libc::ETIMEDOUT, &question[..question.len().min(24)]),
        2 => answer(head.to_vec(), random.next() as i32, question),
        3 => {
            let mut other = question.to_vec();
            random.fill(&mut other);
            answer(head.to_vec(), 0, &other);
        }
        4 => {
            // Only the transaction ID is right.
            let mut other = vec![0; random.below(600) as usize];
            random.fill(&mut other);
            other.iter_mut().zip(question).skip(8).take(8).for_each(|(to, from)| *to = *from);
            answer(head.to_vec(), 0, &other);
        }
        kind => {
            let mut mad = lie(&mut random, fuzz_umad.fabric, question);
            match kind {
                5 => put(&mut mad, 4, &(random.next() as u16).to_be_bytes()),
                6 => put(&mut mad, 4, &mad::STATUS_REDIRECT.to_be_bytes()),
                7 => mad.truncate(random.below(257) as usize),
                8 => {
                    let at = random.below(mad.len() as u64) as usize;
                    random.fill(&mut mad[at..]);
                }
                9 => answer(head.to_vec(), 0, &mad),
                _ => {}
            }
            answer(head.to_vec(), 0, &mad);
        }
    }
    fuzz_umad.random = random;
}

/// A request from a client to a server.
pub fn question(fuzz_umad: &mut FuzzUmad) -> Vec<u8> {
    let mut packet = vec![0; HEAD + fuzz_umad.random.below(400) as usize];
    fuzz_umad.random.fill(&mut packet);
    if fuzz_umad.random.one_in(2) {
        packet[STATUS_AT..STATUS_AT + 4].fill(0);
        let class = fuzz_umad.random.pick(&[mad::CLASS_PING, mad::CLASS_SYSSTAT]);
        put(&mut packet[HEAD..], 0, &[1, class, 1, mad::GET]);
        let attribute = fuzz_umad.random.below(0x14) as u8;
        put(&mut packet[HEAD..], 16, &[0, attribute]);
    }
    packet
}

fn put(mad: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(room) = mad.get_mut(at..at + bytes.len()) {
        room.copy_from_slice(bytes);
    }
}

/// An answer that is almost right.
fn lie(random: &mut Random, fabric: u64, question: &[u8]) -> Vec<u8> {
    let mut mad = question.to_vec();
    mad.resize(MAD_LEN, 0);
    mad[3] |= mad::RESPONSE;
    put(&mut mad, 4, &[0, 0]);
    match mad::class(question) {
        mad::CLASS_SUBN_LID | mad::CLASS_SUBN_DIRECTED => {
            let data = &mut attribute(random, fabric, question)[..];
            put(&mut mad, DATA_AT, data);
        }
        mad::CLASS_SUBN_ADM => records(random, &mut mad),
        mad::CLASS_PERF => random.fill(&mut mad[DATA_AT..]),
        class => {
            let at = mad::data_at(class);
            random.fill(&mut mad[at..]);
            let text = random.pick(TEXTS);
            put(&mut mad, at, text);
            put(&mut mad, at + 16 + 16, text);
            if random.one_in(4) {
                mad.resize(MAD_LEN + random.below(LONG_MAX) as usize, b'\x1b');
            }
        }
    }
    mad
}

/// Records whose length may or may not be the announced one.
fn records(random: &mut Random, mad: &mut Vec<u8>) {
    let len = SA_DATA_AT as u64 + random.pick(&[0, 8, 112, 200, 2000, LONG_MAX]);
    mad.truncate(SA_DATA_AT);
    mad.resize(len as usize, 0);
    random.fill(&mut mad[SA_DATA_AT..]);
    for at in (SA_DATA_AT..mad.len()).step_by(96) {
        let text = random.pick(TEXTS);
        put(mad, at, text);
    }
    let any = random.below(40) as u16;
    let units = random.pick(&[0, 1, 8, 14, 64 / 8, 0xffff, any]);
    put(mad, ATTRIBUTE_OFFSET_AT, &units.to_be_bytes());
}

/// A subnet management attribute of one of a few nodes, chosen by the directed route.
fn attribute(random: &mut Random, fabric: u64, question: &[u8]) -> [u8; 64] {
    let hops = usize::from(question.get(HOP_COUNT_AT).copied().unwrap_or(0));
    let path = question.get(PATH_AT..(PATH_AT + 1 + hops).min(question.len())).unwrap_or_default();
    let mut node = path.iter().fold(fabric, |hash, port| Random::new(hash ^ u64::from(*port)).next());
    if random.one_in(8) {
        node = random.next();
    }
    let guid = node % (1 + fabric % GUIDS_MAX);
    // A node's attributes follow from its GUID, unless it lies about that, too.
    let mut own = Random::new(fabric ^ guid);
    if random.one_in(16) {
        own = random.clone();
    }
    let ports = own.pick(&[0_u8, 1, 2, 3, 8, 36, 254, 255]);
    let mut data = [0; 64];
    match mad::attribute(question) {
        0x10 => {
            random.fill(&mut data);
            let text = random.pick(TEXTS);
            let len = text.len().min(64);
            data[..len].copy_from_slice(&text[..len]);
        }
        0x11 => {
            random.fill(&mut data[28..]);
            data[..4].copy_from_slice(&[1, 1, own.pick(&[2, 2, 2, 1, 3, 0, 255]), ports]);
            data[4..12].copy_from_slice(&own.below(3).to_be_bytes());
            data[12..20].copy_from_slice(&guid.to_be_bytes());
            data[20..28].copy_from_slice(&(guid + random.below(2)).to_be_bytes());
            // Vendors with chassis, which tools examine further.
            let vendor = own.pick(&[0x8f1_u32, 0x2c9, 0x5ad, 0x66a, 0x119f, 0]);
            let device =
                own.pick(&[0xbd36_u16, 0x5a5b, 0x5a5c, 0x5a5d, 0x5a09, 0x5a38, 0x5a00, 0x5a60, 0x1003, 0xc738]);
            let any = random.next() as u8;
            let local = random.pick(&[0, 1, 1, 2, ports, ports.wrapping_add(1), 255, any]);
            data[30..32].copy_from_slice(&device.to_be_bytes());
            data[36..40].copy_from_slice(&(u32::from(local) << 24 | vendor).to_be_bytes());
        }
        0x12 => {
            random.fill(&mut data);
            let top = random.pick(&[0_u16, 1, 63, 64, 0xbfff, 0xc000, 0xffff]);
            data[6..8].copy_from_slice(&top.to_be_bytes());
        }
        0x15 => {
            random.fill(&mut data);
            let lid = random.pick(&[0_u16, 1, 2, 5, 5, 0xbfff, 0xc000, 0xffff]);
            data[16..18].copy_from_slice(&lid.to_be_bytes());
            if !random.one_in(4) {
                (data[32], data[33]) = (0x14, 0x52);
            }
        }
        _ => random.fill(&mut data),
    }
    data
}
