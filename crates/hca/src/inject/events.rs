//! Injected events: they are raised, and their subject fails as a real one does. A port that is down is shown as down.

use weft_transport::Qp;
use weft_verbs::{AsyncEvent, AsyncSubject, DeviceId, Instant, PortState, QpId, QpState, Qpn};

use super::injector::{Due, DueEvent, Injector};
use super::outage::{OutOfService, Outage};
use crate::objects::QpEntry;
use crate::{Hca, HostInterface};

impl<H: HostInterface> Hca<H> {
    /// Raises the events that are due, and ends outages.
    #[inline]
    pub(crate) fn run_injections(&mut self, now: Instant) {
        if self.context.injections_until().is_some_and(|at| at <= now) {
            self.run_due_injections(now);
        }
    }

    #[cold]
    fn run_due_injections(&mut self, now: Instant) {
        self.set_time(now);
        while let Some(due) = self.context.injector.as_mut().and_then(|injector| injector.take_due(now)) {
            match due {
                Due::End(outage) => self.end_outage(&outage),
                Due::Event(event) => {
                    let raised = self.raise_due(now, &event, None);
                    self.with_injector(|injector| injector.on_due(now, event.number, raised));
                }
            }
        }
    }

    /// Notes that a queue pair has entered RTS: the next [`Hca::handle_timeout`] raises the events that waited for one.
    #[inline]
    pub(crate) fn note_ready(&mut self, now: Instant) {
        self.with_injector(|injector| injector.on_ready(now));
    }

    /// Raises the events for a request that was posted to a queue pair.
    pub(super) fn raise_for_post(&mut self, now: Instant, id: QpId) {
        let Ok(entry) = self.qps.get(id) else { return };
        let srq = entry.init.srq;
        let (Some(injector), Some(device)) = (&mut self.context.injector, self.context.devices.get(&entry.device))
        else {
            return;
        };
        let has_srq = srq.is_some_and(|srq| self.context.srqs.get(srq).is_ok_and(|srq| !srq.has_failed()));
        let due = injector.on_posted(now, &device.attr.name, id, has_srq);
        for event in due {
            self.raise_due(now, &event, Some(id));
        }
    }

    /// Raises an event; `by` is the queue pair whose request asked for it. Returns `false` if the event is one of a queue pair,
    /// and none is ready to send.
    fn raise_due(&mut self, now: Instant, due: &DueEvent, by: Option<QpId>) -> bool {
        match due.event {
            AsyncEvent::CqErr
            | AsyncEvent::QpFatal
            | AsyncEvent::QpReqErr
            | AsyncEvent::QpAccessErr
            | AsyncEvent::PathMig
            | AsyncEvent::PathMigErr => {
                let Some(id) = by.or_else(|| self.first_ready(due)) else { return false };
                self.raise_on_qp(now, due, id);
            }
            AsyncEvent::SrqErr => return self.fail_srq(now, due, by),
            AsyncEvent::DeviceFatal => self.each_device(now, due, |hca, id| hca.take_device_out(now, due, id)),
            AsyncEvent::PortErr => self.each_port(now, due, |hca, id, port| hca.take_port_down(now, due, id, port)),
            AsyncEvent::PortActive => {
                self.each_port(now, due, |hca, id, port| hca.end_outage_of_port(now, due, id, port))
            }
            _ => self.each_port(now, due, |hca, id, port| hca.raise_on_port(now, due, id, port)),
        }
        true
    }

    fn with_injector(&mut self, f: impl FnOnce(&mut Injector)) {
        if let Some(injector) = &mut self.context.injector {
            f(injector);
        }
    }

    fn report_event(&mut self, now: Instant, due: &DueEvent, qpn: Option<Qpn>, of: std::fmt::Arguments<'_>) {
        self.with_injector(|injector| injector.report_event(now, due, qpn, of));
    }

    fn device_name(&self, id: DeviceId) -> String {
        self.context.devices.get(&id).map_or_else(String::new, |device| device.attr.name.clone())
    }

    fn each_device(&mut self, now: Instant, due: &DueEvent, mut f: impl FnMut(&mut Self, DeviceId)) {
        let concerned = |name: &str| due.device.as_ref().is_none_or(|only| only == name);
        let devices: Vec<DeviceId> =
            self.devices().filter(|(_, attr)| concerned(&attr.name)).map(|(id, _)| id).collect();
        if devices.is_empty() {
            let why = "the process has no such device";
            return self.with_injector(|injector| injector.excuse(now, due.number, None, why));
        }
        devices.into_iter().for_each(|id| f(self, id));
    }

    fn each_port(&mut self, now: Instant, due: &DueEvent, mut f: impl FnMut(&mut Self, DeviceId, u8)) {
        self.each_device(now, due, |hca, id| {
            let ports = hca.device(id).map_or(0, |attr| attr.ports.len());
            (1..=ports as u8).for_each(|port| f(hca, id, port));
        });
    }

    fn concerns(&self, due: &DueEvent, id: DeviceId) -> bool {
        match (&due.device, self.context.devices.get(&id)) {
            (Some(only), Some(device)) => *only == device.attr.name,
            _ => true,
        }
    }

    /// Returns the first queue pair that is ready to send, on the devices that an event concerns.
    fn first_ready(&self, due: &DueEvent) -> Option<QpId> {
        let concerned = |id: DeviceId| self.concerns(due, id);
        let sends = |qp: &Qp| qp.qp_type().has_send_queue() && qp.state() == QpState::Rts;
        self.qps.iter().find(|(_, entry)| sends(&entry.qp) && concerned(entry.device)).map(|(id, _)| id)
    }

    fn raise_on_qp(&mut self, now: Instant, due: &DueEvent, id: QpId) {
        let Ok(entry) = self.qps.get(id) else { return };
        let (device, init, qpn) = (entry.device, entry.init, entry.qp.qpn());
        if due.event == AsyncEvent::CqErr {
            let Some(cq) = init.send_cq.or(init.recv_cq) else { return };
            self.context.fail_cq(cq);
            self.report_event(now, due, Some(qpn), format_args!("cq={}", cq.index));
            return self.settle_cqs();
        }
        self.context.raise(device, due.event, AsyncSubject::Qp(id), init.cookie);
        let fails = !matches!(due.event, AsyncEvent::PathMig | AsyncEvent::PathMigErr);
        self.report_event(now, due, Some(qpn), format_args!("fails={fails}"));
        if fails {
            self.fail_qp(id);
        }
    }

    /// Fails the shared receive queue of a queue pair, or without one the first of the devices concerned, and the queue pairs
    /// that receive from it. Returns `false` if there is no queue yet.
    fn fail_srq(&mut self, now: Instant, due: &DueEvent, by: Option<QpId>) -> bool {
        let own = by.and_then(|id| self.qps.get(id).ok()).and_then(|entry| entry.init.srq);
        let works = |device: DeviceId, has_failed: bool| !has_failed && self.concerns(due, device);
        let first = || self.context.srqs.iter().find(|(_, srq)| works(srq.device, srq.has_failed())).map(|(id, _)| id);
        let Some(id) = own.or_else(first) else { return false };
        let Ok(srq) = self.context.srqs.get_mut(id) else { return false };
        srq.fail();
        let (device, cookie) = (srq.device, srq.cookie);
        self.context.raise(device, due.event, AsyncSubject::Srq(id), cookie);
        self.report_event(now, due, None, format_args!("srq={}", id.index));
        let is_fed = |entry: &QpEntry| entry.init.srq == Some(id) && entry.qp.state() != QpState::Reset;
        let fed: Vec<QpId> = self.qps.iter().filter(|(_, entry)| is_fed(entry)).map(|(id, _)| id).collect();
        fed.into_iter().for_each(|qp| self.fail_qp(qp));
        true
    }

    fn take_device_out(&mut self, now: Instant, due: &DueEvent, id: DeviceId) {
        let name = self.device_name(id);
        self.fail_device(id);
        let outage = Outage { number: due.number, until: due.until, device: id, subject: OutOfService::Device };
        self.with_injector(|injector| injector.outages.begin(outage));
        self.report_event(now, due, None, format_args!("device={name}"));
    }

    fn take_port_down(&mut self, now: Instant, due: &DueEvent, id: DeviceId, port: u8) {
        let is_out = self.context.injector.as_ref().is_some_and(|injector| injector.outages.has(id, port));
        let Some(state) = self.device(id).and_then(|attr| attr.port(port)).map(|port| port.state) else { return };
        if is_out || state != PortState::Active {
            let why = format!("port {port} of {} is down already", self.device_name(id));
            return self.with_injector(|injector| injector.excuse(now, due.number, None, &why));
        }
        self.set_port_state(id, port, PortState::Down);
        let subject = OutOfService::Port(port, state);
        let outage = Outage { number: due.number, until: due.until, device: id, subject };
        self.with_injector(|injector| injector.outages.begin(outage));
        let name = self.device_name(id);
        self.report_event(now, due, None, format_args!("device={name} port={port}"));
    }

    /// Ends the outage of a port, which raises PORT_ACTIVE; without one, raises it alone.
    fn end_outage_of_port(&mut self, now: Instant, due: &DueEvent, id: DeviceId, port: u8) {
        let injector = self.context.injector.as_mut();
        let outage = injector.and_then(|injector| injector.outages.take_of_port(id, port));
        // A port whose cable is out stays down after the outage.
        let Some(outage) = outage.filter(|outage| outage.subject == OutOfService::Port(port, PortState::Active)) else {
            return self.raise_on_port(now, due, id, port);
        };
        self.end_outage(&outage);
        let name = self.device_name(id);
        self.report_event(now, due, None, format_args!("device={name} port={port}"));
    }

    fn raise_on_port(&mut self, now: Instant, due: &DueEvent, id: DeviceId, port: u8) {
        let name = self.device_name(id);
        let of_fabric = matches!(
            due.event,
            AsyncEvent::LidChange | AsyncEvent::PkeyChange | AsyncEvent::SmChange | AsyncEvent::ClientReregister
        );
        if of_fabric && self.device(id).is_none_or(|attr| attr.fabric().is_none()) {
            let why = format!("ports of InfiniBand alone raise this event, {name} has none");
            return self.with_injector(|injector| injector.excuse(now, due.number, None, &why));
        }
        self.context.raise(id, due.event, AsyncSubject::Port(port), 0);
        self.report_event(now, due, None, format_args!("device={name} port={port}"));
    }

    /// Changes the state of a port as if the daemon had reported it.
    fn set_port_state(&mut self, id: DeviceId, number: u8, state: PortState) {
        let Some(device) = self.context.devices.get_mut(&id) else { return };
        let Some(port) = usize::from(number).checked_sub(1).and_then(|at| device.attr.ports.get_mut(at)) else {
            return;
        };
        let mut now = port.clone();
        now.state = state;
        let before = std::mem::replace(port, now.clone());
        self.on_port_changed(id, number, &before, &now);
    }

    /// Puts the subject of an outage back into service.
    pub(super) fn end_outage(&mut self, outage: &Outage) {
        match outage.subject {
            OutOfService::Port(port, state) => self.set_port_state(outage.device, port, state),
            OutOfService::Device => {
                if let Some(device) = self.context.devices.get_mut(&outage.device) {
                    device.gone = false;
                }
            }
        }
    }
}
