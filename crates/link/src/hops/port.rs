//! An adapter's port on a packet channel: composes and seals outgoing packets, verifies and parses incoming ones.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use weft_transport::{LocalRoute, LocalSource, RxPacket, TxBatch, TxPacket};
use weft_verbs::{DeviceId, Duration, Gid, GidType, Instant};
use weft_wire::Packet;
use weft_wire::grh::Grh;
use weft_wire::link_packet::{self, LinkPacket, VCRC_LEN};
use zerocopy::FromZeros;

use super::packet_channel::{ProcessEnd, ProcessFds};
use super::packet_ring::PortName;
use crate::seal::{copy_into, sealed_len};
use crate::stats::LinkStats;

/// Time until the next try on a full ring: meanwhile the switches take a good part of it.
const RETRY: Duration = Duration::from_micros(50);
/// After this long without room, waiting packets are lost: the switches carry no packets any more.
const STUCK_MAX: Duration = Duration::from_secs(4);
/// Maximum number of packets taken in one receive.
const PACKETS_PER_LOOK: usize = 64;

/// Capture callback for each packet as it was on the packet channel.
pub type Tap<'a> = Option<&'a mut dyn FnMut(&[u8])>;

/// The port of a process's adapters.
#[derive(Debug)]
pub struct HopsLink {
    end: ProcessEnd,
    /// Packets that found the ring full, in order.
    waiting: VecDeque<(PortName, Vec<u8>)>,
    blocked_until: Option<Instant>,
    /// Start of the time without any room.
    stuck_since: Option<Instant>,
    room: Vec<u8>,
    /// The daemon broke the rules of the ring: no packets come any more.
    broken: bool,
}

impl HopsLink {
    /// Makes the port on the packet channel that the daemon handed out.
    ///
    /// # Errors
    /// The memory is no packet channel, or there is no address space.
    pub fn new(fds: ProcessFds) -> io::Result<HopsLink> {
        let end = ProcessEnd::new(fds)?;
        Ok(HopsLink {
            end,
            waiting: VecDeque::new(),
            blocked_until: None,
            stuck_since: None,
            room: Vec::new(),
            broken: false,
        })
    }

    /// Returns a descriptor that is readable when packets arrived during a sleep, as long as the switches run.
    pub fn bell(&self) -> Option<BorrowedFd<'_>> {
        self.end.bell().map(AsFd::as_fd)
    }

    /// Returns when to retry packets that wait for room.
    #[inline]
    pub fn blocked_until(&self) -> Option<Instant> {
        self.blocked_until
    }

    /// Sends a batch.
    pub fn send(&mut self, now: Instant, batch: &TxBatch, mut tap: Tap<'_>, stats: &mut LinkStats) {
        for packet in &batch.packets {
            let Some(source) = packet.source else {
                stats.tx_refused += 1;
                continue;
            };
            compose(&mut self.room, batch, packet, source);
            if let Some(tap) = &mut tap {
                tap(&self.room);
            }
            stats.tx_packets += 1;
            stats.tx_bytes += sealed_len(packet) as u64;
            let port = (source.device.0, source.port);
            if !self.waiting.is_empty() || !self.end.push(port, &self.room) {
                stats.tx_delayed += 1;
                self.waiting.push_back((port, self.room.clone()));
            }
        }
        stats.tx_messages += 1;
        self.end.announce();
        self.blocked_until = (!self.waiting.is_empty()).then(|| now + RETRY);
    }

    /// Retries waiting packets; drops them if the switches take none for long.
    pub fn retry(&mut self, now: Instant, stats: &mut LinkStats) {
        let before = self.waiting.len();
        while let Some((port, packet)) = self.waiting.front() {
            if !self.end.push(*port, packet) {
                break;
            }
            self.waiting.pop_front();
        }
        self.end.announce();
        let since = self.stuck_since.take().filter(|_| self.waiting.len() == before).unwrap_or(now);
        if now.since(since) >= STUCK_MAX {
            stats.tx_overflowed += self.waiting.len() as u64;
            self.waiting.clear();
        }
        if self.waiting.is_empty() {
            self.blocked_until = None;
        } else {
            self.stuck_since = Some(since);
            // The longer nothing has moved, the rarer the retries.
            self.blocked_until = Some(now + RETRY.max(now.since(since) / 8));
        }
    }

    /// Takes arrived packets; returns how many there were.
    #[inline]
    pub fn receive(&mut self, mut tap: Tap<'_>, stats: &mut LinkStats, sink: &mut impl FnMut(&RxPacket<'_>)) -> usize {
        let mut came = 0;
        while came < PACKETS_PER_LOOK && !self.broken {
            let label = match self.end.pop(&mut self.room) {
                Ok(Some(label)) => label,
                Ok(None) => break,
                Err(_) => {
                    self.broken = true;
                    break;
                }
            };
            came += 1;
            deliver(&self.room, label, &mut tap, stats, sink);
        }
        if came > 0 {
            self.end.made_room();
        }
        came
    }

    /// Announces that no thread reads the ring before the bell rings. Returns `false` if packets wait already.
    pub fn fall_asleep(&mut self) -> bool {
        self.broken || self.end.fall_asleep()
    }

    /// Announces that a thread reads the ring again. Returns the bell if the switches are gone: the caller stops
    /// watching it.
    pub fn wake_up(&mut self) -> Option<OwnedFd> {
        let bell = self.end.wake_up()?;
        self.broken = true;
        Some(bell)
    }
}

/// Writes a packet in its format on the packet channel.
fn compose(out: &mut Vec<u8>, batch: &TxBatch, packet: &TxPacket, source: LocalSource) {
    let (av, ib_len) = (&packet.av, sealed_len(packet));
    let grh = av.is_global.then(|| {
        let gids = [av.sgid.0, av.dgid.0];
        Grh::new(av.traffic_class, av.flow_label, ib_len as u16, Grh::NEXT_HEADER_IBA, av.hop_limit, gids)
    });
    out.clear();
    let seed = link_packet::put_headers(out, (source.vl, av.sl & 0xf), [source.slid, av.dlid], grh.as_ref(), ib_len);
    let at = out.len();
    out.resize(at + ib_len, 0);
    copy_into(out.get_mut(at..).unwrap_or_default(), batch, packet, seed);
    out.extend_from_slice(&[0; VCRC_LEN]);
    link_packet::put_vcrc(out);
}

/// Verifies a packet and delivers it.
fn deliver(
    bytes: &[u8],
    ((device, port), sender): (PortName, u32),
    tap: &mut Tap<'_>,
    stats: &mut LinkStats,
    sink: &mut impl FnMut(&RxPacket<'_>),
) {
    let parsed = LinkPacket::parse(bytes).and_then(|link| Ok((link, Packet::parse(link.ib)?)));
    let Ok((link, packet)) = parsed else {
        stats.rx_malformed += 1;
        return;
    };
    if !link_packet::vcrc_holds(bytes) || !link.icrc_holds() {
        stats.rx_icrc_errors += 1;
        return;
    }
    stats.rx_packets += 1;
    stats.rx_bytes += link.ib.len() as u64;
    if let Some(tap) = tap {
        tap(bytes);
    }
    let grh = link.grh.unwrap_or_else(Grh::new_zeroed);
    sink(&RxPacket {
        packet,
        sgid: Gid(grh.sgid()),
        dgid: Gid(grh.dgid()),
        traffic_class: grh.traffic_class(),
        hop_limit: grh.hop_limit(),
        ifindex: 0,
        gid_type: GidType::IbOrRoceV1,
        local: Some(LocalRoute {
            slid: link.lrh.slid(),
            dlid: link.lrh.dlid(),
            sl: link.lrh.sl(),
            // The adapter knows the number of valid bits.
            path_bits: link.lrh.dlid() as u8,
            global: link.grh.is_some(),
            came_to: Some((DeviceId(device), port)),
            sender: Some(sender),
        }),
    });
}

#[cfg(test)]
mod tests {
    use super::super::packet_channel::SwitchEnd;
    use super::*;
    use weft_transport::LocalSource;
    use weft_verbs::AddressVector;
    use weft_wire::packet::HeaderBuf;
    use weft_wire::{Bth, Headers, Opcode, Psn};

    fn av(is_global: bool) -> AddressVector {
        AddressVector {
            sgid: Gid([1; 16]),
            sgid_index: 0,
            dgid: Gid([2; 16]),
            flow_label: 5,
            hop_limit: 64,
            traffic_class: 3,
            sl: 2,
            port_num: 1,
            dlid: 9,
            src_path_bits: 0,
            static_rate: 0,
            is_global,
            ifindex: 0,
            gid_type: GidType::IbOrRoceV1,
        }
    }

    fn batch(is_global: bool, payload: &[u8]) -> TxBatch {
        let mut batch = TxBatch::default();
        let bth = Bth::new(Opcode(4), 0x8001, 0x12_3456, Psn::new(7));
        let head = HeaderBuf::write(bth, &Headers::default(), payload.len());
        batch.begin(av(is_global), 0x12_3456, 0x77, head.as_slice());
        batch.bytes(payload);
        batch.packets[0].source = Some(LocalSource { device: DeviceId(11), port: 2, slid: 4, vl: 3 });
        batch
    }

    fn ends() -> (SwitchEnd, HopsLink) {
        let (switch, fds) = SwitchEnd::create().unwrap();
        (switch, HopsLink::new(fds).unwrap())
    }

    #[test]
    fn a_packet_goes_round_with_and_without_a_global_route() {
        let (mut switch, mut link) = ends();
        let mut stats = LinkStats::default();
        for is_global in [false, true] {
            link.send(Instant(0), &batch(is_global, b"seven.."), None, &mut stats);
            let mut bytes = Vec::new();
            assert_eq!(switch.pop(&mut bytes), Ok(Some((11, 2))));
            assert!(link_packet::vcrc_holds(&bytes));
            assert_eq!(LinkPacket::parse(&bytes).map(|packet| (packet.lrh.vl(), packet.lrh.sl())), Ok((3, 2)));
            assert!(switch.push((12, 1), 77, &bytes));
            let mut seen = 0;
            let came = link.receive(None, &mut stats, &mut |rx| {
                seen += 1;
                let local = rx.local.expect("a local route");
                assert_eq!((local.slid, local.dlid, local.sl, local.global), (4, 9, 2, is_global));
                assert_eq!((local.came_to, local.sender), (Some((DeviceId(12), 1)), Some(77)));
                assert_eq!(rx.packet.payload, b"seven..");
                assert_eq!(rx.sgid, if is_global { Gid([1; 16]) } else { Gid::ZERO });
            });
            assert_eq!((came, seen), (1, 1));
            let last = bytes.len() - 9;
            bytes[last] ^= 1;
            assert!(switch.push((12, 1), 77, &bytes));
            link.receive(None, &mut stats, &mut |_| panic!("damaged"));
        }
        assert_eq!((stats.rx_packets, stats.rx_icrc_errors, stats.tx_packets), (2, 2, 2));
    }

    #[test]
    fn what_finds_no_room_waits_and_keeps_its_order() {
        let (mut switch, mut link) = ends();
        let mut stats = LinkStats::default();
        let mut sent = 0_u32;
        while link.blocked_until().is_none() {
            link.send(Instant(0), &batch(false, &[sent as u8; 4096]), None, &mut stats);
            sent += 1;
        }
        let (mut bytes, mut came) = (Vec::new(), 0);
        while came < sent {
            while switch.pop(&mut bytes).unwrap().is_some() {
                assert_eq!(LinkPacket::parse(&bytes).unwrap().ib[12], came as u8);
                came += 1;
            }
            link.retry(Instant(1), &mut stats);
        }
        assert_eq!((link.blocked_until(), stats.tx_delayed), (None, 1));
        while link.blocked_until().is_none() {
            link.send(Instant(2), &batch(false, &[0; 4096]), None, &mut stats);
        }
        let (mut now, mut looks) = (Instant(2), 0);
        while let Some(at) = link.blocked_until() {
            now = at;
            looks += 1;
            link.retry(now, &mut stats);
        }
        assert!(now.since(Instant(2)) >= STUCK_MAX && looks < 200, "{looks} looks until {now:?}");
        assert_eq!(stats.tx_overflowed, 1, "nobody takes any");
    }
}
