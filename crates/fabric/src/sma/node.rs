//! Node attributes: NodeInfo, NodeDescription, SwitchInfo, LedInfo.

use super::ask::{Ask, UNSUPPORTED};
use crate::limits::{LINEAR_FDB_CAP, PKEYS, PKEYS_PORT0};
use crate::topology::NodeKind;
use crate::{Changes, Fabric};
use weft_wire::mad::notice::LocalChangesDetails;
use weft_wire::mad::subn::{CLASS_VERSION, LedInfo, NodeDescription, NodeInfo, NodeType, Smp, SwitchInfo, VendorDiag};
use weft_wire::mad::{MadHeader, Status};

/// Revision of every node.
const REVISION: u32 = 1;

pub(super) fn info(fabric: &mut Fabric, ask: Ask, smp: &mut Smp) -> Result<(), Status> {
    let node = &fabric.nodes[ask.node as usize];
    smp.set_attribute(&NodeInfo {
        base_version: MadHeader::BASE_VERSION,
        class_version: CLASS_VERSION,
        node_type: NodeType(node.kind.node_type()),
        num_ports: node.fault.ports.unwrap_or(node.ports),
        system_image_guid: node.system_image_guid,
        node_guid: node.fault.guid.unwrap_or(node.guid),
        port_guid: fabric.ports[ask.agent as usize].guid,
        partition_cap: if node.kind == NodeKind::Switch { PKEYS_PORT0 } else { PKEYS },
        device_id: node.device_id,
        revision: REVISION,
        local_port_num: fabric.ports[ask.at as usize].number,
        vendor_id: node.vendor_id,
    });
    Ok(())
}

/// VendorDiag (IBA 14.2.5.14): PortInfo's DiagCode reports a healthy port, so there is one empty block.
pub(super) fn vendor_diag(_: &mut Fabric, ask: Ask, smp: &mut Smp) -> Result<(), Status> {
    if ask.modifier != 0 {
        return Err(Status::INVALID_FIELD);
    }
    smp.set_attribute(&VendorDiag::default());
    Ok(())
}

pub(super) fn description(fabric: &mut Fabric, ask: Ask, smp: &mut Smp) -> Result<(), Status> {
    smp.set_attribute(&fabric.nodes[ask.node as usize].description);
    Ok(())
}

pub(super) fn set_description(fabric: &mut Fabric, ask: Ask, smp: &mut Smp) -> Result<(), Status> {
    fabric.describe(ask.node, NodeDescription(smp.data));
    Ok(())
}

impl Fabric {
    /// Changes a node's description.
    pub(crate) fn describe(&mut self, node: u32, description: NodeDescription) {
        if self.nodes[node as usize].description == description {
            return;
        }
        self.nodes[node as usize].description = description;
        let places = self.nodes[node as usize].places();
        let first = *places.start();
        self.on_local_change(
            first,
            LocalChangesDetails {
                other_local_changes: true,
                node_description_change: true,
                ..LocalChangesDetails::default()
            },
        );
        for place in places {
            self.tell(place, Changes::DESCRIPTION);
        }
    }
}

pub(super) fn switch_info(fabric: &mut Fabric, ask: Ask, smp: &mut Smp) -> Result<(), Status> {
    let switch = fabric.nodes[ask.node as usize].switch.as_ref().ok_or(UNSUPPORTED)?;
    smp.set_attribute(&switch.info);
    Ok(())
}

pub(super) fn set_switch_info(fabric: &mut Fabric, ask: Ask, smp: &mut Smp) -> Result<(), Status> {
    let asked: SwitchInfo = smp.attribute().ok_or(Status::INVALID_FIELD)?;
    let switch = fabric.nodes[ask.node as usize].switch.as_mut().ok_or(UNSUPPORTED)?;
    if asked.linear_fdb_top >= LINEAR_FDB_CAP {
        return Err(Status::INVALID_FIELD);
    }
    let before = switch.info;
    let info = &mut switch.info;
    info.linear_fdb_top = asked.linear_fdb_top;
    info.multicast_fdb_top = asked.multicast_fdb_top;
    info.default_port = asked.default_port;
    info.default_multicast_primary_port = asked.default_multicast_primary_port;
    info.default_multicast_not_primary_port = asked.default_multicast_not_primary_port;
    info.life_time_value = asked.life_time_value;
    info.port_state_change &= !asked.port_state_change;
    let forwards = |info: &SwitchInfo| SwitchInfo { port_state_change: false, life_time_value: 0, ..*info };
    if forwards(&before) != forwards(info) {
        fabric.bump();
    }
    Ok(())
}

pub(super) fn led(fabric: &mut Fabric, ask: Ask, smp: &mut Smp) -> Result<(), Status> {
    smp.set_attribute(&LedInfo { led_mask: fabric.nodes[ask.node as usize].led });
    Ok(())
}

pub(super) fn set_led(fabric: &mut Fabric, ask: Ask, smp: &mut Smp) -> Result<(), Status> {
    let asked: LedInfo = smp.attribute().ok_or(Status::INVALID_FIELD)?;
    fabric.nodes[ask.node as usize].led = asked.led_mask;
    Ok(())
}
