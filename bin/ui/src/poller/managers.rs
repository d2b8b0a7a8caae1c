//! The thread that asks subnet managers: one that does not answer must not delay the fabric's own state.

use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;
use weft_sm_process::exposition;

use super::schedule::Due;
use super::{Poller, wall_clock_ms};
use crate::hub::Hub;
use crate::limits::{MANAGERS_INTERVAL, ROUTING_END_PORTS_MAX};
use crate::model::Event;
use crate::model::log::Topic;
use crate::model::managers::Master;
use crate::server::action::Action;

/// The poller.
#[derive(Debug)]
pub struct ManagersPoller {
    hub: Arc<Hub>,
    due: Due,
}

impl ManagersPoller {
    /// Makes a poller.
    pub fn new(hub: Arc<Hub>) -> ManagersPoller {
        ManagersPoller { hub, due: Due::new(MANAGERS_INTERVAL) }
    }

    fn ask(&mut self) {
        let statuses = exposition::statuses();
        let at = wall_clock_ms();
        let master = self.hub.change(|model, events| {
            model.fabric()?;
            if model.managers.update(at, statuses, &mut model.log) {
                events.push(Event { name: "managers", data: model.managers.value() });
            }
            model.managers.unmeasured()
        });
        if let Some(master) = master.filter(|master| master.end_ports <= ROUTING_END_PORTS_MAX) {
            // A manager that cannot say now is asked again with its next status.
            let _ = self.measure(master);
        }
    }

    fn measure(&self, master: Master) -> Result<(), String> {
        let quality: Value = exposition::routing(&master.guid)?;
        let at = wall_clock_ms();
        self.hub.change(|model, events| {
            model.managers.add_routing(at, master, &quality, &mut model.log);
            events.push(Event { name: "managers", data: model.managers.value() });
        });
        Ok(())
    }

    fn sweep(&self) -> Result<(), String> {
        exposition::sweep(&self.master()?.guid)?;
        let at = wall_clock_ms();
        self.hub.change(|model, _| model.log.add(at, Topic::Action, false, "sweep the subnet"));
        Ok(())
    }

    fn master(&self) -> Result<Master, String> {
        let master = self.hub.look(|model| model.managers.master());
        master.ok_or_else(|| "no subnet manager of weft is master and at rest".to_owned())
    }
}

impl Poller for ManagersPoller {
    fn poll(&mut self, now: Instant) -> Instant {
        if self.due.is_due(now) {
            self.ask();
            self.due.asked(now, Instant::now(), self.hub.has_viewers());
        }
        self.due.next(now)
    }

    fn look(&mut self) {
        self.due.hurry();
    }

    fn act(&mut self, action: Action) -> Result<(), String> {
        self.due.hurry();
        match action {
            Action::Sweep => self.sweep(),
            Action::Routing => self.measure(self.master()?),
            Action::Fabric(..) => Err("not an action of a manager".to_owned()),
        }
    }
}
