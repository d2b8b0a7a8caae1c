//! The thread that asks the daemon. A stamp tells cheaply whether the fabric changed; its state is fetched only then.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};
use weft_fabric::topology::{CableTraffic, LiveState, Picture};
use weft_ipc::fabric::{FabricStamp, unpack};
use weft_ipc::{Client, RequestError, Spawn, StatusReport};
use weft_tool::fabric::{session, spell};

use super::schedule::Due;
use super::{Poller, wall_clock_ms};
use crate::hub::Hub;
use crate::limits::{PROGRAMS_INTERVAL, RECONNECT_INTERVAL, STAMP_INTERVAL, STATE_COST_FACTOR, TRAFFIC_INTERVAL};
use crate::model::fabric::FabricView;
use crate::model::log::Topic;
use crate::model::report::MachineReport;
use crate::server::action::Action;

/// The poller.
#[derive(Debug)]
pub struct FabricPoller {
    hub: Arc<Hub>,
    client: Option<Client>,
    /// Stamp of the state that pages show.
    stamp: Option<FabricStamp>,
    state: Due,
    traffic: Due,
    programs: Due,
}

/// Any failure of a question: the session begins anew.
#[derive(Debug)]
struct Failed;

impl From<RequestError> for Failed {
    fn from(_: RequestError) -> Failed {
        Failed
    }
}

impl FabricPoller {
    /// Makes a poller.
    pub fn new(hub: Arc<Hub>) -> FabricPoller {
        let (state, traffic) = (Due::new(STAMP_INTERVAL), Due::new(TRAFFIC_INTERVAL));
        FabricPoller { hub, client: None, stamp: None, state, traffic, programs: Due::new(PROGRAMS_INTERVAL) }
    }

    /// Asks what is due; `false` without a daemon.
    fn ask(&mut self, now: Instant, viewed: bool) -> Result<(), Failed> {
        if self.client.is_none() {
            self.client = Some(session(Spawn::Never).map_err(|_| Failed)?);
            self.look();
        }
        if self.state.is_due(now) {
            self.ask_state()?;
            // Asking for the stamp costs one message. A state that takes long to fetch is fetched less often.
            self.state.asked_at_most(now, Instant::now(), viewed, STATE_COST_FACTOR);
        }
        if self.stamp.is_some() && self.traffic.is_due(now) {
            let start = Instant::now();
            self.ask_traffic()?;
            self.traffic.asked(start, Instant::now(), viewed);
        }
        if self.programs.is_due(now) {
            let start = Instant::now();
            self.ask_programs()?;
            self.programs.asked(start, Instant::now(), viewed);
        }
        Ok(())
    }

    fn client(&mut self) -> Result<&mut Client, Failed> {
        self.client.as_mut().ok_or(Failed)
    }

    fn ask_state(&mut self) -> Result<(), Failed> {
        let stamp = self.client()?.fabric_stamp()?;
        if stamp == self.stamp {
            return Ok(());
        }
        let at = wall_clock_ms();
        match stamp {
            None => {
                self.hub.change(|model, events| events.extend(model.set_fabric(at, None)));
            }
            Some(new) if self.stamp.is_none_or(|old| old.fabric != new.fabric) => self.ask_fabric(at, new)?,
            Some(_) => {
                let nodes = self.hub.look(|model| model.fabric().map_or(0, FabricView::node_count));
                let state = live_state(self.client()?, nodes)?;
                self.hub.change(|model, events| events.extend(model.set_state(at, state)));
            }
        }
        self.stamp = stamp;
        Ok(())
    }

    /// Fetches a fabric that pages do not know yet.
    fn ask_fabric(&mut self, at: u64, stamp: FabricStamp) -> Result<(), Failed> {
        let client = self.client()?;
        let status = client.fabric_status()?;
        let picture: Picture = unpack(&client.fabric_picture()?).map_err(|_| Failed)?;
        if !picture.is_sane() {
            return Err(Failed);
        }
        let state = live_state(client, picture.nodes.len())?;
        let packets = status.is_some_and(|status| status.packets);
        let view = FabricView::new(stamp.fabric, packets, &picture, state);
        self.hub.change(|model, events| events.extend(model.set_fabric(at, Some(view))));
        self.traffic.hurry();
        Ok(())
    }

    fn ask_traffic(&mut self) -> Result<(), Failed> {
        let bytes = self.client()?.fabric_traffic()?;
        let at = wall_clock_ms();
        let traffic: Vec<CableTraffic> = unpack(&bytes).map_err(|_| Failed)?;
        self.hub.change(|model, events| events.extend(model.set_traffic(at, &traffic)));
        Ok(())
    }

    fn ask_programs(&mut self) -> Result<(), Failed> {
        let client = self.client()?;
        client.refresh_ledgers()?;
        let own = client.list_devices()?;
        let adapters = client.list_adapters()?;
        let mut devices: Vec<_> = own.into_iter().map(|device| (device, String::new())).collect();
        devices.extend(adapters.into_iter().map(|adapter| (adapter.device, adapter.host)));
        let (stat, pages, status) = (client.stat()?, client.list_qps()?, client.status()?);
        let at_ms = wall_clock_ms();
        let faults: BTreeMap<u32, String> = status
            .processes
            .iter()
            .filter(|process| !process.fault.is_empty())
            .map(|process| (process.pid, process.fault.clone()))
            .collect();
        let report = MachineReport { at_ms, devices, stat, pages, faults };
        self.hub.change(|model, events| {
            events.extend(model.set_daemon(at_ms, daemon(&status)));
            events.extend(model.set_machine(report));
        });
        Ok(())
    }

    /// Forgets a session that failed.
    fn lose(&mut self) {
        let at = wall_clock_ms();
        self.client = None;
        self.stamp = None;
        self.hub.change(|model, events| {
            events.extend(model.set_fabric(at, None));
            events.extend(model.set_daemon(at, Value::Null));
        });
    }
}

impl Poller for FabricPoller {
    fn poll(&mut self, now: Instant) -> Instant {
        let viewed = self.hub.has_viewers();
        if self.ask(now, viewed).is_err() {
            self.lose();
            return now + RECONNECT_INTERVAL;
        }
        let mut next = self.state.next(now).min(self.programs.next(now));
        if self.stamp.is_some() {
            next = next.min(self.traffic.next(now));
        }
        next
    }

    fn look(&mut self) {
        self.state.hurry();
        self.traffic.hurry();
        self.programs.hurry();
    }

    fn act(&mut self, action: Action) -> Result<(), String> {
        let Action::Fabric(request, text) = action else { return Err("not an action of the daemon".to_owned()) };
        let at = wall_clock_ms();
        // A session of its own, as this user: the one that asks stays what it is even if this one fails.
        let result = session(Spawn::Never).and_then(|mut client| client.fabric(request).map(drop).map_err(spell));
        self.hub.change(|model, _| match &result {
            Ok(()) => model.log.add(at, Topic::Action, false, text),
            Err(error) => model.log.add(at, Topic::Action, true, format!("{text}: refused: {error}")),
        });
        self.state.hurry();
        result
    }
}

fn live_state(client: &mut Client, nodes: usize) -> Result<LiveState, Failed> {
    let state: LiveState = unpack(&client.fabric_live_state()?).map_err(|_| Failed)?;
    if state.fits(nodes) { Ok(state) } else { Err(Failed) }
}

fn daemon(status: &StatusReport) -> Value {
    json!({
        "version": status.version, "pid": status.pid, "devices": status.devices, "slots": status.slots_in_use,
        "cm": {"listeners": status.cm.listeners, "connections": status.cm.connections},
    })
}
