//! Negotiation of a connection (RFC 5044 §7, RFC 6581): one request, one reply, and the agreement that follows. The
//! owner of the socket feeds what it receives, sends what [`Negotiation::transmit`] returns, and acts on the events.

mod agree;
mod offer;
mod state;

use weft_verbs::Instant;
use weft_wire::iwarp::{
    Enhanced, FRAME_HEADER_LEN, FRAME_LEN_MAX, FrameKind, MpaFlags, NegotiationFrame, PRIVATE_DATA_MAX, TermError,
};

use crate::StreamParams;
use crate::limits::{REPLY_TIMEOUT, REQUEST_TIMEOUT, REVISION_MAX};
use offer::PeerFrame;
pub use offer::{NegotiationError, Offer};
use state::{Action, Input};
pub use state::{Role, State};

/// Progress of a negotiation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NegotiationEvent {
    /// A request came: [`Negotiation::accept`] or [`Negotiation::reject`] it. [`Negotiation::private_data`] is the peer's.
    Requested {
        /// READs that the peer answers at a time; `None` with revision 1, or if the programs agree on depths.
        ird: Option<u16>,
        /// READs that the peer wants outstanding.
        ord: Option<u16>,
    },
    /// The stream is open as soon as the rest of [`Negotiation::transmit`] is sent; bytes that
    /// [`Negotiation::handle_bytes`] did not take belong to it.
    Opened(StreamParams),
    /// The peer rejected the connection, perhaps with private data.
    Rejected,
    /// The negotiation failed. Close the connection when [`Negotiation::transmit`] is sent.
    Failed(NegotiationError),
}

/// One side's negotiation.
#[derive(Debug)]
pub struct Negotiation {
    role: Role,
    state: State,
    offer: Offer,
    deadline: Option<Instant>,
    /// Bytes of a frame that is incomplete.
    received: Vec<u8>,
    /// Bytes to send, from `sent` on.
    out: Vec<u8>,
    sent: usize,
    /// Flags, revision and depths of the peer's frame.
    peer: PeerFrame,
    private_data: Vec<u8>,
    event: Option<NegotiationEvent>,
}

impl Negotiation {
    /// Begins as the initiator, on a TCP connection that is established: a request is ready to be sent.
    pub fn initiator(now: Instant, offer: Offer, private_data: &[u8]) -> Result<Negotiation, NegotiationError> {
        let mut side = Negotiation::new(Role::Initiator, offer, now + REPLY_TIMEOUT);
        let mut flags = agree::wishes(&offer);
        flags.set(MpaFlags::OFFERS_EXTENSIONS, offer.extensions);
        let enhanced = (offer.revision >= 2).then(|| agree::request(&offer));
        side.write(FrameKind::Request, flags, offer.revision, enhanced, private_data)?;
        Ok(side)
    }

    /// Begins as the responder, on a TCP connection that was accepted.
    pub fn responder(now: Instant, offer: Offer) -> Negotiation {
        Negotiation::new(Role::Responder, offer, now + REQUEST_TIMEOUT)
    }

    fn new(role: Role, offer: Offer, deadline: Instant) -> Negotiation {
        Negotiation {
            role,
            state: state::first(role),
            offer,
            deadline: Some(deadline),
            received: Vec::new(),
            out: Vec::new(),
            sent: 0,
            peer: PeerFrame::default(),
            private_data: Vec::new(),
            event: None,
        }
    }

    /// Returns the role.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Returns the state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Returns the private data of the peer's frame.
    pub fn private_data(&self) -> &[u8] {
        &self.private_data
    }

    /// Returns the bytes to send.
    pub fn transmit(&self) -> &[u8] {
        &self.out[self.sent..]
    }

    /// Notes that the first `len` of them were sent.
    pub fn sent(&mut self, len: usize) {
        self.sent = (self.sent + len).min(self.out.len());
    }

    /// Takes the next event.
    pub fn poll_event(&mut self) -> Option<NegotiationEvent> {
        self.event.take()
    }

    /// Returns when [`Negotiation::handle_timeout`] must be called.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.deadline
    }

    /// Handles the deadline.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.step(Input::Timeout, NegotiationError::Timeout);
        }
    }

    /// Handles the end of the peer's stream, or its reset.
    pub fn handle_close(&mut self) {
        let is_unanswered = self.state == State::AwaitReply && self.received.is_empty() && self.offer.revision >= 2;
        let error = if is_unanswered { NegotiationError::ClosedWithoutReply } else { NegotiationError::Closed };
        self.step(Input::PeerClosed, error);
    }

    /// Returns how many bytes of the frame that it reads are missing, as far as it knows: an owner that reads no more leaves
    /// the stream's bytes in the socket. One while a byte would be an error, zero when the negotiation is over.
    pub fn wants(&self) -> usize {
        match (self.state, self.received.first_chunk::<FRAME_HEADER_LEN>()) {
            (State::Open | State::Ended, _) => 0,
            (State::AwaitAnswer, _) => 1,
            (_, None) => FRAME_HEADER_LEN - self.received.len(),
            (_, Some([.., high, low])) => {
                let len = FRAME_HEADER_LEN + usize::from(u16::from_be_bytes([*high, *low]));
                len.min(FRAME_LEN_MAX).saturating_sub(self.received.len()).max(1)
            }
        }
    }

    /// Handles received bytes. Returns how many it took: those after the reply belong to the stream.
    pub fn handle_bytes(&mut self, _now: Instant, bytes: &[u8]) -> usize {
        if bytes.is_empty() || matches!(self.state, State::Open | State::Ended) {
            return 0;
        }
        if self.state == State::AwaitAnswer {
            // The initiator must wait for the reply (RFC 5044 §7.1.2).
            self.step(Input::BadFrame, NegotiationError::NotMpa);
            return bytes.len();
        }
        let before = self.received.len();
        let room = FRAME_LEN_MAX - before;
        self.received.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        let received = std::mem::take(&mut self.received);
        match NegotiationFrame::parse(&received) {
            Ok(Some((frame, len))) => {
                self.handle_frame(&frame);
                len - before
            }
            Ok(None) => {
                self.received = received;
                self.received.len() - before
            }
            Err(_) => {
                self.bad_frame();
                bytes.len()
            }
        }
    }

    /// Ends with a TERMINATE if the peer is a responder that answered wrongly (as siw); it may be no peer of MPA at all.
    fn bad_frame(&mut self) {
        if self.role == Role::Initiator && self.state == State::AwaitReply {
            self.terminate(TermError::MPA_FRAME);
        }
        self.step(Input::BadFrame, NegotiationError::NotMpa);
    }

    fn handle_frame(&mut self, frame: &NegotiationFrame<'_>) {
        let expected = if self.role == Role::Initiator { FrameKind::Reply } else { FrameKind::Request };
        if frame.kind != expected || frame.revision > REVISION_MAX {
            return self.bad_frame();
        }
        self.peer = PeerFrame { flags: frame.flags, revision: frame.revision, enhanced: frame.enhanced };
        self.private_data = frame.private_data.to_vec();
        match self.role {
            Role::Responder => self.step(Input::Request, NegotiationError::State),
            Role::Initiator if frame.flags.contains(MpaFlags::REJECT) => {
                self.step(Input::RejectReply, NegotiationError::State);
            }
            Role::Initiator => self.handle_reply(),
        }
    }

    fn handle_reply(&mut self) {
        match agree::as_initiator(&self.offer, &self.peer) {
            Ok(params) => {
                self.step(Input::Reply, NegotiationError::State);
                self.event = Some(NegotiationEvent::Opened(params));
            }
            Err((error, term)) => {
                if let Some(term) = term {
                    self.terminate(term);
                }
                self.step(Input::BadFrame, error);
            }
        }
    }

    /// Accepts the request with these depths; the agreement may lower `ord` and raise `ird` (as siw).
    pub fn accept(&mut self, _now: Instant, ird: u16, ord: u16, private_data: &[u8]) -> Result<(), NegotiationError> {
        if self.state != State::AwaitAnswer {
            return Err(NegotiationError::State);
        }
        let offer = Offer { ird, ord, ..self.offer };
        let (params, reply) = agree::as_responder(&offer, &self.peer);
        let mut flags = agree::wishes(&offer);
        flags.set(MpaFlags::CRC, params.crc);
        flags.set(MpaFlags::TAKES_EXTENSIONS, params.extensions);
        self.write(FrameKind::Reply, flags, self.peer.revision, reply, private_data)?;
        self.step(Input::Accept, NegotiationError::State);
        self.event = Some(NegotiationEvent::Opened(params));
        Ok(())
    }

    /// Rejects the request.
    pub fn reject(&mut self, private_data: &[u8]) -> Result<(), NegotiationError> {
        if self.state != State::AwaitAnswer {
            return Err(NegotiationError::State);
        }
        let enhanced = self.peer.enhanced.map(|_| Enhanced::default());
        let flags = self.peer.flags & MpaFlags::CRC | MpaFlags::REJECT;
        self.write(FrameKind::Reply, flags, self.peer.revision, enhanced, private_data)?;
        self.step(Input::Reject, NegotiationError::State);
        Ok(())
    }

    fn write(
        &mut self,
        kind: FrameKind,
        flags: MpaFlags,
        revision: u8,
        enhanced: Option<Enhanced>,
        private_data: &[u8],
    ) -> Result<(), NegotiationError> {
        let frame = NegotiationFrame { kind, flags, revision, enhanced, private_data };
        if private_data.len() > frame.private_max() {
            return Err(NegotiationError::PrivateData);
        }
        debug_assert!(frame.private_max() <= PRIVATE_DATA_MAX);
        frame.write(&mut self.out);
        Ok(())
    }

    fn terminate(&mut self, error: TermError) {
        agree::terminate(error, &self.offer, &self.peer, &mut self.out);
    }

    /// Moves along the table. `error` is what a failure reports.
    fn step(&mut self, input: Input, error: NegotiationError) {
        let Some((next, action)) = state::next(self.state, input) else { return };
        self.state = next;
        self.deadline = None;
        self.event = match action {
            Action::None => None,
            Action::Ask => {
                let depths = self.peer.enhanced;
                let depth = |of: fn(Enhanced) -> u16| depths.and_then(|depths| agree::known(of(depths)));
                Some(NegotiationEvent::Requested { ird: depth(|d| d.ird), ord: depth(|d| d.ord) })
            }
            Action::ReportReject => Some(NegotiationEvent::Rejected),
            Action::Fail => Some(NegotiationEvent::Failed(error)),
        };
    }
}

#[cfg(test)]
mod tests;
