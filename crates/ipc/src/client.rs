//! The library's end of a session. Requests block and the daemon answers them in order; events that arrive in between
//! are queued until the program fetches them. When the daemon dies, the client reports it and keeps the slot's proof
//! and anchor; `reconnect` presents both to the next daemon, so that the process keeps its QP numbers and its packets.

mod ethernet;
mod fabric;
mod faults;
mod host_files;
mod ipoib;
mod losses;
mod modules;
mod paths;
mod peers;
mod stat;
mod streams;

pub use modules::valid_module_name;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use weft_sys::host_namespace::HostNamespaces;
use weft_sys::unix::{self, Credentials, Wait};

use crate::codec::{decode, encode};
use crate::connect::establish;
use crate::fabric::HostAdapter;
use crate::limits::{EVENT_FDS_MAX, EVENTS_QUEUED_MAX, MESSAGE_BYTES_MAX, MESSAGE_FDS_MAX};
use crate::printable::{printable, printable_report};
use crate::{
    ClientFrame, ConnectError, ConnectOptions, DaemonFrame, DeviceInfo, Event, McastGroup, Refusal, Request,
    RequestError, Response, SlotGrant, StatusReport, Usage,
};

/// How long the daemon may take to answer. Recovery from a daemon's death takes seconds; a daemon among hundreds of
/// busy programs waits its turn for a processor, and a client that gives up too early loses its slot. The death of the
/// daemon shows at once, so this limit concerns only one that is stopped.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// A session with the daemon. Drop it to end the session, which frees the slot.
#[derive(Debug)]
pub struct Client {
    fd: OwnedFd,
    options: ConnectOptions,
    connected: bool,
    subscribed: bool,
    next_id: u32,
    events: VecDeque<Event>,
    /// Sockets of the streams that events announced, in their order.
    streams: VecDeque<OwnedFd>,
    slot: Option<HeldSlot>,
    /// On the heap, not on the stack: the program's threads may have small stacks.
    buffer: Box<[u8]>,
}

/// Proof to a new daemon that the slot belongs to this process.
#[derive(Debug)]
struct HeldSlot {
    slot: u32,
    /// User of the daemon that granted it.
    giver: u32,
    proof: OwnedFd,
    anchor: Option<OwnedFd>,
    groups: Vec<McastGroup>,
}

/// A slot and the sockets on which packets for its QP numbers arrive. The daemon shares the sockets and discards what
/// arrives after this process is gone: never connect them, bind them or take them out of non-blocking mode.
#[derive(Debug)]
pub struct Slot {
    /// Number: the top ten bits of the QP numbers.
    pub number: u32,
    /// IPv4 socket, bound to `0.0.0.0:4791`, with packet info, TOS, TTL, GRO on.
    pub v4: OwnedFd,
    /// IPv6 socket, if the machine has IPv6, bound to `[::]:4791`, with packet info, traffic class, hop limit, GRO on.
    pub v6: Option<OwnedFd>,
}

/// Result of presenting the slot to a new daemon.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SlotFate {
    /// The process had no slot.
    None,
    /// The slot stays valid.
    Kept,
    /// The slot is lost, for this reason. The caller should close its sockets; its queue pairs are dead.
    Lost(String),
}

/// The state after a reconnection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reconnected {
    /// All devices of the new daemon.
    pub devices: Vec<DeviceInfo>,
    /// The slot.
    pub slot: SlotFate,
}

impl Client {
    /// Connects to the daemon of this network namespace; starts one if none runs and the options allow it.
    pub fn connect(options: &ConnectOptions) -> Result<Client, ConnectError> {
        let fd = establish(options)?;
        unix::set_receive_timeout(&fd, ANSWER_TIMEOUT)?;
        unix::set_send_timeout(&fd, ANSWER_TIMEOUT)?;
        Ok(Client::over(fd, options))
    }

    /// Wraps a socket on which the hellos are done.
    pub(crate) fn over(fd: OwnedFd, options: &ConnectOptions) -> Client {
        Client {
            fd,
            options: options.clone(),
            connected: true,
            subscribed: false,
            next_id: 1,
            events: VecDeque::new(),
            streams: VecDeque::new(),
            slot: None,
            buffer: vec![0; MESSAGE_BYTES_MAX].into_boxed_slice(),
        }
    }

    /// Returns a descriptor that is readable when events wait or the daemon died; `reconnect` replaces it by another.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Returns false once the client has found the daemon gone.
    pub fn is_connected(&self) -> bool {
        self.connected
    }

    /// Returns the daemon's credentials.
    pub fn daemon_credentials(&self) -> io::Result<Credentials> {
        unix::peer_credentials(&self.fd)
    }

    /// Returns whether events are queued here already. `fd` does not show those: check after every request.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Returns all events since the last call; never blocks. [`Event::Disconnected`] comes once.
    pub fn poll_events(&mut self) -> Vec<Event> {
        while self.connected {
            match self.receive(EVENT_FDS_MAX, Wait::No) {
                Ok((DaemonFrame::Event(event), fds)) => self.enqueue_with(event, fds),
                // A late answer to a request that timed out.
                Ok((DaemonFrame::Reply { .. }, _)) => {}
                Err(RequestError::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => self.disconnect(),
            }
        }
        self.events.drain(..).collect()
    }

    /// Sends a request and waits for the answer; queues events that arrive first. Prefer the list calls below.
    pub fn request(&mut self, request: Request) -> Result<Response, RequestError> {
        self.exchange(request, &[], 0).map(|(response, _)| response)
    }

    /// Sends a request whose answer brings at most `most` descriptors.
    pub(crate) fn request_with_descriptors(
        &mut self,
        request: Request,
        most: usize,
    ) -> Result<(Response, Vec<OwnedFd>), RequestError> {
        self.exchange(request, &[], most)
    }

    /// Returns whether the daemon is alive, as far as the socket shows without a request.
    pub(crate) fn look_alive(&mut self) -> bool {
        let events = self.poll_events();
        self.events.extend(events);
        self.connected
    }

    /// Returns all devices, in the order of ibv_get_device_list.
    pub fn list_devices(&mut self) -> Result<Vec<DeviceInfo>, RequestError> {
        let mut all = Vec::new();
        loop {
            let offset = u32::try_from(all.len()).unwrap_or(u32::MAX);
            match self.request(Request::ListDevices { offset })? {
                Response::Devices { devices, more } => {
                    let last = !more || devices.is_empty();
                    all.extend(devices);
                    if last || all.len() > crate::limits::DEVICES_MAX {
                        return Ok(all);
                    }
                }
                _ => return Err(RequestError::Protocol),
            }
        }
    }

    /// Returns the fabric hosts' adapters that are open or have counters. Empty for a program that runs as a host.
    pub fn list_adapters(&mut self) -> Result<Vec<HostAdapter>, RequestError> {
        let mut all = Vec::new();
        loop {
            let offset = u32::try_from(all.len()).unwrap_or(u32::MAX);
            let Response::Adapters { adapters, more } = self.request(Request::ListAdapters { offset })? else {
                return Err(RequestError::Protocol);
            };
            let last = !more || adapters.is_empty();
            all.extend(adapters.into_iter().map(|adapter| HostAdapter { host: printable(&adapter.host), ..adapter }));
            if last || all.len() > crate::limits::FABRIC_HOSTS_MAX {
                return Ok(all);
            }
        }
    }

    /// Returns all devices and subscribes to changes as events. An event may repeat what the list already says.
    pub fn subscribe(&mut self) -> Result<Vec<DeviceInfo>, RequestError> {
        self.done(Request::Subscribe)?;
        self.subscribed = true;
        self.list_devices()
    }

    /// Returns the namespaces of the host that this program runs as, which the daemon makes on first use, and the file of
    /// all hosts' names.
    pub fn host_network(&mut self) -> Result<(HostNamespaces, OwnedFd), RequestError> {
        let (response, fds) = self.exchange(Request::HostNetwork, &[], MESSAGE_FDS_MAX)?;
        let Response::HostNetwork { has_user } = response else { return Err(RequestError::Protocol) };
        let mut fds = fds.into_iter();
        let hosts = fds.next().ok_or(RequestError::Protocol)?;
        let user = if has_user { Some(fds.next().ok_or(RequestError::Protocol)?) } else { None };
        let (Some(net), Some(uts)) = (fds.next(), fds.next()) else { return Err(RequestError::Protocol) };
        Ok((HostNamespaces { user, net, uts }, hosts))
    }

    /// Returns a new Unix socket (SOCK_SEQPACKET) of the daemon's network namespace. A program of a virtual host finds there
    /// the abstract names of the whole machine.
    pub fn machine_socket(&mut self) -> Result<OwnedFd, RequestError> {
        let (response, fds) = self.exchange(Request::MachineSocket, &[], MESSAGE_FDS_MAX)?;
        match (response, fds.into_iter().next()) {
            (Response::Done, Some(socket)) => Ok(socket),
            _ => Err(RequestError::Protocol),
        }
    }

    /// Sets the mode of an IPoIB interface of the host that this program runs as; its network must have been made
    /// ([`Client::host_network`]).
    pub fn set_ipoib_mode(&mut self, interface: &str, connected: bool) -> Result<(), RequestError> {
        self.done(Request::SetIpoibMode { interface: interface.into(), connected })
    }

    /// Allocates a slot for this process and remembers it for `reconnect`. Call it once.
    pub fn allocate_slot(&mut self) -> Result<Slot, RequestError> {
        let (response, fds) = self.exchange(Request::AllocateSlot, &[], MESSAGE_FDS_MAX)?;
        let Response::Slot(grant) = response else { return Err(RequestError::Protocol) };
        let (v4, v6, anchor) = take_descriptors(&grant, fds)?;
        let v4 = v4.ok_or(RequestError::Protocol)?;
        let proof = v4.try_clone()?;
        let giver = self.daemon_credentials()?.uid;
        self.slot = Some(HeldSlot { slot: grant.slot, giver, proof, anchor, groups: Vec::new() });
        Ok(Slot { number: grant.slot, v4, v6 })
    }

    /// Returns the slot's number, if the process has a slot.
    pub fn slot(&self) -> Option<u32> {
        self.slot.as_ref().map(|slot| slot.slot)
    }

    /// Lets packets to a multicast group reach the slot's sockets.
    pub fn join_multicast(&mut self, group: McastGroup) -> Result<(), RequestError> {
        self.done(Request::JoinMulticast(group))?;
        if let Some(slot) = &mut self.slot
            && !slot.groups.contains(&group)
        {
            slot.groups.push(group);
        }
        Ok(())
    }

    /// Undoes [`Client::join_multicast`].
    pub fn leave_multicast(&mut self, group: McastGroup) -> Result<(), RequestError> {
        if let Some(slot) = &mut self.slot {
            slot.groups.retain(|other| *other != group);
        }
        self.done(Request::LeaveMulticast(group))
    }

    /// Adds a device (`weft link add NAME type KIND netdev IF`).
    pub fn link_add(&mut self, name: &str, kind: &str, netdev: &str) -> Result<(), RequestError> {
        self.done(Request::LinkAdd { name: name.into(), kind: kind.into(), netdev: netdev.into() })
    }

    /// Removes a device that `link_add` made.
    pub fn link_del(&mut self, name: &str) -> Result<(), RequestError> {
        self.done(Request::LinkDel { name: name.into() })
    }

    /// Renames a device.
    pub fn dev_rename(&mut self, old: &str, new: &str) -> Result<(), RequestError> {
        self.done(Request::DevRename { old: old.into(), new: new.into() })
    }

    /// Returns the daemon's status and its processes, all pages in one.
    pub fn status(&mut self) -> Result<StatusReport, RequestError> {
        let mut whole: Option<StatusReport> = None;
        loop {
            let offset = whole.as_ref().map_or(0, |report| report.processes.len());
            let request = Request::Status { offset: u32::try_from(offset).unwrap_or(u32::MAX) };
            let Response::Status(page) = self.request(request)? else { return Err(RequestError::Protocol) };
            let last = !page.more || page.processes.is_empty();
            let report = match whole.take() {
                None => page,
                Some(mut report) => {
                    report.processes.extend(page.processes);
                    report
                }
            };
            if last || report.processes.len() > STATUS_PROCESSES_MAX {
                return Ok(printable_report(StatusReport { more: false, ..report }));
            }
            whole = Some(report);
        }
    }

    /// Reports the objects that this process holds. Waits for no answer; a daemon that does not read loses the report.
    pub fn report_usage(&mut self, usage: Usage) {
        let frame = ClientFrame { id: 0, request: Request::ReportUsage(usage) };
        if let Ok(bytes) = encode(&frame) {
            let _ = unix::send(&self.fd, &bytes, &[], Wait::No);
        }
    }

    /// Connects to the next daemon after [`Event::Disconnected`], starting one if need be: subscribes again if there
    /// was a subscription, and presents the slot. Blocks for as long as that takes, up to the timeout of the options
    /// plus `ANSWER_TIMEOUT`. An error leaves the client as it was; try again later.
    pub fn reconnect(&mut self) -> Result<Reconnected, ConnectError> {
        let fd = establish(&self.options)?;
        unix::set_receive_timeout(&fd, ANSWER_TIMEOUT)?;
        unix::set_send_timeout(&fd, ANSWER_TIMEOUT)?;
        self.fd = fd;
        self.connected = true;
        // The list that follows is newer than the queued events.
        self.events.clear();
        self.streams.clear();
        let slot = self.reattach().map_err(ConnectError::Request)?;
        let devices = if self.subscribed { self.subscribe() } else { self.list_devices() };
        Ok(Reconnected { devices: devices.map_err(ConnectError::Request)?, slot })
    }

    fn reattach(&mut self) -> Result<SlotFate, RequestError> {
        let Some(mut held) = self.slot.take() else { return Ok(SlotFate::None) };
        // Once a daemon is dead any user may take its name, and the process that receives the sockets receives the
        // packets.
        let daemon = self.daemon_credentials()?.uid;
        if ![0, weft_sys::process::euid(), held.giver].contains(&daemon) {
            return Ok(SlotFate::Lost(format!(
                "the weft daemon died and user {daemon} runs the next one, who must not have what this process has open: \
                 end that daemon, then open the devices again"
            )));
        }
        let request = Request::Reattach { slot: held.slot, groups: held.groups.clone() };
        let mut fds = vec![held.proof.as_fd()];
        fds.extend(held.anchor.as_ref().map(|anchor| anchor.as_fd()));
        match self.exchange(request, &fds, 1) {
            Ok((Response::Slot(grant), fds)) if grant.slot == held.slot => {
                // Only a new anchor replaces the old one, which holds the pool until then.
                if let (_, _, Some(anchor)) =
                    take_descriptors(&SlotGrant { has_v4: false, has_v6: false, ..grant }, fds)?
                {
                    held.anchor = Some(anchor);
                }
                self.slot = Some(held);
                Ok(SlotFate::Kept)
            }
            Ok(_) => {
                self.slot = Some(held);
                Err(RequestError::Protocol)
            }
            Err(RequestError::Refused(refusal)) => Ok(SlotFate::Lost(refusal.text)),
            Err(error) => {
                self.slot = Some(held);
                Err(error)
            }
        }
    }

    fn done(&mut self, request: Request) -> Result<(), RequestError> {
        match self.request(request)? {
            Response::Done => Ok(()),
            _ => Err(RequestError::Protocol),
        }
    }

    pub(crate) fn exchange(
        &mut self,
        request: Request,
        fds: &[BorrowedFd<'_>],
        fds_max: usize,
    ) -> Result<(Response, Vec<OwnedFd>), RequestError> {
        if !self.connected {
            return Err(RequestError::Disconnected);
        }
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1).max(1);
        let bytes = encode(&ClientFrame { id, request }).map_err(|_| RequestError::Protocol)?;
        if unix::send(&self.fd, &bytes, fds, Wait::Block).is_err() {
            self.disconnect();
            return Err(RequestError::Disconnected);
        }
        loop {
            match self.receive(fds_max.max(EVENT_FDS_MAX), Wait::Block) {
                Ok((DaemonFrame::Event(event), fds)) => self.enqueue_with(event, fds),
                Ok((DaemonFrame::Reply { id: answered, result }, fds)) if answered == id => {
                    return result.map(|response| (response, fds)).map_err(|Refusal { errno, text }| {
                        RequestError::Refused(Refusal { errno, text: printable(&text) })
                    });
                }
                // A late answer to a request that timed out.
                Ok(_) => {}
                Err(error) => {
                    // Treat a daemon that does not answer as dead.
                    self.disconnect();
                    return Err(error);
                }
            }
        }
    }

    fn receive(&mut self, fds_max: usize, wait: Wait) -> Result<(DaemonFrame, Vec<OwnedFd>), RequestError> {
        let received = match unix::recv(&self.fd, &mut self.buffer, fds_max, wait) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Err(RequestError::Disconnected),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && wait == Wait::Block => {
                return Err(RequestError::Silent { seconds: ANSWER_TIMEOUT.as_secs() });
            }
            result => result?,
        };
        if received.len == 0 {
            return Err(RequestError::Disconnected);
        }
        if received.truncated {
            return Err(RequestError::Protocol);
        }
        let frame = decode(self.buffer.get(..received.len).unwrap_or_default()).map_err(|_| RequestError::Protocol)?;
        if !is_sane(&frame) {
            return Err(RequestError::Protocol);
        }
        Ok((frame, received.fds))
    }

    fn disconnect(&mut self) {
        if std::mem::replace(&mut self.connected, false) {
            self.enqueue(Event::Disconnected);
        }
    }

    fn enqueue(&mut self, event: Event) {
        if event == Event::RefreshLedger && self.events.contains(&event) {
            return;
        }
        if self.events.len() >= EVENTS_QUEUED_MAX {
            self.events.clear();
            self.streams.clear();
            self.events.push_back(Event::Overrun);
        }
        self.events.push_back(event);
    }
}

/// Returns whether every device in a message is plausible.
fn is_sane(frame: &DaemonFrame) -> bool {
    match frame {
        DaemonFrame::Reply { result: Ok(Response::Devices { devices, .. }), .. } => {
            devices.iter().all(DeviceInfo::is_sane)
        }
        DaemonFrame::Reply { result: Ok(Response::Adapters { adapters, .. }), .. } => {
            adapters.iter().all(|adapter| adapter.device.is_sane())
        }
        DaemonFrame::Event(Event::DeviceChanged(info)) => info.is_sane(),
        _ => true,
    }
}

/// Processes in one report; a daemon has fewer.
const STATUS_PROCESSES_MAX: usize = 1 << 16;

/// Descriptors of a slot grant: IPv4 socket, IPv6 socket, anchor.
type GrantDescriptors = (Option<OwnedFd>, Option<OwnedFd>, Option<OwnedFd>);

fn take_descriptors(grant: &SlotGrant, fds: Vec<OwnedFd>) -> Result<GrantDescriptors, RequestError> {
    let mut fds = fds.into_iter();
    let mut take = |wanted: bool| match wanted {
        true => fds.next().map(Some).ok_or(RequestError::Protocol),
        false => Ok(None),
    };
    Ok((take(grant.has_v4)?, take(grant.has_v6)?, take(grant.has_anchor)?))
}

#[cfg(test)]
mod tests;
