//! Sending side: messages become frames, and stay until the peer has acknowledged them. A message's RDMA operation goes to
//! the queue pair before its first frame.

use std::collections::VecDeque;

use super::outgoing::{Outgoing, QueuedMessage};
use crate::limits::{FRAGMENT_BYTES, UNACKED_MESSAGES_MAX};
use crate::rdma::{OperationId, RdmaOperation, RdmaStatus};
use crate::wire::{CongestionMap, Flags, Header};

/// Progress of a message's operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Progress {
    /// Not posted, or there is none.
    Queued,
    /// Posted to the queue pair.
    Posted,
    /// Completed; its program knows the result.
    Completed,
    /// Failed, and the queue pair with it. `is_told`: its program knows the result.
    Failed { is_told: bool },
}

/// Message with a sequence number.
#[derive(Debug)]
struct Message {
    sequence: u64,
    flags: Flags,
    content: Outgoing,
    progress: Progress,
}

impl Message {
    /// Operation that comes before the message's frames.
    fn pending(&self) -> Option<RdmaOperation> {
        self.content.rdma.filter(|_| self.progress == Progress::Queued)
    }

    /// Whether the queue pair may still use the operation's memory.
    fn is_in_flight(&self) -> bool {
        matches!(self.progress, Progress::Posted | Progress::Failed { .. })
    }
}

/// Message whose frames are being sent.
#[derive(Debug)]
struct Current {
    message: Message,
    /// Bytes in frames so far.
    sent: usize,
    /// Whether a frame was sent.
    is_begun: bool,
    /// A congestion map is neither acknowledged nor sent again.
    is_map: bool,
}

/// The end of a message that leaves the queue, or of its operation.
#[derive(Debug)]
pub enum Outcome<'a> {
    /// The peer has the message, or it is not sent.
    Gone(&'a Outgoing),
    /// The queue pair no longer uses the operation's memory.
    OperationOver(&'a Outgoing, RdmaOperation),
    /// The program hears of its operation.
    Notify(&'a Outgoing, RdmaOperation, RdmaStatus),
}

/// Messages of a connection, in the order of their sequence numbers: acknowledged ones are gone, then come
/// `unacknowledged`, `current`, `waiting`.
#[derive(Debug)]
pub struct SendQueue {
    unacknowledged: VecDeque<Message>,
    current: Option<Current>,
    waiting: VecDeque<Message>,
    next_sequence: u64,
    /// Last acknowledgement of the peer. A message whose operation is in flight stays, although the peer has it.
    acknowledged: u64,
    /// Messages until one asks for an acknowledgement.
    until_ack: u32,
    is_map_due: bool,
}

impl SendQueue {
    /// Creates an empty queue.
    pub fn new(first: u64) -> SendQueue {
        SendQueue {
            unacknowledged: VecDeque::new(),
            current: None,
            waiting: VecDeque::new(),
            next_sequence: first,
            acknowledged: 0,
            until_ack: 0,
            is_map_due: false,
        }
    }

    /// Sequence number of the next message.
    pub fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// Whether no message waits for the peer or for its acknowledgement.
    pub fn is_empty(&self) -> bool {
        self.unacknowledged.is_empty() && self.waiting.is_empty() && self.current.is_none()
    }

    /// Whether a message is partly sent.
    pub fn is_mid_message(&self) -> bool {
        self.current.as_ref().is_some_and(|current| current.is_begun)
    }

    /// Appends a message.
    pub fn push(&mut self, content: Outgoing) {
        let sequence = self.next_sequence;
        self.next_sequence = self.next_sequence.wrapping_add(1);
        self.waiting.push_back(Message { sequence, flags: Flags::default(), content, progress: Progress::Queued });
    }

    /// The next frames are those of a congestion map.
    pub fn announce_congestion(&mut self) {
        self.is_map_due = true;
    }

    /// Begins on another queue pair: the peer may have none of the frames sent so far. A message whose operation has not
    /// completed is dropped, because operations are not repeated: the peer's memory may be in other use by then.
    pub fn restart(&mut self, mut on: impl FnMut(Outcome<'_>)) {
        let current = self.current.take().filter(|current| !current.is_map).map(|current| current.message);
        for mut message in current.into_iter().chain(std::mem::take(&mut self.unacknowledged).into_iter().rev()) {
            if message.is_in_flight() {
                let is_told = message.progress == Progress::Failed { is_told: true };
                give_up(&message.content, RdmaStatus::Dropped, !is_told, &mut on);
                continue;
            }
            message.flags = message.flags.with(Flags::RETRANSMITTED).with(Flags::ACK_REQUIRED);
            self.waiting.push_front(message);
        }
        self.until_ack = 0;
    }

    /// Returns the operation that the queue pair gets before the next frame.
    pub fn next_operation(&mut self, map: &CongestionMap) -> Option<RdmaOperation> {
        let mut current = match self.current.take() {
            Some(current) => current,
            None => self.begin(map)?,
        };
        let operation = current.message.pending();
        if operation.is_some() {
            current.message.progress = Progress::Posted;
        }
        if operation.is_some() && current.message.content.is_silent() {
            self.unacknowledged.push_back(current.message);
        } else {
            self.current = Some(current);
        }
        operation
    }

    /// Returns the next frame; `None` if the queue pair gets an operation first, or the message waits for one.
    pub fn next_frame(&mut self, acknowledgement: u64, map: &CongestionMap) -> Option<Vec<u8>> {
        let mut current = match self.current.take() {
            Some(current) => current,
            None => self.begin(map)?,
        };
        let waits = |operation: RdmaOperation| operation.holds_message() && current.message.is_in_flight();
        if current.message.pending().is_some() || current.message.content.rdma.is_some_and(waits) {
            self.current = Some(current);
            return None;
        }
        let content = &current.message.content;
        let rest = content.payload.get(current.sent..).unwrap_or_default();
        let piece = rest.get(..FRAGMENT_BYTES.min(rest.len())).unwrap_or_default();
        let header = Header {
            sequence: current.message.sequence,
            acknowledgement,
            length: content.payload.len() as u32,
            source_port: content.source_port,
            destination_port: content.destination_port,
            flags: current.message.flags,
            extensions: content.extensions(),
            ..Header::default()
        };
        let frame = [&header.to_bytes()[..], piece].concat();
        current.sent += piece.len();
        current.is_begun = true;
        if current.sent < content.payload.len() {
            self.current = Some(current);
        } else if !current.is_map {
            self.unacknowledged.push_back(current.message);
        }
        Some(frame)
    }

    fn begin(&mut self, map: &CongestionMap) -> Option<Current> {
        if std::mem::take(&mut self.is_map_due) {
            let content = Outgoing { payload: map.as_bytes().to_vec(), ..Outgoing::default() };
            let (flags, progress) = (Flags::CONGESTION_MAP, Progress::Queued);
            let message = Message { sequence: 0, flags, content, progress };
            return Some(Current { message, sent: 0, is_begun: false, is_map: true });
        }
        let mut message = self.waiting.pop_front()?;
        if self.until_ack == 0 || message.content.is_urgent {
            message.flags = message.flags.with(Flags::ACK_REQUIRED);
            self.until_ack = UNACKED_MESSAGES_MAX;
        }
        self.until_ack -= 1;
        Some(Current { message, sent: 0, is_begun: false, is_map: false })
    }

    /// An operation has completed or failed.
    pub fn operation_over(&mut self, id: OperationId, status: RdmaStatus, mut on: impl FnMut(Outcome<'_>)) {
        let current = self.current.as_mut().map(|current| &mut current.message);
        let is_meant = |message: &&mut Message| message.content.rdma.is_some_and(|rdma| rdma.id == id);
        let Some(message) = self.unacknowledged.iter_mut().chain(current).find(is_meant) else { return };
        let (Progress::Posted, Some(operation)) = (message.progress, message.content.rdma) else { return };
        let is_told = operation.options.notifies;
        if is_told {
            on(Outcome::Notify(&message.content, operation, status));
        }
        if status != RdmaStatus::Success {
            // The queue pair has failed, too, and ends with the memory.
            message.progress = Progress::Failed { is_told };
            return;
        }
        message.progress = Progress::Completed;
        on(Outcome::OperationOver(&message.content, operation));
        let is_done = |message: &Message| message.progress == Progress::Completed && message.content.is_silent();
        self.unacknowledged.retain(|message| {
            if is_done(message) {
                on(Outcome::Gone(&message.content));
            }
            !is_done(message)
        });
        self.acknowledge(self.acknowledged, on);
    }

    /// Forgets the messages that the peer has: those that were sent, up to a sequence number.
    pub fn acknowledge(&mut self, sequence: u64, mut on: impl FnMut(Outcome<'_>)) {
        self.acknowledged = sequence;
        let has = |message: &Message| message.sequence <= sequence && !message.is_in_flight();
        while let Some(message) = pop_if(&mut self.unacknowledged, has) {
            on(Outcome::Gone(&message.content));
        }
        // After a reconnect the peer may have messages that are not sent again yet.
        if self.unacknowledged.is_empty() && self.current.is_none() {
            let has = |message: &Message| message.flags.contains(Flags::RETRANSMITTED) && message.sequence <= sequence;
            while let Some(message) = pop_if(&mut self.waiting, has) {
                on(Outcome::Gone(&message.content));
            }
        }
    }

    /// Forgets messages that are not being sent right now, and whose operations are not in flight. `is_meant` also hears whether
    /// the message's operation has completed.
    pub fn cancel(&mut self, is_meant: &impl Fn(&Outgoing, bool) -> bool, on: &mut impl FnMut(Outcome<'_>)) {
        for queue in [&mut self.waiting, &mut self.unacknowledged] {
            queue.retain(|message| {
                let is_completed = message.progress == Progress::Completed;
                let is_kept = !is_meant(&message.content, is_completed) || message.is_in_flight();
                if !is_kept {
                    match message.progress {
                        Progress::Queued => give_up(&message.content, RdmaStatus::Canceled, true, on),
                        _ => on(Outcome::Gone(&message.content)),
                    }
                }
                is_kept
            });
        }
    }

    /// Messages to send.
    pub fn waiting(&self) -> impl Iterator<Item = QueuedMessage> + '_ {
        let current = self.current.iter().filter(|current| !current.is_map).map(|current| &current.message);
        current.chain(&self.waiting).map(|message| message.content.describe(message.sequence))
    }

    /// Messages without acknowledgement.
    pub fn unacknowledged(&self) -> impl Iterator<Item = QueuedMessage> + '_ {
        self.unacknowledged.iter().map(|message| message.content.describe(message.sequence))
    }
}

/// Reports that a message leaves before its operation has completed.
pub fn give_up(content: &Outgoing, status: RdmaStatus, tells: bool, on: &mut impl FnMut(Outcome<'_>)) {
    if let Some(operation) = content.rdma {
        // A cancelled message is no error.
        let is_error = status == RdmaStatus::Dropped && operation.options.reports_errors;
        if tells && (operation.options.notifies || is_error) {
            on(Outcome::Notify(content, operation, status));
        }
        on(Outcome::OperationOver(content, operation));
    }
    on(Outcome::Gone(content));
}

/// Takes the first message if it is meant.
fn pop_if(queue: &mut VecDeque<Message>, is_meant: impl Fn(&Message) -> bool) -> Option<Message> {
    if queue.front().is_some_and(is_meant) { queue.pop_front() } else { None }
}
