//! Fat trees in ibsim's format: half of a leaf's ports go up. If there are fewer pods than a core switch has ports, the
//! core is smaller by that factor and has several cables to each pod.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A fat tree of switches with this many ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree {
    pub radix: usize,
    /// Subtrees of `radix / 2` leaves and as many switches above them; `None` means two levels.
    pub pods: Option<usize>,
}

/// The end of a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Host(usize),
    Switch(usize, usize),
}

/// Cables of the switches, by port.
type Cables = Vec<BTreeMap<usize, End>>;

impl Tree {
    /// Returns the number of leaves.
    fn leaves(self) -> usize {
        self.pods.map_or(self.radix, |pods| pods * self.radix / 2)
    }

    /// Returns the number of hosts, which fill the leaves.
    pub fn hosts(self) -> usize {
        self.leaves() * self.radix / 2
    }

    /// Returns the number of switches of all levels.
    pub fn switches(self) -> usize {
        let half = self.radix / 2;
        self.pods.map_or(self.radix + half, |pods| pods * self.radix + half * pods / 2)
    }

    /// Returns the manager's name for the host that it runs on, which ibsim takes from `SIM_HOST`.
    pub fn first_host() -> String {
        format!("H-{}", host_guid(1))
    }

    /// Returns ibsim's command that cuts a cable between switches.
    pub fn cut(self) -> String {
        format!("Unlink \"S-{}\"[{}]", switch_guid(0), self.radix / 2 + 1)
    }

    fn cables(self) -> Cables {
        let half = self.radix / 2;
        let mut cables: Cables = vec![BTreeMap::new(); self.switches()];
        let mut join = |a: (usize, usize), b: (usize, usize)| {
            cables[a.0].insert(a.1, End::Switch(b.0, b.1));
            cables[b.0].insert(b.1, End::Switch(a.0, a.1));
        };
        let Some(pods) = self.pods else {
            for (leaf, spine) in pairs(self.radix, half) {
                join((leaf, half + spine + 1), (self.radix + spine, leaf + 1));
            }
            return self.with_hosts(cables);
        };
        // Core switches connected to one switch of a pod, and cables from one core switch to each pod.
        let (reached, each) = (pods / 2, self.radix / pods);
        for pod in 0..pods {
            let (leaves, above) = (pod * self.radix, pod * self.radix + half);
            for (leaf, upper) in pairs(half, half) {
                join((leaves + leaf, half + upper + 1), (above + upper, leaf + 1));
            }
            for (upper, cable) in pairs(half, half) {
                let core = pods * self.radix + upper * reached + cable % reached;
                join((above + upper, half + cable + 1), (core, pod * each + cable / reached + 1));
            }
        }
        self.with_hosts(cables)
    }

    fn with_hosts(self, mut cables: Cables) -> Cables {
        let half = self.radix / 2;
        let is_leaf = |switch: usize| {
            self.pods.map_or(switch < self.radix, |pods| switch < pods * self.radix && switch % self.radix < half)
        };
        let leaves = (0..self.switches()).filter(|switch| is_leaf(*switch));
        for (place, leaf) in leaves.enumerate() {
            cables[leaf].extend((1..=half).map(|port| (port, End::Host(place * half + port))));
        }
        cables
    }

    /// Returns the network in ibnetdiscover's format.
    pub fn net(self) -> String {
        let mut text = String::new();
        let mut hosts = String::new();
        for (switch, cables) in self.cables().iter().enumerate() {
            let guid = switch_guid(switch);
            let _ = writeln!(text, "\nvendid=0x2c9\ndevid=0xb924\nsysimgguid=0x{guid}\nswitchguid=0x{guid}({guid})");
            let _ =
                writeln!(text, "Switch\t{} \"S-{guid}\"\t\t# \"s{switch:05}\" enhanced port 0 lid 0 lmc 0", self.radix);
            for (port, end) in cables {
                match end {
                    End::Switch(other, far) => {
                        let name = switch_guid(*other);
                        let _ = writeln!(text, "[{port}]\t\"S-{name}\"[{far}]\t\t# \"s{other:05}\" lid 0 4xEDR");
                    }
                    End::Host(host) => {
                        let name = host_guid(*host);
                        let _ = writeln!(text, "[{port}]\t\"H-{name}\"[1]({name}) \t\t# \"h{host:05}\" lid 0 4xEDR");
                        let _ = write!(
                            hosts,
                            "\nvendid=0x2c9\ndevid=0x1017\nsysimgguid=0x{name}\ncaguid=0x{name}\n\
                             Ca\t1 \"H-{name}\"\t\t# \"h{host:05}\"\n\
                             [1]({name}) \t\"S-{guid}\"[{port}]\t\t# lid 0 lmc 0 \"s{switch:05}\" lid 0 4xEDR\n"
                        );
                    }
                }
            }
        }
        text + &hosts
    }
}

fn pairs(a: usize, b: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..a).flat_map(move |a| (0..b).map(move |b| (a, b)))
}

fn switch_guid(switch: usize) -> String {
    format!("{:016x}", 0x0002_c902_0000_0000_usize + switch)
}

fn host_guid(host: usize) -> String {
    format!("{:016x}", 0x0002_c903_0000_0000_usize + host * 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [(Tree, usize, usize); 5] = [
        (Tree { radix: 36, pods: None }, 648, 54),
        (Tree { radix: 36, pods: Some(6) }, 1944, 270),
        (Tree { radix: 36, pods: Some(18) }, 5832, 810),
        (Tree { radix: 36, pods: Some(36) }, 11_664, 1620),
        (Tree { radix: 4, pods: Some(4) }, 16, 20),
    ];

    #[test]
    fn a_tree_has_its_hosts_and_all_its_ports_are_cabled() {
        for (tree, hosts, switches) in ALL {
            assert_eq!((tree.hosts(), tree.switches()), (hosts, switches));
            let cables = tree.cables();
            assert!(cables.iter().all(|ports| ports.keys().copied().eq(1..=tree.radix)), "{tree:?}");
            for (switch, ports) in cables.iter().enumerate() {
                for (port, end) in ports {
                    if let End::Switch(other, far) = end {
                        assert_eq!(cables[*other].get(far), Some(&End::Switch(switch, *port)));
                    }
                }
            }
        }
    }

    #[test]
    fn the_network_names_every_node_once() {
        let tree = Tree { radix: 4, pods: None };
        let net = tree.net();
        let count = |what: &str| net.lines().filter(|line| line.starts_with(what)).count();
        assert_eq!((count("Switch\t4"), count("Ca\t1"), count("[")), (6, 8, 6 * 4 + 8));
        assert!(net.contains(&Tree::first_host()) && net.contains("[3]\t\"S-"));
        assert_eq!(tree.cut(), "Unlink \"S-0002c90200000000\"[3]");
    }
}
