//! Connections both of whose ends have one manager.

use std::net::SocketAddr;

use weft_verbs::{Duration, Errno, Instant};

use super::limits::{FIRST_PAUSE, LISTENER_GRACE};
use super::{Cm, ConnId, ConnectParams, Event, MpaOptions, Phase, SocketRequest};

const NOW: Instant = Instant(1_000_000);
const INITIATOR_QP: u32 = 0x4001;
const RESPONDER_QP: u32 = 0x8002;

fn addr(port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], port))
}

fn params(qp_num: u32) -> ConnectParams {
    ConnectParams { qp_num, ird: 4, ord: 4, private_data: Vec::new() }
}

/// Both ends, with the numbers of the queue pairs whose sockets were handed over.
struct Ends {
    cm: Cm,
    initiator: ConnId,
    responder: ConnId,
    handed: Vec<u32>,
}

impl Ends {
    /// Connects until the responder's program has the request. The responder sees the initiator at `seen`.
    fn requested(seen: SocketAddr) -> Ends {
        let mut cm = Cm::default();
        let options = MpaOptions::default();
        let initiator = cm.connect(NOW, addr(0), addr(7174), &options, params(INITIATOR_QP)).unwrap();
        assert!(matches!(cm.poll_request(), Some(SocketRequest::Connect { .. })));
        cm.handle_connected(NOW, initiator, addr(40_000));
        let responder = cm.handle_accepted(NOW, addr(7174), seen, &options).unwrap();
        let mut ends = Ends { cm, initiator, responder, handed: Vec::new() };
        ends.carry();
        assert!(matches!(ends.cm.poll_event(), Some((conn, Event::Requested { .. })) if conn == responder));
        ends
    }

    /// Carries bytes from end to end.
    fn carry(&mut self) {
        while let Some(request) = self.cm.poll_request() {
            match request {
                SocketRequest::Send { conn, bytes } => {
                    let to = if conn == self.initiator { self.responder } else { self.initiator };
                    let mut rest = &bytes[..];
                    while !rest.is_empty() {
                        let (now, later) = rest.split_at(self.cm.wants(to).min(rest.len()));
                        assert!(!now.is_empty(), "bytes behind the frame");
                        self.cm.handle_bytes(NOW, to, now);
                        rest = later;
                    }
                }
                SocketRequest::HandOver { qp_num, .. } => self.handed.push(qp_num),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn the_responder_finds_its_twin_and_decides_for_both() {
    let mut ends = Ends::requested(addr(40_000));
    assert_eq!(ends.cm.twin(ends.initiator), None, "the initiator does not decide");
    assert_eq!(ends.cm.twin(ends.responder), Some((ends.initiator, INITIATOR_QP)));
    ends.cm.accept(NOW, ends.responder, &params(RESPONDER_QP)).unwrap();
    assert_eq!(ends.cm.twin(ends.responder), Some((ends.initiator, INITIATOR_QP)), "until the reply comes");
    ends.cm.pair(ends.responder, ends.initiator);
    assert_eq!(ends.cm.peer_qp(ends.responder), Some(INITIATOR_QP));
    assert_eq!(ends.cm.peer_qp(ends.initiator), Some(RESPONDER_QP));
    ends.carry();
    assert_eq!(ends.handed, [RESPONDER_QP, INITIATOR_QP], "the responder's socket is handed over first");
    assert_eq!(ends.cm.twin(ends.responder), None);
    assert_eq!(ends.cm.peer_qp(ends.initiator), Some(RESPONDER_QP));
}

#[test]
fn translated_addresses_and_ended_connections_have_no_twin() {
    let ends = Ends::requested(addr(50_000));
    assert_eq!(ends.cm.twin(ends.responder), None);
    let mut ends = Ends::requested(addr(40_000));
    ends.cm.destroy(ends.initiator);
    assert_eq!(ends.cm.twin(ends.responder), None);
    ends.cm.pair(ends.responder, ends.initiator);
    assert_eq!(ends.cm.peer_qp(ends.responder), None);
}

#[test]
fn a_peer_of_revision_1_that_listens_late_again_is_asked_again() {
    const REFUSED: Option<Errno> = Some(111);
    let mut cm = Cm::default();
    let conn = cm.connect(NOW, addr(0), addr(7174), &MpaOptions::default(), params(INITIATOR_QP)).unwrap();
    cm.handle_connected(NOW, conn, addr(40_000));
    // It closes the connection that asks for revision 2, when the time for its listener is over.
    let later = NOW + LISTENER_GRACE + Duration::from_millis(1);
    cm.handle_closed(later, conn, None);
    assert_eq!(cm.phase(conn), Some(Phase::Connecting), "it is asked for revision 1");
    cm.handle_closed(later, conn, REFUSED);
    assert_eq!(cm.phase(conn), Some(Phase::Refused));
    assert_eq!(cm.poll_timeout(), Some(later + FIRST_PAUSE));
    cm.handle_timeout(later + FIRST_PAUSE);
    cm.handle_connected(later + FIRST_PAUSE, conn, addr(40_001));
    assert_eq!(cm.phase(conn), Some(Phase::Negotiating));
    let mut requests = std::iter::from_fn(|| cm.poll_request());
    let last = requests.by_ref().last();
    assert!(matches!(last, Some(SocketRequest::Send { bytes, .. }) if bytes[17] == 1), "revision 1");
}
