//! Congestion map of an address: one bit a port, which is set while the port's socket has no room (`struct rds_cong_map`).
//! Bits are numbered as in little-endian words, so port `p` is bit `p % 8` of byte `p / 8`.

/// Bytes of a map (`RDS_CONG_MAP_BYTES`).
pub const CONGESTION_MAP_BYTES: usize = 65536 / 8;

/// The map.
#[derive(Clone, PartialEq, Eq)]
pub struct CongestionMap(Box<[u8; CONGESTION_MAP_BYTES]>);

impl Default for CongestionMap {
    fn default() -> CongestionMap {
        CongestionMap(Box::new([0; CONGESTION_MAP_BYTES]))
    }
}

impl CongestionMap {
    /// Reads a map; `None`: it has another size.
    pub fn parse(bytes: &[u8]) -> Option<CongestionMap> {
        bytes.try_into().ok().map(|bytes: &[u8; CONGESTION_MAP_BYTES]| CongestionMap(Box::new(*bytes)))
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0[..]
    }

    /// Whether a port is congested.
    pub fn is_congested(&self, port: u16) -> bool {
        self.0.get(usize::from(port / 8)).is_some_and(|byte| byte & mask(port) != 0)
    }

    /// Marks a port.
    pub fn set(&mut self, port: u16, is_congested: bool) {
        if let Some(byte) = self.0.get_mut(usize::from(port / 8)) {
            *byte = if is_congested { *byte | mask(port) } else { *byte & !mask(port) };
        }
    }

    /// Returns the congested ports.
    pub fn ports(&self) -> impl Iterator<Item = u16> + '_ {
        (0..=u16::MAX).filter(|port| self.is_congested(*port))
    }
}

impl std::fmt::Debug for CongestionMap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.ports()).finish()
    }
}

fn mask(port: u16) -> u8 {
    1 << (port % 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_port_has_its_bit() {
        let mut map = CongestionMap::default();
        for port in [0, 7, 8, 4000, u16::MAX] {
            assert!(!map.is_congested(port));
            map.set(port, true);
            assert!(map.is_congested(port));
        }
        assert_eq!(map.ports().collect::<Vec<_>>(), [0, 7, 8, 4000, u16::MAX]);
        assert_eq!((map.as_bytes()[0], map.as_bytes()[1], map.as_bytes()[500]), (0x81, 1, 1));
        assert_eq!(CongestionMap::parse(map.as_bytes()), Some(map.clone()));
        map.set(8, false);
        assert!(!map.is_congested(8) && map.is_congested(7));
        assert_eq!(CongestionMap::parse(&[0; 4096]), None);
    }
}
