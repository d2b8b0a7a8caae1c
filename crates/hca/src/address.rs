//! From what a program says of a destination to the address vector that packets are sent by.

use weft_transport::Memory;
use weft_verbs::{AddressVector, DeviceId, Gid, GidEntry, GidType, VerbsError};

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
    /// Resolve an address for a device. RoCE has no way to a destination but its GID, so `is_global` must be set.
    pub fn resolve_av(&self, device: DeviceId, ah: &AhRequest) -> Result<AddressVector, VerbsError> {
        let device = self.world.present(device)?;
        if ah.port_num != PORT {
            return Err(VerbsError::Invalid("port_num: the device has port 1 alone"));
        }
        if !ah.is_global {
            return Err(VerbsError::Invalid("is_global must be set: RoCE addresses peers by GID"));
        }
        let row = device.check_path(ah.sgid_index, ah.dgid)?;
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
