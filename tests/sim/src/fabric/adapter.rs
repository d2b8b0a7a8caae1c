//! An adapter on a fabric, configured as its process configures it. It also does a link's work between queue pairs and
//! port: it serialises packets and verifies them.

use weft_fabric::{Fabric, PortRef};
use weft_hca::{Hca, HcaConfig, PacketsOnly};
use weft_transport::{LocalRoute, Piece, RxPacket, TxBatch, TxPacket};
use weft_verbs::{DeviceAttr, DeviceId, Gid, GidEntry, GidType, IbPortAttr, Instant, Mtu, PortAttr, PortState};
use weft_wire::grh::Grh;
use weft_wire::icrc::Icrc;
use weft_wire::link_packet::{self, LinkPacket, VCRC_LEN};
use weft_wire::packet::{ICRC_LEN, Packet, pad_for};
use zerocopy::FromZeros;

use crate::memory::SimMemory;
use crate::rng::Rng;

/// The one device of each host.
pub(super) const DEVICE: DeviceId = DeviceId(1);
/// Bytes behind the null region.
const NULL_BYTES: u64 = 1 << 20;

/// An adapter.
pub(super) struct Adapter {
    pub hca: Hca<PacketsOnly<SimMemory>>,
    pub port: PortRef,
    pub lid: u16,
    pub gid: Gid,
}

impl Adapter {
    /// Creates the adapter of the process with this slot, at a port that a manager reached.
    pub fn new(rng: &mut Rng, fabric: &Fabric, port: PortRef, slot: u32) -> Adapter {
        let lid = fabric.port_info(port).expect("a port").lid;
        assert_ne!(lid, 0, "the manager reached it");
        let gid = Gid(fabric.gid(port, 0).expect("a GID"));
        let mut memory = SimMemory::new(u64::from(slot) << 44);
        let null = memory.alloc_null(NULL_BYTES);
        let seed = std::array::from_fn(|_| rng.bits());
        let config = HcaConfig { slot, seed, privileged: false, null_memory: null..null + NULL_BYTES, strict: None };
        let mut adapter = Adapter { hca: Hca::new(config, PacketsOnly::parts(memory)), port, lid, gid };
        adapter.hca.send_fabric_packets();
        adapter.follow(fabric);
        adapter
    }

    /// Copies the port's attributes from the fabric.
    pub fn follow(&mut self, fabric: &Fabric) {
        self.hca.set_device(DEVICE, device(self.lid, self.gid, fabric.pkeys(self.port)));
    }

    /// Serialises a packet as an adapter's link does.
    pub fn compose(&mut self, tx: &TxBatch, packet: &TxPacket) -> Vec<u8> {
        let source = packet.source.expect("the adapter says by which port it leaves");
        let header = &tx.arena[packet.header.start as usize..packet.header.end as usize];
        let payload = packet.payload_len as usize;
        let ib_len = header.len() + payload + pad_for(payload) + ICRC_LEN;
        let grh = packet.av.is_global.then(|| {
            let gids = [packet.av.sgid.0, packet.av.dgid.0];
            Grh::new(0, 0, ib_len as u16, Grh::NEXT_HEADER_IBA, packet.av.hop_limit, gids)
        });
        let mut bytes = Vec::new();
        let seed = link_packet::put_headers(
            &mut bytes,
            (0, packet.av.sl),
            [source.slid, packet.av.dlid],
            grh.as_ref(),
            ib_len,
        );
        let start = bytes.len();
        bytes.extend_from_slice(header);
        for piece in &tx.pieces[packet.pieces.start as usize..packet.pieces.end as usize] {
            match *piece {
                Piece::Host { addr, len } => bytes.extend(self.hca.memory().bytes(addr, len as usize)),
                Piece::Arena { start, len } => {
                    bytes.extend_from_slice(&tx.arena[start as usize..(start + len) as usize]);
                }
            }
        }
        bytes.resize(start + ib_len - ICRC_LEN, 0);
        let icrc = Icrc::begin(seed, &bytes[start..]).finish();
        bytes.extend_from_slice(&icrc.to_le_bytes());
        bytes.extend_from_slice(&[0; VCRC_LEN]);
        link_packet::put_vcrc(&mut bytes);
        bytes
    }

    /// Verifies a packet as a link does; it comes from the process with this slot.
    pub fn arrive(&mut self, now: Instant, sender: u32, bytes: &[u8]) {
        let link = LinkPacket::parse(bytes).expect("the fabric carries whole packets");
        assert!(link_packet::vcrc_holds(bytes) && link.icrc_holds(), "what is damaged was dropped");
        let grh = link.grh.unwrap_or_else(Grh::new_zeroed);
        self.hca.handle_packet(
            now,
            &RxPacket {
                packet: Packet::parse(link.ib).expect("a packet"),
                sgid: Gid(grh.sgid()),
                dgid: Gid(grh.dgid()),
                traffic_class: 0,
                hop_limit: 0,
                ifindex: 0,
                gid_type: GidType::IbOrRoceV1,
                local: Some(LocalRoute {
                    slid: link.lrh.slid(),
                    dlid: link.lrh.dlid(),
                    sl: link.lrh.sl(),
                    path_bits: 0,
                    global: link.grh.is_some(),
                    came_to: Some((DEVICE, 1)),
                    sender: Some(sender),
                }),
            },
        );
    }
}

fn device(lid: u16, gid: Gid, pkeys: &[u16]) -> DeviceAttr {
    DeviceAttr {
        name: "weft0".to_owned(),
        node_guid: 1,
        netdev: String::new(),
        ifindex: 0,
        is_iwarp: false,
        ports: vec![PortAttr {
            state: PortState::Active,
            active_mtu: Mtu::Mtu4096,
            gids: vec![GidEntry { index: 0, gid, gid_type: GidType::IbOrRoceV1, ifindex: 0 }],
            link_speed_mbps: None,
            infiniband: Some(Box::new(IbPortAttr { lid, pkeys: pkeys.to_vec(), ..IbPortAttr::default() })),
        }],
    }
}
