//! M_Keys that ports are known to have (`guid2mkey`): where the administrator changes the key, a port takes the new one only
//! from who knows the old one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use weft_wire::mad::subn::PortInfo;

use super::{Event, Manager};
use crate::options::{lines, number};
use crate::subnet::PortIx;
use crate::sweep::{Ask, What};

/// Ports whose keys are kept: more than a subnet has.
const PORTS_MAX: usize = 1 << 17;
/// Keys that are tried on who does not answer: as many as there are tries.
const KEYS_MAX: usize = 4;

/// The keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keys {
    by_guid: BTreeMap<u64, u64>,
    /// Those of a file, each once: for ports that are not known yet.
    former: Vec<u64>,
}

impl Keys {
    /// Reads what [`Keys::text`] wrote: a PortGUID and a key a line.
    pub fn parse(text: &str) -> Keys {
        let pair = |line: &str| {
            let (guid, key) = line.split_once([' ', '\t'])?;
            Some((number(guid).ok()?, number(key.trim()).ok()?))
        };
        let by_guid: BTreeMap<u64, u64> =
            lines(text).filter_map(|(_, line)| pair(line)).filter(|(guid, _)| *guid != 0).take(PORTS_MAX).collect();
        let former: BTreeSet<u64> = by_guid.values().copied().collect();
        Keys { by_guid, former: former.into_iter().take(KEYS_MAX).collect() }
    }

    /// The text of the file.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (guid, key) in &self.by_guid {
            let _ = writeln!(text, "0x{guid:016x} 0x{key:016x}\n");
        }
        text
    }
}

impl Manager {
    /// The end port whose key guards a port.
    fn guard(&self, at: PortIx) -> Option<u64> {
        let node = self.subnet.node(at.node)?;
        let port = node.ports.get(if node.switch.is_some() { 0 } else { usize::from(at.port) })?;
        Some(port.guid).filter(|guid| *guid != 0)
    }

    /// The key that a port is known to have.
    pub(crate) fn key_of(&self, at: PortIx) -> u64 {
        let known = self.guard(at).and_then(|guid| self.keys.by_guid.get(&guid).copied());
        known.filter(|_| self.setup.options.device.m_key_lookup).unwrap_or(self.setup.m_key)
    }

    /// The key that a question bears: the one that is known, and where nobody answers, others by turns.
    pub(crate) fn key_for(&self, ask: Ask, tries: usize) -> u64 {
        if !self.setup.options.device.m_key_lookup {
            return self.setup.m_key;
        }
        let at = match ask.what {
            What::OwnNode => self.subnet.own,
            what if what.is_beyond() => self.subnet.port(ask.at).and_then(|port| port.neighbor),
            _ => Some(ask.at),
        };
        let first = at.map_or(self.setup.m_key, |at| self.key_of(at));
        if tries == 0 {
            return first;
        }
        let mut all = vec![first, self.setup.m_key];
        all.extend(&self.keys.former);
        let mut seen = BTreeSet::new();
        all.retain(|key| seen.insert(*key));
        all.get(tries % all.len()).copied().unwrap_or(first)
    }

    /// A port says what it has, or was set to.
    pub(crate) fn see_key(&mut self, at: PortIx, info: &PortInfo, set: bool) {
        let end = self.subnet.port(at).is_some_and(|port| port.guid != 0);
        let Some(guid) = self.guard(at).filter(|_| end) else { return };
        // One that hides its key shows none.
        let told = info.mkey != 0 || set;
        let known = self.keys.by_guid.get(&guid).copied();
        if !told || known.unwrap_or(0) == info.mkey || known.is_none() && self.keys.by_guid.len() >= PORTS_MAX {
            return;
        }
        self.keys.by_guid.insert(guid, info.mkey);
        self.keys_changed = true;
    }

    /// Keys are to be kept, if there are others.
    pub(crate) fn tell_keys(&mut self) {
        if std::mem::take(&mut self.keys_changed) {
            self.tell(Event::KeysChanged);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_they_are_written() {
        let text = "0x0000000000000010 0x0000000000001234\n\n0x0000000000000020 0x0000000000005678\n\n";
        assert_eq!(Keys::parse(text).text(), text);
        assert_eq!(Keys::parse(text).former, [0x1234, 0x5678]);
        assert_eq!(Keys::parse("nonsense\n0x1\n0 7\n0x1 x\n").text(), "");
    }
}
