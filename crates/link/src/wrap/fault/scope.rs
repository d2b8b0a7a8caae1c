//! Scope of the faults: which packets they concern, by direction, by time, by number, by kind and by flow.

use std::net::IpAddr;

use weft_verbs::{Duration, Instant};
use weft_wire::opcode::{Kind, Opcode};
use weft_wire::pcapng::Direction;

/// Packets that the faults concern. The default is all of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Scope {
    /// Packets that arrive, or packets that leave.
    pub direction: Direction,
    /// Time from the first packet to the faults' begin.
    pub after: Duration,
    /// Time from the faults' begin to their end; zero is for ever.
    pub lasting: Duration,
    /// Number of the first packet, of those of `kinds` and `flow`; the first of all is 1, and so is 0.
    pub from: u64,
    /// Number of packets; zero is all.
    pub count: u64,
    /// Kinds of packets.
    pub kinds: PacketKinds,
    /// Flows of packets.
    pub flow: FlowSet,
}

/// A set of flows; what it does not name may be anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlowSet {
    /// Address of the other end.
    pub peer: Option<IpAddr>,
    /// One of the addresses here.
    pub local: Option<IpAddr>,
    /// Number of the local queue pair.
    pub qpn: Option<u32>,
}

impl FlowSet {
    fn includes(&self, flow: &Flow) -> bool {
        self.peer.is_none_or(|peer| peer == flow.peer)
            && self.local.is_none_or(|local| local == flow.local)
            && self.qpn.is_none_or(|qpn| flow.qpn == Some(qpn))
    }
}

/// Ends of a packet's flow, in either direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flow {
    /// Address of the other end.
    pub peer: IpAddr,
    /// Address here.
    pub local: IpAddr,
    /// Number of the local queue pair; `None` if the packet is too short to name one.
    pub qpn: Option<u32>,
}

/// A set of kinds of packets; the empty one stands for all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PacketKinds(u8);

/// Names of the kinds; a kind's bit is its place here.
const NAMES: [&str; 6] = ["send", "write", "read", "response", "ack", "atomic"];

impl PacketKinds {
    /// Parses names with a plus between them: `read+response`.
    ///
    /// # Errors
    /// The reason, with all names.
    pub fn parse(text: &str) -> Result<PacketKinds, String> {
        text.split('+').map(str::trim).try_fold(PacketKinds(0), |set, name| {
            let place = NAMES.iter().position(|known| *known == name);
            let place =
                place.ok_or_else(|| format!("\"{name}\" is no kind of packet: there are {}", NAMES.join(", ")))?;
            Ok(PacketKinds(set.0 | 1 << place))
        })
    }

    /// Whether the set has this packet (BTH first).
    fn includes(self, ib: &[u8]) -> bool {
        let kind = ib.first().and_then(|code| Opcode(*code).info()).map(|info| info.kind);
        self.0 == 0 || kind.is_some_and(|kind| self.0 & 1 << place_of(kind) != 0)
    }
}

/// Returns a kind's place in [`NAMES`]: datagrams (UD) are sends, and all further requests count with the atomics.
fn place_of(kind: Kind) -> u8 {
    match kind {
        Kind::ReadRequest => 2,
        Kind::Acknowledge | Kind::CongestionNotification => 4,
        _ if kind.is_send() => 0,
        _ if kind.is_write() => 1,
        _ if kind.is_response() => 3,
        _ => 5,
    }
}

/// Progress of a scope: what has passed so far.
#[derive(Debug, Default)]
pub(super) struct Struck {
    /// When the first packet came.
    begun: Option<Instant>,
    /// Packets of the scope's kinds and flows so far.
    seen: u64,
}

impl Struck {
    /// Counts a packet (BTH first); whether the faults concern it.
    pub(super) fn includes(&mut self, scope: &Scope, now: Instant, flow: &Flow, ib: &[u8]) -> bool {
        let age = now.since(*self.begun.get_or_insert(now));
        if !scope.kinds.includes(ib) || !scope.flow.includes(flow) {
            return false;
        }
        self.seen += 1;
        let before = self.seen.checked_sub(scope.from.max(1));
        let by_number = before.is_some_and(|before| scope.count == 0 || before < scope.count);
        let by_time = age >= scope.after && (scope.lasting.is_zero() || age < scope.after + scope.lasting);
        by_number && by_time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_names() {
        let set = PacketKinds::parse("read + response").unwrap();
        let includes = |code: u8| set.includes(&[code]);
        assert!(includes(0x0c) && includes(0x0e) && includes(0x12) && includes(0xac));
        assert!(!includes(0x04) && !includes(0x11) && !includes(0x64) && !includes(0xff));
        assert!(PacketKinds::default().includes(&[0xff]) && PacketKinds::default().includes(&[]));
        assert!(PacketKinds::parse("nak").unwrap_err().contains("send, write, read, response, ack, atomic"));
    }

    #[test]
    fn datagrams_are_sends_and_every_opcode_has_a_kind() {
        assert!(PacketKinds::parse("send").unwrap().includes(&[0x64]));
        let all = PacketKinds::parse(&NAMES.join("+")).unwrap();
        assert!(Opcode::all().all(|info| all.includes(&[info.opcode.0])));
    }

    #[test]
    fn flows_have_addresses_and_a_queue_pair() {
        let (here, there) = (IpAddr::from([10, 0, 0, 2]), IpAddr::from([10, 0, 0, 1]));
        let flow = Flow { peer: there, local: here, qpn: Some(7) };
        let any = FlowSet::default();
        assert!(any.includes(&flow) && any.includes(&Flow { qpn: None, ..flow }));
        let set = FlowSet { peer: Some(there), local: Some(here), qpn: Some(7) };
        assert!(set.includes(&flow) && !set.includes(&Flow { qpn: None, ..flow }));
        for other in [
            FlowSet { peer: Some(here), ..set },
            FlowSet { local: Some(there), ..set },
            FlowSet { qpn: Some(0x0700), ..set },
        ] {
            assert!(!other.includes(&flow), "{other:?}");
        }
    }
}
