//! Loop of an initiator: events of its connection go to the state machine, and what it asks for is carried out.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use weft_client::Which;
use weft_client::rdmacm::{Event, EventChannel, SockAddr};
use weft_rdma_service::{ActiveConnection, ConnectionRequest, EndpointConfig, ReadData, Received, event_failure};
use weft_srp::limits::{FURTHER_RECEIVES, INITIATOR_IU_SENT, TARGET_IU_TAKEN_MAX};
use weft_srp::scsi::Lun;
use weft_srp::wire::{LoginCarrier, LoginReject, LoginRequest, Piece};
use weft_srp::{
    DiskCommandData, DiskContent, DiskInfo, DiskOperation, DiskOutcome, Initiator, InitiatorAction, InitiatorConfig,
    InitiatorEvent, LostReason, OutgoingDiskCommand, RequestFailure, RequestKey, login_refusal,
};
use weft_sys::epoll::{Epoll, Interest, Ready};

use crate::place::TargetPlace;

const CHANNEL: u64 = 0;
const COMPLETIONS: u64 = 1;

/// Request that has ended; a Read with its data.
pub type Finished = (RequestKey, Result<ReadData, RequestFailure>);

/// Initiator with its connection. Its descriptor is readable when [`Driver::turn`] has something to do.
#[derive(Debug)]
pub struct Driver {
    // Dropped before the channel of its id.
    connection: Option<ActiveConnection>,
    channel: EventChannel,
    epoll: Epoll,
    target: SockAddr,
    carrier: LoginCarrier,
    /// Receives and SENDs of the connection.
    depth: usize,
    initiator: Initiator,
    started: Instant,
    /// There may be more completions.
    is_busy: bool,
    /// Data that requests in progress send, and data that they have read.
    sent: BTreeMap<RequestKey, Vec<u8>>,
    read: BTreeMap<RequestKey, ReadData>,
    finished: Vec<Finished>,
    events: Vec<InitiatorEvent>,
    /// Commands that wait for room in the send queue.
    waiting: VecDeque<OutgoingDiskCommand>,
    ended: Option<LostReason>,
}

/// Returns the reason for which an event ends the connection.
fn failure(event: &Event) -> String {
    event_failure(event, "an SRP target", |private_data| LoginReject::code(private_data).map(login_refusal))
}

impl Driver {
    /// Begins to log in.
    ///
    /// # Errors
    /// There is no RDMA device, or the target's name is unknown.
    pub fn new(which: Which, target: &TargetPlace, config: InitiatorConfig) -> Result<Driver> {
        let channel = weft_rdma_service::channel(which)?;
        let address = target.socket_address()?;
        let epoll = Epoll::new()?;
        epoll.add(&channel, CHANNEL, Interest::READ)?;
        let mut driver = Driver {
            connection: None,
            channel,
            epoll,
            target: address,
            carrier: target.carrier(),
            depth: usize::from(config.commands() + FURTHER_RECEIVES),
            initiator: Initiator::new(Duration::ZERO, config),
            started: Instant::now(),
            is_busy: false,
            sent: BTreeMap::new(),
            read: BTreeMap::new(),
            finished: Vec::new(),
            events: Vec::new(),
            waiting: VecDeque::new(),
            ended: None,
        };
        driver.act();
        Ok(driver)
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Whether commands are sent now.
    pub fn is_ready(&self) -> bool {
        self.initiator.is_ready()
    }

    /// Disks of the target.
    pub fn disks(&self) -> impl Iterator<Item = &DiskInfo> {
        self.initiator.disks()
    }

    /// Reason for which the initiator has ended.
    pub fn ended(&self) -> Option<&LostReason> {
        self.ended.as_ref()
    }

    /// Takes the requests that have ended.
    pub fn take_finished(&mut self) -> Vec<Finished> {
        std::mem::take(&mut self.finished)
    }

    /// Takes the events for the log.
    pub fn take_events(&mut self) -> Vec<InitiatorEvent> {
        std::mem::take(&mut self.events)
    }

    /// Takes a request. `data` is what a Write sends.
    pub fn submit(&mut self, key: RequestKey, lun: Lun, operation: DiskOperation, data: Vec<u8>) {
        if !data.is_empty() {
            self.sent.insert(key, data);
        }
        self.initiator.submit(self.now(), key, lun, operation);
        self.act();
    }

    /// Begins to end the initiator.
    pub fn shutdown(&mut self) {
        self.initiator.shutdown(self.now());
        self.act();
    }

    /// Returns the time until the next [`Driver::turn`] that is due without an event.
    pub fn timeout(&self) -> Option<Duration> {
        if self.is_busy {
            return Some(Duration::ZERO);
        }
        self.initiator.deadline().map(|at| at.saturating_sub(self.now()))
    }

    /// Handles what has happened, and does what is due.
    ///
    /// # Errors
    /// The connection manager fails.
    pub fn turn(&mut self) -> Result<()> {
        let mut ready: Vec<Ready> = Vec::new();
        self.epoll.wait(&mut ready, Some(Duration::ZERO))?;
        for event in ready {
            match event.token {
                CHANNEL => self.on_channel()?,
                _ => self.on_readable(),
            }
        }
        if std::mem::take(&mut self.is_busy) {
            self.on_completions();
        }
        self.initiator.handle_timeout(self.now());
        self.act();
        Ok(())
    }

    /// Waits until the disks are known.
    ///
    /// # Errors
    /// The initiator has ended.
    pub fn wait_ready(&mut self) -> Result<()> {
        while !self.is_ready() {
            if let Some(reason) = &self.ended {
                bail!("{reason}");
            }
            weft_sys::epoll::wait_readable(&self.epoll, self.timeout().unwrap_or(Duration::from_secs(1)))?;
            self.turn()?;
        }
        Ok(())
    }

    fn on_channel(&mut self) -> Result<()> {
        while let Some(event) = self.channel.poll().context("the RDMA connection manager")? {
            self.on_event(&event);
        }
        Ok(())
    }

    fn on_event(&mut self, event: &Event) {
        let Some(connection) = self.connection.as_mut().filter(|connection| connection.key() == event.id) else {
            return;
        };
        match connection.on_event(event) {
            Ok(None) => {}
            Ok(Some(private_data)) => {
                if let Some(completions) = connection.completions()
                    && let Err(error) = self.epoll.add(completions, COMPLETIONS, Interest::READ)
                {
                    return self.lose(weft_tool::errno::text(&error));
                }
                self.initiator.logged_in(self.started.elapsed(), &private_data);
                self.is_busy = true;
            }
            Err(reason) => self.lose(reason),
        }
        self.act();
    }

    fn lose(&mut self, reason: String) {
        self.initiator.connection_lost(self.now(), reason);
        self.act();
    }

    fn on_readable(&mut self) {
        match self.connection.as_ref().map(ActiveConnection::on_readable) {
            Some(Err(reason)) => self.lose(reason),
            Some(Ok(())) => self.is_busy = true,
            None => {}
        }
    }

    fn on_completions(&mut self) {
        let Some(connection) = &mut self.connection else { return };
        let mut received: Vec<Received> = Vec::new();
        let polled = connection.poll(&mut received);
        for Received { bytes, invalidated } in received {
            self.initiator.handle_iu(self.now(), &bytes, invalidated);
            self.act();
        }
        match polled {
            Ok(true) => self.is_busy = true,
            Ok(false) => self.send_waiting(),
            Err(reason) => self.lose(reason),
        }
    }

    /// Carries out the actions.
    fn act(&mut self) {
        while let Some(action) = self.initiator.poll() {
            let done = match action {
                InitiatorAction::Open(login) => self.open(&login),
                InitiatorAction::Send(outgoing) => self.send(outgoing),
                InitiatorAction::SendUnit(bytes) => {
                    self.connection.as_mut().map_or(Ok(()), |connection| connection.send(bytes))
                }
                InitiatorAction::Release { tag, is_invalid, outcome } => {
                    self.release(tag, is_invalid, outcome);
                    Ok(())
                }
                InitiatorAction::Done(key, result) => {
                    self.sent.remove(&key);
                    let data = self.read.remove(&key).unwrap_or_default();
                    self.finished.push((key, result.map(|()| data)));
                    Ok(())
                }
                InitiatorAction::Close => {
                    self.close();
                    Ok(())
                }
                InitiatorAction::Log(event) => {
                    self.events.push(event);
                    Ok(())
                }
                InitiatorAction::Ended(reason) => {
                    self.ended = Some(reason);
                    Ok(())
                }
            };
            if let Err(reason) = done {
                self.initiator.connection_lost(self.now(), reason);
            }
        }
    }

    fn open(&mut self, login: &LoginRequest) -> Result<(), String> {
        let request = ConnectionRequest {
            sizes: EndpointConfig {
                receives: self.depth,
                receive_bytes: TARGET_IU_TAKEN_MAX as usize,
                sends: self.depth,
                send_bytes: INITIATOR_IU_SENT as usize,
            },
            private_data: self.carrier.encode(login),
            failure,
        };
        self.connection = Some(ActiveConnection::start(&self.channel, &self.target, request)?);
        Ok(())
    }

    fn close(&mut self) {
        if let Some(connection) = self.connection.take()
            && let Some(completions) = connection.completions()
        {
            // A connection that was never made is not watched.
            let _ = self.epoll.delete(completions);
        }
        self.is_busy = false;
        self.waiting.clear();
    }

    fn release(&mut self, tag: u64, is_invalid: bool, outcome: DiskOutcome) {
        let Some(connection) = &mut self.connection else { return };
        match outcome {
            DiskOutcome::Take(DiskContent::Request { request, offset, length }) => {
                if let Some(piece) = connection.take(tag, is_invalid, length) {
                    self.read.entry(request).or_default().insert(offset, piece);
                }
            }
            DiskOutcome::Take(DiskContent::Page(length)) => {
                let page = connection.take(tag, is_invalid, length).map(|page| page.to_bytes());
                self.initiator.handle_page(self.started.elapsed(), &page.unwrap_or_default());
            }
            DiskOutcome::Take(DiskContent::Bytes(_)) | DiskOutcome::Discard => connection.release(tag, is_invalid),
        }
    }

    fn send_waiting(&mut self) {
        for _ in 0..self.waiting.len() {
            let Some(outgoing) = self.waiting.pop_front() else { return };
            if let Err(reason) = self.send(outgoing) {
                return self.lose(reason);
            }
        }
    }

    /// Sends a command, or keeps it until there is room.
    fn send(&mut self, outgoing: OutgoingDiskCommand) -> Result<(), String> {
        let now = self.now();
        let Some(connection) = &mut self.connection else { return Ok(()) };
        if !connection.has_room() {
            self.waiting.push_back(outgoing);
            return Ok(());
        }
        let (content, is_lent) = match &outgoing.data {
            DiskCommandData::None => {
                self.initiator.sent(now, outgoing.tag, None);
                return connection.send(outgoing.to_iu(None));
            }
            DiskCommandData::Lent(content) => (content, true),
            DiskCommandData::Awaited(content) => (content, false),
        };
        let length = content.len();
        let bytes = is_lent.then(|| bytes_of(content, &self.sent));
        let memory = connection.lend(outgoing.tag, bytes, length)?;
        self.initiator.sent(now, outgoing.tag, Some(memory.key));
        connection.send(outgoing.to_iu(Some(Piece { address: memory.address, key: memory.key, length })))
    }
}

/// Returns bytes for the target.
fn bytes_of<'a>(content: &'a DiskContent, data: &'a BTreeMap<RequestKey, Vec<u8>>) -> &'a [u8] {
    match content {
        DiskContent::Bytes(bytes) => bytes,
        DiskContent::Request { request, offset, length } => {
            let data = data.get(request).map(Vec::as_slice).unwrap_or_default();
            data.get(*offset..*offset + *length as usize).unwrap_or_default()
        }
        DiskContent::Page(_) => &[],
    }
}

impl AsFd for Driver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
