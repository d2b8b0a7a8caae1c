//! The connection of a recorded queue pair: how it came about, when it could carry requests, and which side ended it.

use weft_explain::{QpStory, Recording};
use weft_record::Event;

/// `RDMA_CM_EVENT_ROUTE_RESOLVED`.
const ROUTE_RESOLVED: u8 = 2;
/// `RDMA_CM_EVENT_CONNECT_REQUEST`.
const CONNECT_REQUEST: u8 = 4;
/// `RDMA_CM_EVENT_ESTABLISHED`.
const ESTABLISHED: u8 = 9;
/// `RDMA_CM_EVENT_DISCONNECTED`.
const DISCONNECTED: u8 = 10;
/// `IBV_QPS_RTS`.
const RTS: u8 = 3;
/// `IBV_QPS_ERR`.
const ERR: u8 = 6;
/// `IBV_WC_WR_FLUSH_ERR`.
const WR_FLUSH_ERR: u8 = 5;

/// The way in which the program connected its queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Connection {
    /// By the RDMA connection manager.
    Manager(Role),
    /// By attributes that it had exchanged with its peer in a way of its own.
    Exchange,
}

/// The program's part in a connection of the connection manager.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// It connected.
    Active,
    /// It listened.
    Passive,
}

/// The end of the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// The program disconnected or ended.
    Own,
    /// The peer disconnected.
    Peer,
}

/// Finds out how the queue pair was connected.
pub fn connection(story: &QpStory, recording: &Recording) -> Connection {
    let Some(established) = event(story, ESTABLISHED) else { return Connection::Exchange };
    // Events before the queue pair exists are the process's.
    let before = recording.records.iter().filter(|record| record.at <= established);
    let role = before.rev().find_map(|record| match record.event {
        Event::Connection { event: CONNECT_REQUEST, .. } => Some(Role::Passive),
        Event::Connection { event: ROUTE_RESOLVED, .. } => Some(Role::Active),
        _ => None,
    });
    Connection::Manager(role.unwrap_or(Role::Active))
}

/// Returns when the queue pair could carry requests.
pub fn connected_at(story: &QpStory) -> Option<u64> {
    story.records.iter().find(|record| matches!(record.event, Event::State { to: RTS, .. })).map(|record| record.at)
}

/// Returns when the connection ended in order, if it did: what follows belongs to no traffic. A failure does not end it.
pub fn ended_at(story: &QpStory) -> Option<u64> {
    for record in &story.records {
        match record.event {
            Event::Completed(wc) if !matches!(wc.status, 0 | WR_FLUSH_ERR) => return None,
            Event::State { to: ERR, .. } | Event::Connection { event: DISCONNECTED, .. } | Event::Destroyed => {
                return Some(record.at);
            }
            _ => {}
        }
    }
    None
}

/// Returns the side that disconnected. `rdma_disconnect` puts the queue pair into the error state before the peer's answer
/// arrives.
pub fn ending(story: &QpStory) -> Ending {
    let failed = story.records.iter().find(|record| matches!(record.event, Event::State { to: ERR, .. }));
    match (event(story, DISCONNECTED), failed) {
        (Some(disconnected), Some(failed)) if failed.at < disconnected => Ending::Own,
        (Some(_), _) => Ending::Peer,
        (None, _) => Ending::Own,
    }
}

fn event(story: &QpStory, wanted: u8) -> Option<u64> {
    let is_wanted = |event: &Event| matches!(*event, Event::Connection { event, status: 0 } if event == wanted);
    story.records.iter().find(|record| is_wanted(&record.event)).map(|record| record.at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Script, connection_event, process_event, state};
    use weft_explain::stories;

    fn of(script: Script) -> (Connection, Option<u64>, Ending) {
        let recordings = [script.recording()];
        let all = stories(&recordings);
        (connection(&all[0], &recordings[0]), ended_at(&all[0]), ending(&all[0]))
    }

    #[test]
    fn the_last_event_before_the_connection_tells_the_role() {
        assert_eq!(of(Script::connected()).0, Connection::Exchange);
        let listener =
            Script::connected().with(5, process_event(CONNECT_REQUEST)).with(200, connection_event(ESTABLISHED));
        assert_eq!(of(listener.clone()).0, Connection::Manager(Role::Passive));
        let both = listener.with(150, process_event(ROUTE_RESOLVED));
        assert_eq!(of(both).0, Connection::Manager(Role::Active), "a process that listens, and connects elsewhere");
    }

    #[test]
    fn the_side_that_leaves_rts_first_disconnected() {
        let peer = Script::connected().with(300, connection_event(DISCONNECTED)).with(310, state(RTS, ERR));
        assert_eq!(of(peer).1, Some(300));
        let peer = Script::connected().with(300, connection_event(DISCONNECTED)).with(310, state(RTS, ERR));
        assert_eq!(of(peer).2, Ending::Peer);
        let own = Script::connected().with(310, state(RTS, ERR)).with(320, connection_event(DISCONNECTED));
        assert_eq!((of(own.clone()).1, of(own).2), (Some(310), Ending::Own));
        let failed = Script::connected().completed(300, 0, 12, 0).with(310, state(RTS, ERR));
        assert_eq!(of(failed).1, None, "a failure is part of the traffic");
    }
}
