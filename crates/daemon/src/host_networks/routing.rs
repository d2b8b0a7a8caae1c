//! Follows the routes of a virtual host's network: reports of changes, and a dump wherever reports may be missing. The
//! kernel deletes routes without a report when an interface goes down or loses an address.

use std::collections::BTreeSet;

use weft_ipoib::Route;

use crate::rtnl_routes::{self, RouteChange};

/// Routes of a network that are followed.
const ROUTES_MAX: usize = 1 << 14;

/// The routes of a network.
#[derive(Debug, Default)]
pub struct Routing {
    of: BTreeSet<(u32, Route)>,
    /// Routes of the dump so far, while one is under way.
    dumped: Option<BTreeSet<(u32, Route)>>,
    /// Another dump is needed.
    is_stale: bool,
}

impl Routing {
    /// Notes that reports may be missing.
    pub fn invalidate(&mut self) {
        self.is_stale = true;
    }

    /// Returns the request for a dump, if one is needed and none is under way.
    pub fn poll_request(&mut self) -> Option<Vec<u8>> {
        if self.dumped.is_some() || !std::mem::take(&mut self.is_stale) {
            return None;
        }
        self.dumped = Some(BTreeSet::new());
        Some(rtnl_routes::dump_routes(0))
    }

    /// Handles a datagram of the kernel. Returns whether routes changed.
    pub fn handle(&mut self, datagram: &[u8]) -> bool {
        let mut changed = false;
        for change in rtnl_routes::parse(datagram) {
            changed |= match change {
                RouteChange::New { dumped: true, routes, .. } => {
                    let room = ROUTES_MAX.saturating_sub(self.dumped.as_ref().map_or(0, BTreeSet::len));
                    self.dumped.iter_mut().for_each(|dumped| dumped.extend(routes.iter().take(room)));
                    false
                }
                RouteChange::New { routes, replaces, .. } => {
                    self.is_stale |= replaces;
                    let room = ROUTES_MAX.saturating_sub(self.of.len());
                    self.dumped.iter_mut().for_each(|dumped| dumped.extend(routes.iter().take(room)));
                    routes.into_iter().take(room).filter(|route| self.of.insert(*route)).count() > 0
                }
                RouteChange::Gone(routes) => {
                    // The dump may have shown it before it went.
                    self.dumped.iter_mut().for_each(|dumped| dumped.retain(|known| !routes.contains(known)));
                    routes.iter().filter(|route| self.of.remove(*route)).count() > 0
                }
                RouteChange::Done => match self.dumped.take() {
                    Some(dumped) => std::mem::replace(&mut self.of, dumped) != self.of,
                    None => false,
                },
            };
        }
        changed
    }

    /// Returns the routes over an interface.
    pub fn over(&self, ifindex: u32) -> Vec<Route> {
        self.of.iter().filter(|(index, _)| *index == ifindex).map(|(_, route)| *route).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtnl::{AF_INET, HEADER_BYTES, NLMSG_DONE};

    const NEW: u16 = 24;
    const DELETED: u16 = 25;
    const MULTI: u16 = 2;
    const REPLACE: u16 = 0x100;

    fn message(kind: u16, flags: u16, host: u8) -> Vec<u8> {
        let mut body = vec![AF_INET, 32, 0, 0, 254, 4, 0, 1, 0, 0, 0, 0];
        for (attribute, value) in [(1_u16, [10, 0, 0, host]), (4, 2_u32.to_ne_bytes())] {
            body.extend(8_u16.to_ne_bytes());
            body.extend(attribute.to_ne_bytes());
            body.extend(value);
        }
        let mut out = ((HEADER_BYTES + body.len()) as u32).to_ne_bytes().to_vec();
        out.extend(kind.to_ne_bytes());
        out.extend(flags.to_ne_bytes());
        out.resize(HEADER_BYTES, 0);
        [out, body].concat()
    }

    fn hosts(routing: &Routing) -> Vec<String> {
        routing.over(2).iter().map(|route| route.network.to_string()).collect()
    }

    #[test]
    fn a_dump_replaces_what_reports_left_and_changes_meanwhile_count() {
        let mut routing = Routing::default();
        assert!(routing.poll_request().is_none());
        assert!(routing.handle(&message(NEW, 0, 1)) && !routing.handle(&message(NEW, 0, 1)));
        routing.invalidate();
        assert!(routing.poll_request().is_some() && routing.poll_request().is_none());
        routing.handle(&message(NEW, MULTI, 2));
        routing.handle(&message(NEW, MULTI, 3));
        assert_eq!(hosts(&routing), ["10.0.0.1"], "the dump is under way");
        routing.handle(&message(DELETED, 0, 3));
        routing.handle(&message(NEW, 0, 4));
        assert!(routing.handle(&message(NLMSG_DONE, MULTI, 0)));
        assert_eq!(hosts(&routing), ["10.0.0.2", "10.0.0.4"]);
        assert!(routing.over(3).is_empty());
        // The kernel does not report the route that another one replaces.
        routing.handle(&message(NEW, REPLACE, 5));
        assert!(routing.poll_request().is_some());
    }
}
