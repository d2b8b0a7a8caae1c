//! Messages between `weft up` and the programs that run as the hosts: one JSON value a line.

use serde_json::{Value, json};
use weft_verbs_tools::ud_echo::Address;

/// Other hosts that a host pings at most.
pub const PEERS_MAX: usize = 64;

/// The ways to reach a host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Method {
    /// SubnGet of NodeInfo to its LID.
    Lids,
    /// A datagram by verbs, and its echo.
    Verbs,
    /// ICMP echo over IPoIB.
    Ipoib,
}

impl Method {
    /// All of them, in the order of the tests.
    pub const ALL: [Method; 3] = [Method::Lids, Method::Verbs, Method::Ipoib];

    /// Its name in messages and JSON.
    pub fn word(self) -> &'static str {
        match self {
            Method::Lids => "lids",
            Method::Verbs => "verbs",
            Method::Ipoib => "ipoib",
        }
    }

    fn of(word: &str) -> Option<Method> {
        Method::ALL.into_iter().find(|method| method.word() == word)
    }
}

/// Where a host is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// GUID of its port.
    pub port_guid: u64,
    /// Its server by verbs, with the LID of its port.
    pub server: Address,
    /// Its address over IPoIB. `None`: it has the machine's network.
    pub ip: Option<std::net::Ipv4Addr>,
}

impl Place {
    /// As JSON.
    pub fn to_json(&self) -> Value {
        let ip = self.ip.map(|ip| ip.to_string());
        json!({"port_guid": self.port_guid, "lid": self.server.lid, "qpn": self.server.qpn, "ip": ip})
    }

    /// Parses [`Place::to_json`].
    pub fn of_json(value: &Value) -> Option<Place> {
        let server = Address {
            lid: u16::try_from(value["lid"].as_u64()?).ok()?,
            qpn: u32::try_from(value["qpn"].as_u64()?).ok()?,
        };
        let ip = match value["ip"].as_str() {
            Some(ip) => Some(ip.parse().ok()?),
            None => None,
        };
        Some(Place { port_guid: value["port_guid"].as_u64()?, server, ip })
    }
}

/// A line of a host's program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Said {
    /// It answers pings.
    Ready(Place),
    /// It has pinged all peers in one way; these failed, by their number, and why.
    Pinged(Method, Vec<(usize, String)>),
    /// It cannot go on.
    Failed(String),
}

impl Said {
    /// As a line.
    pub fn line(&self) -> String {
        match self {
            Said::Ready(place) => json!({"ready": place.to_json()}),
            Said::Pinged(method, failed) => json!({"pinged": method.word(), "failed": failed}),
            Said::Failed(why) => json!({"error": why}),
        }
        .to_string()
    }

    /// Parses a line.
    pub fn parse(line: &str) -> Option<Said> {
        let value: Value = serde_json::from_str(line).ok()?;
        if let Some(why) = value["error"].as_str() {
            return Some(Said::Failed(why.to_owned()));
        }
        if let Some(word) = value["pinged"].as_str() {
            let failed = value["failed"].as_array()?.iter();
            let failed = failed.map(|entry| Some((entry[0].as_u64()? as usize, entry[1].as_str()?.to_owned())));
            return Some(Said::Pinged(Method::of(word)?, failed.collect::<Option<_>>()?));
        }
        Place::of_json(&value["ready"]).map(Said::Ready)
    }
}

/// The line that names a host's peers.
pub fn peers_line<'a>(peers: impl Iterator<Item = &'a Place>) -> String {
    Value::from_iter(peers.map(Place::to_json)).to_string()
}

/// Parses [`peers_line`].
pub fn parse_peers(line: &str) -> Option<Vec<Place>> {
    let value: Value = serde_json::from_str(line).ok()?;
    let peers = value.as_array().filter(|peers| peers.len() <= PEERS_MAX)?;
    peers.iter().map(Place::of_json).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(ip: Option<&str>) -> Place {
        let server = Address { lid: 9, qpn: 0x4011 };
        Place { port_guid: 0x0257_4501_0000_0601, server, ip: ip.map(|ip| ip.parse().unwrap()) }
    }

    #[test]
    fn lines_are_understood() {
        let failed = vec![(3, "no answer".to_owned())];
        for said in [
            Said::Ready(place(Some("10.0.0.9"))),
            Said::Ready(place(None)),
            Said::Pinged(Method::Ipoib, failed),
            Said::Pinged(Method::Lids, Vec::new()),
            Said::Failed("no device".to_owned()),
        ] {
            assert_eq!(Said::parse(&said.line()), Some(said));
        }
        let peers = [place(None), place(Some("10.0.0.2"))];
        assert_eq!(parse_peers(&peers_line(peers.iter())).as_deref(), Some(&peers[..]));
    }

    #[test]
    fn other_lines_are_not() {
        for line in ["", "weft run: no", "{}", r#"{"pinged":"x","failed":[]}"#, r#"{"ready":{"lid":70000}}"#] {
            assert_eq!(Said::parse(line), None, "{line}");
        }
        let many = vec![place(None); PEERS_MAX + 1];
        assert_eq!(parse_peers(&peers_line(many.iter())), None);
    }
}
