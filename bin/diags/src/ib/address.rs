//! Destination of a management datagram: a LID, a directed route, or both, and its text form.

use std::fmt;
use std::net::Ipv6Addr;

/// Entries of a path; the first one stands for the starting point.
pub const PATH_LEN: usize = 64;
/// Maximum number of hops.
pub const HOPS_MAX: usize = 63;
/// The permissive LID: the directed part of the route begins or ends right here.
pub const LID_PERMISSIVE: u16 = 0xffff;
/// The first multicast LID.
pub const LID_MULTICAST_MIN: u32 = 0xc000;

/// A directed route.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DrPath {
    /// Number of hops.
    pub count: usize,
    /// Egress ports, from index 1 on.
    pub path: [u8; PATH_LEN],
    /// DrSLID, or 0 for the permissive LID.
    pub dr_slid: u16,
    /// DrDLID, or 0 for the permissive LID.
    pub dr_dlid: u16,
}

impl Default for DrPath {
    fn default() -> DrPath {
        DrPath { count: 0, path: [0; PATH_LEN], dr_slid: 0, dr_dlid: 0 }
    }
}

impl DrPath {
    /// Parses `0,1,4`. A word that is not a number counts as 0, as in the original.
    pub fn parse(text: &str, dr_slid: u16) -> Option<DrPath> {
        let mut path = DrPath { dr_slid, dr_dlid: LID_PERMISSIVE, ..DrPath::default() };
        if path.dr_slid == 0 {
            path.dr_slid = LID_PERMISSIVE;
        }
        let mut words = text.split(',').collect::<Vec<_>>();
        // A trailing comma adds no hop.
        if words.last() == Some(&"") {
            words.pop();
        }
        path.count = words.len().checked_sub(1)?;
        if path.count > HOPS_MAX {
            return None;
        }
        for (hop, word) in path.path.iter_mut().zip(&words) {
            *hop = super::number::leading_decimal(word) as u8;
        }
        Some(path)
    }

    /// The route with one more hop, out of `port`; `None` if the path is full.
    #[must_use]
    pub fn extended(&self, port: u8) -> Option<DrPath> {
        let mut longer = *self;
        longer.count += 1;
        *longer.path.get_mut(longer.count)? = port;
        (longer.count <= HOPS_MAX).then_some(longer)
    }

    /// The egress port of the last hop.
    pub fn last(&self) -> u8 {
        self.path[self.count.min(HOPS_MAX)]
    }
}

impl fmt::Display for DrPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slid {}; dlid {}; {}", self.dr_slid, self.dr_dlid, self.path[0])?;
        self.path.iter().take(self.count + 1).skip(1).try_for_each(|port| write!(f, ",{port}"))
    }
}

/// A destination. The default is the local port.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct PortId {
    /// LID, or 0.
    pub lid: u16,
    /// Directed route; with a LID, it starts at that LID.
    pub dr_path: DrPath,
    /// GID, if the packet needs a global route.
    pub gid: Option<[u8; 16]>,
    /// General services queue pair, or 0 for QP1.
    pub qp: u32,
    /// The queue pair's Q_Key, or 0 for the well-known one.
    pub qkey: u32,
    /// Service level.
    pub sl: u8,
    /// Index into the P_Key table.
    pub pkey_index: u16,
}

impl PortId {
    /// A destination by LID.
    pub fn lid(lid: u16) -> PortId {
        PortId { lid, ..PortId::default() }
    }

    /// A destination by directed route from the local port.
    pub fn path(dr_path: DrPath) -> PortId {
        PortId { dr_path, ..PortId::default() }
    }

    /// Whether SMPs reach it by directed route.
    pub fn is_directed(&self) -> bool {
        self.lid == 0 || self.dr_path.dr_slid == LID_PERMISSIVE || self.dr_path.dr_dlid == LID_PERMISSIVE
    }
}

impl fmt::Display for PortId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.lid != 0 {
            write!(f, "Lid {}", self.lid)?;
            if let Some(gid) = self.gid {
                write!(f, " Gid {}", Ipv6Addr::from(gid))?;
            }
            if self.dr_path.count == 0 {
                return Ok(());
            }
            f.write_str(" ")?;
        }
        write!(f, "DR path {}", self.dr_path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_the_tools_do() {
        assert_eq!(PortId::lid(2).to_string(), "Lid 2");
        assert_eq!(PortId::default().to_string(), "DR path slid 0; dlid 0; 0");
        let path = DrPath::parse("0,1,4", 0).unwrap();
        assert_eq!(PortId::path(path).to_string(), "DR path slid 65535; dlid 65535; 0,1,4");
        let both = PortId { lid: 2, dr_path: DrPath::parse("0,4", 6).unwrap(), ..PortId::default() };
        assert_eq!(both.to_string(), "Lid 2 DR path slid 6; dlid 65535; 0,4");
    }

    #[test]
    fn paths_have_at_most_63_hops() {
        assert_eq!(DrPath::parse("0,1,", 0).unwrap().count, 1);
        assert_eq!(DrPath::parse("0,x", 0).unwrap().path[1], 0);
        assert!(DrPath::parse("", 0).is_none());
        let longest = vec!["1"; 64].join(",");
        let path = DrPath::parse(&longest, 0).unwrap();
        assert_eq!(path.last(), 1);
        assert!(path.extended(1).is_none());
        assert!(DrPath::parse(&(longest + ",1"), 0).is_none());
    }
}
