//! RoCE v1 over packet sockets, for processes that may open them: a frame is GRH, BTH and the rest, behind ethertype
//! 0x8915 (IBA A16). Frames leave one by one; RoCE v2 is faster. Packets to this host itself use its loopback
//! interface, because frames sent on an adapter do not come back.

use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use rustc_hash::FxHashMap;
use weft_sys::fork;
use weft_sys::neighbour;
use weft_sys::packet::{LinkAddress, PacketSocket};
use weft_transport::{TxBatch, TxPacket};
use weft_verbs::{Duration, Gid, GidType, Instant};
use weft_wire::ROCE_V1_ETHERTYPE;
use weft_wire::grh::Grh;
use weft_wire::icrc;
use weft_wire::roce;
use zerocopy::IntoBytes;

use crate::datagram::Datagram;
use crate::seal;
use crate::stats::LinkStats;

/// Interface index of loopback: the first one in every network namespace.
const LOOPBACK: u32 = 1;
/// Maximum number of frames received in one turn.
const FRAMES_PER_TURN: usize = 64;
/// Reading the socket costs a system call: while nothing arrives, one turn in this many reads it.
const COLD_PERIOD: u32 = 64;
/// Turns after the last frame, in or out, during which each turn reads the socket.
const WARM_TURNS: u32 = 4096;
/// Maximum number of cached neighbours; beyond it the cache is cleared.
const NEIGHBOURS_MAX: usize = 4096;
/// How long a neighbour's lookup result stays valid: found, and not found.
const FOUND_HOLDS: Duration = Duration::from_secs(5);
const MISSED_HOLDS: Duration = Duration::from_millis(20);
/// Checks of the kernel's table after making it resolve a neighbour, and the pause between two. A present neighbour
/// answers much sooner; a packet that cannot wait longer is lost, as on any wire.
const LOOKS: u32 = 20;
const LOOK_PAUSE: std::time::Duration = std::time::Duration::from_micros(100);
/// After an unsuccessful wait, the next neighbours get no wait: a thread that serves many peers, and answers any
/// requester, must not sleep for every address that a peer makes up.
const REST: Duration = Duration::from_millis(100);
/// Hop limit if the address vector has none.
const HOP_LIMIT_DEFAULT: u8 = weft_sys::udp::HOP_LIMIT_DEFAULT;

/// Capture callback for each sent packet.
pub type Tap<'a> = &'a mut dyn FnMut(&Grh, &[u8]);

#[derive(Clone, Copy, Debug)]
struct Neighbour {
    address: Option<LinkAddress>,
    until: Instant,
}

/// The RoCE v1 link.
#[derive(Debug)]
pub struct EtherLink {
    socket: PacketSocket,
    neighbours: FxHashMap<(u32, Gid), Neighbour>,
    patience: Patience,
    buffer: Box<[u8]>,
    frame: Vec<u8>,
    turn: u32,
    warm: u32,
}

impl EtherLink {
    /// Opens the link for the queue pairs of a slot.
    ///
    /// # Errors
    /// The process lacks CAP_NET_RAW.
    pub fn open(slot: u32) -> std::io::Result<EtherLink> {
        let socket = PacketSocket::open(ROCE_V1_ETHERTYPE, Grh::LEN as u32, slot)?;
        fork::track(&socket);
        Ok(EtherLink {
            socket,
            neighbours: FxHashMap::default(),
            patience: Patience::default(),
            buffer: vec![0; weft_sys::udp::RECEIVE_BYTES_MAX].into_boxed_slice(),
            frame: Vec::new(),
            turn: 0,
            warm: 0,
        })
    }

    /// Returns the socket, to sleep on.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Whether a packet is for this link.
    #[inline]
    pub fn takes(packet: &TxPacket) -> bool {
        packet.av.gid_type == GidType::IbOrRoceV1
    }

    /// Starts or stops receiving frames to a group through an interface.
    ///
    /// # Errors
    /// There is no such interface.
    pub fn membership(&self, join: bool, group: Gid, ifindex: u32) -> std::io::Result<()> {
        self.socket.membership(join, &LinkAddress { ifindex, mac: group_mac(group) })
    }

    /// Sends the packets of a batch that are for this link.
    pub fn send(&mut self, now: Instant, batch: &TxBatch, mut tap: Option<Tap<'_>>, stats: &mut LinkStats) {
        for packet in batch.packets.iter().filter(|packet| EtherLink::takes(packet)) {
            self.warm = WARM_TURNS;
            let Some(to) = self.address_of(now, packet.av.dgid, packet.av.ifindex) else {
                stats.tx_unresolved += 1;
                continue;
            };
            let grh = self.build(batch, packet);
            let Some(ib) = self.frame.get(Grh::LEN..) else { continue };
            let mut sent = self.socket.send(&to, &self.frame);
            if sent.is_ok() && packet.av.dgid.is_multicast() && to.ifindex != LOOPBACK {
                // The group may have members on this host as well.
                sent = self.socket.send(&LinkAddress { ifindex: LOOPBACK, ..to }, &self.frame);
            }
            match sent {
                Ok(()) => {
                    stats.tx_packets += 1;
                    stats.tx_messages += 1;
                    stats.tx_bytes += ib.len() as u64;
                    if let Some(tap) = &mut tap {
                        tap(&grh, ib);
                    }
                }
                Err(_) => stats.tx_refused += 1,
            }
        }
    }

    /// Writes the frame.
    fn build(&mut self, batch: &TxBatch, packet: &TxPacket) -> Grh {
        let av = &packet.av;
        let len = seal::sealed_len(packet);
        let hop_limit = if av.hop_limit == 0 { HOP_LIMIT_DEFAULT } else { av.hop_limit };
        let gids = [av.sgid.0, av.dgid.0];
        let grh = Grh::new(av.traffic_class, av.flow_label, len as u16, Grh::NEXT_HEADER_IBA, hop_limit, gids);
        self.frame.clear();
        self.frame.extend_from_slice(grh.as_bytes());
        self.frame.resize(Grh::LEN + len, 0);
        seal::copy_into(&mut self.frame[Grh::LEN..], batch, packet, icrc::seed_grh(&grh));
        grh
    }

    /// Receives some of the waiting frames; returns how many came. `thorough`: reads the socket even if nothing came
    /// lately.
    pub fn receive(
        &mut self,
        thorough: bool,
        stats: &mut LinkStats,
        each: &mut impl FnMut(&Datagram<'_>, &mut LinkStats),
    ) -> usize {
        self.turn = self.turn.wrapping_add(1);
        if self.warm == 0 && !thorough && !self.turn.is_multiple_of(COLD_PERIOD) {
            return 0;
        }
        self.warm = self.warm.saturating_sub(1);
        let mut count = 0;
        while count < FRAMES_PER_TURN
            && let Ok(Some((len, from))) = self.socket.receive(&mut self.buffer)
        {
            count += 1;
            self.warm = WARM_TURNS;
            stats.rx_messages += 1;
            match roce::split_v1(self.buffer.get(..len).unwrap_or_default()) {
                Ok((grh, ib)) => each(&datagram(grh, ib, from.ifindex), stats),
                Err(_) => stats.rx_malformed += 1,
            }
        }
        count
    }

    fn address_of(&mut self, now: Instant, gid: Gid, ifindex: u32) -> Option<LinkAddress> {
        if gid.is_multicast() {
            return Some(LinkAddress { ifindex, mac: group_mac(gid) });
        }
        match self.neighbours.get(&(ifindex, gid)) {
            Some(known) if now < known.until => known.address,
            _ => {
                let address = find(gid.ip(), ifindex, self.patience.looks(now));
                self.patience.note(now, address.is_some());
                let until = now + if address.is_some() { FOUND_HOLDS } else { MISSED_HOLDS };
                if self.neighbours.len() >= NEIGHBOURS_MAX {
                    self.neighbours.clear();
                }
                self.neighbours.insert((ifindex, gid), Neighbour { address, until });
                address
            }
        }
    }
}

impl Drop for EtherLink {
    fn drop(&mut self) {
        fork::forget(&self.socket);
    }
}

/// Decides whether to wait for neighbours.
#[derive(Clone, Copy, Debug, Default)]
struct Patience {
    rests_until: Option<Instant>,
}

impl Patience {
    /// Returns how many checks a neighbour gets now.
    fn looks(&self, now: Instant) -> u32 {
        if self.rests_until.is_some_and(|until| now < until) { 1 } else { LOOKS }
    }

    /// Records whether a neighbour was found.
    fn note(&mut self, now: Instant, found: bool) {
        if !found && self.looks(now) == LOOKS {
            self.rests_until = Some(now + REST);
        }
    }
}

#[cold]
fn find(ip: IpAddr, ifindex: u32, looks: u32) -> Option<LinkAddress> {
    if neighbour::is_local(ip, ifindex).unwrap_or(false) {
        return Some(LinkAddress { ifindex: LOOPBACK, mac: [0; 6] });
    }
    for look in 0..looks {
        if look > 0 {
            std::thread::sleep(LOOK_PAUSE);
        }
        if let Ok(Some(mac)) = neighbour::hardware_address(ip, ifindex) {
            return Some(LinkAddress { ifindex, mac });
        }
        if look == 0 {
            neighbour::look_for(ip, ifindex);
        }
    }
    None
}

/// Returns the Ethernet address of a group, by the last four bytes of its GID (RFC 2464 §7; RoCE adapters do the same
/// for IPv4's groups).
fn group_mac(group: Gid) -> [u8; 6] {
    let g = group.0;
    [0x33, 0x33, g[12], g[13], g[14], g[15]]
}

fn datagram(grh: Grh, ib: &[u8], ifindex: u32) -> Datagram<'_> {
    Datagram {
        ib,
        src: Gid(grh.sgid()).ip(),
        sport: 0,
        dst: Gid(grh.dgid()).ip(),
        // Frames received on loopback are for any interface that has the address.
        ifindex: if ifindex == LOOPBACK { 0 } else { ifindex },
        traffic_class: grh.traffic_class(),
        hop_limit: grh.hop_limit(),
        segment: 0,
        grh: Some(grh),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waited_in_vain_rests_however_many_neighbours_are_missed() {
        let (mut patience, mut now, mut waits) = (Patience::default(), Instant(1), 0);
        let end = now + Duration::from_secs(1);
        while now < end {
            waits += u32::from(patience.looks(now) > 1);
            patience.note(now, false);
            now = now + Duration::from_micros(100);
        }
        assert_eq!(waits, 10);
        // A neighbour that answers at once causes no rest.
        now = now + REST;
        patience.note(now, true);
        assert_eq!(patience.looks(now), LOOKS);
    }
}
