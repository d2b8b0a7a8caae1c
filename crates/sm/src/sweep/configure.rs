//! Configuration of ports: the wanted settings of each, and the path of its link from Initialize to Active.

use std::hash::Hasher;

use rustc_hash::FxHasher;
use weft_wire::mad::subn::{
    CapabilityMask, LinkSpeed, LinkSpeedExt, LinkSpeedExt2, LinkWidth, PhysState, PortInfo, PortState,
};

use super::{Ask, Phase, What};
use crate::manager::Manager;
use crate::subnet::{NodeIx, PortIx};

impl Manager {
    /// Returns every port of the subnet.
    pub(crate) fn every_port(&self) -> Vec<PortIx> {
        let nodes = self.subnet.nodes();
        nodes
            .flat_map(|(node, held)| (0..held.ports.len()).map(move |port| PortIx { node, port: port as u8 }))
            .collect()
    }

    /// Writes settings that differ from the wanted ones, and arms every link that should carry data.
    pub(crate) fn configure_ports(&mut self) {
        self.write_pkeys();
        for at in self.every_port() {
            if self.port_to_send(at).is_some() {
                self.wire.ask(Ask { what: What::SetPort, at, arg: 0 });
            }
        }
    }

    /// Whether the port has an SMA of its own, and with it a LID and the settings of an end port.
    fn is_end(&self, at: PortIx) -> bool {
        self.subnet.port(at).is_some_and(|port| port.guid != 0)
    }

    /// Returns the wanted settings of a port.
    fn wanted_port(&self, at: PortIx) -> Option<PortInfo> {
        let port = self.subnet.port(at)?;
        let mut info = port.info;
        if self.is_end(at) && port.lid != 0 {
            let setup = &self.setup;
            (info.lid, info.lmc) = (port.lid, port.lmc);
            (info.master_sm_lid, info.master_sm_sl) = (self.own_lid(), setup.sm_sl & 0xf);
            info.gid_prefix = setup.subnet_prefix;
            info.mkey = setup.m_key;
            info.mkey_lease_period = if setup.m_key == 0 { info.mkey_lease_period } else { setup.m_key_lease_period };
            info.mkey_protect_bits = setup.m_key_protection_level & 3;
            info.subnet_timeout = setup.subnet_timeout & 0x1f;
        }
        if at.port != 0 && port.neighbor.is_some() {
            self.want_link(at, &mut info);
        }
        Some(info)
    }

    /// Adds the settings that both ends of a link have to agree on, and the queue limits of a switch port.
    fn want_link(&self, at: PortIx, info: &mut PortInfo) {
        let Some(neighbor) = self.subnet.port(at).and_then(|port| port.neighbor) else { return };
        let Some(other) = self.subnet.port(neighbor) else { return };
        let setup = &self.setup;
        info.neighbor_mtu = info.mtu_cap.min(other.info.mtu_cap).max(1);
        info.operational_vls = info.vl_cap.min(other.info.vl_cap).min(setup.max_op_vls).max(1);
        info.local_phy_errors = setup.local_phy_errors_threshold & 0xf;
        info.overrun_errors = setup.overrun_errors_threshold & 0xf;
        let is_switch = self.subnet.node(at.node).is_some_and(|node| node.switch.is_some());
        self.want_training(info);
        self.want_lanes(at, info);
        if is_switch {
            let enforced = self.plan.enforced.get(&at);
            info.partition_enforcement_inbound = enforced.is_some_and(|enforced| enforced.inbound);
            info.partition_enforcement_outbound = enforced.is_some_and(|enforced| enforced.outbound);
            let leaf = !self.subnet.between_switches(at);
            let pick = |leaf_value: u8, value: u8| if leaf { leaf_value } else { value };
            info.hoq_life = pick(setup.leaf_head_of_queue_lifetime, setup.head_of_queue_lifetime) & 0x1f;
            info.vl_stall_count = pick(setup.leaf_vl_stall_count, setup.vl_stall_count) & 7;
        }
    }

    /// Adds the widths and speeds that the next training of a link may choose from.
    fn want_training(&self, info: &mut PortInfo) {
        let device = &self.setup.options.device;
        let (width, width_all) = (device.force_link_width, LinkWidth::ALL_SUPPORTED.bits());
        let bits = forced(width, width_all, info.link_width_enabled.bits(), info.link_width_supported.bits());
        info.link_width_enabled = LinkWidth::from_bits_retain(bits);
        let (speed, speed_all) = (device.force_link_speed, LinkSpeed::ALL_SUPPORTED.bits());
        let bits = forced(speed, speed_all, info.link_speed_enabled.bits(), info.link_speed_supported.bits());
        info.link_speed_enabled = LinkSpeed::from_bits_retain(bits);
        let (speed, able) = (device.force_link_speed_ext, info.link_speed_ext_supported.bits());
        if speed == LinkSpeedExt::DISABLED.bits() {
            info.link_speed_ext_enabled = LinkSpeedExt::empty();
            info.link_speed_ext_enabled2 = LinkSpeedExt2::empty();
            return;
        }
        let all = LinkSpeedExt::ALL_SUPPORTED.bits();
        let bits = forced(speed, all, info.link_speed_ext_enabled.bits(), able);
        info.link_speed_ext_enabled = LinkSpeedExt::from_bits_retain(bits);
        if speed != 0 && speed != all && speed & able != 0 {
            // A mask of extended speeds up to HDR excludes NDR, which has a field of its own.
            info.link_speed_ext_enabled2 = LinkSpeedExt2::empty();
        }
    }

    /// Returns the PortInfo to set at a port; `None` if the port needs no change.
    pub(crate) fn port_to_send(&self, at: PortIx) -> Option<PortInfo> {
        // A port that has not reported its PortInfo cannot be set.
        let port = self.subnet.port(at).filter(|port| port.info.port_state != PortState::NO_CHANGE)?;
        let mut info = self.wanted_port(at)?;
        let arm = port.neighbor.is_some() && at.port != 0 && port.info.port_state == PortState::INIT;
        let register = self.reregister.contains(&at)
            && !self.setup.options.misc.no_clients_rereg
            && port.neighbor.is_some()
            && port.info.capability_mask.contains(CapabilityMask::CLIENT_REREGISTRATION);
        // Another manager may have written the LIDs of a port that looks stubborn.
        let same_lids = (info.lid, info.master_sm_lid) == (port.info.lid, port.info.master_sm_lid);
        let stays = info == port.info || same_lids && self.is_stubborn(at, &info);
        if stays && !arm && !register {
            return None;
        }
        info.client_reregister = register;
        let state = if arm && !self.trains_first(at) { PortState::ARMED } else { PortState::NO_CHANGE };
        Some(trained(unchanged(info, state), &info, &port.info))
    }

    /// Whether an earlier Set of the same settings did not take effect at the port.
    fn is_stubborn(&self, at: PortIx, wanted: &PortInfo) -> bool {
        let Some(port) = self.subnet.port(at) else { return false };
        self.sweep.stubborn.get(&at).is_some_and(|of| *of == number_of(wanted, &port.info))
    }

    /// Whether administrator-chosen widths and speeds have to be set before the port is armed: some ports accept only
    /// one of the two in one SMP.
    fn trains_first(&self, at: PortIx) -> bool {
        let device = &self.setup.options.device;
        let chosen = |force: u8, all: u8| force != 0 && force != all;
        let chosen = chosen(device.force_link_width, LinkWidth::ALL_SUPPORTED.bits())
            || chosen(device.force_link_speed, LinkSpeed::ALL_SUPPORTED.bits())
            || chosen(device.force_link_speed_ext, LinkSpeedExt::ALL_SUPPORTED.bits());
        let enabled = |info: &PortInfo| {
            (
                info.link_width_enabled,
                info.link_speed_enabled,
                info.link_speed_ext_enabled,
                info.link_speed_ext_enabled2,
            )
        };
        let has = self.subnet.port(at).filter(|_| chosen).map(|port| enabled(&port.info));
        let wanted = self.wanted_port(at).filter(|wanted| !self.is_stubborn(at, wanted));
        has.is_some() && wanted.is_some_and(|wanted| has != Some(enabled(&wanted)))
    }

    /// Returns the PortInfo that activates a port; `None` if it is active or not ready.
    pub(crate) fn port_to_activate(&self, at: PortIx) -> Option<PortInfo> {
        let port = self.subnet.port(at)?;
        let other = self.subnet.port(port.neighbor?)?;
        let ready = port.info.port_state == PortState::ARMED && other.info.port_state >= PortState::ARMED;
        ready.then(|| unchanged(port.info, PortState::ACTIVE))
    }

    /// Returns the PortInfo that disables a port for good.
    pub(crate) fn port_to_disable(&self, at: PortIx) -> Option<PortInfo> {
        let info = unchanged(self.subnet.port(at)?.info, PortState::NO_CHANGE);
        Some(PortInfo { port_physical_state: PhysState::DISABLED, ..info })
    }

    /// Activates links: those between switches, or all.
    pub(crate) fn begin_activation(&mut self, between_switches: bool) {
        self.sweep.phase = if between_switches { Phase::ActivateLinks } else { Phase::ActivateEnds };
        for at in self.every_port() {
            if at.port != 0
                && self.port_to_activate(at).is_some()
                && (!between_switches || self.subnet.between_switches(at))
            {
                self.wire.ask(Ask { what: What::Activate, at, arg: 0 });
            }
        }
    }

    /// Whether a port's link is up but not yet active.
    pub(crate) fn is_unready(&self, at: PortIx) -> bool {
        let port = self.subnet.port(at).filter(|port| at.port != 0 && port.neighbor.is_some());
        port.is_some_and(|port| (PortState::INIT..PortState::ACTIVE).contains(&port.info.port_state))
    }

    /// Marks the sweep incomplete if a link that should be active is not, so that the next sweep retries it.
    pub(crate) fn see_unready(&mut self) {
        if let Some(at) = self.every_port().into_iter().find(|at| self.is_unready(*at)) {
            let text = self.subnet.call(at);
            self.sweep.fail(|| format!("{text} does not carry data"));
        }
    }

    /// Reads the PortInfo of a port that refused a Set.
    pub(crate) fn read_back(&mut self, refused: Ask) {
        let arg = u32::from(refused.what == What::Activate);
        self.wire.ask(Ask { what: What::ReadBack, at: refused.at, arg });
    }

    /// Takes the PortInfo of a port after it refused a Set. Another manager may have written it since then.
    pub(crate) fn on_read_back(&mut self, ask: Ask, info: PortInfo) {
        if let Some(port) = self.subnet.port(ask.at).filter(|port| port.guid != 0) {
            let before = port.info;
            self.see_usurper(ask.at, &before, &info);
        }
        let what = if ask.arg == 0 { What::SetPort } else { What::Activate };
        self.on_port_set(Ask { what, at: ask.at, arg: 0 }, info);
    }

    /// Handles a port that refuses both the Set and the Get of its PortInfo.
    pub(crate) fn on_unreadable(&mut self, ask: Ask, status: u16) {
        let text = self.subnet.call(ask.at);
        self.sweep.fail(|| format!("{text} refuses to be configured (status 0x{status:04x})"));
    }

    /// Handles the PortInfo that a port returns after a Set.
    pub(crate) fn on_port_set(&mut self, ask: Ask, mut info: PortInfo) {
        info.client_reregister = false;
        self.see_key(ask.at, &info, true);
        self.sweep.written = true;
        let trained = ask.what == What::SetPort && self.trains_first(ask.at);
        let wanted = match ask.what {
            What::Activate => PortState::ACTIVE,
            What::SetPort if trained => PortState::NO_CHANGE,
            What::SetPort => PortState::ARMED,
            _ => PortState::NO_CHANGE,
        };
        if ask.what == What::SetPort {
            self.reregister.remove(&ask.at);
        }
        let Some(port) = self.subnet.port_mut(ask.at) else { return };
        port.info = info;
        let (given, linked) = (port.lid, port.neighbor.is_some() && ask.at.port != 0);
        if port.guid != 0 && given != 0 && info.lid != given {
            let text = self.subnet.call(ask.at);
            self.sweep.fail(|| format!("{text} has LID {} instead of LID {given}", info.lid));
        }
        let Some(port) = self.subnet.port(ask.at) else { return };
        if linked && port.guid != 0 {
            self.sweep.risen.insert(ask.at);
        }
        if ask.what == What::SetPort {
            self.see_stubborn(ask.at, &info);
        }
        if trained && self.port_to_send(ask.at).is_some() {
            self.wire.ask(Ask { what: What::SetPort, at: ask.at, arg: 0 });
        }
        if linked && info.port_state < wanted {
            self.on_not_ready(ask.at.node, ask.at, info.port_state);
        }
    }

    /// Records whether a port accepted only part of its settings.
    fn see_stubborn(&mut self, at: PortIx, info: &PortInfo) {
        match self.wanted_port(at).filter(|wanted| wanted != info) {
            Some(wanted) => self.sweep.stubborn.insert(at, number_of(&wanted, info)),
            None => self.sweep.stubborn.remove(&at),
        };
    }

    /// Handles a link that fell back during bring-up: the next sweep reads its switch again.
    fn on_not_ready(&mut self, node: NodeIx, at: PortIx, state: PortState) {
        let text = self.subnet.call(at);
        self.sweep.fail(|| format!("{text} is {state} and not as it was set"));
        match self.subnet.node(node).is_some_and(|node| node.switch.is_some()) {
            true => self.sweep.wanted.switches.insert(node),
            false => self.sweep.wanted.ports.insert(at),
        };
    }
}

/// Returns the enabled bits for a forced value: 0 keeps the present bits, `all` enables all supported ones.
fn forced(force: u8, all: u8, enabled: u8, supported: u8) -> u8 {
    match force {
        0 => enabled,
        force if force == all => supported,
        // A port cannot be forced to a width or speed that it does not support.
        force => Some(force & supported).filter(|both| *both != 0).unwrap_or(enabled),
    }
}

/// Adds the widths and speeds that change to a PortInfo to send; "all supported" is sent as its special value.
fn trained(mut sent: PortInfo, wanted: &PortInfo, has: &PortInfo) -> PortInfo {
    if wanted.link_width_enabled != has.link_width_enabled {
        let all = wanted.link_width_enabled == wanted.link_width_supported;
        sent.link_width_enabled = if all { LinkWidth::ALL_SUPPORTED } else { wanted.link_width_enabled };
    }
    if wanted.link_speed_enabled != has.link_speed_enabled {
        let all = wanted.link_speed_enabled == wanted.link_speed_supported;
        sent.link_speed_enabled = if all { LinkSpeed::ALL_SUPPORTED } else { wanted.link_speed_enabled };
    }
    if wanted.link_speed_ext_enabled != has.link_speed_ext_enabled {
        sent.link_speed_ext_enabled = match wanted.link_speed_ext_enabled {
            none if none.is_empty() => LinkSpeedExt::DISABLED,
            all if all == wanted.link_speed_ext_supported => LinkSpeedExt::ALL_SUPPORTED,
            some => some,
        };
    }
    if wanted.link_speed_ext_enabled2 != has.link_speed_ext_enabled2 {
        sent.link_speed_ext_enabled2 = LinkSpeedExt2::DISABLED;
    }
    sent
}

/// Hashes the wanted and the present settings of a port, without its state.
fn number_of(wanted: &PortInfo, is: &PortInfo) -> u64 {
    let mut hasher = FxHasher::default();
    for info in [wanted, is] {
        hasher.write(&PortInfo { port_state: PortState::NO_CHANGE, ..*info }.encode());
    }
    hasher.finish()
}

/// Returns a port's settings with this state, and without any change that would retrain its link.
fn unchanged(info: PortInfo, state: PortState) -> PortInfo {
    PortInfo {
        port_state: state,
        port_physical_state: PhysState::NO_CHANGE,
        link_down_default_state: PhysState::NO_CHANGE,
        link_width_enabled: LinkWidth::empty(),
        link_speed_enabled: LinkSpeed::empty(),
        link_speed_ext_enabled: LinkSpeedExt::empty(),
        link_speed_ext_enabled2: LinkSpeedExt2::empty(),
        ..info
    }
}
