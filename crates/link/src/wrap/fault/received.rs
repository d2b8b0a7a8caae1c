//! Received packets, as faults see them.

use super::held::{CONGESTION_EXPERIENCED, Kept};
use super::scope::Flow;
use crate::datagram::Datagram;

/// A copy of a received packet.
#[derive(Debug)]
pub struct Received {
    ib: Vec<u8>,
    like: Datagram<'static>,
}

impl Kept for Received {
    type View<'a> = Datagram<'a>;

    fn of(packet: &Datagram<'_>) -> Received {
        Received { ib: packet.ib.to_vec(), like: Datagram { ib: &[], ..*packet } }
    }

    fn view(&self) -> Datagram<'_> {
        Datagram { ib: &self.ib, ..self.like }
    }

    fn flip(&mut self, bit: u64) -> bool {
        let bit = bit.checked_rem(self.ib.len() as u64 * 8);
        let byte = bit.and_then(|bit| Some((self.ib.get_mut((bit / 8) as usize)?, bit % 8)));
        byte.map(|(byte, bit)| *byte ^= 1 << bit).is_some()
    }

    fn mark(&mut self) {
        self.like.traffic_class |= CONGESTION_EXPERIENCED;
    }

    fn flow(packet: &Datagram<'_>) -> Flow {
        let qpn = packet.ib.get(5..8).map(|bytes| bytes.iter().fold(0, |qpn, byte| qpn << 8 | u32::from(*byte)));
        Flow { peer: packet.src, local: packet.dst, qpn }
    }

    fn bytes<'p>(packet: &'p Datagram<'_>) -> &'p [u8] {
        packet.ib
    }

    fn len(packet: &Datagram<'_>) -> usize {
        packet.ib.len()
    }
}
