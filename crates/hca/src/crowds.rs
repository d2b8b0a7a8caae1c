//! Which queue pairs send to one peer: together they keep to a bound on what is in flight there.

use std::collections::BTreeMap;

use weft_transport::Crowd;
use weft_verbs::Gid;

/// Peers that are remembered before those to whom nobody sends any more are forgotten.
const PEERS_KEPT: usize = 256;

/// One crowd for each address.
#[derive(Debug, Default)]
pub(crate) struct Crowds {
    by_peer: BTreeMap<Gid, Crowd>,
}

impl Crowds {
    /// Those who send to `peer`.
    pub(crate) fn of(&mut self, peer: Gid) -> &Crowd {
        if self.by_peer.len() >= PEERS_KEPT && !self.by_peer.contains_key(&peer) {
            self.by_peer.retain(|_, crowd| !crowd.is_forsaken());
        }
        self.by_peer.entry(peer).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_nobody_sends_to_are_forgotten() {
        let gid = |n: u32| Gid::from(std::net::IpAddr::from(std::net::Ipv4Addr::from(n)));
        let mut crowds = Crowds::default();
        let kept = crowds.of(gid(1)).clone();
        for n in 0..2000 {
            crowds.of(gid(n));
        }
        assert!(crowds.by_peer.len() <= PEERS_KEPT);
        assert!(crowds.by_peer.contains_key(&gid(1)) && !kept.is_forsaken());
    }
}
