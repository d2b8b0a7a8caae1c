//! Incoming transfers of a port.

use weft_verbs::Instant;
use weft_wire::mad::Mad;

use super::peer::Peer;
use crate::AgentId;
use crate::rmpp::Receiver;

/// Transfer that a port receives for an agent.
#[derive(Debug)]
pub(super) struct Incoming<P> {
    pub number: u32,
    pub agent: AgentId,
    pub peer: P,
    /// Its first datagram, whose header the acknowledgements copy.
    pub first: Mad,
    pub receiver: Receiver,
    pub deadline: Instant,
}

impl<P: Peer> Incoming<P> {
    pub fn is_of(&self, agent: AgentId, mad: &Mad, peer: &P) -> bool {
        let (ours, theirs) = (&self.first.header, &mad.header);
        self.agent == agent
            && (ours.tid(), ours.class(), ours.method()) == (theirs.tid(), theirs.class(), theirs.method())
            && self.peer.same_end(peer)
    }
}
