//! Translates a program's description of a destination to the address vector of its packets.

use weft_transport::RxPacket;
use weft_verbs::{
    AddressVector, DEFAULT_PKEY, DeviceId, Gid, GidEntry, GidType, IbPortAttr, PKEY_TABLE_LEN, VerbsError,
};

use crate::objects::Device;
use crate::{Hca, HostInterface};

/// The contents of `struct ibv_ah_attr`.
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

/// The largest LMC (IBA 14.2.5.6).
const LMC_MAX: u8 = 7;
/// Bits of a flow label.
const FLOW_LABEL_MASK: u32 = 0xf_ffff;

impl Device {
    /// Finds the row of a port's GID table with this index.
    pub(crate) fn gid(&self, port: u8, index: u8) -> Option<&GidEntry> {
        self.attr.port(port)?.gids.iter().find(|row| row.index == u32::from(index))
    }

    /// Whether `gid` is this device's.
    pub(crate) fn owns(&self, gid: Gid) -> bool {
        self.attr.gids().any(|row| row.gid == gid)
    }

    /// Whether the device accepts packets to `gid` in the framing of `gid_type`.
    pub(crate) fn accepts(&self, gid: Gid, gid_type: GidType) -> bool {
        self.attr.gids().any(|row| row.gid == gid && row.gid_type == gid_type)
    }

    /// Whether a datagram is for a port of this device: over a fabric the port with its LID; a GRH restricts it
    /// further.
    pub(crate) fn accepts_datagram(&self, port: u8, rx: &RxPacket<'_>) -> bool {
        match (rx.local, self.fabric_port(port)) {
            (None, Some(attr)) if attr.is_ethernet => {
                let row = |row: &GidEntry| row.gid == rx.dgid && row.gid_type == rx.gid_type;
                self.attr.port(port).is_some_and(|port| port.gids.iter().any(row))
            }
            (Some(local), Some(port)) => {
                local.dlid & !0 << port.lmc.min(LMC_MAX) == port.lid
                    && (!local.global || self.accepts(rx.dgid, rx.gid_type))
            }
            _ => self.accepts(rx.dgid, rx.gid_type),
        }
    }

    /// Whether the device is an adapter of an InfiniBand fabric.
    #[inline]
    pub(crate) fn on_fabric(&self) -> bool {
        self.attr.fabric().is_some()
    }

    /// Whether a port of an adapter is an Ethernet port, outside the adapter's fabric.
    pub(crate) fn is_ethernet(&self, port: u8) -> bool {
        self.fabric_port(port).is_some_and(|port| port.is_ethernet)
    }

    /// Returns a port's attributes on an InfiniBand fabric, if the device is on one.
    pub(crate) fn fabric_port(&self, port: u8) -> Option<&IbPortAttr> {
        self.attr.port(port)?.infiniband.as_deref()
    }

    /// Returns the number of rows of a port's P_Key table.
    pub(crate) fn pkey_rows(&self, port: u8) -> usize {
        self.fabric_port(port).map_or(usize::from(PKEY_TABLE_LEN), |port| port.pkeys.len())
    }

    /// Returns a row of a port's P_Key table; 0 for an empty one.
    pub(crate) fn pkey(&self, port: u8, index: u16) -> u16 {
        self.fabric_port(port).map_or(DEFAULT_PKEY, |port| port.pkeys.get(usize::from(index)).copied().unwrap_or(0))
    }

    /// Checks that a resolved address vector leads to a destination: over a fabric by LID, with an optional GRH.
    pub(crate) fn check_av(&self, av: &AddressVector) -> Result<(), VerbsError> {
        if self.on_fabric() && !self.is_ethernet(av.port_num) {
            let row = av.is_global.then_some(av.sgid_index);
            return self.check_fabric_path(av.port_num, av.dlid, row).map(drop);
        }
        self.check_path(av.port_num, av.sgid_index, av.dgid).map(drop)
    }

    /// Checks that a number is one of the device's ports.
    pub(crate) fn check_port(&self, port: u8) -> Result<(), VerbsError> {
        let known = self.attr.port(port).map(drop);
        known.ok_or(VerbsError::Invalid("port_num: the device has no port of this number"))
    }

    /// Checks that a LID can be a destination; with a GRH, returns the row of its source.
    fn check_fabric_path(&self, port: u8, dlid: u16, row: Option<u8>) -> Result<Option<&GidEntry>, VerbsError> {
        if dlid == 0 {
            return Err(VerbsError::Invalid("dlid is 0: InfiniBand addresses peers by LID"));
        }
        let named = |index| {
            let found = self.gid(port, index).filter(|row| row.gid != Gid::ZERO);
            found.ok_or(VerbsError::Invalid("sgid_index names no valid row of the port's GID table"))
        };
        row.map(named).transpose()
    }

    /// Checks that a row of the table can reach an address.
    pub(crate) fn check_path(&self, port: u8, sgid_index: u8, dgid: Gid) -> Result<&GidEntry, VerbsError> {
        if dgid == Gid::ZERO {
            return Err(VerbsError::Invalid("the destination GID is zero"));
        }
        let row = self.gid(port, sgid_index);
        let row = row.ok_or(VerbsError::Invalid("sgid_index names no valid row of the port's GID table"))?;
        if row.gid.ipv4().is_some() != dgid.ipv4().is_some() {
            return Err(VerbsError::Invalid(
                "source GID and destination GID are not of one address family: choose another sgid_index",
            ));
        }
        Ok(row)
    }
}

impl<H: HostInterface> Hca<H> {
    /// Resolves an address for a device. RoCE addresses a destination by its GID alone, so `is_global` must be set.
    /// InfiniBand addresses it by its LID; the GID matters only to readers of the GRH.
    pub fn resolve_av(&self, device: DeviceId, ah: &AhRequest) -> Result<AddressVector, VerbsError> {
        let device = self.context.present(device)?;
        device.check_port(ah.port_num)?;
        let row = if device.on_fabric() && !device.is_ethernet(ah.port_num) {
            device.check_fabric_path(ah.port_num, ah.dlid, ah.is_global.then_some(ah.sgid_index))?.copied()
        } else if ah.is_global {
            Some(*device.check_path(ah.port_num, ah.sgid_index, ah.dgid)?)
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
        let ports = vec![weft_verbs::PortAttr {
            state: weft_verbs::PortState::Active,
            active_mtu: weft_verbs::Mtu::Mtu2048,
            gids: vec![GidEntry { index: 0, gid, gid_type: GidType::IbOrRoceV1, ifindex: 0 }],
            link_speed_mbps: None,
            infiniband,
        }];
        let attr = weft_verbs::DeviceAttr {
            name: "weft0".into(),
            node_guid: 1,
            netdev: String::new(),
            ifindex: 0,
            is_iwarp: false,
            ports,
        };
        Device { attr, gone: false, counters: Default::default() }
    }

    #[test]
    fn a_fabric_is_addressed_by_lid_and_roce_by_gid() {
        let fabric = device(Some(Box::new(IbPortAttr { pkeys: vec![0xffff, 0, 0x8001], ..IbPortAttr::default() })));
        assert!(fabric.check_fabric_path(1, 7, None).is_ok_and(|row| row.is_none()));
        assert!(fabric.check_fabric_path(1, 7, Some(0)).is_ok_and(|row| row.is_some()));
        assert!(fabric.check_fabric_path(1, 0, None).is_err(), "no LID");
        assert!(fabric.check_fabric_path(1, 7, Some(1)).is_err(), "an empty row");
        let ethernet = device(Some(Box::new(IbPortAttr { is_ethernet: true, ..IbPortAttr::default() })));
        let to = |dgid, is_global| AddressVector {
            sgid: Gid::ZERO,
            sgid_index: 0,
            dgid,
            flow_label: 0,
            hop_limit: 1,
            traffic_class: 0,
            sl: 0,
            port_num: 1,
            dlid: 0xc000,
            src_path_bits: 0,
            static_rate: 0,
            is_global,
            ifindex: 0,
            gid_type: GidType::RoceV2,
        };
        assert!(ethernet.check_av(&to(Gid([0xfe; 16]), true)).is_ok(), "a GID alone, whatever the LID says");
        assert!(ethernet.check_av(&to(Gid::ZERO, true)).is_err(), "no GID");
        assert_eq!((fabric.pkey_rows(1), fabric.pkey(1, 2), fabric.pkey(1, 1), fabric.pkey(1, 9)), (3, 0x8001, 0, 0));
        let roce = device(None);
        assert_eq!((roce.pkey_rows(1), roce.pkey(1, 0)), (usize::from(PKEY_TABLE_LEN), DEFAULT_PKEY));
        assert!(roce.check_path(1, 0, Gid::ZERO).is_err());
    }
}
