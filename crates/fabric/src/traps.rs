//! Traps: a node's unsolicited notices to the subnet manager (IBA 13.4.9, 14.2.5.1). A trap is repeated until the
//! manager represses it, up to a limit; only one of each kind and port is outstanding.

use crate::Fabric;
use crate::flight::Timer;
use crate::limits::{RAISED_MAX, TRAP_INTERVAL_MAX, TRAP_INTERVAL_MIN, TRAP_TRIES_MAX, TRAPS_PENDING_MAX};
use crate::packet::Packet;
use crate::pending_traps::{Pending, Raised};
use crate::port::Port;
use crate::topology::NodeKind;
use weft_verbs::Duration;
use weft_wire::lrh::is_unicast;
use weft_wire::mad::notice::{Notice, NoticeDetails, NoticeType, ProducerType};
use weft_wire::mad::subn::{CapabilityMask, Smp, SmpData};
use weft_wire::mad::{AttrId, Method};

impl Fabric {
    /// Raises a trap of a node about its port `number`.
    pub(crate) fn raise(&mut self, agent: u32, number: u8, kind: NoticeType, details: NoticeDetails) {
        let port = &self.ports[agent as usize];
        if !port.can_trap() || self.raised.len() >= RAISED_MAX {
            return;
        }
        let producer = match port.kind {
            NodeKind::Ca => ProducerType::CA,
            NodeKind::Switch => ProducerType::SWITCH,
            NodeKind::Router => ProducerType::ROUTER,
        };
        let notice = Notice::generic(kind, producer, port.info.lid, &details);
        self.raised.push_back(Raised { agent, key: (details.trap_number(), number), notice });
    }

    /// Sends the raised traps.
    pub(crate) fn send_raised(&mut self) {
        while let Some(raised) = self.raised.pop_front() {
            let node = self.ports[raised.agent as usize].node;
            let traps = self.nodes[node as usize].traps.get_or_insert_default();
            let known = traps.pending.iter().any(|pending| pending.key == raised.key);
            if known || traps.pending.len() >= TRAPS_PENDING_MAX {
                continue;
            }
            self.trap_tid += 1;
            traps.pending.push(Pending {
                agent: raised.agent,
                key: raised.key,
                tid: self.trap_tid,
                data: raised.notice.to_smp(),
                tries: 0,
                at: self.now,
            });
            self.on_traps(node);
        }
    }

    /// Sends the due traps of a node.
    pub(crate) fn on_traps(&mut self, node: u32) {
        let now = self.now;
        let mut place = 0;
        while let Some(pending) = self.trap(node, place) {
            let agent = pending.agent;
            if pending.at > now {
                place += 1;
            } else if pending.tries >= TRAP_TRIES_MAX || !self.ports[agent as usize].can_trap() {
                self.forget_trap(node, place);
            } else {
                let interval = self.ports[agent as usize].trap_interval();
                if let Some(traps) = &mut self.nodes[node as usize].traps {
                    let pending = &mut traps.pending[place];
                    (pending.tries, pending.at) = (pending.tries + 1, now + interval);
                    let (tid, data) = (pending.tid, pending.data);
                    self.send_trap(agent, tid, data);
                }
                place += 1;
            }
        }
        self.schedule_traps(node);
    }

    fn trap(&self, node: u32, place: usize) -> Option<&Pending> {
        self.nodes[node as usize].traps.as_ref()?.pending.get(place)
    }

    fn forget_trap(&mut self, node: u32, place: usize) {
        if let Some(traps) = &mut self.nodes[node as usize].traps {
            traps.pending.remove(place);
        }
    }

    fn schedule_traps(&mut self, node: u32) {
        let now = self.now;
        let Some(traps) = &mut self.nodes[node as usize].traps else { return };
        let Some(next) = traps.pending.iter().map(|pending| pending.at).min() else {
            self.nodes[node as usize].traps = None;
            return;
        };
        if traps.timer.is_none_or(|timer| timer <= now || timer > next) {
            traps.timer = Some(next);
            self.timers.set(next, Timer::Traps(node));
        }
    }

    fn send_trap(&mut self, agent: u32, tid: u64, data: SmpData) {
        let port = &self.ports[agent as usize];
        let mut smp = Smp::lid_routed(Method::TRAP, tid, AttrId::NOTICE, 0, 0);
        smp.data = data;
        let mut packet = Packet::smp(port, port.info.master_sm_lid, port.info.master_sm_sl, smp);
        self.launch(agent, &mut packet);
    }

    /// Handles the manager's TrapRepress.
    pub(crate) fn on_repress(&mut self, node: u32, smp: &Smp) {
        if let Some(traps) = &mut self.nodes[node as usize].traps {
            let notice = Notice::from_smp(&smp.data);
            let same = |data: &SmpData| Notice::from_smp(data).data_details == notice.data_details;
            traps.pending.retain(|pending| {
                pending.tid != smp.header.tid() && !(pending.key.0 == notice.trap_number && same(&pending.data))
            });
        }
    }

    /// Returns the number of a node's traps that the manager has not repressed yet.
    pub fn traps_pending(&self, node: u32) -> usize {
        let traps = self.nodes.get(node as usize).and_then(|node| node.traps.as_ref());
        traps.map_or(0, |traps| traps.pending.len())
    }
}

impl Port {
    /// Returns whether its agent knows the manager's LID and has a LID of its own.
    fn can_trap(&self) -> bool {
        let info = &self.info;
        info.capability_mask.contains(CapabilityMask::TRAP) && is_unicast(info.lid) && is_unicast(info.master_sm_lid)
    }

    /// Returns SubnetTimeOut as a duration, within limits.
    fn trap_interval(&self) -> Duration {
        Duration::from_nanos(4096 << self.info.subnet_timeout.min(31)).clamp(TRAP_INTERVAL_MIN, TRAP_INTERVAL_MAX)
    }
}
