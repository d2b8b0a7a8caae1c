//! Packets that cross an InfiniBand fabric hop by hop: the addresses that the adapter adds to packets of its queue
//! pairs, and its handling of destination LIDs.

use weft_transport::{LocalSource, Memory, TxBatch};
use weft_wire::MULTICAST_QPN;

use crate::Hca;
use crate::datagrams::FabricSource;

/// Position of the P_Key in a BTH.
const PKEY_AT: std::ops::Range<usize> = 2..4;

impl<M: Memory> Hca<M> {
    /// Gives the packets from `before` on their port's LID and the P_Key of their queue pair. Packets that the port
    /// cannot send are taken out of the batch.
    pub(crate) fn address_on_fabric(&mut self, tx: &mut TxBatch, before: usize, source: FabricSource) {
        let device = self.context.devices.get(&source.device);
        let port = device
            .and_then(|device| Some((device.fabric_port(source.port)?, device.pkey(source.port, source.pkey_index))));
        let Some((port, pkey)) = port.filter(|(port, pkey)| port.lid != 0 && *pkey != 0) else {
            tx.packets.truncate(before);
            return;
        };
        let mask = (1_u16 << port.lmc.min(7)) - 1;
        let mut kept = before;
        for at in before..tx.packets.len() {
            let packet = &mut tx.packets[at];
            // A group's address is its GID and its LID together.
            let group = packet.dest_qpn == MULTICAST_QPN;
            if group && !(packet.av.is_global && packet.av.dgid.is_multicast()) {
                continue;
            }
            let slid = port.lid | u16::from(packet.av.src_path_bits) & mask;
            let vl = port.virtual_lane(packet.av.sl);
            packet.source = Some(LocalSource { device: source.device, port: source.port, slid, vl });
            let start = packet.header.start as usize;
            if let Some(bytes) = tx.arena.get_mut(start + PKEY_AT.start..start + PKEY_AT.end) {
                bytes.copy_from_slice(&pkey.to_be_bytes());
            }
            tx.packets.swap(kept, at);
            kept += 1;
        }
        tx.packets.truncate(kept);
    }
}
