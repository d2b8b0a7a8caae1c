//! The table of requests: the rules of each (who may make it, whether it changes saved state, whether recovery defers
//! it), and its handler in the file of its feature.

use weft_ipc::{Refusal, Request};

use super::call::{Call, Outcome};
use super::rules::{PLAIN, Rules};
use super::{Broker, devices, fabric, ledgers, losses, packet_channels, status, umad};
use crate::host::Host;

type Handler<H> = Box<dyn FnOnce(&mut Broker, Call<'_, H>) -> Result<Outcome, Refusal>>;

/// A request's rules and its handler.
pub(super) struct Route<H> {
    pub rules: Rules,
    run: Handler<H>,
}

impl Rules {
    /// Completes a row of the table.
    fn to<H, F>(self, run: F) -> Route<H>
    where
        F: FnOnce(&mut Broker, Call<'_, H>) -> Result<Outcome, Refusal> + 'static,
    {
        Route { rules: self, run: Box::new(run) }
    }
}

/// Returns the row of a request.
pub(super) fn route<H: Host>(request: Request) -> Route<H> {
    match request {
        Request::ListDevices { offset } => {
            PLAIN.to(move |broker, call| Ok(devices::list(&broker.shared, call.id, offset).into()))
        }
        Request::Subscribe => PLAIN.to(|broker, call| Ok(devices::subscribe(&mut broker.shared, call.id))),
        Request::LinkAdd { name, kind, netdev } => PLAIN
            .saved()
            .trusted("add devices")
            .to(move |broker, call| devices::add(broker, call.now, &name, &kind, &netdev)),
        Request::LinkDel { name } => {
            PLAIN.saved().trusted("remove devices").to(move |broker, call| devices::remove(broker, call.now, &name))
        }
        Request::DevRename { old, new } => {
            PLAIN.saved().trusted("rename devices").to(move |broker, call| devices::rename(broker, &call, &old, &new))
        }
        Request::AllocateSlot => PLAIN.saved().to(|broker, call| broker.shared.allocate_slot(call)),
        Request::Reattach { slot, groups } => {
            PLAIN.saved().during_recovery().to(move |broker, call| broker.reattach(call, slot, groups))
        }
        Request::JoinMulticast(group) => PLAIN.to(move |broker, call| broker.shared.multicast(call, group, true)),
        Request::LeaveMulticast(group) => PLAIN.to(move |broker, call| broker.shared.multicast(call, group, false)),
        Request::Status { offset } => {
            PLAIN.during_recovery().to(move |broker, call| Ok(status::answer(broker, &call, offset).into()))
        }
        Request::ReportUsage(usage) => {
            PLAIN.during_recovery().to(move |broker, call| Ok(status::report_usage(&mut broker.shared, call.id, usage)))
        }
        Request::Publish(what) => PLAIN.to(move |broker, call| broker.peers.publish(&broker.shared, call, what)),
        Request::MeetPeer { slot } => PLAIN.to(move |broker, call| broker.peers.meet(&mut broker.shared, call, slot)),
        Request::OpenLedger => PLAIN.to(|broker, call| ledgers::open(&mut broker.shared.sessions, call)),
        Request::RefreshLedgers => {
            PLAIN.to(|broker, call| Ok(broker.ledgers.refresh(&mut broker.shared.sessions, call.now).into()))
        }
        Request::Stat { offset } => {
            PLAIN.to(move |broker, call| Ok(broker.ledgers.stat(&broker.shared, call.id, offset, call.host).into()))
        }
        Request::ListAdapters { offset } => PLAIN.to(move |broker, call| {
            Ok(broker.ledgers.list_adapters(&broker.shared, call.id, offset, call.host).into())
        }),
        Request::ListQps(from) => {
            PLAIN.to(move |broker, call| Ok(ledgers::list_qps(&broker.shared.sessions, from, call.host).into()))
        }
        Request::Cm(command) => PLAIN.to(move |broker, call| broker.cms.command(&mut broker.shared, call, command)),
        Request::OpenCmChannel => PLAIN.to(|broker, call| broker.cms.open_channel(&mut broker.shared, call)),
        Request::CloseCmChannel { channel } => {
            PLAIN.to(move |broker, call| Ok(broker.cms.close_channel(&broker.shared, call, channel)))
        }
        Request::Path(request) => {
            PLAIN.to(move |broker, call| broker.paths.answer(&mut broker.shared, call.id, request))
        }
        Request::PathTraffic(traffic) => {
            PLAIN.to(move |broker, call| Ok(broker.paths.count(&mut broker.shared, &broker.groups, call.id, &traffic)))
        }
        Request::GroupMember { member, listens } => {
            PLAIN.to(move |broker, call| broker.groups.change_member(&mut broker.shared, call.id, member, listens))
        }
        Request::GroupPath(request) => {
            PLAIN.to(move |broker, call| broker.groups.answer(&mut broker.shared, call.id, request))
        }
        Request::LostPackets(lost) => {
            PLAIN.to(move |broker, call| Ok(losses::lose(&mut broker.shared, &broker.paths, &call, &lost)))
        }
        Request::KeyViolations(violations) => {
            PLAIN.to(move |broker, call| losses::report(&mut broker.shared, &call, &violations))
        }
        Request::OpenPacketChannel => {
            PLAIN.to(|broker, call| packet_channels::open(&mut broker.packet_channels, &broker.shared, call))
        }
        Request::Umad(request) => {
            umad::rules(&request).to(move |broker, call| broker.datagrams.answer(&mut broker.shared, call, request))
        }
        Request::Fabric(request) => {
            fabric::rules(&request).to(move |broker, call| fabric::answer(broker, &call, request))
        }
    }
}

impl Broker {
    pub(super) fn handle_request(&mut self, request: Request, call: Call<'_, impl Host>) -> Result<Outcome, Refusal> {
        let Route { rules, run } = route(request);
        if rules.waits && self.shared.is_recovering() {
            return Ok(Outcome::Deferred);
        }
        self.shared.changed |= rules.saved;
        if let Some(what) = rules.trusted {
            self.shared.must_be_trusted(call.id, what)?;
        }
        run(self, call)
    }
}
