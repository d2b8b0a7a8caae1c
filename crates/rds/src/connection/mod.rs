//! Connection between two addresses: all datagrams between their ports, in order and exactly once. The queue pairs under it
//! may break and be made again; what the peer has not acknowledged is sent again then, and the peer drops what it has.

mod breach;
mod delivery;
mod outgoing;
#[cfg(test)]
mod rdma_tests;
mod receiver;
mod send_queue;
mod state;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

pub use breach::Breach;
pub use delivery::Delivery;
pub use outgoing::{Outgoing, QueuedMessage};
pub use state::{ConnectionInput, ConnectionState};

use crate::rdma::{Notification, OperationId, RdmaOperation, RdmaStatus};
use crate::wire::{CongestionMap, Header};
use receiver::{Received, Receiver};
use send_queue::{Outcome, SendQueue, give_up};

/// Sequence numbers of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SequenceNumbers {
    /// Of the next message that is queued.
    pub next_sent: u64,
    /// Of the next message that is expected.
    pub next_received: u64,
}

/// Event of a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ConnectionEvent {
    /// A message of the peer.
    Received(Delivery),
    /// The peer has a message of this owner, or it was cancelled; as many bytes of the owner's send buffer are free again.
    Released {
        /// Owner of the message.
        owner: u64,
        /// Bytes in the send buffer.
        bytes: usize,
    },
    /// The queue pair no longer uses the memory of an operation. That of a failed one is used until the queue pair ends.
    OperationOver {
        /// Owner of the message.
        owner: Option<u64>,
        /// The operation.
        operation: RdmaOperation,
    },
    /// Result of an operation, for its owner.
    Notification {
        /// Owner of the message.
        owner: u64,
        /// The result.
        notification: Notification,
    },
}

/// Returns what queues the events of messages and operations.
fn report(events: &mut VecDeque<ConnectionEvent>) -> impl FnMut(Outcome<'_>) + '_ {
    move |outcome| {
        events.extend(match outcome {
            Outcome::Gone(message) => {
                message.owner.map(|owner| ConnectionEvent::Released { owner, bytes: message.buffer_bytes() })
            }
            Outcome::OperationOver(message, operation) => {
                Some(ConnectionEvent::OperationOver { owner: message.owner, operation })
            }
            Outcome::Notify(message, operation, status) => message.owner.map(|owner| {
                let notification = Notification { token: operation.token, status };
                ConnectionEvent::Notification { owner, notification }
            }),
        });
    }
}

/// The connection.
#[derive(Debug)]
pub struct Connection {
    state: ConnectionState,
    sending: SendQueue,
    receiver: Receiver,
    /// Congested ports of the peer.
    peer_map: CongestionMap,
    /// Messages for congested ports, in their order.
    held: VecDeque<Outgoing>,
    events: VecDeque<ConnectionEvent>,
}

impl Connection {
    /// Creates a connection that is down. `first` is the sequence number of the first message: greater than those of an earlier
    /// process with this address, so that the peer takes none for a duplicate.
    pub fn new(first: u64) -> Connection {
        Connection {
            state: ConnectionState::Down,
            sending: SendQueue::new(first),
            receiver: Receiver::default(),
            peer_map: CongestionMap::default(),
            held: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// State.
    pub fn state(&self) -> ConnectionState {
        self.state
    }

    /// Sequence numbers.
    pub fn sequence_numbers(&self) -> SequenceNumbers {
        SequenceNumbers { next_sent: self.sending.next_sequence(), next_received: self.receiver.next_sequence() }
    }

    /// Acknowledgement for the private data of a request or reply.
    pub fn acknowledgement(&self) -> u64 {
        self.receiver.acknowledgement()
    }

    /// Whether messages wait for the peer, or for its acknowledgement.
    pub fn has_messages(&self) -> bool {
        !self.sending.is_empty() || !self.held.is_empty()
    }

    /// Changes the state. Returns whether the input has a meaning in the present state.
    pub fn handle(&mut self, input: ConnectionInput) -> bool {
        let Some(next) = self.state.next(input) else { return false };
        let is_other_queue_pair = matches!(
            input,
            ConnectionInput::Accepted | ConnectionInput::Lost | ConnectionInput::Ended | ConnectionInput::Elapsed
        );
        if is_other_queue_pair {
            self.sending.restart(report(&mut self.events));
            self.receiver.restart();
        }
        if next == ConnectionState::Up {
            self.sending.announce_congestion();
        }
        self.state = next;
        true
    }

    /// Queues a message.
    pub fn send(&mut self, message: Outgoing) {
        // All that is held is for ports that are congested now, so this message overtakes none.
        if self.peer_map.is_congested(message.destination_port) {
            self.held.push_back(message);
        } else {
            self.sending.push(message);
        }
    }

    /// Number of messages without an owner that wait.
    pub fn ownerless(&self) -> usize {
        self.sending.waiting().filter(|message| message.owner.is_none()).count()
    }

    /// Messages that wait to be sent, and those that wait for their acknowledgement.
    pub fn queued(&self) -> (impl Iterator<Item = QueuedMessage> + '_, impl Iterator<Item = QueuedMessage> + '_) {
        let held = self.held.iter().map(|message| message.describe(0));
        (self.sending.waiting().chain(held), self.sending.unacknowledged())
    }

    /// Forgets an owner's messages to a port that are not being sent right now.
    pub fn cancel(&mut self, owner: u64, port: u16) {
        self.cancel_if(|message, _| message.owner == Some(owner) && message.destination_port == port);
    }

    /// Forgets an owner's messages with operations that are not posted: the owner's memory is gone.
    pub fn cancel_operations(&mut self, owner: u64) {
        self.cancel_if(|message, is_completed| message.owner == Some(owner) && message.rdma.is_some() && !is_completed);
    }

    fn cancel_if(&mut self, is_meant: impl Fn(&Outgoing, bool) -> bool) {
        let mut on = report(&mut self.events);
        self.sending.cancel(&is_meant, &mut on);
        self.held.retain(|message| {
            let is_kept = !is_meant(message, false);
            if !is_kept {
                give_up(message, RdmaStatus::Canceled, true, &mut on);
            }
            is_kept
        });
    }

    /// Ports of this end have become congested, or no longer are.
    pub fn congestion_changed(&mut self) {
        self.sending.announce_congestion();
    }

    /// Returns the operation that the queue pair gets before the next frame. `map` is that of [`Connection::poll_frame`].
    pub fn poll_operation(&mut self, map: &CongestionMap) -> Option<RdmaOperation> {
        if self.state != ConnectionState::Up {
            return None;
        }
        self.sending.next_operation(map)
    }

    /// An operation has completed or failed. After a failure the owner ends the queue pair.
    pub fn operation_over(&mut self, id: OperationId, status: RdmaStatus) {
        self.sending.operation_over(id, status, report(&mut self.events));
    }

    /// Returns the next frame to send, unless [`Connection::poll_operation`] returns something first. `map` says which ports of
    /// this end are congested.
    pub fn poll_frame(&mut self, map: &CongestionMap) -> Option<Vec<u8>> {
        if self.state != ConnectionState::Up {
            return None;
        }
        let acknowledgement = self.receiver.acknowledgement();
        let frame = self.sending.next_frame(acknowledgement, map).or_else(|| {
            let header = Header { acknowledgement, ..Header::default() };
            self.receiver.is_ack_requested().then(|| header.to_bytes().to_vec())
        })?;
        self.receiver.acknowledged();
        Some(frame)
    }

    /// Whether the frame returned last was not the last of its message.
    pub fn is_mid_message(&self) -> bool {
        self.sending.is_mid_message()
    }

    /// Handles a frame.
    ///
    /// # Errors
    /// The peer breaches the protocol: the queue pair is of no use any more.
    pub fn handle_frame(&mut self, frame: &[u8]) -> Result<(), Breach> {
        let (header, data) = Header::parse(frame)?;
        self.handle_acknowledgement(header.acknowledgement);
        match self.receiver.handle(&header, data)? {
            Received::Nothing => {}
            Received::Map(map) => self.handle_map(map),
            Received::Message(delivery) => self.events.push_back(ConnectionEvent::Received(delivery)),
        }
        Ok(())
    }

    /// Handles an acknowledgement, of a frame or of private data.
    pub fn handle_acknowledgement(&mut self, acknowledgement: u64) {
        self.sending.acknowledge(acknowledgement, report(&mut self.events));
    }

    fn handle_map(&mut self, map: CongestionMap) {
        self.peer_map = map;
        for message in std::mem::take(&mut self.held) {
            self.send(message);
        }
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<ConnectionEvent> {
        self.events.pop_front()
    }
}
