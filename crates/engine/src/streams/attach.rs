//! Attachment of a negotiated connection to its queue pair.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use weft_ipc::StreamGrant;
use weft_link::stream::{StreamBuffers, StreamSocket};
use weft_sys::epoll::{Epoll, Interest};
use weft_sys::fork;
use weft_transport::peers::PeerId;
use weft_verbs::{Instant, QpId, Qpn, VerbsError, slot_of_qpn};

use super::send::SEGMENT_INTERVAL;
use super::{Entry, Lingering, Parts, Stream, Streams};
use crate::adapter::Adapter;
use crate::pump::Pump;

/// The way to the peer of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// The stream.
    Stream,
    /// The ring to a process of this host, with the number of the peer's queue pair.
    Ring(PeerId, Qpn),
    /// A process of this host that this one could not meet.
    Unmet,
}

impl Pump {
    /// Gives a queue pair the connection that was negotiated for it: it enters RTS. If it is gone or cannot take it, the
    /// connection is closed, and [`Streams::take_ended`] reports that.
    pub fn open_stream(&mut self, now: Instant, grant: &StreamGrant, socket: OwnedFd) {
        let Pump { hca, streams, .. } = self;
        let end = match grant.peer_qp {
            None => End::Stream,
            Some(qpn) => {
                let met = hca.peers().host().and_then(|host| host.number_of_slot(slot_of_qpn(qpn)));
                met.map_or(End::Unmet, |peer| End::Ring(peer, qpn))
            }
        };
        let closed = |why: &str| {
            crate::log::note(&format!("the connection of queue pair {:#x} is closed: {why}", grant.qp_num));
        };
        match streams.open(hca, now, grant, end, socket) {
            Err(why) => {
                closed(&why);
                streams.ended.push(grant.qp_num);
            }
            // The peer's process sends nothing to the stream.
            Ok(id) if end == End::Unmet => {
                closed("the peer's process is on this host, and could not be met");
                let _ = hca.stream_closed(now, id, true);
            }
            Ok(_) => {}
        }
    }

    /// Closes the stream of a queue pair, because its connection manager does.
    pub fn close_stream(&mut self, now: Instant, qpn: Qpn) {
        if let Some(id) = self.hca.qp_by_number(qpn).filter(|id| self.streams.by_qp.contains_key(id)) {
            let _ = self.hca.close_stream(now, id);
        }
    }
}

impl Streams {
    fn open(
        &mut self,
        hca: &mut Adapter,
        now: Instant,
        grant: &StreamGrant,
        end: End,
        socket: OwnedFd,
    ) -> Result<QpId, String> {
        let id = hca.qp_by_number(grant.qp_num).ok_or("the queue pair is gone")?;
        self.detach(id, now);
        let socket = StreamSocket::new(socket).map_err(|error| error.to_string())?;
        let segment = socket.segment();
        let stream = Stream {
            socket,
            qp: id,
            qpn: grant.qp_num,
            blocked: false,
            paused: false,
            watched: true,
            ended: false,
            shut_down: None,
            segment_at: (!grant.params.extensions).then(|| now + SEGMENT_INTERVAL),
            lifeline: matches!(end, End::Ring(..)),
        };
        self.add(stream).map_err(|error| error.to_string())?;
        let attached = match end {
            End::Ring(peer, qpn) => hca.attach_ring(now, id, &grant.params, (peer, qpn)),
            End::Stream | End::Unmet => hca.attach_stream(now, id, &grant.params),
        };
        let followed = attached.and_then(|()| match segment {
            Some(bytes) => hca.set_stream_segment(id, bytes),
            None => Ok(()),
        });
        followed.map(|()| id).map_err(|error: VerbsError| {
            self.drop_stream(id);
            error.to_string()
        })
    }

    /// Adds a stream to the table and the set.
    fn add(&mut self, stream: Stream) -> io::Result<()> {
        let at = self.table.iter().position(|entry| matches!(entry, Entry::Free)).unwrap_or(self.table.len());
        let parts = match &mut self.parts {
            Some(parts) => parts,
            none => none.insert(Parts::new()?),
        };
        parts.set.add(&stream.socket, at as u64, Interest::READ)?;
        self.by_qp.insert(stream.qp, at);
        self.lifelines += usize::from(stream.lifeline);
        match self.table.get_mut(at) {
            Some(entry) => *entry = Entry::Stream(stream),
            None => self.table.push(Entry::Stream(stream)),
        }
        Ok(())
    }

    /// Closes the socket of a queue pair that did not take it.
    fn drop_stream(&mut self, id: QpId) {
        if let Some(at) = self.by_qp.remove(&id) {
            self.watch_again();
            self.lifelines -= usize::from(self.stream(at).is_some_and(|stream| stream.lifeline));
            self.close(at);
        }
    }

    /// Closes the socket at a place. The daemon may hold a duplicate for a while, so the set must forget it.
    pub(super) fn close(&mut self, at: usize) {
        let entry = std::mem::replace(&mut self.table[at], Entry::Free);
        let (Entry::Stream(Stream { socket, .. }) | Entry::Lingering(Lingering { socket, .. })) = &entry else {
            return;
        };
        if let Some(parts) = &self.parts {
            let _ = parts.set.delete(socket);
        }
    }
}

impl Parts {
    fn new() -> io::Result<Parts> {
        let set = Epoll::new()?;
        fork::track(set.as_fd());
        Ok(Parts { set, ready: Vec::new(), buffers: StreamBuffers::default() })
    }
}
