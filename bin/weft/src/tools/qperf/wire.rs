//! What client and server of qperf 0.4 say to each other over TCP: structures of little-endian integers, each as long as
//! the C structure that it was.

/// Version of the protocol that we speak: major, minor, increment. The first two must be the peer's.
pub const VERSION: [u16; 3] = [0, 4, 11];
/// Bytes of a name, the zero at its end included.
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

/// What the server shall do.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Request {
    /// Version of the client.
    pub version: [u16; 3],
    /// Index of the test.
    pub test: u16,
    /// By [`Number`].
    pub numbers: [u32; NUMBERS],
    /// Device and port.
    pub id: String,
    /// Static rate.
    pub static_rate: String,
}

impl Request {
    /// Bytes of it.
    pub const LEN: usize = 8 + 4 * NUMBERS + 2 * NAME;

    /// One of the numbers.
    pub fn number(&self, number: Number) -> u32 {
        self.numbers[number as usize]
    }

    /// On the wire.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(Request::LEN);
        self.version.iter().chain([&self.test]).for_each(|n| out.extend(n.to_le_bytes()));
        self.numbers.iter().for_each(|n| out.extend(n.to_le_bytes()));
        name(&mut out, &self.id);
        name(&mut out, &self.static_rate);
        out
    }

    /// From the wire.
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

/// What was counted one way.
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
    /// Another message.
    pub fn add(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.msgs += 1;
    }

    /// What the other side counted for this one.
    pub fn merge(&mut self, other: Count) {
        self.bytes += other.bytes;
        self.msgs += other.msgs;
        self.errs += other.errs;
    }
}

/// What a side measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stat {
    /// Processors.
    pub cpus: u32,
    /// Ticks of the clocks in a second.
    pub ticks: u32,
    /// Most completions taken at once.
    pub max_cqes: u32,
    /// When the test began, in ticks.
    pub start: [u64; CLOCKS],
    /// When it ended.
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
    /// Bytes of it: four more than it says, as the C structure has.
    pub const LEN: usize = 256;

    /// On the wire.
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

    /// From the wire.
    pub fn decode(bytes: &[u8; Stat::LEN]) -> Stat {
        let mut from = Reader(bytes);
        let [cpus, ticks, max_cqes] = std::array::from_fn(|_| from.integer(4) as u32);
        let [start, end] = std::array::from_fn(|_| std::array::from_fn(|_| from.integer(8)));
        let mut count = || Count { bytes: from.integer(8), msgs: from.integer(8), errs: from.integer(8) };
        let [sent, received, remote_sent, remote_received] = std::array::from_fn(|_| count());
        Stat { cpus, ticks, max_cqes, start, end, sent, received, remote_sent, remote_received }
    }
}

/// Where a side's queue pair and buffer are.
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
    /// READs and atomics at a time.
    pub rd_atomic: u32,
}

impl Node {
    /// Bytes of it, four of them without meaning.
    pub const LEN: usize = 40;

    /// On the wire.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.vaddr.to_le_bytes().to_vec();
        for n in [self.lid, self.qpn, self.psn, self.srqn, self.rkey, self.alt_lid, self.rd_atomic] {
            out.extend(n.to_le_bytes());
        }
        out.resize(Node::LEN, 0);
        out
    }

    /// From the wire.
    pub fn decode(bytes: &[u8; Node::LEN]) -> Node {
        let mut from = Reader(bytes);
        let vaddr = from.integer(8);
        let [lid, qpn, psn, srqn, rkey, alt_lid, rd_atomic] = std::array::from_fn(|_| from.integer(4) as u32);
        Node { vaddr, lid, qpn, psn, srqn, rkey, alt_lid, rd_atomic }
    }
}

/// Names of a machine: its own, processor, system, qperf.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Conf(pub [String; 4]);

impl Conf {
    /// Bytes of it.
    pub const LEN: usize = 4 * NAME;

    /// On the wire.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(Conf::LEN);
        self.0.iter().for_each(|text| name(&mut out, text));
        out
    }

    /// From the wire.
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

/// Takes from bytes whose length was checked by their type; past the end there is nothing but zeroes.
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
