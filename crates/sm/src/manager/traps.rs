//! Traps: the manager represses and reports each one, and then reads the ports concerned.

use std::collections::BTreeMap;

use weft_verbs::{Duration, Instant};
use weft_wire::mad::Method;
use weft_wire::mad::notice::{Notice, NoticeDetails, TrapNumber};
use weft_wire::mad::subn::{SmState, Smp};

use super::{Event, Manager};
use crate::io::Peer;
use crate::subnet::PortIx;
use crate::sweep::{Ask, What};

/// Traps of one port within [`BABBLE_TIME`] that count as babbling.
pub const BABBLE_TRAPS: u32 = 250;
/// Period in which traps are counted.
pub const BABBLE_TIME: Duration = Duration::from_secs(60);
/// Upper limit of ports whose traps are counted.
pub const BABBLERS_MAX: usize = 1 << 12;

/// Trap counters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traps {
    pub count: u64,
    /// Start of the counting period and number of traps, by port.
    babble: BTreeMap<PortIx, (Instant, u32)>,
}

impl Traps {
    /// Counts a trap about a link problem of a port; `true` once the port babbles.
    fn count_trouble(&mut self, at: PortIx, now: Instant) -> bool {
        if self.babble.len() >= BABBLERS_MAX && !self.babble.contains_key(&at) {
            self.babble.clear();
        }
        let (since, count) = self.babble.entry(at).or_insert((now, 0));
        if now.since(*since) > BABBLE_TIME {
            (*since, *count) = (now, 0);
        }
        *count += 1;
        *count == BABBLE_TRAPS
    }
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

    /// Handles a state change of some port of a switch.
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

    /// Handles a change of an end port: its name or its capabilities.
    fn on_changes(&mut self, lid: u16) {
        if !self.setup.sweep_on_trap {
            return;
        }
        if let Some(at) = self.subnet.at_lid(lid) {
            self.sweep.wanted.ports.insert(at);
        }
    }

    /// Handles a link problem of a port; a port that babbles is disabled if the policy says so.
    fn on_trouble(&mut self, lid: u16, port: u8) {
        let Some(end) = self.subnet.at_lid(lid) else { return };
        let at = match self.subnet.node(end.node).is_some_and(|node| node.switch.is_some()) {
            true => PortIx { port, ..end },
            false => end,
        };
        if self.subnet.port(at).is_none() {
            return;
        }
        if !self.traps.count_trouble(at, self.now) || !self.setup.babbling_port_policy {
            return;
        }
        // Disable the switch's end if there is one: an adapter's own port cannot be enabled again from here.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subnet::NodeIx;

    #[test]
    fn a_port_that_babbles_is_found_in_a_full_table() {
        let port = |node: usize| PortIx { node: NodeIx(node as u32), port: 1 };
        let (mut traps, now) = (Traps::default(), Instant::default());
        (0..BABBLERS_MAX).for_each(|node| assert!(!traps.count_trouble(port(node), now)));
        let found: Vec<bool> = (1..BABBLE_TRAPS).map(|_| traps.count_trouble(port(7), now)).collect();
        assert_eq!(found.iter().position(|babbles| *babbles), Some(found.len() - 1));
        assert!(!traps.count_trouble(port(BABBLERS_MAX), now));
        assert_eq!(traps.babble.len(), 1);
    }

    #[test]
    fn traps_of_another_minute_do_not_count() {
        let at = PortIx { node: NodeIx(1), port: 1 };
        let (mut traps, now) = (Traps::default(), Instant::default());
        (1..BABBLE_TRAPS).for_each(|_| assert!(!traps.count_trouble(at, now)));
        assert!(!traps.count_trouble(at, now + BABBLE_TIME + Duration::from_secs(1)));
    }
}
