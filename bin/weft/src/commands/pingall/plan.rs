//! The pairs that are tested: all, or in large fabrics a sample of bounded size for each host.

use super::wire::PEERS_MAX;

/// Hosts that run at the same time. The first of them ping all others of the round.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Round {
    /// The hosts, by number.
    pub hosts: Vec<usize>,
    /// How many of them ping.
    pub askers: usize,
}

/// Plans the rounds for this many hosts. Each host pings in one round, and a round has hosts from all over the fabric.
pub fn rounds(count: usize) -> Vec<Round> {
    let together = (PEERS_MAX + 1).min(count);
    let groups = count.div_ceil(together.max(1));
    (0..groups)
        .map(|group| {
            let mut hosts: Vec<usize> = (group..count).step_by(groups).collect();
            let askers = hosts.len();
            let others: Vec<usize> = (0..count).filter(|host| host % groups != group).collect();
            let missing = together - askers;
            hosts.extend((0..missing).filter_map(|place| others.get(place * others.len() / missing)));
            Round { hosts, askers }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn few_hosts_ping_all_others_at_once() {
        for count in [2, 8, PEERS_MAX + 1] {
            assert_eq!(rounds(count), [Round { hosts: (0..count).collect(), askers: count }]);
        }
        assert!(rounds(0).is_empty());
    }

    #[test]
    fn many_hosts_ping_a_sample_each() {
        for count in [PEERS_MAX + 2, 100, 324, 11_664] {
            let rounds = rounds(count);
            let mut asked: BTreeSet<usize> = BTreeSet::new();
            for round in &rounds {
                assert_eq!(round.hosts.len(), PEERS_MAX + 1, "{count}");
                assert_eq!(round.hosts.iter().collect::<BTreeSet<_>>().len(), PEERS_MAX + 1, "{count}: a host twice");
                assert!(round.hosts.iter().all(|host| *host < count));
                asked.extend(&round.hosts[..round.askers]);
            }
            assert_eq!(asked.len(), count);
            assert_eq!(rounds.iter().map(|round| round.askers).sum::<usize>(), count);
        }
    }
}
