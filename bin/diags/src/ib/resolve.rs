//! Destinations from user input: a LID, a directed route, a GUID, or a LID with a route from there.

use super::address::{DrPath, LID_MULTICAST_MIN, PortId};
use super::number;
use super::options::{Common, Dest};
use super::port::Port;
use super::report::Outcome;
use weft_client::umad::CaPort;

/// The default subnet prefix, for a port without one.
const PREFIX_DEFAULT: u64 = 0xfe80_0000_0000_0000;

impl Common {
    /// The local port, as the library reports it.
    ///
    /// # Errors
    /// The library is missing. `None` if there is no such port.
    pub fn own_port(&self) -> Outcome<Option<CaPort>> {
        Ok(self.library()?.port(self.ca.as_deref(), self.port).ok())
    }

    /// The subnet manager's address: from `-s`, or from the local port.
    ///
    /// # Errors
    /// The library is missing. `None` if there is no such port.
    pub fn sm(&self) -> Outcome<Option<PortId>> {
        match self.sm_id {
            Some(sm) => Ok(Some(sm)),
            None => self.own_sm(),
        }
    }

    /// The subnet manager's address according to the local port; LID 0 if the port does not know it.
    ///
    /// # Errors
    /// The library is missing. `None` if there is no such port.
    pub fn own_sm(&self) -> Outcome<Option<PortId>> {
        let of = |port: CaPort| PortId { lid: port.sm_lid, sl: port.sm_sl, ..PortId::default() };
        Ok(self.own_port()?.map(of))
    }

    /// Resolves `text` in the form `dest`; `None` if the text is invalid or the port is unknown.
    ///
    /// # Errors
    /// The library is missing.
    pub fn resolve(&self, port: &mut Port, text: &str, dest: Dest) -> Outcome<Option<PortId>> {
        match dest {
            Dest::Lid => Ok(lid(text).map(|(lid, _)| PortId::lid(lid))),
            Dest::Path => Ok(DrPath::parse(text, 0).map(PortId::path)),
            Dest::Guid => self.resolve_guid(port, number::number(text)),
            Dest::LidPath => {
                let Some((lid, route)) = lid(text) else { return Ok(None) };
                let Some(own) = self.own_port()? else { return Ok(None) };
                let mut route = route.chars();
                // Skips the separator between LID and route.
                route.next();
                let dr_path = DrPath::parse(route.as_str(), own.base_lid);
                Ok(dr_path.map(|dr_path| PortId { lid, dr_path, ..PortId::default() }))
            }
        }
    }

    /// Resolves `text` in the form that the options select.
    ///
    /// # Errors
    /// As for [`Common::resolve`].
    pub fn destination(&self, port: &mut Port, text: &str) -> Outcome<Option<PortId>> {
        self.resolve(port, text, self.dest)
    }

    fn resolve_guid(&self, port: &mut Port, guid: u64) -> Outcome<Option<PortId>> {
        if guid == 0 {
            return Ok(None);
        }
        let (Some(sm), Some(own)) = (self.sm()?, self.own_port()?) else { return Ok(None) };
        let prefix = if own.gid_prefix != 0 { own.gid_prefix } else { PREFIX_DEFAULT };
        let dgid = ((u128::from(prefix) << 64) | u128::from(guid)).to_be_bytes();
        let Ok((lid, sl)) = port.sa_path(&sm, own.gid(), dgid) else { return Ok(None) };
        Ok(Some(PortId { lid, sl, ..PortId::default() }))
    }
}

/// A unicast LID and the text after it.
fn lid(text: &str) -> Option<(u16, &str)> {
    let (value, rest) = number::parse(text);
    // As in the original, strtol's value is cut to an int before the check.
    let value = value as u32;
    let is_unicast = (1..LID_MULTICAST_MIN).contains(&value);
    is_unicast.then_some((value as u16, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lids_are_those_of_ports() {
        assert_eq!(lid("0x10"), Some((16, "")));
        assert_eq!(lid("6 0,12"), Some((6, " 0,12")));
        assert_eq!((lid("0"), lid("49152"), lid("x"), lid("-1")), (None, None, None, None));
    }
}
