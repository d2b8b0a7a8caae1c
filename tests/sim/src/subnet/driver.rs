//! A manager with the MAD layer of its port, which retransmits unanswered requests and matches responses to them.

use weft_fabric::{Delivery, GlobalRoute, MadAddress, MadOut};
use weft_mad::port::{self, Port, Send};
use weft_mad::{AgentId, AgentSpec, Wanted};
use weft_sm::io::{Global, Peer};
use weft_sm::manager::Manager;
use weft_verbs::Instant;
use weft_wire::mad::{Class, Mad, MadHeader, Method, SMI_QPN};
use zerocopy::{FromBytes, IntoBytes};

/// The other end of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct End {
    qp: u32,
    peer: Peer,
}

impl port::Peer for End {
    fn same_end(&self, other: &End) -> bool {
        self.qp == other.qp && (self.qp == SMI_QPN || self.peer.lid == other.peer.lid)
    }
}

/// A manager at a port.
pub struct Driver {
    /// The manager.
    pub manager: Manager,
    port: Port<End>,
    by_lid: AgentId,
    directed: AgentId,
    administrator: AgentId,
}

fn wants(class: Class, version: u8, rmpp: bool) -> AgentSpec {
    let methods = (0..0x80).fold(0_u128, |sum, method| sum | 1 << method);
    AgentSpec { wants: Some(Wanted { class: class.0, class_version: version, oui: 0, methods }), rmpp }
}

impl Driver {
    /// Creates a driver for a manager that has its port to itself.
    pub fn new(manager: Manager) -> Driver {
        let mut port = Port::default();
        let mut register = |class, version, rmpp| port.register(wants(class, version, rmpp)).expect("a fresh port");
        let by_lid = register(Class::SUBN_LID_ROUTED, 1, false);
        let directed = register(Class::SUBN_DIRECTED_ROUTE, 1, false);
        let administrator = register(Class::SUBN_ADM, 2, true);
        Driver { manager, port, by_lid, directed, administrator }
    }

    /// Returns the time of the next deadline.
    pub fn poll_timeout(&self) -> Option<Instant> {
        [self.manager.poll_timeout(), self.port.poll_timeout()].into_iter().flatten().min()
    }

    /// Advances time.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.port.handle_timeout(now);
        self.take(now);
        if self.manager.poll_timeout().is_some_and(|at| at <= now) {
            self.manager.handle_timeout(now);
        }
    }

    /// Hands the manager's datagrams to the port.
    pub fn pump(&mut self, now: Instant) {
        while let Some(out) = self.manager.poll_smp() {
            let directed = out.mad.header.class() == Class::SUBN_DIRECTED_ROUTE;
            let agent = if directed { self.directed } else { self.by_lid };
            let peer = End { qp: SMI_QPN, peer: Peer { lid: out.dlid, ..Peer::default() } };
            let bytes = out.mad.as_bytes().to_vec();
            let send = Send { agent, peer, bytes, timeout: out.timeout, retries: out.retries };
            self.port.send(now, send).expect("an SMP that can be sent");
        }
        while let Some(out) = self.manager.poll_gmp() {
            let peer = End { qp: out.to.qpn, peer: out.to };
            let (timeout, retries) = (out.timeout, out.retries);
            let send = Send { agent: self.administrator, peer, bytes: out.bytes, timeout, retries };
            // If this fails, the manager does not wait for a response.
            let _ = self.port.send(now, send);
        }
    }

    /// Returns the next datagram to send.
    pub fn poll_transmit(&mut self) -> Option<MadOut> {
        let (end, mad) = self.port.poll_transmit()?;
        let peer = end.peer;
        let to = if end.qp == SMI_QPN {
            MadAddress::smi(peer.lid)
        } else {
            MadAddress { dest_qp: end.qp, qkey: peer.qkey, sl: peer.sl, ..MadAddress::gsi(peer.lid, 0xffff) }
        };
        Some(MadOut { to, mad })
    }

    /// Returns the address of a response.
    pub fn address(delivery: &Delivery) -> MadAddress {
        let grh = delivery.grh.map(|grh| GlobalRoute { sgid: grh.dgid, dgid: grh.sgid, ..grh });
        let smi = delivery.dest_qp == SMI_QPN;
        let to = if smi { MadAddress::smi(delivery.slid) } else { MadAddress::gsi(delivery.slid, delivery.pkey) };
        MadAddress { dest_qp: delivery.src_qp, sl: delivery.sl, path_bits: delivery.path_bits, grh, ..to }
    }

    /// Handles a received datagram.
    pub fn deliver(&mut self, now: Instant, delivery: &Delivery) {
        let global = delivery.grh.map(|grh| Global {
            gid: grh.sgid,
            sgid_index: 0,
            flow_label: grh.flow_label,
            hop_limit: grh.hop_limit,
            traffic_class: grh.traffic_class,
        });
        let peer = Peer {
            lid: delivery.slid,
            qpn: delivery.src_qp,
            qkey: weft_wire::mad::GSI_QKEY,
            pkey_index: delivery.pkey_index,
            sl: delivery.sl,
            path_bits: delivery.path_bits,
            global,
        };
        self.port.handle(now, End { qp: delivery.src_qp, peer }, &delivery.mad);
        self.take(now);
    }

    /// Passes the port's datagrams and timeouts to the manager.
    fn take(&mut self, now: Instant) {
        while let Some(delivery) = self.port.poll_delivery() {
            let peer = delivery.peer.peer;
            if delivery.agent == self.administrator {
                match delivery.timed_out {
                    true => self.manager.handle_gmp_timeout(now, &peer, &delivery.bytes),
                    false => self.manager.handle_gmp(now, &peer, &delivery.bytes),
                }
                continue;
            }
            match delivery.timed_out {
                true => self.manager.handle_smp_timeout(now, &padded(&delivery.bytes)),
                false => self.manager.handle_smp(now, &peer, &padded(&delivery.bytes)),
            }
        }
    }
}

/// Pads a datagram, of which perhaps only the header is present, to a MAD.
fn padded(bytes: &[u8]) -> Mad {
    let mut whole = [0; weft_wire::mad::MAD_LEN];
    let len = bytes.len().min(whole.len());
    whole[..len].copy_from_slice(&bytes[..len]);
    debug_assert!(len >= MadHeader::LEN);
    Mad::read_from_bytes(&whole).unwrap_or(Mad {
        header: MadHeader::new(Class(0), 1, Method::SEND, 0, weft_wire::mad::AttrId(0)),
        data: [0; 232],
    })
}
