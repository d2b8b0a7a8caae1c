//! Loop of a controller: events of its connections go to the state machine, and what it asks for is carried out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use weft_client::Which;
use weft_client::rdmacm::{Event, EventChannel, SockAddr, lookup};
use weft_nvme::{
    CommandData, Content, ControllerInfo, HostAction, HostConfig, HostController, HostEvent, LostReason, NamespaceInfo,
    Operation, Outcome, Outgoing, RequestFailure, RequestKey, SlotKey,
};
use weft_rdma_service::{ReadData, Received};
use weft_sys::epoll::{Epoll, Interest, Ready};

use super::queue::Queue;
use crate::limits::LENT_MEMORY_MAX;

const CHANNEL: u64 = 0;
/// Token of queue 0.
const FIRST_QUEUE: u64 = 1;

/// Place of a target.
#[derive(Clone, Debug)]
pub struct Target {
    /// Libraries to use.
    pub which: Which,
    /// Address or name.
    pub address: String,
    /// Port.
    pub service: u16,
}

/// Request that has ended; a Read with its data.
pub type Finished = (RequestKey, Result<ReadData, RequestFailure>);

/// Controller with its connections. Its descriptor is readable when [`Driver::turn`] has something to do.
#[derive(Debug)]
pub struct Driver {
    // Dropped before the channel of their ids.
    queues: BTreeMap<u16, Queue>,
    channel: EventChannel,
    epoll: Epoll,
    target: SockAddr,
    host: HostController,
    started: Instant,
    /// Queues that may have more completions.
    busy: BTreeSet<u16>,
    /// Data that requests in progress send, and data that they have read.
    sent: BTreeMap<RequestKey, Vec<u8>>,
    read: BTreeMap<RequestKey, ReadData>,
    finished: Vec<Finished>,
    events: Vec<HostEvent>,
    /// Commands that wait for memory, or for room.
    waiting: VecDeque<Outgoing>,
    /// Bytes of memory that commands lend, and the lengths by their places.
    lent: usize,
    lengths: BTreeMap<SlotKey, u32>,
    ended: Option<LostReason>,
}

impl Driver {
    /// Begins to connect.
    ///
    /// # Errors
    /// There is no RDMA device, or the target's name is unknown.
    pub fn new(target: &Target, config: HostConfig) -> Result<Driver> {
        let channel = weft_rdma_service::channel(target.which)?;
        let address = lookup(Some(&target.address), Some(&target.service.to_string()), 0);
        let address = address.map_err(|error| anyhow::anyhow!("{error}"))?;
        let epoll = Epoll::new()?;
        epoll.add(&channel, CHANNEL, Interest::READ)?;
        let mut driver = Driver {
            queues: BTreeMap::new(),
            channel,
            epoll,
            target: address,
            host: HostController::new(Duration::ZERO, config),
            started: Instant::now(),
            busy: BTreeSet::new(),
            sent: BTreeMap::new(),
            read: BTreeMap::new(),
            finished: Vec::new(),
            events: Vec::new(),
            waiting: VecDeque::new(),
            lent: 0,
            lengths: BTreeMap::new(),
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
        self.host.is_ready()
    }

    /// Controller, once it was ready.
    pub fn info(&self) -> Option<&ControllerInfo> {
        self.host.info()
    }

    /// Namespaces of the controller.
    pub fn namespaces(&self) -> impl Iterator<Item = &NamespaceInfo> {
        self.host.namespaces()
    }

    /// Reason for which the controller has ended.
    pub fn ended(&self) -> Option<&LostReason> {
        self.ended.as_ref()
    }

    /// Takes the requests that have ended.
    pub fn take_finished(&mut self) -> Vec<Finished> {
        std::mem::take(&mut self.finished)
    }

    /// Takes the events for the log.
    pub fn take_events(&mut self) -> Vec<HostEvent> {
        std::mem::take(&mut self.events)
    }

    /// Takes a request. `data` is what a Write or Compare sends.
    pub fn submit(&mut self, key: RequestKey, namespace: u32, operation: Operation, data: Vec<u8>) {
        if !data.is_empty() {
            self.sent.insert(key, data);
        }
        self.host.submit(self.now(), key, namespace, operation);
        self.act();
    }

    /// Begins to end the controller.
    pub fn shutdown(&mut self) {
        self.host.shutdown(self.now());
        self.act();
    }

    /// Returns the time until the next [`Driver::turn`] that is due without an event.
    pub fn timeout(&self) -> Option<Duration> {
        if !self.busy.is_empty() {
            return Some(Duration::ZERO);
        }
        self.host.deadline().map(|at| at.saturating_sub(self.now()))
    }

    /// Handles what has happened, and does what is due.
    ///
    /// # Errors
    /// The connection manager fails.
    pub fn turn(&mut self) -> Result<()> {
        let mut ready: Vec<Ready> = Vec::new();
        self.epoll.wait(&mut ready, Some(Duration::ZERO))?;
        for event in ready {
            match event.token.checked_sub(FIRST_QUEUE) {
                None => self.on_channel()?,
                Some(queue) => self.on_readable(queue as u16),
            }
        }
        for queue in std::mem::take(&mut self.busy) {
            self.on_completions(queue);
        }
        self.host.handle_timeout(self.now());
        self.act();
        Ok(())
    }

    /// Waits for an event, and handles it.
    ///
    /// # Errors
    /// As for [`Driver::turn`].
    pub fn wait(&mut self) -> Result<()> {
        let timeout = self.timeout().unwrap_or(Duration::from_secs(1));
        weft_sys::epoll::wait_readable(&self.epoll, timeout)?;
        self.turn()
    }

    /// Waits until the controller is ready.
    ///
    /// # Errors
    /// It has ended.
    pub fn wait_ready(&mut self) -> Result<()> {
        while !self.is_ready() {
            if let Some(reason) = &self.ended {
                bail!("{reason}");
            }
            self.wait()?;
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
        let Some(queue) = self.queues.values_mut().find(|queue| queue.key() == event.id) else { return };
        let number = queue.number();
        match queue.on_event(event) {
            Ok(false) => {}
            Ok(true) => {
                if let Some(completions) = queue.completions()
                    && let Err(error) = self.epoll.add(completions, FIRST_QUEUE + u64::from(number), Interest::READ)
                {
                    return self.lose(weft_tool::errno::text(&error));
                }
                self.host.queue_opened(self.now(), number);
                self.busy.insert(number);
            }
            Err(reason) => self.lose(reason),
        }
        self.act();
    }

    fn lose(&mut self, reason: String) {
        self.host.connection_lost(self.now(), reason);
        self.act();
    }

    fn on_readable(&mut self, queue: u16) {
        match self.queues.get(&queue).map(Queue::on_readable) {
            Some(Err(reason)) => self.lose(reason),
            Some(Ok(())) => {
                self.busy.insert(queue);
            }
            None => {}
        }
    }

    fn on_completions(&mut self, number: u16) {
        let Some(queue) = self.queues.get_mut(&number) else { return };
        let mut received: Vec<Received> = Vec::new();
        let polled = queue.poll(&mut received);
        for Received { bytes, invalidated } in received {
            self.host.handle_capsule(self.now(), number, &bytes, invalidated);
            self.act();
        }
        match polled {
            Ok(true) => {
                self.busy.insert(number);
            }
            Ok(false) => self.send_waiting(),
            Err(reason) => self.lose(reason),
        }
    }

    /// Carries out the actions.
    fn act(&mut self) {
        while let Some(action) = self.host.poll() {
            let done = match action {
                HostAction::Open { request, capsule_bytes } => {
                    let queue = Queue::start(&self.channel, &self.target, request, capsule_bytes);
                    queue.map(|queue| drop(self.queues.insert(request.queue_id, queue)))
                }
                HostAction::Send(outgoing) => self.send(outgoing),
                HostAction::Release { slot, is_invalid, outcome } => {
                    self.release(slot, is_invalid, outcome);
                    Ok(())
                }
                HostAction::Done(key, result) => {
                    self.sent.remove(&key);
                    let data = self.read.remove(&key).unwrap_or_default();
                    self.finished.push((key, result.map(|()| data)));
                    Ok(())
                }
                HostAction::Close => {
                    self.close();
                    Ok(())
                }
                HostAction::Log(event) => {
                    self.events.push(event);
                    Ok(())
                }
                HostAction::Ended(reason) => {
                    self.ended = Some(reason);
                    Ok(())
                }
            };
            if let Err(reason) = done {
                self.host.connection_lost(self.now(), reason);
            }
        }
    }

    fn close(&mut self) {
        for queue in std::mem::take(&mut self.queues).into_values() {
            if let Some(completions) = queue.completions() {
                // A connection that was never made is not watched.
                let _ = self.epoll.delete(completions);
            }
        }
        self.busy.clear();
        self.waiting.clear();
        self.lengths.clear();
        self.lent = 0;
    }

    fn release(&mut self, slot: SlotKey, is_invalid: bool, outcome: Outcome) {
        self.lent -= self.lengths.remove(&slot).map_or(0, |length| length as usize);
        let Some(queue) = self.queues.get_mut(&slot.queue) else { return };
        match outcome {
            Outcome::Take(Content::Request { request, offset, length }) => {
                if let Some(piece) = queue.take(slot.command, is_invalid, length) {
                    self.read.entry(request).or_default().insert(offset, piece);
                }
            }
            Outcome::Take(Content::Page(length)) => {
                let page = queue.take(slot.command, is_invalid, length).map(|page| page.to_bytes());
                self.host.handle_page(self.started.elapsed(), &page.unwrap_or_default());
            }
            Outcome::Take(Content::Bytes(_)) | Outcome::Discard => queue.release(slot.command, is_invalid),
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

    /// Sends a command, or keeps it until there is memory and room.
    fn send(&mut self, outgoing: Outgoing) -> Result<(), String> {
        let slot = outgoing.slot;
        let Some(queue) = self.queues.get_mut(&slot.queue) else { return Ok(()) };
        if !queue.has_room() {
            self.waiting.push_back(outgoing);
            return Ok(());
        }
        let (content, is_lent) = match &outgoing.data {
            CommandData::None => return queue.send(outgoing.to_capsule(None, &[])),
            CommandData::Capsule(content) => {
                return queue.send(outgoing.to_capsule(None, bytes_of(content, &self.sent)));
            }
            CommandData::Lent(content) => (content, true),
            CommandData::Awaited(content) => (content, false),
        };
        let length = content.len();
        if self.lent > 0 && self.lent + length as usize > LENT_MEMORY_MAX {
            self.waiting.push_back(outgoing);
            return Ok(());
        }
        let memory = queue.lend(slot.command, is_lent.then(|| bytes_of(content, &self.sent)), length)?;
        self.lent += length as usize;
        self.lengths.insert(slot, length);
        self.host.lent(slot, memory.key);
        queue.send(outgoing.to_capsule(Some(memory), &[]))
    }
}

/// Returns bytes for the target.
fn bytes_of<'a>(content: &'a Content, data: &'a BTreeMap<RequestKey, Vec<u8>>) -> &'a [u8] {
    match content {
        Content::Bytes(bytes) => bytes,
        Content::Request { request, offset, length } => {
            let data = data.get(request).map(Vec::as_slice).unwrap_or_default();
            data.get(*offset..*offset + *length as usize).unwrap_or_default()
        }
        Content::Page(_) => &[],
    }
}

impl AsFd for Driver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
