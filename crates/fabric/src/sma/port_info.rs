//! PortInfo (IBA 14.2.5.6): a manager's view and settings of a port. A Set applies the valid fields; an invalid one
//! keeps its value, and the answer reports an invalid field.

use super::ask::{Ask, UNSUPPORTED};
use crate::fec::Fec;
use crate::limits::{MTU_CAP, VL_CAP};
use crate::state::{LinkEvent, PhysEvent};
use crate::topology::{NodeKind, Speed};
use crate::{Changes, Fabric};
use weft_wire::lrh::is_unicast;
use weft_wire::mad::Status;
use weft_wire::mad::notice::LocalChangesDetails;
use weft_wire::mad::subn::{
    FecMode, FecModes, LinkSpeed, LinkSpeedExt, LinkSpeedExt2, LinkWidth, MlnxExtPortInfo, PhysState, PortInfo,
    PortInfoExtended, PortState, Smp,
};

/// The vendor whose tools read FDR10.
const MELLANOX: u32 = 0x2c9;

pub(super) fn get(fabric: &mut Fabric, ask: Ask, smp: &mut Smp) -> Result<(), Status> {
    let place = fabric.named_port(&ask, ask.modifier as u8)?;
    let now = fabric.now;
    let number = fabric.ports[ask.at as usize].number;
    let port = &mut fabric.ports[place as usize];
    port.expire_mkey(now);
    let mut info = port.info;
    info.local_port_num = number;
    if info.mkey_protect_bits != 0 && smp.mkey() != info.mkey {
        info.mkey = 0;
    }
    info.client_reregister = false;
    smp.set_attribute(&info);
    Ok(())
}

pub(super) fn set(fabric: &mut Fabric, ask: Ask, smp: &mut Smp) -> Result<(), Status> {
    let place = fabric.settable_port(&ask, ask.modifier as u8)?;
    let asked: PortInfo = smp.attribute().ok_or(Status::INVALID_FIELD)?;
    let before = fabric.ports[place as usize].info;
    let mut valid = true;
    if !fabric.ports[place as usize].is_external() {
        valid &= set_agent(fabric, place, &asked);
    }
    valid &= set_enabled(fabric, place, &asked);
    valid &= set_link(fabric, place, &asked);
    set_counts(&mut fabric.ports[place as usize].info, &asked);
    told(fabric, place, &before, &asked);
    // The state comes last: the other settings must apply when the link comes up.
    valid &= set_state(fabric, ask.at, place, &asked);
    // A manager that sets its own key gets the answer with that key.
    smp.set_mkey(fabric.ports[ask.agent as usize].info.mkey);
    if valid { Ok(()) } else { Err(Status::INVALID_FIELD) }
}

/// Sets the fields that only ports with an agent of their own have: LIDs, keys, timeouts.
fn set_agent(fabric: &mut Fabric, place: u32, asked: &PortInfo) -> bool {
    let port = &fabric.ports[place as usize];
    let node = &fabric.nodes[port.node as usize];
    // A base port 0 has one LID (IBA 18.2.4.1).
    let base_port0 = node.switch.as_ref().is_some_and(|switch| !switch.info.enhanced_port0);
    let lmc_max = if base_port0 { 0 } else { node.lmc_max };
    let info = &mut fabric.ports[place as usize].info;
    let mut valid = true;
    let mut change = |allowed: bool, set: &mut dyn FnMut()| {
        valid &= allowed;
        if allowed {
            set();
        }
    };
    change(asked.lmc <= lmc_max, &mut || info.lmc = asked.lmc);
    let mask = (1 << info.lmc) - 1;
    change(is_unicast(asked.lid) && asked.lid & mask == 0, &mut || info.lid = asked.lid);
    change(is_unicast(asked.master_sm_lid), &mut || info.master_sm_lid = asked.master_sm_lid);
    info.master_sm_sl = asked.master_sm_sl;
    info.gid_prefix = asked.gid_prefix;
    info.mkey = asked.mkey;
    info.mkey_protect_bits = asked.mkey_protect_bits;
    info.mkey_lease_period = asked.mkey_lease_period;
    info.subnet_timeout = asked.subnet_timeout;
    info.multicast_pkey_trap_suppression_enabled = asked.multicast_pkey_trap_suppression_enabled & 1;
    info.init_type_reply = asked.init_type_reply;
    valid
}

/// Sets the widths and speeds allowed for the next training.
fn set_enabled(fabric: &mut Fabric, place: u32, asked: &PortInfo) -> bool {
    let info = &mut fabric.ports[place as usize].info;
    let mut valid = true;
    match asked.link_width_enabled {
        none if none.is_empty() => {}
        LinkWidth::ALL_SUPPORTED => info.link_width_enabled = info.link_width_supported,
        some if info.link_width_supported.contains(some) => info.link_width_enabled = some,
        _ => valid = false,
    }
    match asked.link_speed_enabled {
        none if none.is_empty() => {}
        LinkSpeed::ALL_SUPPORTED => info.link_speed_enabled = info.link_speed_supported,
        some if info.link_speed_supported.contains(some) => info.link_speed_enabled = some,
        _ => valid = false,
    }
    match asked.link_speed_ext_enabled {
        none if none.is_empty() => {}
        LinkSpeedExt::ALL_SUPPORTED => info.link_speed_ext_enabled = info.link_speed_ext_supported,
        LinkSpeedExt::DISABLED => {
            info.link_speed_ext_enabled = LinkSpeedExt::empty();
            info.link_speed_ext_enabled2 = LinkSpeedExt2::empty();
        }
        some if info.link_speed_ext_supported.contains(some) => info.link_speed_ext_enabled = some,
        _ => valid = false,
    }
    match asked.link_speed_ext_enabled2 {
        none if none.is_empty() => {}
        LinkSpeedExt2::ALL_SUPPORTED => info.link_speed_ext_enabled2 = info.link_speed_ext_supported2,
        LinkSpeedExt2::DISABLED => info.link_speed_ext_enabled2 = LinkSpeedExt2::empty(),
        some if info.link_speed_ext_supported2.contains(some) => info.link_speed_ext_enabled2 = some,
        _ => valid = false,
    }
    valid
}

/// Sets how the link is used: MTU, lanes, partitions, thresholds.
fn set_link(fabric: &mut Fabric, place: u32, asked: &PortInfo) -> bool {
    let port = &mut fabric.ports[place as usize];
    let external = port.is_external();
    let info = &mut port.info;
    let mut valid = true;
    match asked.neighbor_mtu {
        0 => {}
        mtu if mtu <= MTU_CAP => info.neighbor_mtu = mtu,
        _ => valid = false,
    }
    match asked.operational_vls {
        0 => {}
        lanes if lanes <= VL_CAP => info.operational_vls = lanes,
        _ => valid = false,
    }
    match asked.link_down_default_state {
        PhysState::NO_CHANGE => {}
        state @ (PhysState::SLEEP | PhysState::POLLING) => info.link_down_default_state = state,
        _ => valid = false,
    }
    info.vl_high_limit = asked.vl_high_limit;
    info.local_phy_errors = asked.local_phy_errors;
    info.overrun_errors = asked.overrun_errors;
    if external {
        info.vl_stall_count = asked.vl_stall_count;
        info.hoq_life = asked.hoq_life;
        info.partition_enforcement_inbound = asked.partition_enforcement_inbound;
        info.partition_enforcement_outbound = asked.partition_enforcement_outbound;
        info.filter_raw_inbound = asked.filter_raw_inbound;
        info.filter_raw_outbound = asked.filter_raw_outbound;
    }
    valid
}

/// Sets violation counters, to 0 only.
fn set_counts(info: &mut PortInfo, asked: &PortInfo) {
    for (count, asked) in [
        (&mut info.mkey_violations, asked.mkey_violations),
        (&mut info.pkey_violations, asked.pkey_violations),
        (&mut info.qkey_violations, asked.qkey_violations),
    ] {
        if asked == 0 {
            *count = 0;
        }
    }
}

fn set_state(fabric: &mut Fabric, at: u32, place: u32, asked: &PortInfo) -> bool {
    if fabric.ports[place as usize].number == 0 {
        // Port 0 has no link: a Set may only name its actual state.
        return matches!(asked.port_state, PortState::NO_CHANGE | PortState::ARMED | PortState::ACTIVE);
    }
    let physical = match asked.port_physical_state {
        PhysState::NO_CHANGE => None,
        PhysState::SLEEP => Some(PhysEvent::SetSleep),
        PhysState::POLLING => Some(PhysEvent::SetPolling),
        PhysState::DISABLED => Some(PhysEvent::SetDisabled),
        _ => return false,
    };
    let logical = match asked.port_state {
        PortState::NO_CHANGE => None,
        PortState::DOWN => Some(LinkEvent::SetDown),
        PortState::INIT => Some(LinkEvent::SetInit),
        PortState::ARMED => Some(LinkEvent::SetArmed),
        PortState::ACTIVE => Some(LinkEvent::SetActive),
        _ => return false,
    };
    let event = match (physical, logical) {
        (Some(event), None | Some(LinkEvent::SetDown)) => event,
        (None, Some(LinkEvent::SetDown)) => PhysEvent::Lost,
        (None, Some(event)) => return fabric.link_event(place, event),
        (None, None) => return true,
        // A physical state that takes the link down contradicts a logical state that needs one.
        (Some(_), Some(_)) => return false,
    };
    if place == at {
        // The answer returns by this link, so the change waits.
        fabric.deferred = Some((place, event));
    } else {
        fabric.set_physical(place, event);
    }
    true
}

/// Reports changes to the host and to the subnet manager.
fn told(fabric: &mut Fabric, place: u32, before: &PortInfo, asked: &PortInfo) {
    let info = fabric.ports[place as usize].info;
    let mut changes = Changes::empty();
    let lid = (before.lid, before.lmc) != (info.lid, info.lmc);
    changes.set(Changes::LID, lid);
    changes.set(Changes::SM, (before.master_sm_lid, before.master_sm_sl) != (info.master_sm_lid, info.master_sm_sl));
    changes.set(Changes::GIDS, before.gid_prefix != info.gid_prefix);
    let carries = |info: &PortInfo| {
        let enforced = (info.partition_enforcement_inbound, info.partition_enforcement_outbound);
        (info.neighbor_mtu, info.operational_vls, enforced)
    };
    let link = carries(before) != carries(&info);
    changes.set(Changes::LINK, link || before.subnet_timeout != info.subnet_timeout);
    let port = &mut fabric.ports[place as usize];
    if asked.client_reregister && port.kind != NodeKind::Switch {
        changes.insert(Changes::REREGISTER);
        port.reregistrations = port.reregistrations.wrapping_add(1);
    }
    if lid || link {
        fabric.bump();
    }
    if !changes.is_empty() {
        fabric.tell(place, changes);
    }
    let flags = LocalChangesDetails {
        other_local_changes: true,
        link_width_enabled_change: before.link_width_enabled != info.link_width_enabled,
        link_speed_enabled_change: before.link_speed_enabled != info.link_speed_enabled,
        link_speed_ext_enabled_change: before.link_speed_ext_enabled != info.link_speed_ext_enabled,
        ..LocalChangesDetails::default()
    };
    if flags != (LocalChangesDetails { other_local_changes: true, ..LocalChangesDetails::default() }) {
        fabric.on_local_change(place, flags);
    }
}

/// PortInfoExtended (IBA 14.2.5.19): error correction of the port's link.
pub(super) fn extended(fabric: &mut Fabric, ask: Ask, smp: &mut Smp) -> Result<(), Status> {
    let place = fabric.named_port(&ask, ask.modifier as u8)?;
    let port = &fabric.ports[place as usize];
    if port.number == 0 {
        // Port 0 has no link.
        smp.set_attribute(&PortInfoExtended::default());
        return Ok(());
    }
    let [fdr, edr, hdr, ndr] = Fec::supported(port.speed);
    let [may_fdr, may_edr, may_hdr, may_ndr] = port.fec.enabled();
    smp.set_attribute(&PortInfoExtended {
        capability_mask: PortInfoExtended::FEC_MODES,
        fec_mode_active: if port.is_up() { port.fec.active } else { FecMode::NONE },
        fdr_fec_mode_supported: fdr,
        fdr_fec_mode_enabled: may_fdr,
        edr_fec_mode_supported: edr,
        edr_fec_mode_enabled: may_edr,
        hdr_fec_mode_supported: hdr,
        hdr_fec_mode_enabled: may_hdr,
        ndr_fec_mode_supported: ndr,
        ndr_fec_mode_enabled: may_ndr,
    });
    Ok(())
}

pub(super) fn set_extended(fabric: &mut Fabric, ask: Ask, smp: &mut Smp) -> Result<(), Status> {
    let place = fabric.settable_port(&ask, ask.modifier as u8)?;
    let asked: PortInfoExtended = smp.attribute().ok_or(Status::INVALID_FIELD)?;
    let port = &mut fabric.ports[place as usize];
    let modes = [
        asked.fdr_fec_mode_enabled,
        asked.edr_fec_mode_enabled,
        asked.hdr_fec_mode_enabled,
        asked.ndr_fec_mode_enabled,
    ];
    let valid =
        if port.number == 0 { modes.iter().all(FecModes::is_empty) } else { port.fec.enable(port.speed, modes) };
    if valid { Ok(()) } else { Err(Status::INVALID_FIELD) }
}

/// MlnxExtPortInfo: whether the link runs at FDR10.
pub(super) fn mellanox(fabric: &mut Fabric, ask: Ask, smp: &mut Smp) -> Result<(), Status> {
    if fabric.nodes[ask.node as usize].vendor_id != MELLANOX {
        return Err(UNSUPPORTED);
    }
    let place = fabric.named_port(&ask, ask.modifier as u8)?;
    let port = &fabric.ports[place as usize];
    let able = u8::from(port.number != 0 && port.speed >= Speed::Fdr10);
    smp.set_attribute(&MlnxExtPortInfo {
        state_change_enable: 0,
        link_speed_supported: able,
        link_speed_enabled: able,
        link_speed_active: u8::from(port.is_up() && port.active_speed == Speed::Fdr10),
    });
    Ok(())
}
