//! Violations of rules and thresholds: the port counts them and reports them to the subnet manager.

use crate::counters::Counter;
use crate::datagram::GlobalRoute;
use crate::head::Head;
use crate::packet::Packet;
use crate::{Fabric, PortRef};
use weft_verbs::Instant;
use weft_wire::lrh::is_multicast;
use weft_wire::mad::notice::{
    BadKeyDetails, BadMkeyDetails, BadPkeySwitchDetails, LinkStateDetails, LocalChangesDetails, NoticeDetails,
    NoticeType, PortDetails, TrapNumber,
};
use weft_wire::mad::subn::Smp;

/// A packet that a queue pair refused because of its Q_Key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadQkey {
    /// LID of the sender.
    pub slid: u16,
    /// Destination LID.
    pub dlid: u16,
    /// Service level.
    pub sl: u8,
    /// The Q_Key.
    pub qkey: u32,
    /// Source queue pair.
    pub src_qp: u32,
    /// Queue pair that refused it.
    pub dest_qp: u32,
    /// Its GRH, if it has one.
    pub grh: Option<GlobalRoute>,
}

impl Fabric {
    /// Counts and reports a datagram that a host's queue pair refused because of its Q_Key.
    pub fn report_bad_qkey(&mut self, now: Instant, port: PortRef, bad: &BadQkey) {
        self.advance(now);
        if let Some(at) = self.place(port) {
            self.count_bad_qkey(at, bad);
            self.send_raised();
        }
    }

    /// Counts and reports one refused because of its P_Key, which `bad` has in place of the Q_Key.
    pub fn report_bad_pkey(&mut self, now: Instant, port: PortRef, bad: &BadQkey) {
        self.advance(now);
        let Some(at) = self.place(port) else { return };
        let head = Head {
            slid: bad.slid,
            dlid: bad.dlid,
            sl: bad.sl,
            management: false,
            pkey: bad.qkey as u16,
            src_qp: bad.src_qp,
            dest_qp: bad.dest_qp,
            payload: 0,
            words: 0,
        };
        self.on_bad_pkey(at, &head);
        self.send_raised();
    }

    pub(crate) fn on_bad_qkey(&mut self, at: u32, packet: &Packet) {
        let h = &packet.head;
        let bad = BadQkey {
            slid: h.slid,
            dlid: h.dlid,
            sl: h.sl,
            qkey: packet.qkey,
            src_qp: h.src_qp,
            dest_qp: h.dest_qp,
            grh: packet.grh,
        };
        self.count_bad_qkey(at, &bad);
    }

    fn count_bad_qkey(&mut self, at: u32, bad: &BadQkey) {
        let port = &mut self.ports[at as usize];
        port.info.qkey_violations = port.info.qkey_violations.saturating_add(1);
        let number = port.number;
        let details = BadKeyDetails {
            lid1: bad.slid,
            lid2: bad.dlid,
            key: bad.qkey,
            sl: bad.sl,
            qp1: bad.src_qp,
            qp2: bad.dest_qp,
            gid1: bad.grh.map_or([0; 16], |grh| grh.sgid),
            gid2: bad.grh.map_or([0; 16], |grh| grh.dgid),
        };
        let details = NoticeDetails::BadKey(TrapNumber::BAD_QKEY, details);
        self.raise(self.agent_port(at), number, NoticeType::SECURITY, details);
    }

    /// Handles a packet of a partition that the port is not in.
    pub(crate) fn on_bad_pkey(&mut self, at: u32, head: &Head) {
        let port = &mut self.ports[at as usize];
        port.info.pkey_violations = port.info.pkey_violations.saturating_add(1);
        if is_multicast(head.dlid) && port.info.multicast_pkey_trap_suppression_enabled != 0 {
            return;
        }
        let number = port.number;
        let details = BadKeyDetails {
            lid1: head.slid,
            lid2: head.dlid,
            key: u32::from(head.pkey),
            sl: head.sl,
            qp1: head.src_qp,
            qp2: head.dest_qp,
            ..BadKeyDetails::default()
        };
        let details = NoticeDetails::BadKey(TrapNumber::BAD_PKEY, details);
        self.raise(self.agent_port(at), number, NoticeType::SECURITY, details);
    }

    /// Handles a packet that a switch's port filtered out on entry or exit.
    pub(crate) fn on_bad_pkey_switch(&mut self, at: u32, head: &Head) {
        /// DataValid: LIDs, P_Key, service level and queue pairs are known, GIDs are not.
        const KNOWN: u16 = 0x3f;
        let port = &mut self.ports[at as usize];
        port.info.pkey_violations = port.info.pkey_violations.saturating_add(1);
        let (agent, number) = (port.base, port.number);
        let details = BadPkeySwitchDetails {
            data_valid: KNOWN,
            lid1: head.slid,
            lid2: head.dlid,
            pkey: head.pkey,
            sl: head.sl,
            qp1: head.src_qp,
            qp2: head.dest_qp,
            switch_lid: self.ports[agent as usize].info.lid,
            port_num: number,
            ..BadPkeySwitchDetails::default()
        };
        let details = NoticeDetails::BadPkeySwitch(TrapNumber::BAD_PKEY_SWITCH, details);
        self.raise(agent, number, NoticeType::SECURITY, details);
    }

    /// Handles an SMP with a wrong M_Key.
    pub(crate) fn on_bad_mkey(&mut self, at: u32, packet: &Packet) {
        let smp = Smp::ref_from_mad(&packet.mad);
        let hops = if smp.is_directed() { smp.hop_count() } else { 0 };
        let mut path = [0; 30];
        path.iter_mut().zip(&smp.return_path[1..]).take(usize::from(hops)).for_each(|(to, from)| *to = *from);
        let details = BadMkeyDetails {
            lid: packet.head.slid,
            dr_slid: if smp.is_directed() { smp.dr_slid() } else { 0 },
            method: smp.header.method().0,
            attr_id: smp.header.attr_id().0,
            attr_mod: smp.header.attr_mod(),
            mkey: smp.mkey(),
            dr_notice: smp.is_directed(),
            dr_path_truncated: usize::from(hops) > path.len(),
            dr_hop_count: hops,
            dr_return_path: path,
        };
        let agent = self.agent_port(at);
        let port = &mut self.ports[agent as usize];
        port.info.mkey_violations = port.info.mkey_violations.saturating_add(1);
        let number = port.number;
        let details = NoticeDetails::BadMkey(TrapNumber::BAD_MKEY, details);
        self.raise(agent, number, NoticeType::SECURITY, details);
    }

    /// Handles a damaged packet.
    pub(crate) fn on_damage(&mut self, at: u32) {
        let port = &mut self.ports[at as usize];
        port.damaged += 1;
        if port.damaged <= port.info.local_phy_errors {
            return;
        }
        port.damaged = 0;
        port.counters.count(Counter::LocalLinkIntegrityErrors);
        let (agent, number) = (self.agent_port(at), self.ports[at as usize].number);
        let details = PortDetails { lid: self.ports[agent as usize].info.lid, port_num: number };
        let details = NoticeDetails::Port(TrapNumber::LOCAL_LINK_INTEGRITY, details);
        self.raise(agent, number, NoticeType::URGENT, details);
    }

    /// Reports that a port of a switch went up or down.
    pub(crate) fn on_port_state_change(&mut self, node: u32) {
        let agent = self.nodes[node as usize].base;
        if let Some(switch) = &mut self.nodes[node as usize].switch {
            switch.info.port_state_change = true;
        }
        let details = LinkStateDetails { lid: self.ports[agent as usize].info.lid };
        let details = NoticeDetails::LinkState(TrapNumber::LINK_STATE, details);
        self.raise(agent, 0, NoticeType::URGENT, details);
    }

    /// Reports changes of a port: the flags in `changes`, or the capability mask.
    pub(crate) fn on_local_change(&mut self, at: u32, changes: LocalChangesDetails) {
        let agent = self.agent_port(at);
        let info = &self.ports[agent as usize].info;
        let details = LocalChangesDetails {
            lid: info.lid,
            capability_mask: info.capability_mask.bits(),
            capability_mask2: info.capability_mask2.bits(),
            ..changes
        };
        let number = self.ports[at as usize].number;
        let details = NoticeDetails::LocalChanges(TrapNumber::LOCAL_CHANGES, details);
        self.raise(agent, number, NoticeType::INFORMATIONAL, details);
    }
}
