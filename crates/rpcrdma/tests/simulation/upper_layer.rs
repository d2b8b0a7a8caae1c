//! RPC exchanges: a call, and the reply to it, of NFSv3, of NFSv4, and of a protocol without a binding.

use crate::rng::Rng;

/// A call and its reply.
#[derive(Clone, Debug)]
pub struct Exchange {
    pub call: Vec<u8>,
    pub reply: Vec<u8>,
}

/// Longest data in an exchange, in bytes.
pub const DATA_MAX: usize = 100_000;
/// Longest part of a reply that is not eligible data, in bytes.
pub const REST_MAX: usize = 20_000;

/// Longest paths of a COMPOUND, and what stands around them, in bytes.
pub const PATHS_MAX: usize = OPERATIONS_MAX * 4200;

const OPERATIONS_MAX: usize = 6;

/// Builder of XDR.
#[derive(Default)]
struct Xdr(Vec<u8>);

impl Xdr {
    fn words(mut self, words: &[u32]) -> Xdr {
        words.iter().for_each(|word| self.0.extend_from_slice(&word.to_be_bytes()));
        self
    }

    fn fixed(mut self, bytes: &[u8]) -> Xdr {
        self.0.extend_from_slice(bytes);
        self
    }

    fn opaque(self, data: &[u8]) -> Xdr {
        let pad = data.len().next_multiple_of(4) - data.len();
        self.words(&[data.len() as u32]).fixed(data).fixed(&[0; 3][..pad])
    }
}

fn call(rng: &mut Rng, xid: u32, program: u32, version: u32, procedure: u32) -> Xdr {
    let machine = rng.within(0..=10) * 4;
    let credential = rng.bytes(machine);
    Xdr::default().words(&[xid, 0, 2, program, version, procedure, 1]).opaque(&credential).words(&[0, 0])
}

fn reply(xid: u32) -> Xdr {
    Xdr::default().words(&[xid, 1, 0, 0, 0, 0])
}

/// Sizes that meet every limit: none, short, around the inline thresholds, long.
fn size(rng: &mut Rng) -> usize {
    match rng.within(0..=9) {
        0 => 0,
        1..=3 => rng.within(1..=100),
        4..=6 => rng.within(100..=9000),
        7..=8 => rng.within(9000..=40_000),
        _ => rng.within(40_000..=DATA_MAX),
    }
}

fn data(rng: &mut Rng) -> Vec<u8> {
    let len = size(rng);
    rng.bytes(len)
}

fn path(rng: &mut Rng) -> Vec<u8> {
    let len = rng.within(1..=4096);
    rng.bytes(len)
}

/// Makes an exchange.
pub fn exchange(rng: &mut Rng, xid: u32) -> Exchange {
    match rng.within(0..=9) {
        0..=3 => nfs3(rng, xid),
        4..=7 => nfs4(rng, xid),
        _ => other(rng, xid),
    }
}

/// Makes a call of the server, and the client's reply; both are short.
pub fn backchannel(rng: &mut Rng, xid: u32) -> Exchange {
    let (arguments, results) = (rng.within(0..=100), rng.within(0..=100));
    let call = call(rng, xid, 0x4000_0000, 1, 1).fixed(&rng.bytes(arguments)).0;
    Exchange { call, reply: reply(xid).fixed(&rng.bytes(results)).0 }
}

fn other(rng: &mut Rng, xid: u32) -> Exchange {
    let (arguments, results) = (data(rng), size(rng).min(REST_MAX));
    let call = call(rng, xid, 100_005, 3, 1).fixed(&arguments).0;
    Exchange { call, reply: reply(xid).fixed(&rng.bytes(results)).0 }
}

fn nfs3(rng: &mut Rng, xid: u32) -> Exchange {
    let procedure = [5, 6, 7, 10][rng.within(0..=3)];
    let handle = rng.bytes(32);
    let call = call(rng, xid, 100_003, 3, procedure).opaque(&handle);
    let stale = rng.once_in(8);
    let attributes = if rng.once_in(2) { Xdr::default().words(&[1]).fixed(&rng.bytes(84)) } else { Xdr(vec![0; 4]) };
    let ok = |rest: Xdr| reply(xid).words(&[0]).fixed(&attributes.0).fixed(&rest.0);
    let (call, good) = match procedure {
        5 => (call, ok(Xdr::default().opaque(&path(rng)))),
        6 => {
            let data = data(rng);
            let count = (data.len() + rng.within(0..=100)) as u32;
            (call.words(&[0, 7, count]), ok(Xdr::default().words(&[data.len() as u32, 0]).opaque(&data)))
        }
        7 => {
            let data = data(rng);
            (call.words(&[0, 7, data.len() as u32, 2]).opaque(&data), ok(Xdr(vec![0; 100])))
        }
        _ => {
            let call = call.opaque(b"name").words(&[1, 0o777, 0, 0, 0, 0, 1]).opaque(&path(rng));
            (call, ok(Xdr(vec![0; 100])))
        }
    };
    let reply = if stale { reply(xid).words(&[70, 0]) } else { good };
    Exchange { call: call.0, reply: reply.0 }
}

fn nfs4(rng: &mut Rng, xid: u32) -> Exchange {
    let count = rng.within(0..=OPERATIONS_MAX) as u32;
    let mut call = call(rng, xid, 100_003, 4, 1).opaque(b"tag").words(&[1, count + 2]);
    call = call.words(&[53]).fixed(&rng.bytes(32)).words(&[22]).opaque(&rng.bytes(20));
    let mut results = Xdr::default().words(&[53, 0]).fixed(&rng.bytes(36)).words(&[22, 0]);
    let mut done = 2;
    let mut failed = false;
    // A reply's parts besides the data have a bound, and so has the whole.
    let mut room = DATA_MAX;
    for _ in 0..count {
        let (number, argument, result) = operation(rng, &mut room);
        call = call.words(&[number]).fixed(&argument);
        if failed {
            continue;
        }
        failed = rng.once_in(12);
        results = results.words(&[number, if failed { 13 } else { 0 }]);
        results = if failed { results } else { results.fixed(&result) };
        done += 1;
    }
    let status = if failed { 13 } else { 0 };
    let reply = reply(xid).words(&[status]).opaque(b"tag").words(&[done]).fixed(&results.0);
    Exchange { call: call.0, reply: reply.0 }
}

/// Makes an operation: its number, arguments and results.
fn operation(rng: &mut Rng, room: &mut usize) -> (u32, Vec<u8>, Vec<u8>) {
    let mut data = data(rng);
    data.truncate(*room);
    *room -= data.len();
    let result = Xdr::default();
    match rng.within(0..=4) {
        0 => {
            let count = (data.len() + rng.within(0..=9)) as u32;
            let argument = Xdr::default().fixed(&rng.bytes(24)).words(&[count]);
            (25, argument.0, result.words(&[1]).opaque(&data).0)
        }
        1 => (38, Xdr::default().fixed(&rng.bytes(28)).opaque(&data).0, rng.bytes(16)),
        2 => (27, Vec::new(), result.opaque(&path(rng)).0),
        3 => (9, vec![0, 0, 0, 1, 0, 0, 0, 9], result.words(&[1, 9]).opaque(&rng.bytes(40)).0),
        // LOCKU, which the binding does not know.
        _ => (14, rng.bytes(40), rng.bytes(16)),
    }
}
