//! Connected mode of an interface (RFC 4755): unicast packets to neighbours that accept connections go over one; ARP,
//! groups and other neighbours have datagrams.

use weft_verbs::Instant;
use weft_wire::ipoib::{CONNECTED_MTU_MAX, ConnectedData, HEADER_LEN, LinkAddress, Protocol};

use super::mode::Mode;
use super::{Interface, Sender};
use crate::connections::Found;
use crate::frame::Frame;
use crate::output::Output;
use crate::paths::Lookup;
use crate::too_long;

/// A peer's request for a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectionRequest {
    /// Number that the driver gives the connection.
    pub number: u32,
    /// GID of the peer's port.
    pub gid: [u8; 16],
    /// Private data.
    pub data: ConnectedData,
}

/// Reason to reject a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rejection {
    /// The interface is down, or in datagram mode.
    NoService,
    /// There is no room for another connection.
    NoRoom,
    /// The private data is invalid.
    Invalid,
}

/// Length of a queue pair number.
const QPN_BITS: u32 = 24;

impl Interface {
    /// Returns the mode.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Changes the mode, and with it the MTU. Connections end with connected mode.
    pub fn set_mode(&mut self, mode: Mode, out: &mut Vec<Output>) {
        if std::mem::replace(&mut self.mode, mode) == mode {
            return;
        }
        self.connections.reset(out);
        if let Some(mtu) = self.mtu() {
            out.push(Output::Up { mtu });
        }
    }

    /// Returns the largest IP packet, while the interface is up.
    pub fn mtu(&self) -> Option<u32> {
        self.up.then_some(match self.mode {
            Mode::Datagram => self.datagram_mtu,
            Mode::Connected => CONNECTED_MTU_MAX,
        })
    }

    /// Returns whether a frame fits into a datagram, or into one for each segment.
    pub(super) fn fits_datagram(&self, frame: &Frame) -> bool {
        frame.len_max() <= self.datagram_mtu as usize + HEADER_LEN
    }

    /// Returns the private data of this interface's requests and replies.
    fn connected_data(&self) -> Option<ConnectedData> {
        Some(ConnectedData { qpn: self.port?.qpn, mtu: CONNECTED_MTU_MAX + HEADER_LEN as u32 })
    }

    /// Sends a packet of the kernel to a neighbour, over a connection if both ends accept one.
    pub(super) fn send_packet(&mut self, now: Instant, to: &LinkAddress, frame: Frame, out: &mut Vec<Output>) {
        if self.mode == Mode::Datagram || to.flags & LinkAddress::RC == 0 {
            return self.send_datagram(now, to, frame, out);
        }
        match self.connections.find(now, to, out) {
            Found::Connected { connection, frame_max } => send_message(connection, frame_max, frame, out),
            Found::Refused => self.send_datagram(now, to, frame, out),
            Found::Pending => self.connections.hold(to, frame),
            Found::Unresolved => {
                self.connections.hold(to, frame);
                match self.paths.find(now, &to.gid, out) {
                    Lookup::Known(record) => self.connect(&record, out),
                    Lookup::Asked => {}
                    Lookup::None => self.connections.on_no_path(&to.gid),
                }
            }
        }
    }

    /// Sends a packet of the kernel as a datagram, or answers that it is too long for one.
    fn send_datagram(&mut self, now: Instant, to: &LinkAddress, frame: Frame, out: &mut Vec<Output>) {
        if self.fits_datagram(&frame) {
            self.send_to(now, to, frame, out);
        } else {
            refuse_too_long(frame, self.datagram_mtu, out);
        }
    }

    /// Requests the connections that wait for this path.
    pub(super) fn connect(&mut self, record: &weft_wire::mad::sa::PathRecord, out: &mut Vec<Output>) {
        if let Some(data) = self.connected_data() {
            self.connections.on_path(record, data, out);
        }
    }

    /// Asks for the paths of all connections again: their ports may have other LIDs by now.
    pub(super) fn resolve_connections(&mut self, now: Instant, out: &mut Vec<Output>) {
        let peers: Vec<_> = self.connections.peers().collect();
        for gid in peers {
            let _ = self.paths.find(now, &gid, out);
        }
    }

    /// Handles the peer's acceptance of an [`Output::Connect`]: packets that waited leave. Returns `false` if its private
    /// data is invalid, and the connection must be rejected.
    pub fn handle_connected(&mut self, connection: u32, data: Option<ConnectedData>, out: &mut Vec<Output>) -> bool {
        let Some(data) = data.filter(|data| data.mtu > HEADER_LEN as u32) else { return false };
        let Some((_, frames)) = self.connections.on_connected(connection, data.mtu) else { return false };
        frames.into_iter().for_each(|frame| send_message(connection, data.mtu, frame, out));
        true
    }

    /// Handles a refused or unanswered [`Output::Connect`]: packets that waited leave as datagrams, as do others for a
    /// while.
    pub fn handle_refused(&mut self, now: Instant, connection: u32, out: &mut Vec<Output>) {
        if let Some((to, frames)) = self.connections.on_refused(now, connection) {
            frames.into_iter().for_each(|frame| self.send_datagram(now, &to, frame, out));
        }
    }

    /// Handles the end of a connection for sending. The next packet asks for the path again and opens another.
    pub fn handle_disconnected(&mut self, connection: u32) {
        if let Some(gid) = self.connections.on_outgoing_end(connection) {
            self.paths.forget(&gid);
        }
    }

    /// Handles a peer's request. Returns the private data of the reply.
    pub fn handle_request(
        &mut self,
        now: Instant,
        request: &ConnectionRequest,
        out: &mut Vec<Output>,
    ) -> Result<ConnectedData, Rejection> {
        let data = self.connected_data().filter(|_| self.up && self.mode == Mode::Connected);
        let data = data.ok_or(Rejection::NoService)?;
        if request.data.qpn >> QPN_BITS != 0 {
            return Err(Rejection::Invalid);
        }
        let peer = (request.gid, request.data.qpn);
        if self.connections.accept(now, request.number, peer, out) { Ok(data) } else { Err(Rejection::NoRoom) }
    }

    /// Handles a message that arrived over a connection.
    pub fn handle_message(&mut self, now: Instant, number: u32, message: Frame, out: &mut Vec<Output>) {
        let Some(qpn) = self.connections.on_message(now, number) else { return };
        self.handle_frame(now, Sender { qpn }, message, out);
    }

    /// Handles the end of a connection for receiving.
    pub fn handle_incoming_end(&mut self, number: u32) {
        self.connections.on_incoming_end(number);
    }

    /// Returns the numbers of established connections, for sending and for receiving.
    pub fn connections(&self) -> (usize, usize) {
        self.connections.count()
    }
}

/// Sends a frame over a connection, or answers that it is too long for the peer.
fn send_message(connection: u32, frame_max: u32, frame: Frame, out: &mut Vec<Output>) {
    if frame.len_max() <= frame_max as usize {
        out.push(Output::SendMessage { connection, frame });
    } else {
        refuse_too_long(frame, frame_max - HEADER_LEN as u32, out);
    }
}

/// Hands the kernel the answer to a packet that is too long for its way.
fn refuse_too_long(frame: Frame, mtu: u32, out: &mut Vec<Output>) {
    let answer = |packet: &[u8]| {
        let answer = too_long::answer(packet, mtu)?;
        Some(Frame::new(Protocol::of_ip(&answer)?, &answer))
    };
    // The first segment is a packet as the sender's kernel means it.
    out.extend(frame.into_plain().next().and_then(|first| answer(first.packet())).map(Output::Deliver));
}
