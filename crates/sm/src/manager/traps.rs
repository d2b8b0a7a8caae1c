//! Traps: every one is repressed, told of, and followed by a look at what it is about.

use std::collections::BTreeMap;

use weft_verbs::{Duration, Instant};
use weft_wire::mad::Method;
use weft_wire::mad::notice::{Notice, NoticeDetails, TrapNumber};
use weft_wire::mad::subn::{SmState, Smp};

use super::{Event, Manager};
use crate::io::Peer;
use crate::subnet::PortIx;
use crate::sweep::{Ask, What};

/// Traps of one port within [`BABBLE_TIME`] that are too many.
pub const BABBLE_TRAPS: u32 = 250;
/// The time in which they are counted.
pub const BABBLE_TIME: Duration = Duration::from_secs(60);
/// Ports whose traps are counted.
pub const BABBLERS_MAX: usize = 1 << 12;

/// Traps that came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traps {
    pub count: u64,
    /// How many a port sent since when.
    babble: BTreeMap<PortIx, (Instant, u32)>,
}

impl Manager {
    pub(crate) fn on_trap(&mut self, from: &Peer, smp: &Smp) {
        if self.state != SmState::MASTER {
            return;
        }
        let notice = Notice::from_smp(&smp.data);
        self.traps.count += 1;
        let mut repress = *smp;
        repress.header.set_method(Method::TRAP_REPRESS);
        repress.set_mkey(self.subnet.at_lid(from.lid).map_or(self.setup.m_key, |at| self.key_of(at)));
        self.reply(from.lid, repress.to_mad());
        self.tell(Event::Trap { notice, from: from.lid });
        self.administer(|sa, now, world| sa.notice(now, world, &notice));
        match notice.details() {
            Some(NoticeDetails::LinkState(_, details)) => self.on_link_state(details.lid),
            Some(NoticeDetails::LocalChanges(_, details)) => self.on_changes(details.lid),
            Some(NoticeDetails::SystemImageGuid(..)) => self.sweep.wanted.heavy |= self.setup.sweep_on_trap,
            Some(NoticeDetails::Port(
                TrapNumber::LOCAL_LINK_INTEGRITY | TrapNumber::BUFFER_OVERRUN | TrapNumber::FLOW_CONTROL_WATCHDOG,
                details,
            )) => self.on_trouble(details.lid, details.port_num),
            _ => {}
        }
    }

    /// Some port of a switch changed.
    fn on_link_state(&mut self, lid: u16) {
        if !self.setup.sweep_on_trap {
            return;
        }
        match self.subnet.at_lid(lid) {
            Some(at) => {
                self.sweep.wanted.switches.insert(at.node);
            }
            None => self.sweep.wanted.light = true,
        }
    }

    /// Something about an end port changed: its name, its capabilities.
    fn on_changes(&mut self, lid: u16) {
        if !self.setup.sweep_on_trap {
            return;
        }
        if let Some(at) = self.subnet.at_lid(lid) {
            self.sweep.wanted.ports.insert(at);
        }
    }

    /// A port has trouble with its link; one that does not stop to say so is shut, if the administrator wants that.
    fn on_trouble(&mut self, lid: u16, port: u8) {
        let Some(end) = self.subnet.at_lid(lid) else { return };
        let at = match self.subnet.node(end.node).is_some_and(|node| node.switch.is_some()) {
            true => PortIx { port, ..end },
            false => end,
        };
        if self.subnet.port(at).is_none() || self.traps.babble.len() >= BABBLERS_MAX {
            self.traps.babble.clear();
            return;
        }
        let (since, count) = self.traps.babble.entry(at).or_insert((self.now, 0));
        if self.now.since(*since) > BABBLE_TIME {
            (*since, *count) = (self.now, 0);
        }
        *count += 1;
        if *count != BABBLE_TRAPS || !self.setup.babbling_port_policy {
            return;
        }
        // The switch's end is shut where there is one: an adapter's own cannot be opened again from here.
        let neighbor = self.subnet.port(at).and_then(|port| port.neighbor).filter(|_| at == end);
        let shut = neighbor.unwrap_or(at);
        if self.is_own(at) || self.is_own(shut) {
            return;
        }
        self.wire.ask(Ask { what: What::Disable, at: shut, arg: 0 });
        let text = self.subnet.call(at);
        self.tell(Event::Babbling { at: text });
    }
}
