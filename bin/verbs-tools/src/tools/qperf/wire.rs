//! The TCP protocol between client and server of qperf 0.4: structures of little-endian integers, each with the size of
//! the original's C structure.

/// Supported protocol version: major, minor, increment. The peer's first two numbers must match.
pub const VERSION: [u16; 3] = [0, 4, 11];
/// Bytes of a name, including the zero at its end.
pub const NAME: usize = 64;
/// Clocks in a [`Stat`]: real time, then those of `/proc/stat`.
pub const CLOCKS: usize = 9;

/// Numbers that a client may set for either side, in the order of the request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Number {
    AccessRecv,
    Affinity,
    AltPort,
    Flip,
    MsgSize,
    MtuSize,
    NoMsgs,
    PollMode,
    Port,
    RdAtomic,
    Sl,
    SockBufSize,
    SrcPathBits,
    Time,
    Timeout,
    UseCm,
}

/// How many [`Number`]s there are.
pub const NUMBERS: usize = 16;

/// The client's request to the server.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Request {
    /// Version of the client.
    pub version: [u16; 3],
    /// Index of the test.
    pub test: u16,
    /// Values by [`Number`].
    pub numbers: [u32; NUMBERS],
    /// Device and port.
    pub id: String,
    /// Static rate.
    pub static_rate: String,
}

impl Request {
    /// Its size in bytes.
    pub const LEN: usize = 8 + 4 * NUMBERS + 2 * NAME;

    /// The value of one number.
    pub fn number(&self, number: Number) -> u32 {
        self.numbers[number as usize]
    }

    /// Encodes it for the wire.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(Request::LEN);
        self.version.iter().chain([&self.test]).for_each(|n| out.extend(n.to_le_bytes()));
        self.numbers.iter().for_each(|n| out.extend(n.to_le_bytes()));
        name(&mut out, &self.id);
        name(&mut out, &self.static_rate);
        out
    }

    /// Decodes it from the wire.
    pub fn decode(bytes: &[u8; Request::LEN]) -> Request {
        let mut from = Reader(bytes);
        Request {
            version: std::array::from_fn(|_| from.integer(2) as u16),
            test: from.integer(2) as u16,
            numbers: std::array::from_fn(|_| from.integer(4) as u32),
            id: from.name(),
            static_rate: from.name(),
        }
    }
}

/// Counts of one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count {
    /// Bytes.
    pub bytes: u64,
    /// Messages.
    pub msgs: u64,
    /// Errors.
    pub errs: u64,
}

impl Count {
    /// Counts another message.
    pub fn add(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.msgs += 1;
    }

    /// Adds the counts that the other side made for this one.
    pub fn merge(&mut self, other: Count) {
        self.bytes += other.bytes;
        self.msgs += other.msgs;
        self.errs += other.errs;
    }
}

/// The measurements of one side.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stat {
    /// Number of processors.
    pub cpus: u32,
    /// Clock ticks per second.
    pub ticks: u32,
    /// Maximum number of completions taken at once.
    pub max_cqes: u32,
    /// Clocks at the start of the test.
    pub start: [u64; CLOCKS],
    /// Clocks at the end of the test.
    pub end: [u64; CLOCKS],
    /// Sent.
    pub sent: Count,
    /// Received.
    pub received: Count,
    /// Sent by the other side.
    pub remote_sent: Count,
    /// Received by the other side.
    pub remote_received: Count,
}

impl Stat {
    /// Its size in bytes: four more than its fields, like the C structure.
    pub const LEN: usize = 256;

    /// Encodes it for the wire.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(Stat::LEN);
        [self.cpus, self.ticks, self.max_cqes].iter().for_each(|n| out.extend(n.to_le_bytes()));
        self.start.iter().chain(&self.end).for_each(|n| out.extend(n.to_le_bytes()));
        for count in [self.sent, self.received, self.remote_sent, self.remote_received] {
            [count.bytes, count.msgs, count.errs].iter().for_each(|n| out.extend(n.to_le_bytes()));
        }
        out.resize(Stat::LEN, 0);
        out
    }

    /// Decodes it from the wire.
    pub fn decode(bytes: &[u8; Stat::LEN]) -> Stat {
        let mut from = Reader(bytes);
        let [cpus, ticks, max_cqes] = std::array::from_fn(|_| from.integer(4) as u32);
        let [start, end] = std::array::from_fn(|_| std::array::from_fn(|_| from.integer(8)));
        let mut count = || Count { bytes: from.integer(8), msgs: from.integer(8), errs: from.integer(8) };
        let [sent, received, remote_sent, remote_received] = std::array::from_fn(|_| count());
        Stat { cpus, ticks, max_cqes, start, end, sent, received, remote_sent, remote_received }
    }
}

/// The address of a side's queue pair and buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Node {
    /// Address of the buffer.
    pub vaddr: u64,
    /// LID.
    pub lid: u32,
    /// Queue pair.
    pub qpn: u32,
    /// First PSN.
    pub psn: u32,
    /// Shared receive queue.
    pub srqn: u32,
    /// Key of the buffer.
    pub rkey: u32,
    /// LID of the alternate path.
    pub alt_lid: u32,
    /// Maximum number of outstanding READs and atomics.
    pub rd_atomic: u32,
}

impl Node {
    /// Its size in bytes, four of them unused.
    pub const LEN: usize = 40;

    /// Encodes it for the wire.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.vaddr.to_le_bytes().to_vec();
        for n in [self.lid, self.qpn, self.psn, self.srqn, self.rkey, self.alt_lid, self.rd_atomic] {
            out.extend(n.to_le_bytes());
        }
        out.resize(Node::LEN, 0);
        out
    }

    /// Decodes it from the wire.
    pub fn decode(bytes: &[u8; Node::LEN]) -> Node {
        let mut from = Reader(bytes);
        let vaddr = from.integer(8);
        let [lid, qpn, psn, srqn, rkey, alt_lid, rd_atomic] = std::array::from_fn(|_| from.integer(4) as u32);
        Node { vaddr, lid, qpn, psn, srqn, rkey, alt_lid, rd_atomic }
    }
}

/// Description of a machine: host name, processor, system, qperf version.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Conf(pub [String; 4]);

impl Conf {
    /// Its size in bytes.
    pub const LEN: usize = 4 * NAME;

    /// Encodes it for the wire.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(Conf::LEN);
        self.0.iter().for_each(|text| name(&mut out, text));
        out
    }

    /// Decodes it from the wire.
    pub fn decode(bytes: &[u8; Conf::LEN]) -> Conf {
        let mut from = Reader(bytes);
        Conf(std::array::from_fn(|_| from.name()))
    }
}

fn name(out: &mut Vec<u8>, text: &str) {
    let bytes = &text.as_bytes()[..text.len().min(NAME - 1)];
    out.extend(bytes);
    out.resize(out.len() + NAME - bytes.len(), 0);
}

/// Reads from bytes whose length their type guarantees; returns zeroes past the end.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take(&mut self, len: usize) -> &[u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn integer(&mut self, len: usize) -> u64 {
        self.take(len).iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte))
    }

    fn name(&mut self) -> String {
        let bytes = self.take(NAME);
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_comes_back_as_it_was_sent() {
        let request = Request {
            version: VERSION,
            test: 13,
            numbers: std::array::from_fn(|i| i as u32 + 1),
            id: "rxe0:1".to_owned(),
            static_rate: String::new(),
        };
        let bytes = request.encode();
        assert_eq!((bytes.len(), &bytes[..12]), (200, &[0, 0, 4, 0, 11, 0, 13, 0, 1, 0, 0, 0][..]));
        assert_eq!(Request::decode(&bytes.try_into().unwrap()), request);

        let count = Count { bytes: 1, msgs: 2, errs: 3 };
        let stat = Stat { cpus: 2, ticks: 100, start: [7; 9], end: [9; 9], remote_received: count, ..Stat::default() };
        assert_eq!(Stat::decode(&stat.encode().try_into().unwrap()), stat);
        let node = Node { vaddr: 1 << 40, qpn: 17, rd_atomic: 16, ..Node::default() };
        assert_eq!(Node::decode(&node.encode().try_into().unwrap()), node);
        let conf = Conf(["a", "b", "c", "d"].map(str::to_owned));
        assert_eq!(Conf::decode(&conf.encode().try_into().unwrap()), conf);
    }

    #[test]
    fn a_name_is_cut_where_there_is_no_room() {
        let long = Conf([(); 4].map(|()| "x".repeat(100)));
        assert_eq!(Conf::decode(&long.encode().try_into().unwrap()).0[3].len(), NAME - 1);
        assert_eq!(Conf::decode(&[b'y'; Conf::LEN]).0[0].len(), NAME);
    }
}
