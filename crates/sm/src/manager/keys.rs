//! Known M_Keys of ports (`guid2mkey`): when the administrator changes the key, a port accepts the new one only in an
//! SMP that bears the old one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use weft_wire::mad::subn::PortInfo;

use super::{Event, Manager};
use crate::options::{lines, number};
use crate::subnet::PortIx;
use crate::sweep::{Ask, What};

/// Ports whose keys are kept: more than a subnet has.
const PORTS_MAX: usize = 1 << 17;
/// Keys to try on a port that does not answer: as many as there are tries.
const KEYS_MAX: usize = 4;

/// The M_Keys of ports.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keys {
    by_guid: BTreeMap<u64, u64>,
    /// Distinct keys from the file, for ports not known yet.
    former: Vec<u64>,
}

impl Keys {
    /// Parses the output of [`Keys::text`]: a PortGUID and a key per line.
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

    /// Returns the text of the guid2mkey file.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (guid, key) in &self.by_guid {
            let _ = writeln!(text, "0x{guid:016x} 0x{key:016x}\n");
        }
        text
    }
}

impl Manager {
    /// Returns the end port whose M_Key guards a port.
    fn guard(&self, at: PortIx) -> Option<u64> {
        let node = self.subnet.node(at.node)?;
        let port = node.ports.get(if node.switch.is_some() { 0 } else { usize::from(at.port) })?;
        Some(port.guid).filter(|guid| *guid != 0)
    }

    /// Returns the known M_Key of a port.
    pub(crate) fn key_of(&self, at: PortIx) -> u64 {
        let known = self.guard(at).and_then(|guid| self.keys.by_guid.get(&guid).copied());
        known.filter(|_| self.setup.options.device.m_key_lookup).unwrap_or(self.setup.m_key)
    }

    /// Returns the M_Key of a request: first the known one, then others in turn if the port does not answer.
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

    /// Records the M_Key that a port reports or was set to.
    pub(crate) fn see_key(&mut self, at: PortIx, info: &PortInfo, set: bool) {
        let end = self.subnet.port(at).is_some_and(|port| port.guid != 0);
        let Some(guid) = self.guard(at).filter(|_| end) else { return };
        // A port that hides its key reports 0.
        let told = info.mkey != 0 || set;
        let known = self.keys.by_guid.get(&guid).copied();
        if !told || known.unwrap_or(0) == info.mkey || known.is_none() && self.keys.by_guid.len() >= PORTS_MAX {
            return;
        }
        self.keys.by_guid.insert(guid, info.mkey);
        self.keys_changed = true;
    }

    /// Reports changed M_Keys, so that the caller saves them.
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
