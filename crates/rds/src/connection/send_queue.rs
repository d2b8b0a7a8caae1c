//! Sending side: messages become frames, and stay until the peer has acknowledged them.

use std::collections::VecDeque;

use crate::limits::{DATAGRAM_OVERHEAD_BYTES, FRAGMENT_BYTES, UNACKED_MESSAGES_MAX};
use crate::wire::{CongestionMap, Flags, Header};

/// Message to send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outgoing {
    /// Port of the sending socket.
    pub source_port: u16,
    /// Port of the receiving socket.
    pub destination_port: u16,
    /// The data, [`MESSAGE_BYTES_MAX`](crate::limits::MESSAGE_BYTES_MAX) at most.
    pub payload: Vec<u8>,
    /// Socket that hears of the acknowledgement.
    pub owner: Option<u64>,
    /// The peer acknowledges it at once: the owner's send buffer is nearly full.
    pub is_urgent: bool,
}

impl Outgoing {
    /// Bytes of the owner's send buffer.
    pub fn buffer_bytes(&self) -> usize {
        self.payload.len() + DATAGRAM_OVERHEAD_BYTES
    }

    /// Describes the message for a listing.
    pub fn describe(&self, sequence: u64) -> QueuedMessage {
        QueuedMessage {
            sequence,
            bytes: self.payload.len(),
            source_port: self.source_port,
            destination_port: self.destination_port,
            owner: self.owner,
        }
    }
}

/// Message in a queue, for a listing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueuedMessage {
    /// Sequence number; 0: none yet.
    pub sequence: u64,
    /// Bytes of data.
    pub bytes: usize,
    /// Port of the sending socket.
    pub source_port: u16,
    /// Port of the receiving socket.
    pub destination_port: u16,
    /// Owner.
    pub owner: Option<u64>,
}

/// Message with a sequence number.
#[derive(Debug)]
struct Message {
    sequence: u64,
    flags: Flags,
    content: Outgoing,
}

/// Message whose frames are being sent.
#[derive(Debug)]
struct Current {
    message: Message,
    /// Bytes in frames so far.
    sent: usize,
    /// A congestion map is neither acknowledged nor sent again.
    is_map: bool,
}

/// Messages of a connection, in the order of their sequence numbers: acknowledged ones are gone, then come
/// `unacknowledged`, `current`, `waiting`.
#[derive(Debug)]
pub struct SendQueue {
    unacknowledged: VecDeque<Message>,
    current: Option<Current>,
    waiting: VecDeque<Message>,
    next_sequence: u64,
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
        self.current.is_some()
    }

    /// Appends a message.
    pub fn push(&mut self, content: Outgoing) {
        let sequence = self.next_sequence;
        self.next_sequence = self.next_sequence.wrapping_add(1);
        self.waiting.push_back(Message { sequence, flags: Flags::default(), content });
    }

    /// The next frames are those of a congestion map.
    pub fn announce_congestion(&mut self) {
        self.is_map_due = true;
    }

    /// Begins on another queue pair: the peer may have none of the frames sent so far.
    pub fn restart(&mut self) {
        let current = self.current.take().filter(|current| !current.is_map).map(|current| current.message);
        for mut message in current.into_iter().chain(std::mem::take(&mut self.unacknowledged).into_iter().rev()) {
            message.flags = message.flags.with(Flags::RETRANSMITTED).with(Flags::ACK_REQUIRED);
            self.waiting.push_front(message);
        }
        self.until_ack = 0;
    }

    /// Returns the next frame.
    pub fn next_frame(&mut self, acknowledgement: u64, map: &CongestionMap) -> Option<Vec<u8>> {
        let mut current = match self.current.take() {
            Some(current) => current,
            None => self.begin(map)?,
        };
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
            ..Header::default()
        };
        let frame = [&header.to_bytes()[..], piece].concat();
        current.sent += piece.len();
        if current.sent < content.payload.len() {
            self.current = Some(current);
        } else if !current.is_map {
            self.unacknowledged.push_back(current.message);
        }
        Some(frame)
    }

    fn begin(&mut self, map: &CongestionMap) -> Option<Current> {
        if std::mem::take(&mut self.is_map_due) {
            let content = Outgoing {
                source_port: 0,
                destination_port: 0,
                payload: map.as_bytes().to_vec(),
                owner: None,
                is_urgent: false,
            };
            let message = Message { sequence: 0, flags: Flags::CONGESTION_MAP, content };
            return Some(Current { message, sent: 0, is_map: true });
        }
        let mut message = self.waiting.pop_front()?;
        if self.until_ack == 0 || message.content.is_urgent {
            message.flags = message.flags.with(Flags::ACK_REQUIRED);
            self.until_ack = UNACKED_MESSAGES_MAX;
        }
        self.until_ack -= 1;
        Some(Current { message, sent: 0, is_map: false })
    }

    /// Forgets the messages that the peer has: those that were sent, up to a sequence number.
    pub fn acknowledge(&mut self, sequence: u64, mut forget: impl FnMut(&Outgoing)) {
        while let Some(message) = pop_if(&mut self.unacknowledged, |message| message.sequence <= sequence) {
            forget(&message.content);
        }
        // After a reconnect the peer may have messages that are not sent again yet.
        if self.unacknowledged.is_empty() && self.current.is_none() {
            let has = |message: &Message| message.flags.contains(Flags::RETRANSMITTED) && message.sequence <= sequence;
            while let Some(message) = pop_if(&mut self.waiting, has) {
                forget(&message.content);
            }
        }
    }

    /// Forgets messages that are not being sent right now.
    pub fn cancel(&mut self, is_meant: &impl Fn(&Outgoing) -> bool, forget: &mut impl FnMut(&Outgoing)) {
        for queue in [&mut self.waiting, &mut self.unacknowledged] {
            queue.retain(|message| {
                let is_kept = !is_meant(&message.content);
                if !is_kept {
                    forget(&message.content);
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

/// Takes the first message if it is meant.
fn pop_if(queue: &mut VecDeque<Message>, is_meant: impl Fn(&Message) -> bool) -> Option<Message> {
    if queue.front().is_some_and(is_meant) { queue.pop_front() } else { None }
}
