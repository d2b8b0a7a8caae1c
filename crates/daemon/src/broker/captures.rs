//! Captures of the fabric's packets.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use weft_fabric::Direction;
use weft_ipc::{CAPTURE_HOSTS_MAX, Captured, Refusal, Request, Response};

use super::call::{Call, Outcome};
use super::route::{Routed, Rules};
use super::shared::Shared;
use super::{Attach, Broker};
use crate::host::Host;
use crate::limits::CAPTURES_MAX;
use crate::refusal::{EALREADY, EINVAL, EMFILE, ENODEV, refuse};
use crate::slots::ClientId;

/// The requests of this feature.
pub(super) fn route<H: Host>(request: Request) -> Routed<H> {
    Routed::Here(match request {
        Request::Capture { hosts } => Rules::PLAIN
            .trusted("capture the packets of a fabric's hosts")
            .to(move |broker, call| broker.captures.open(&mut broker.shared, call, &hosts)),
        other => return Routed::Elsewhere(other),
    })
}

/// The captures, by their clients.
#[derive(Debug, Default)]
pub(super) struct Captures {
    /// Nodes whose packets each capture wants; `None` for all.
    of: BTreeMap<ClientId, Option<BTreeSet<u32>>>,
}

impl Captures {
    fn open(&mut self, shared: &mut Shared, call: Call<'_, impl Host>, hosts: &[String]) -> Result<Outcome, Refusal> {
        let Call { id, host: outside, .. } = call;
        if self.of.contains_key(&id) {
            return Err(refuse(EALREADY, "a session has one capture"));
        }
        if self.of.len() >= CAPTURES_MAX {
            let text = format!("there are {CAPTURES_MAX} captures of the fabric already: end one of them");
            return Err(refuse(EMFILE, text));
        }
        if hosts.len() > CAPTURE_HOSTS_MAX {
            return Err(refuse(EINVAL, format!("name at most {CAPTURE_HOSTS_MAX} hosts, or none for all")));
        }
        let named = |host: &String| shared.fabric.host_called(host).map_err(|text| refuse(ENODEV, text));
        let hosts = hosts.iter().map(named).collect::<Result<Vec<String>, Refusal>>()?;
        let running = shared.fabric.required()?;
        let nodes = hosts.iter().flat_map(|host| running.adapters(host).unwrap_or_default()).copied().collect();
        outside.open_capture(id)?;
        self.of.insert(id, (!hosts.is_empty()).then_some(nodes));
        running.fabric_mut().set_tapped(true);
        let attach = Attach { capture: Some(id), ..Attach::default() };
        Ok(Outcome::with(Response::Capture, attach))
    }

    /// Ends a client's capture.
    pub fn close(&mut self, shared: &mut Shared, id: ClientId, host: &mut impl Host) {
        if self.of.remove(&id).is_some() {
            host.close_capture(id);
            self.update_tap(shared);
        }
    }

    /// Ends all captures with their fabric.
    pub fn end(&mut self, host: &mut impl Host) {
        for id in std::mem::take(&mut self.of).into_keys() {
            host.finish_capture(id);
        }
    }

    fn update_tap(&self, shared: &mut Shared) {
        if self.of.is_empty()
            && let Some(running) = shared.fabric.running_mut()
        {
            running.fabric_mut().set_tapped(false);
        }
    }

    /// Hands the packets of the fabric to the captures.
    fn carry(&mut self, shared: &mut Shared, now: Instant, host: &mut impl Host) {
        let epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let Some(dropped) = shared.fabric.running_mut().map(|running| running.fabric_mut().take_tap_dropped()) else {
            return;
        };
        while let Some(tapped) = shared.fabric.running_mut().and_then(|running| running.fabric_mut().poll_tapped()) {
            let ago = now.saturating_duration_since(shared.fabric.instant(tapped.at));
            let time_ns = epoch.saturating_sub(ago).as_nanos() as u64;
            let (node, sent) = (tapped.port.node, tapped.direction == Direction::Sent);
            let packet = Captured::Packet { time_ns, sent, packet: tapped.packet };
            let wants = |nodes: &Option<BTreeSet<u32>>| nodes.as_ref().is_none_or(|nodes| nodes.contains(&node));
            for (id, _) in self.of.iter().filter(|(_, nodes)| wants(nodes)) {
                host.push_capture(*id, &packet);
            }
        }
        let before = self.of.len();
        self.of.retain(|id, _| host.flush_capture(*id, dropped));
        if self.of.len() != before {
            self.update_tap(shared);
        }
    }
}

impl Broker {
    /// Hands the packets that hosts sent and received to the captures.
    pub fn carry_captured(&mut self, now: Instant, host: &mut impl Host) {
        if !self.captures.of.is_empty() {
            self.captures.carry(&mut self.shared, now, host);
        }
    }
}
