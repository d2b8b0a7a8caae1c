//! A peer that keeps nothing out of order: it drops requests behind a gap and answers with one NAK, as plain go-back-N
//! responders do (Linux rxe among them). Weft's responder keeps such requests. So that Weft's requester meets the other
//! kind too, a filter in front of a queue pair drops the packets that such a responder would drop, and sends its NAK.

use weft_wire::packet::{HeaderBuf, Packet};
use weft_wire::{Aeth, Bth, Headers, Kind, NakCode, Opcode, Psn, Service, Syndrome};

use crate::net::Datagram;

/// The filter in front of one queue pair.
#[derive(Clone, Debug)]
pub struct Strict {
    /// Number of the queue pair that sends to it.
    pub peer: u32,
    /// Next expected PSN.
    pub expected: Psn,
    /// Bytes of a full packet.
    pub mtu: usize,
    /// Whether the NAK for the current gap was sent.
    told: bool,
}

/// The filter's decision on a packet.
pub enum Verdict {
    /// Deliver it.
    Pass,
    /// Drop it, and send this NAK if there is one.
    Drop(Option<Datagram>),
}

impl Strict {
    /// Creates a filter for requests of `peer` that begin with `expected`.
    pub fn new(peer: u32, expected: u32, mtu: usize) -> Strict {
        Strict { peer, expected: Psn::new(expected), mtu, told: false }
    }

    /// Handles a packet to the queue pair.
    pub fn judge(&mut self, packet: &Packet<'_>, datagram: &Datagram) -> Verdict {
        if packet.info.kind.is_response() {
            return Verdict::Pass;
        }
        let ahead = packet.bth.psn().distance(self.expected);
        if ahead == 0 {
            let read = if packet.info.kind == Kind::ReadRequest { packet.ext.reth } else { None };
            let len = read.map_or(0, |reth| reth.dma_len() as usize);
            self.expected = self.expected.add(len.div_ceil(self.mtu).max(1) as u32);
            self.told = false;
        }
        if ahead <= 0 {
            return Verdict::Pass;
        }
        if std::mem::replace(&mut self.told, true) {
            return Verdict::Drop(None);
        }
        Verdict::Drop(self.nak(datagram))
    }

    /// Handles a packet from the queue pair: an RNR NAK moves the expected PSN back to the refused request.
    pub fn overhear(&mut self, packet: &Packet<'_>) {
        let rnr = packet.ext.aeth.is_some_and(|aeth| matches!(aeth.syndrome(), Syndrome::RnrNak(_)));
        if rnr && packet.info.kind == Kind::Acknowledge {
            self.expected = packet.bth.psn();
            self.told = false;
        }
    }

    fn nak(&self, of: &Datagram) -> Option<Datagram> {
        let opcode = Opcode::of(Service::Rc, Kind::Acknowledge)?;
        let bth = Bth::new(opcode, 0xffff, self.peer, self.expected);
        let aeth = Aeth::new(Syndrome::Nak(NakCode::PSN_SEQUENCE), 0);
        let header = HeaderBuf::write(bth, &Headers { aeth: Some(aeth), ..Headers::default() }, 0);
        let mut bytes = header.as_slice().to_vec();
        bytes.extend([0; 4]);
        crate::world::seal(of.dst, of.src, &mut bytes);
        Some(Datagram { src: of.dst, dst: of.src, traffic_class: 0, hop_limit: 64, bytes })
    }
}
