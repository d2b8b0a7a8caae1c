//! Name of an NFS server over RDMA: `HOST[:PORT]`, `[IPV6]:PORT`.

use std::fmt;
use std::str::FromStr;

use weft_rpcrdma::limits::NFS_PORT;

/// Host and port of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerName {
    /// Name or address, without brackets.
    pub host: String,
    /// Port of NFS over RDMA.
    pub port: u16,
}

impl FromStr for ServerName {
    type Err = String;

    fn from_str(text: &str) -> Result<ServerName, String> {
        let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, port)) => (host, Some(port.strip_prefix(':').ok_or("a port follows `]` behind a colon")?)),
            None if text.matches(':').count() > 1 => (text, None),
            None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
        };
        if host.is_empty() {
            return Err("the host is missing".to_owned());
        }
        let port = port.map_or(Ok(NFS_PORT), |port| port.parse().map_err(|_| format!("`{port}` is no port")))?;
        Ok(ServerName { host: host.to_owned(), port })
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_the_usual_port_unless_it_says_another() {
        let parsed = |text: &str| text.parse::<ServerName>().map(|name| (name.host, name.port));
        assert_eq!(parsed("node1"), Ok(("node1".into(), 20049)));
        assert_eq!(parsed("10.0.0.1:2050"), Ok(("10.0.0.1".into(), 2050)));
        assert_eq!(parsed("fd00::1"), Ok(("fd00::1".into(), 20049)));
        assert_eq!(parsed("[fd00::1]:7"), Ok(("fd00::1".into(), 7)));
        assert_eq!(parsed("[fd00::1]"), Ok(("fd00::1".into(), 20049)));
        for wrong in ["", ":1", "node1:x", "[::1]7", "node1:70000"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
        assert_eq!(ServerName { host: "::1".into(), port: 1 }.to_string(), "[::1]:1");
    }
}
