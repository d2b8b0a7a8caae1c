//! The hosts, the clock and the wire between communication managers.

use std::net::IpAddr;

use weft_cm::ib::{CaInfo, Cm, GmpAddress, MadBytes, Path};
use weft_verbs::{Gid, GidType, Instant, Mtu};
use weft_wire::Psn;
use weft_wire::cm::CmMessage;
use weft_wire::mad::{GSI_QPN, Gmp, Mad};
use weft_wire::packet::{ICRC_LEN, Packet};
use zerocopy::IntoBytes;

use crate::net::{Datagram, Faults, Happening, Net};
use crate::rng::Rng;
use crate::world::{address, seal};

/// Number of the one device of each host.
pub const DEVICE: u32 = 3;
/// The default partition, with full membership.
pub const PKEY: u16 = 0xffff;
/// Recorded genuine messages that strangers may replay and alter.
const REMEMBERED_MAX: usize = 64;
/// Timers that may fire without time passing.
const TIMERS_AT_ONCE_MAX: u32 = 100_000;

/// A host.
pub struct Host {
    /// Its communication manager.
    pub cm: Cm,
    /// Its address.
    pub ip: IpAddr,
    /// How often it was started.
    pub boots: u32,
    /// Powered off: it neither sends nor receives, and its timers stand still.
    pub off: bool,
    psn: u32,
}

/// Result of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Something at a host, or nothing of interest.
    Other,
    /// A requested wake-up.
    Wake(u64),
    /// No event is left.
    Idle,
}

/// The whole simulation.
pub struct CmWorld {
    /// The time.
    pub now: Instant,
    /// The hosts.
    pub hosts: Vec<Host>,
    /// The network between the hosts.
    pub net: Net,
    /// Recent datagrams on the wire.
    pub remembered: Vec<Datagram>,
    /// Datagrams sent to addresses that no host has.
    pub to_strangers: u64,
    /// The first error of a communication manager.
    pub complaint: Option<String>,
    rng: Rng,
    at_once: u32,
    /// The next packets answer a stranger.
    shouted_at: bool,
}

/// GUID of a host's adapter: the same after a restart.
pub fn node_guid(host: usize) -> u64 {
    0x0200_00ff_fe00_0001 + host as u64
}

/// Returns the device attributes that a communication manager needs.
fn ca_info(host: usize) -> CaInfo {
    CaInfo { node_guid: node_guid(host), ack_delay: 15 }
}

/// Returns the address of a datagram between `own` and `other`, as `own` sees it.
pub fn gmp_address(own: IpAddr, other: IpAddr) -> GmpAddress {
    GmpAddress {
        device: DEVICE,
        port: 1,
        sgid_index: 0,
        sgid: Gid::from(own),
        gid_type: GidType::RoceV2,
        dgid: Gid::from(other),
        dlid: 0,
        remote_qpn: GSI_QPN,
        pkey: PKEY,
        sl: 0,
        traffic_class: 0,
        flow_label: 0,
        hop_limit: 64,
        ifindex: 2,
    }
}

/// Builds a GMP from BTH to ICRC.
pub fn datagram(src: IpAddr, dst: IpAddr, psn: u32, mad: &Mad) -> Datagram {
    let gmp = Gmp { pkey: PKEY, psn: Psn::new(psn), src_qp: GSI_QPN, mad: *mad };
    let mut bytes = [gmp.headers().as_slice(), gmp.payload(), &[0; ICRC_LEN]].concat();
    seal(src, dst, &mut bytes);
    Datagram { src, dst, traffic_class: 0, hop_limit: 64, bytes }
}

impl CmWorld {
    /// Creates `count` hosts.
    pub fn new(seed: u64, count: usize, v6: bool, faults: Faults) -> CmWorld {
        let mut rng = Rng::new(seed ^ 0xc0_ffee);
        let hosts = (0..count).map(|host| {
            let mut cm = Cm::new(rng.bits());
            cm.set_device(DEVICE, ca_info(host));
            Host { cm, ip: address(v6, host), boots: 1, off: false, psn: 0 }
        });
        let hosts = hosts.collect();
        CmWorld {
            now: Instant(1_000_000),
            hosts,
            net: Net::new(faults),
            remembered: Vec::new(),
            to_strangers: 0,
            complaint: None,
            rng,
            at_once: 0,
            shouted_at: false,
        }
    }

    /// Returns the address of one host's interface as another's uses it.
    pub fn gmp_address(&self, from: usize, to: usize) -> GmpAddress {
        gmp_address(self.hosts[from].ip, self.hosts[to].ip)
    }

    /// Returns the path between two hosts' queue pairs.
    pub fn path(&self, from: usize, to: usize, packet_life_time: u8) -> Path {
        Path {
            sgid: Gid::from(self.hosts[from].ip),
            dgid: Gid::from(self.hosts[to].ip),
            slid: 0xffff,
            dlid: 0xffff,
            flow_label: 0x522a4,
            hop_limit: 64,
            traffic_class: 0,
            sl: 0,
            pkey: PKEY,
            mtu: Mtu::Mtu1024,
            rate: 0,
            packet_life_time,
        }
    }

    /// Powers a host off; it loses all its state.
    pub fn crash(&mut self, host: usize) {
        let mut cm = Cm::new(self.rng.bits());
        cm.set_device(DEVICE, ca_info(host));
        let ip = self.hosts[host].ip;
        let boots = self.hosts[host].boots + 1;
        self.hosts[host] = Host { cm, ip, boots, off: true, psn: 0 };
    }

    /// Sends the pending messages of a host.
    pub fn flush(&mut self, host: usize) {
        while let Some((to, bytes)) = self.hosts[host].cm.poll_transmit() {
            self.send(host, &to, &bytes);
        }
    }

    fn send(&mut self, host: usize, to: &GmpAddress, bytes: &MadBytes) {
        let mad = Mad::parse(bytes).expect("256 bytes");
        if let Err(error) = CmMessage::from_mad(&mad) {
            self.complaint.get_or_insert(format!("host {host} sends no CM message: {error}"));
        }
        let ip = self.hosts[host].ip;
        if to.sgid != Gid::from(ip) || to.device != DEVICE || to.remote_qpn != GSI_QPN {
            self.complaint.get_or_insert(format!("host {host} sends as somebody else: {to:?}"));
        }
        let dst = to.dgid.ip();
        if self.hosts[host].off {
            return;
        }
        if !self.hosts.iter().any(|h| h.ip == dst) {
            self.to_strangers += 1;
            return;
        }
        if self.shouted_at {
            // It reaches the host whose address the stranger forged, and leaves the network's random sequence
            // unchanged.
            return self.arrive(&datagram(ip, dst, 0, &mad));
        }
        self.hosts[host].psn += 1;
        let datagram = datagram(ip, dst, self.hosts[host].psn, &mad);
        if self.remembered.len() == REMEMBERED_MAX {
            self.remembered.remove(0);
        }
        self.remembered.push(datagram.clone());
        self.net.send(self.now, &mut self.rng, datagram);
    }

    /// Delivers a packet: checks it as a link does and hands it to the host with the destination address.
    pub fn arrive(&mut self, datagram: &Datagram) {
        let mut sealed = datagram.bytes.clone();
        seal(datagram.src, datagram.dst, &mut sealed);
        if sealed != datagram.bytes {
            return;
        }
        let Ok(packet) = Packet::parse(&datagram.bytes) else { return };
        let Ok(gmp) = Gmp::from_packet(&packet) else { return };
        let from = GmpAddress { remote_qpn: gmp.src_qp, pkey: gmp.pkey, ..gmp_address(datagram.dst, datagram.src) };
        let Some(host) = self.hosts.iter().position(|h| h.ip == datagram.dst && !h.off) else { return };
        let mut bytes: MadBytes = [0; 256];
        bytes.copy_from_slice(gmp.mad.as_bytes());
        self.hosts[host].cm.handle_mad(self.now, &from, &bytes);
        self.flush(host);
    }

    /// Delivers a stranger's packet.
    pub fn arrive_from_stranger(&mut self, datagram: &Datagram) {
        self.shouted_at = true;
        self.arrive(datagram);
        self.shouted_at = false;
    }

    /// Processes the next event.
    pub fn step(&mut self) -> Step {
        let timer = (0..self.hosts.len()).filter(|h| !self.hosts[*h].off);
        let timer = timer.filter_map(|h| Some((self.hosts[h].cm.poll_timeout()?, h))).min();
        match (timer, self.net.next_at()) {
            (Some((at, host)), net) if net.is_none_or(|net| at <= net) => {
                self.at_once = if at > self.now { 0 } else { self.at_once + 1 };
                if self.at_once > TIMERS_AT_ONCE_MAX {
                    self.complaint.get_or_insert(format!("host {host} has a timer that never stops"));
                    return Step::Idle;
                }
                self.now = self.now.max(at);
                self.hosts[host].cm.handle_timeout(self.now);
                self.flush(host);
                Step::Other
            }
            (_, Some(at)) => {
                self.at_once = 0;
                self.now = self.now.max(at);
                match self.net.pop() {
                    Some(Happening::Arrival(datagram)) => {
                        self.arrive(&datagram);
                        Step::Other
                    }
                    Some(Happening::Wake(number)) => Step::Wake(number),
                    Some(Happening::Look(_)) | None => Step::Idle,
                }
            }
            (_, None) => Step::Idle,
        }
    }
}
