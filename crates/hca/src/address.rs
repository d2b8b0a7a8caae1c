//! From what a program says of a destination to the address vector that packets are sent by.

use weft_transport::{Memory, RxPacket};
use weft_verbs::{
    AddressVector, DEFAULT_PKEY, DeviceId, Gid, GidEntry, GidType, IbPortAttr, PKEY_TABLE_LEN, VerbsError,
};

use crate::Hca;
use crate::device::{Device, PORT};

/// What `struct ibv_ah_attr` says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)] // The names are verbs.h's.
pub struct AhRequest {
    pub dgid: Gid,
    pub sgid_index: u8,
    pub flow_label: u32,
    pub hop_limit: u8,
    pub traffic_class: u8,
    pub sl: u8,
    pub dlid: u16,
    pub src_path_bits: u8,
    pub static_rate: u8,
    pub is_global: bool,
    pub port_num: u8,
}

/// Bits of a flow label.
const FLOW_LABEL_MASK: u32 = 0xf_ffff;

impl Device {
    /// The row of the GID table with this index.
    pub(crate) fn gid(&self, index: u8) -> Option<&GidEntry> {
        self.attr.port.gids.iter().find(|row| row.index == u32::from(index))
    }

    /// Whether `gid` is this device's.
    pub(crate) fn owns(&self, gid: Gid) -> bool {
        self.attr.port.gids.iter().any(|row| row.gid == gid)
    }

    /// Whether packets to `gid` that are framed so are for this device.
    pub(crate) fn accepts(&self, gid: Gid, gid_type: GidType) -> bool {
        self.attr.port.gids.iter().any(|row| row.gid == gid && row.gid_type == gid_type)
    }

    /// Whether a datagram is for this device: over a fabric its LID brought it, and only a GRH says more.
    pub(crate) fn accepts_datagram(&self, rx: &RxPacket<'_>) -> bool {
        rx.local.is_some_and(|local| !local.global) || self.accepts(rx.dgid, rx.gid_type)
    }

    /// Whether the port is one of an InfiniBand fabric, and what it is there.
    pub(crate) fn fabric(&self) -> Option<&IbPortAttr> {
        self.attr.port.infiniband.as_deref()
    }

    /// Rows of the P_Key table.
    pub(crate) fn pkey_rows(&self) -> usize {
        self.fabric().map_or(usize::from(PKEY_TABLE_LEN), |port| port.pkeys.len())
    }

    /// A row of the P_Key table; 0 for an empty one.
    pub(crate) fn pkey(&self, index: u16) -> u16 {
        self.fabric().map_or(DEFAULT_PKEY, |port| port.pkeys.get(usize::from(index)).copied().unwrap_or(0))
    }

    /// Whether an address vector that was resolved leads anywhere: over a fabric by LID, and a GRH is optional.
    pub(crate) fn check_av(&self, av: &AddressVector) -> Result<(), VerbsError> {
        if self.fabric().is_some() {
            return self.check_fabric_path(av.dlid, av.is_global.then_some(av.sgid_index)).map(drop);
        }
        self.check_path(av.sgid_index, av.dgid).map(drop)
    }

    /// Whether a LID can be a destination; with a GRH, the row of its source.
    fn check_fabric_path(&self, dlid: u16, row: Option<u8>) -> Result<Option<&GidEntry>, VerbsError> {
        if dlid == 0 {
            return Err(VerbsError::Invalid("dlid is 0: InfiniBand addresses peers by LID"));
        }
        let named = |index| {
            let found = self.gid(index).filter(|row| row.gid != Gid::ZERO);
            found.ok_or(VerbsError::Invalid("sgid_index names no valid row of the port's GID table"))
        };
        row.map(named).transpose()
    }

    /// Whether an address can be reached from a row of the table.
    pub(crate) fn check_path(&self, sgid_index: u8, dgid: Gid) -> Result<&GidEntry, VerbsError> {
        if dgid == Gid::ZERO {
            return Err(VerbsError::Invalid("the destination GID is zero"));
        }
        let row =
            self.gid(sgid_index).ok_or(VerbsError::Invalid("sgid_index names no valid row of the port's GID table"))?;
        if row.gid.ipv4().is_some() != dgid.ipv4().is_some() {
            return Err(VerbsError::Invalid(
                "source GID and destination GID are not of one address family: choose another sgid_index",
            ));
        }
        Ok(row)
    }
}

impl<M: Memory> Hca<M> {
    /// Resolve an address for a device. RoCE has no way to a destination but its GID, so `is_global` must be set;
    /// InfiniBand's is the LID, and the GID only for what reads it.
    pub fn resolve_av(&self, device: DeviceId, ah: &AhRequest) -> Result<AddressVector, VerbsError> {
        let device = self.world.present(device)?;
        if ah.port_num != PORT {
            return Err(VerbsError::Invalid("port_num: the device has port 1 alone"));
        }
        let row = if device.fabric().is_some() {
            device.check_fabric_path(ah.dlid, ah.is_global.then_some(ah.sgid_index))?.copied()
        } else if ah.is_global {
            Some(*device.check_path(ah.sgid_index, ah.dgid)?)
        } else {
            return Err(VerbsError::Invalid("is_global must be set: RoCE addresses peers by GID"));
        };
        let local = GidEntry { index: 0, gid: Gid::ZERO, gid_type: GidType::IbOrRoceV1, ifindex: 0 };
        let row = row.unwrap_or(local);
        Ok(AddressVector {
            sgid: row.gid,
            sgid_index: ah.sgid_index,
            dgid: ah.dgid,
            flow_label: ah.flow_label & FLOW_LABEL_MASK,
            hop_limit: ah.hop_limit,
            traffic_class: ah.traffic_class,
            sl: ah.sl,
            port_num: ah.port_num,
            dlid: ah.dlid,
            src_path_bits: ah.src_path_bits,
            static_rate: ah.static_rate,
            is_global: ah.is_global,
            ifindex: row.ifindex,
            gid_type: row.gid_type,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(infiniband: Option<Box<IbPortAttr>>) -> Device {
        let gid = Gid([0xfe; 16]);
        let port = weft_verbs::PortAttr {
            state: weft_verbs::PortState::Active,
            active_mtu: weft_verbs::Mtu::Mtu2048,
            gids: vec![GidEntry { index: 0, gid, gid_type: GidType::IbOrRoceV1, ifindex: 0 }],
            link_speed_mbps: None,
            infiniband,
        };
        let attr =
            weft_verbs::DeviceAttr { name: "weft0".into(), node_guid: 1, netdev: String::new(), ifindex: 0, port };
        Device { attr, gone: false, counters: Default::default() }
    }

    #[test]
    fn a_fabric_is_addressed_by_lid_and_roce_by_gid() {
        let fabric = device(Some(Box::new(IbPortAttr { pkeys: vec![0xffff, 0, 0x8001], ..IbPortAttr::default() })));
        assert!(fabric.check_fabric_path(7, None).is_ok_and(|row| row.is_none()));
        assert!(fabric.check_fabric_path(7, Some(0)).is_ok_and(|row| row.is_some()));
        assert!(fabric.check_fabric_path(0, None).is_err(), "no LID");
        assert!(fabric.check_fabric_path(7, Some(1)).is_err(), "an empty row");
        assert_eq!((fabric.pkey_rows(), fabric.pkey(2), fabric.pkey(1), fabric.pkey(9)), (3, 0x8001, 0, 0));
        let roce = device(None);
        assert_eq!((roce.pkey_rows(), roce.pkey(0)), (usize::from(PKEY_TABLE_LEN), DEFAULT_PKEY));
        assert!(roce.check_path(0, Gid::ZERO).is_err());
    }
}
