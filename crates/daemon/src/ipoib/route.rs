//! Verdicts of the fabric on an interface's datagrams.

use weft_fabric::{Fabric, Path, PathQuery, PortRef};
use weft_ipoib::Destination;
use weft_verbs::Duration;
use weft_wire::lrh::is_multicast;

/// A cached verdict.
#[derive(Debug)]
pub(super) struct Route {
    /// Ports at which a copy arrives.
    pub to: Vec<PortRef>,
    /// Ports on the way.
    pub path: Path,
    /// Latency of the cables.
    pub latency: Duration,
    /// Datagrams that the cables damage, per million.
    pub loss_ppm: u32,
}

impl Route {
    /// Asks the fabric; `None` if nothing arrives.
    pub fn find(fabric: &Fabric, from: PortRef, to: &Destination, pkey: u16) -> Option<Route> {
        let query = PathQuery { dlid: to.dlid, sl: to.sl, pkey, payload: 0 };
        if is_multicast(to.dlid) {
            let spread = fabric.group_verdict(from, &query).ok()?;
            return Some(Route { to: spread.to, path: spread.path, latency: Duration::default(), loss_ppm: 0 });
        }
        let verdict = fabric.verdict(from, &query).ok()?;
        let latency = Duration::from_nanos(verdict.latency_ns);
        Some(Route { to: vec![verdict.to], path: verdict.path, latency, loss_ppm: verdict.loss_ppm })
    }
}
