//! Packets that cross an InfiniBand fabric hop by hop: the addresses that the adapter adds to packets of its queue
//! pairs, and its handling of destination LIDs.

use weft_transport::{LocalSource, TxBatch};
use weft_wire::MULTICAST_QPN;

use crate::objects::FabricSource;
use crate::{Hca, HostInterface};

impl<H: HostInterface> Hca<H> {
    /// Gives the packets from `before` on their port's LID. Packets that the port cannot send are taken out of the
    /// batch: those before it has a LID, and those of a queue pair without a P_Key.
    pub(crate) fn address_on_fabric(&mut self, tx: &mut TxBatch, before: usize, source: FabricSource) {
        let port = self.context.devices.get(&source.device).and_then(|device| device.fabric_port(source.port));
        let Some(port) = port.filter(|port| port.lid != 0 && source.pkey != 0) else {
            tx.packets.truncate(before);
            return;
        };
        let mut kept = before;
        for at in before..tx.packets.len() {
            let packet = &mut tx.packets[at];
            // A group's address is its GID and its LID together.
            let group = packet.dest_qpn == MULTICAST_QPN;
            if group && !(packet.av.is_global && packet.av.dgid.is_multicast()) {
                continue;
            }
            let slid = port.source_lid(packet.av.src_path_bits);
            let vl = port.virtual_lane(packet.av.sl);
            packet.source = Some(LocalSource { device: source.device, port: source.port, slid, vl });
            tx.packets.swap(kept, at);
            kept += 1;
        }
        tx.packets.truncate(kept);
    }
}
