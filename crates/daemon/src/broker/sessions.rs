//! The connected programs, and messages to them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weft_ipc::{DaemonFrame, Event, HelloReply, HelloStatus, McastGroup, Refusal, Response, Usage, encode};
use weft_link::FaultSpec;
use weft_sys::unix::Credentials;

use super::output::{Attach, Output};
use crate::slots::ClientId;

/// How far a connection has come.
#[derive(Debug)]
pub(super) enum Standing {
    /// No hello yet; `Some` holds the reason for which the broker will refuse it.
    New(Option<String>),
    Session,
    /// About to be closed; further input is ignored.
    Leaving,
}

/// A connection of a program.
#[derive(Debug)]
pub(super) struct Client {
    pub credentials: Credentials,
    pub standing: Standing,
    pub program: String,
    /// Virtual host that it runs as; empty for the machine itself.
    pub host: String,
    /// Faults that it requests, parsed and in its own syntax.
    pub faults: Vec<(u32, FaultSpec)>,
    pub fault_text: String,
    pub subscribed: bool,
    pub slot: Option<u32>,
    pub groups: BTreeSet<McastGroup>,
    pub usage: Usage,
    /// Whether it has a ledger.
    pub ledger: bool,
}

impl Client {
    fn new(credentials: Credentials, refused: Option<String>) -> Client {
        Client {
            credentials,
            standing: Standing::New(refused),
            program: String::new(),
            host: String::new(),
            faults: Vec::new(),
            fault_text: String::new(),
            subscribed: false,
            slot: None,
            groups: BTreeSet::new(),
            usage: Usage::default(),
            ledger: false,
        }
    }

    /// Returns whether its hello was accepted and it is not about to be closed.
    pub fn in_session(&self) -> bool {
        matches!(self.standing, Standing::Session)
    }

    /// Returns whether it runs as a virtual host of the fabric.
    pub fn is_on_host(&self) -> bool {
        !self.host.is_empty()
    }
}

/// All connections, and the output for them.
#[derive(Debug)]
pub(super) struct Sessions {
    clients: BTreeMap<ClientId, Client>,
    next: ClientId,
    output: VecDeque<Output>,
}

impl Sessions {
    pub fn new() -> Sessions {
        Sessions { clients: BTreeMap::new(), next: 1, output: VecDeque::new() }
    }

    /// Adds a connection, whose hello will be refused for this reason if there is one.
    pub fn open(&mut self, credentials: Credentials, refused: Option<String>) -> ClientId {
        let id = self.next;
        self.next += 1;
        self.clients.insert(id, Client::new(credentials, refused));
        id
    }

    /// Removes a connection.
    pub fn remove(&mut self, id: ClientId) -> Option<Client> {
        self.clients.remove(&id)
    }

    pub fn get(&self, id: ClientId) -> Option<&Client> {
        self.clients.get(&id)
    }

    pub fn get_mut(&mut self, id: ClientId) -> Option<&mut Client> {
        self.clients.get_mut(&id)
    }

    /// Returns all connections in the order in which they were made.
    pub fn iter(&self) -> impl Iterator<Item = (ClientId, &Client)> {
        self.clients.iter().map(|(&id, client)| (id, client))
    }

    pub fn values(&self) -> impl Iterator<Item = &Client> {
        self.clients.values()
    }

    pub fn len(&self) -> usize {
        self.clients.len()
    }

    pub fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    /// Returns the user of a client; no user has the number that stands for an unknown client.
    pub fn uid(&self, id: ClientId) -> u32 {
        self.get(id).map_or(u32::MAX, |client| client.credentials.uid)
    }

    /// Returns the slot of a client.
    pub fn slot(&self, id: ClientId) -> Option<u32> {
        self.get(id).and_then(|client| client.slot)
    }

    /// Returns the client with a slot.
    pub fn client_with_slot(&self, slot: u32) -> Option<ClientId> {
        self.iter().find(|(_, client)| client.slot == Some(slot)).map(|(id, _)| id)
    }

    /// Returns the virtual host that a client runs as.
    pub fn host(&self, id: ClientId) -> Option<&str> {
        self.get(id).map(|client| client.host.as_str()).filter(|host| !host.is_empty())
    }

    /// Sends an event. A newer event `about` the same device replaces it while it still waits.
    pub fn tell(&mut self, client: ClientId, event: &Event, about: Option<u32>) {
        if let Ok(bytes) = encode(&DaemonFrame::Event(event.clone())) {
            self.output.push_back(Output::Send { client, bytes, attach: Attach::default(), about });
        }
    }

    /// Sends an event with descriptors.
    pub fn tell_with(&mut self, client: ClientId, event: &Event, attach: Attach) {
        if let Ok(bytes) = encode(&DaemonFrame::Event(event.clone())) {
            self.output.push_back(Output::Send { client, bytes, attach, about: None });
        }
    }

    /// Sends an event to all clients that satisfy a condition.
    pub fn tell_all(&mut self, event: &Event, about: Option<u32>, condition: impl Fn(&Client) -> bool) {
        let Ok(bytes) = encode(&DaemonFrame::Event(event.clone())) else { return };
        for (&client, _) in self.clients.iter().filter(|(_, client)| condition(client)) {
            let attach = Attach::default();
            self.output.push_back(Output::Send { client, bytes: bytes.clone(), attach, about });
        }
    }

    /// Sends events to all subscribers.
    pub fn broadcast(&mut self, events: &[Event]) {
        for event in events {
            let about = match event {
                Event::DeviceChanged(info) => Some(info.index),
                Event::DeviceRemoved { index } => Some(*index),
                Event::PeerCame { .. } | Event::PeerGone { .. } | Event::PathChanged { .. } => None,
                Event::GroupChanged { .. } | Event::StreamOpened(_) | Event::CloseStream { .. } => None,
                Event::FaultAdded { .. } | Event::FaultRemoved { .. } => None,
                Event::RefreshLedger | Event::Disconnected | Event::Overrun => None,
            };
            self.tell_all(event, about, |client| client.subscribed);
        }
    }

    /// Replies to a hello.
    pub fn greet(&mut self, client: ClientId, status: HelloStatus, text: &str) {
        let bytes = HelloReply::new(status, text).encode();
        self.output.push_back(Output::Send { client, bytes, attach: Attach::default(), about: None });
    }

    /// Replies to a request.
    pub fn reply(&mut self, client: ClientId, id: u32, result: Result<Response, Refusal>, attach: Attach) {
        match encode(&DaemonFrame::Reply { id, result }) {
            Ok(bytes) => self.output.push_back(Output::Send { client, bytes, attach, about: None }),
            // Page limits make this impossible; a client left without its answer would wait forever.
            Err(_) => self.close(client),
        }
    }

    /// Closes a connection after everything queued for it.
    pub fn close(&mut self, id: ClientId) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.standing = Standing::Leaving;
            client.subscribed = false;
            self.output.push_back(Output::Close { client: id });
        }
    }

    /// Ends the daemon.
    pub fn stop(&mut self) {
        self.output.push_back(Output::Stop);
    }

    /// Takes the next action.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.output.pop_front()
    }
}
