//! From bytes to requests: hellos, frames and permissions.

use std::os::fd::OwnedFd;
use std::time::Instant;

use super::{Attach, Broker, Handled, Output, Standing};
use crate::host::Host;
use crate::slots::ClientId;
use weft_ipc::{
    ClientFrame, DaemonFrame, Hello, HelloReply, HelloStatus, PROTOCOL_VERSION, Purpose, Refusal, Request, Response,
    decode, encode,
};
use weft_link::FaultSpec;

/// Result of a request.
pub(super) enum Outcome {
    Reply(Box<Response>, Attach),
    NoReply,
    Deferred,
}

impl From<Response> for Outcome {
    fn from(response: Response) -> Outcome {
        Outcome::Reply(Box::new(response), Attach::default())
    }
}

impl Broker {
    /// Handles a message of a client. A malformed one ends the connection: nothing after it could be trusted.
    pub fn handle_message(
        &mut self,
        now: Instant,
        id: ClientId,
        bytes: &[u8],
        fds: &[OwnedFd],
        host: &mut impl Host,
    ) -> Handled {
        match self.clients.get_mut(&id).map(|client| &mut client.standing) {
            None | Some(Standing::Leaving) => return Handled::Done,
            Some(Standing::New(over)) => {
                let over = over.take();
                self.handle_hello(id, bytes, over);
                return Handled::Done;
            }
            Some(Standing::Session) => {}
        }
        let Ok(ClientFrame { id: number, request }) = decode(bytes) else {
            self.close(id);
            return Handled::Done;
        };
        match self.handle_request(now, id, request, fds, host) {
            Ok(Outcome::Deferred) => return Handled::Deferred,
            Ok(Outcome::NoReply) => {}
            Ok(Outcome::Reply(response, attach)) => self.reply(id, number, Ok(*response), attach),
            Err(refusal) => self.reply(id, number, Err(refusal), Attach::default()),
        }
        Handled::Done
    }

    fn handle_hello(&mut self, id: ClientId, bytes: &[u8], over_quota: Option<String>) {
        let Some(hello) = Hello::decode(bytes) else { return self.close(id) };
        let Some(client) = self.clients.get_mut(&id) else { return };
        let uid = client.credentials.uid;
        if hello.purpose == Purpose::Stop {
            if self.is_trusted(uid) {
                self.greet(id, HelloStatus::Stopping, "");
                self.output.push_back(Output::Stop);
            } else {
                let text = format!("only root and user {}, who runs the daemon, may end it", self.config.uid);
                self.greet(id, HelloStatus::Refused, &text);
            }
            return self.close(id);
        }
        if hello.protocol != PROTOCOL_VERSION {
            let text = format!(
                "this weft daemon speaks protocol {PROTOCOL_VERSION}, the program's library speaks {}: end the \
                 daemon with `weft daemon --stop` once the programs that use it are done, then run the program again",
                hello.protocol
            );
            self.greet(id, HelloStatus::OtherVersion, &text);
            return self.close(id);
        }
        if let Some(text) = over_quota {
            self.greet(id, HelloStatus::Refused, &text);
            return self.close(id);
        }
        let named = if hello.host.is_empty() { Ok(String::new()) } else { self.fabric.host_called(&hello.host) };
        let virtual_host = match named {
            Ok(name) => name,
            Err(text) => {
                self.greet(id, HelloStatus::NoHost, &text);
                return self.close(id);
            }
        };
        let Some(client) = self.clients.get_mut(&id) else { return };
        client.program = hello.program;
        client.host = virtual_host;
        // A program whose faults do not parse reports that itself.
        if let Ok(fault) = FaultSpec::parse(&hello.fault) {
            (client.fault, client.fault_text) = (fault, hello.fault);
        }
        client.standing = Standing::Session;
        self.greet(id, HelloStatus::Welcome, "");
    }

    fn handle_request(
        &mut self,
        now: Instant,
        id: ClientId,
        request: Request,
        fds: &[OwnedFd],
        host: &mut impl Host,
    ) -> Result<Outcome, Refusal> {
        // While a predecessor's programs may still return, give no answer that their return could make wrong.
        let waits = !matches!(request, Request::Reattach { .. } | Request::Status { .. } | Request::ReportUsage(_));
        if waits && self.is_recovering() {
            return Ok(Outcome::Deferred);
        }
        self.changed |= !matches!(
            request,
            Request::Cm(_)
                | Request::OpenCmChannel
                | Request::CloseCmChannel { .. }
                | Request::Publish(_)
                | Request::MeetPeer { .. }
                | Request::OpenLedger
                | Request::RefreshLedgers
                | Request::Stat { .. }
                | Request::ListQps(_)
                | Request::Path(_)
                | Request::PathTraffic(_)
                | Request::GroupMember { .. }
                | Request::GroupPath(_)
                | Request::LostPackets(_)
                | Request::KeyViolations(_)
                | Request::Umad(_)
                | Request::Fabric(_)
                | Request::OpenCable
                | Request::ListAdapters { .. }
        );
        match request {
            Request::ListDevices { offset } => Ok(self.list_devices(id, offset).into()),
            Request::Subscribe => self.subscribe(id),
            Request::AllocateSlot => self.allocate_slot(now, id, host),
            Request::Reattach { slot, groups } => self.reattach(now, id, slot, groups, fds, host),
            Request::JoinMulticast(group) => self.multicast(id, group, true, host),
            Request::LeaveMulticast(group) => self.multicast(id, group, false, host),
            Request::LinkAdd { name, kind, netdev } => {
                self.must_be_trusted(id, "add devices")?;
                self.devices.add(&name, &kind, &netdev)?;
                self.refresh(now);
                Ok(Response::Done.into())
            }
            Request::LinkDel { name } => {
                self.must_be_trusted(id, "remove devices")?;
                let index = self.devices.remove(&name)?;
                self.broadcast(&[weft_ipc::Event::DeviceRemoved { index }]);
                self.refresh(now);
                Ok(Response::Done.into())
            }
            Request::DevRename { old, new } => {
                self.must_be_trusted(id, "rename devices")?;
                self.must_be_renamable(id, &old)?;
                self.devices.rename(&old, &new)?;
                self.refresh(now);
                Ok(Response::Done.into())
            }
            Request::Status { offset } => Ok(self.status(now, offset, host).into()),
            Request::ReportUsage(usage) => {
                if let Some(client) = self.clients.get_mut(&id) {
                    client.usage = usage;
                }
                Ok(Outcome::NoReply)
            }
            Request::Publish(what) => self.publish(id, what, fds, host),
            Request::MeetPeer { slot } => self.meet_peer(id, slot, fds, host),
            Request::OpenLedger => self.open_ledger(id, host),
            Request::RefreshLedgers => Ok(self.refresh_ledgers(now).into()),
            Request::Stat { offset } => Ok(self.stat(id, offset, host).into()),
            Request::ListAdapters { offset } => Ok(self.list_adapters(id, offset, host).into()),
            Request::ListQps(from) => Ok(self.list_qps(from, host).into()),
            Request::Cm(command) => self.cm_command(now, id, command, host),
            Request::OpenCmChannel => self.open_cm_channel(now, id, host),
            Request::CloseCmChannel { channel } => self.close_cm_channel(now, id, channel, host),
            Request::Path(request) => self.path_request(id, request),
            Request::PathTraffic(traffic) => Ok(self.path_traffic(id, &traffic)),
            Request::GroupMember { member, listens } => self.group_member(id, member, listens),
            Request::GroupPath(request) => self.group_path(id, request),
            Request::LostPackets(lost) => Ok(self.lost_packets(now, id, &lost)),
            Request::KeyViolations(violations) => self.key_violations(now, id, &violations),
            Request::OpenCable => self.open_cable(id, host),
            Request::Umad(request) => self.umad_request(now, id, request, host),
            Request::Fabric(request) => self.fabric_request(now, id, request),
        }
    }

    pub(super) fn must_be_trusted(&self, id: ClientId, what: &str) -> Result<(), Refusal> {
        let uid = self.clients.get(&id).map_or(u32::MAX, |client| client.credentials.uid);
        if self.is_trusted(uid) {
            return Ok(());
        }
        let text = format!("user {uid} may not {what}: only root and user {}, who runs the daemon", self.config.uid);
        Err(crate::refusal::refuse(crate::refusal::EPERM, text))
    }

    fn greet(&mut self, client: ClientId, status: HelloStatus, text: &str) {
        let bytes = HelloReply::new(status, text).encode();
        self.output.push_back(Output::Send { client, bytes, attach: Attach::default(), about: None });
    }

    fn reply(&mut self, client: ClientId, id: u32, result: Result<Response, Refusal>, attach: Attach) {
        match encode(&DaemonFrame::Reply { id, result }) {
            Ok(bytes) => self.output.push_back(Output::Send { client, bytes, attach, about: None }),
            // Page limits make this impossible; a client left without its answer would wait forever.
            Err(_) => self.close(client),
        }
    }

    pub(super) fn close(&mut self, id: ClientId) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.standing = Standing::Leaving;
            client.subscribed = false;
            self.output.push_back(Output::Close { client: id });
        }
    }
}
