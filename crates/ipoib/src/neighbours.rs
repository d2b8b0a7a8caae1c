//! Neighbours: the link-layer address of each IP address on the link (RFC 826, RFC 4861).
//!
//! ```text
//!              packet              reply               30 s            packet
//!   absent ─────────────▶ ASKED ─────────▶ CONFIRMED ───────▶ STALE ───────────▶ ASKED, with its old address
//!                           │ three requests without a reply
//!                           ▼
//!                         absent
//! ```

use std::collections::BTreeMap;
use std::net::IpAddr;

use weft_verbs::Instant;
use weft_wire::ipoib::LinkAddress;

use crate::frame::Frame;
use crate::held::Held;
use crate::limits::{ASK_EVERY, ASKS_MAX, NEIGHBOURS_MAX, REACHABLE};

#[derive(Clone, Debug)]
struct Neighbour {
    address: Option<LinkAddress>,
    /// Time of the last reply.
    confirmed: Instant,
    /// Time of the last packet to it.
    used: Instant,
    /// Requests since the last reply.
    asks: u8,
    /// Time of the next request, if one is under way.
    ask_at: Option<Instant>,
    held: Held,
}

/// State of a neighbour (RFC 4861 §7.3.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NeighbourState {
    /// Confirmed within [`REACHABLE`].
    Reachable,
    /// Confirmed before that.
    Stale,
    /// A request for its known address is under way.
    Probe,
    /// Its address is not known yet.
    Incomplete,
}

/// Action for a packet to a neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    /// Its address, if that is known; otherwise the packet waits.
    pub address: Option<LinkAddress>,
    /// A request must be sent now.
    pub ask: bool,
}

/// The neighbours of an interface.
#[derive(Clone, Debug, Default)]
pub(crate) struct Neighbours {
    of: BTreeMap<IpAddr, Neighbour>,
}

impl Neighbours {
    /// Looks up the neighbour of a packet, for its transmission.
    pub fn find(&mut self, now: Instant, ip: IpAddr) -> Found {
        self.make_room(ip);
        let fresh = || Neighbour {
            address: None,
            confirmed: Instant::default(),
            used: now,
            asks: 0,
            ask_at: None,
            held: Held::default(),
        };
        let neighbour = self.of.entry(ip).or_insert_with(fresh);
        neighbour.used = now;
        let old = neighbour.address.is_none() || now.since(neighbour.confirmed) > REACHABLE;
        let ask = old && neighbour.ask_at.is_none();
        if ask {
            (neighbour.asks, neighbour.ask_at) = (1, Some(now + ASK_EVERY));
        }
        Found { address: neighbour.address, ask }
    }

    /// Keeps a frame until its neighbour's address is known.
    pub fn hold(&mut self, ip: IpAddr, frame: Frame) {
        if let Some(neighbour) = self.of.get_mut(&ip) {
            neighbour.held.push(frame);
        }
    }

    /// Learns an address from a request or reply. `create`: even of an unknown neighbour, because it asked for this
    /// interface. Returns the frames that waited.
    pub fn learn(&mut self, now: Instant, ip: IpAddr, address: LinkAddress, create: bool) -> Vec<Frame> {
        if !create && !self.of.contains_key(&ip) {
            return Vec::new();
        }
        self.make_room(ip);
        let neighbour = self.of.entry(ip).or_insert_with(|| Neighbour {
            address: None,
            confirmed: now,
            used: now,
            asks: 0,
            ask_at: None,
            held: Held::default(),
        });
        (neighbour.address, neighbour.confirmed) = (Some(address), now);
        (neighbour.asks, neighbour.ask_at) = (0, None);
        neighbour.held.take().into()
    }

    /// Makes room for one more neighbour: the one that was used least recently goes.
    fn make_room(&mut self, ip: IpAddr) {
        if self.of.len() >= NEIGHBOURS_MAX
            && !self.of.contains_key(&ip)
            && let Some(oldest) = self.of.iter().min_by_key(|(_, neighbour)| neighbour.used).map(|(ip, _)| *ip)
        {
            self.of.remove(&oldest);
        }
    }

    /// Returns when [`Neighbours::handle_timeout`] must be called.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.of.values().filter_map(|neighbour| neighbour.ask_at).min()
    }

    /// Repeats requests: returns the neighbours to ask again, with their last address, and forgets those that did not
    /// answer, whose address it returns.
    pub fn handle_timeout(&mut self, now: Instant) -> (Vec<IpAddr>, Vec<LinkAddress>) {
        let (mut again, mut lost) = (Vec::new(), Vec::new());
        self.of.retain(|ip, neighbour| {
            if neighbour.ask_at.is_none_or(|at| at > now) {
                return true;
            }
            if neighbour.asks >= ASKS_MAX {
                lost.extend(neighbour.address);
                return false;
            }
            neighbour.asks += 1;
            neighbour.ask_at = Some(now + ASK_EVERY);
            again.push(*ip);
            true
        });
        (again, lost)
    }

    /// Returns each neighbour with its address and state, for tools.
    pub fn states(&self, now: Instant) -> impl Iterator<Item = (IpAddr, Option<LinkAddress>, NeighbourState)> {
        self.of.iter().map(move |(ip, neighbour)| {
            let state = match (neighbour.address, neighbour.ask_at) {
                (None, _) => NeighbourState::Incomplete,
                (Some(_), Some(_)) => NeighbourState::Probe,
                _ if now.since(neighbour.confirmed) > REACHABLE => NeighbourState::Stale,
                _ => NeighbourState::Reachable,
            };
            (*ip, neighbour.address, state)
        })
    }

    /// Returns the known neighbours, for tools.
    pub fn iter(&self) -> impl Iterator<Item = (IpAddr, LinkAddress)> {
        self.of.iter().filter_map(|(ip, neighbour)| Some((*ip, neighbour.address?)))
    }

    /// Forgets every neighbour.
    pub fn reset(&mut self) {
        self.of.clear();
    }
}
