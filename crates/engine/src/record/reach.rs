//! The kernel's view of a peer's address.

use std::collections::BTreeMap;
use std::io;

use weft_record::Reachability;
use weft_sys::neighbour;
use weft_verbs::{AddressVector, Duration, Gid, Instant};

/// Time for which an answer is used again. A peer that dies fails all queue pairs to it at once.
const FRESH: Duration = Duration::from_secs(1);
/// Maximum number of answers that are kept.
const ANSWERS_MAX: usize = 256;

/// Answers of the kernel, by source, destination and interface.
#[derive(Debug, Default)]
pub struct Probe(BTreeMap<(Gid, Gid, u32), (Instant, Option<Reachability>)>);

impl Probe {
    /// Asks the kernel about the addresses of a path. `None` for a path within an InfiniBand subnet, and if a question
    /// failed: that says nothing of the peer.
    pub fn ask(&mut self, now: Instant, path: &AddressVector) -> Option<Reachability> {
        if path.dlid != 0 {
            return None;
        }
        let key = (path.sgid, path.dgid, path.ifindex);
        if let Some((at, answer)) = self.0.get(&key)
            && now < *at + FRESH
        {
            return *answer;
        }
        if self.0.len() >= ANSWERS_MAX {
            self.0.clear();
        }
        let answer = ask_kernel(path).ok();
        self.0.insert(key, (now, answer));
        answer
    }
}

fn ask_kernel(path: &AddressVector) -> io::Result<Reachability> {
    let (source, destination, ifindex) = (path.sgid.ip(), path.dgid.ip(), path.ifindex);
    let known = neighbour::hardware_address(destination, ifindex);
    Ok(Reachability {
        route_errno: neighbour::route_error(destination, ifindex)?.unwrap_or(0),
        source_is_local: neighbour::is_local(source, ifindex)?,
        peer_is_local: neighbour::is_local(destination, ifindex)?,
        // A neighbour that is behind a router is known to the router alone. A refused question says nothing.
        has_neighbour: !neighbour::is_on_link(destination, ifindex) || !matches!(known, Ok(None)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_verbs::GidType;

    fn path(sgid: Gid, dgid: Gid, dlid: u16) -> AddressVector {
        AddressVector {
            sgid,
            sgid_index: 0,
            dgid,
            flow_label: 0,
            hop_limit: 0,
            traffic_class: 0,
            sl: 0,
            port_num: 1,
            dlid,
            src_path_bits: 0,
            static_rate: 0,
            is_global: true,
            ifindex: 0,
            gid_type: GidType::RoceV2,
        }
    }

    fn mapped(address: [u8; 4]) -> Gid {
        let mut gid = [0; 16];
        gid[10..12].fill(0xff);
        gid[12..].copy_from_slice(&address);
        Gid(gid)
    }

    #[test]
    fn the_kernel_is_asked_once_about_a_path() {
        let (here, link_local) = (mapped([127, 0, 0, 1]), Gid([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]));
        let mut probe = Probe::default();
        let now = Instant(5);
        let seen = probe.ask(now, &path(here, here, 0)).unwrap();
        assert!(seen.source_is_local && seen.peer_is_local && seen.route_errno == 0);
        assert_eq!(probe.ask(now, &path(here, link_local, 0)), None, "a failed question");
        assert_eq!(probe.ask(now, &path(here, here, 7)), None, "InfiniBand");
        let answers = probe.0.clone();
        assert_eq!(probe.ask(now + Duration::from_millis(1), &path(here, here, 0)), Some(seen));
        assert_eq!(probe.0, answers, "not asked again");
        probe.ask(now + FRESH, &path(here, here, 0)).unwrap();
        assert_ne!(probe.0, answers);
    }
}
