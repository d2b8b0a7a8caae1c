//! Messages with RDMA operations: order, results, and lost connections.

use super::*;
use crate::rdma::{Cookie, Direction, RdmaOptions};
use crate::wire::Extension;

const NOTIFIES: RdmaOptions = RdmaOptions { is_fenced: false, is_silent: false, notifies: true, reports_errors: false };

fn operation(id: u64, direction: Direction, options: RdmaOptions) -> RdmaOperation {
    RdmaOperation { id, direction, key: 77, address: 5, length: 100, token: 1000 + id, options }
}

fn message(rdma: Option<RdmaOperation>, payload: &[u8]) -> Outgoing {
    let payload = payload.to_vec();
    Outgoing { source_port: 9, destination_port: 4, payload, owner: Some(1), rdma, ..Outgoing::default() }
}

fn up() -> Connection {
    let mut connection = Connection::new(1);
    connection.handle(ConnectionInput::Accepted);
    connection.handle(ConnectionInput::Established);
    while frame(&mut connection).is_some() {}
    connection
}

fn frame(connection: &mut Connection) -> Option<Vec<u8>> {
    connection.poll_frame(&CongestionMap::default())
}

fn posted(connection: &mut Connection) -> Option<u64> {
    connection.poll_operation(&CongestionMap::default()).map(|operation| operation.id)
}

/// Takes the events, in short.
fn events(connection: &mut Connection) -> Vec<String> {
    let text = |event| match event {
        ConnectionEvent::Received(delivery) => format!("received {:?} {:?}", delivery.used_key, delivery.cookie),
        ConnectionEvent::Released { bytes, .. } => format!("released {bytes}"),
        ConnectionEvent::OperationOver { operation, .. } => format!("over {}", operation.id),
        ConnectionEvent::Notification { notification, .. } => {
            format!("{} {:?}", notification.token, notification.status)
        }
    };
    std::iter::from_fn(|| connection.poll_event()).map(text).collect()
}

#[test]
fn an_operation_goes_before_its_message_and_the_peer_learns_its_key() {
    let (mut from, mut to) = (up(), up());
    from.send(message(Some(operation(7, Direction::Write, NOTIFIES)), b"done"));
    assert!(frame(&mut from).is_none(), "the operation first");
    assert_eq!(posted(&mut from), Some(7));
    assert_eq!(posted(&mut from), None, "once");
    let bytes = frame(&mut from).expect("the message waits for no WRITE");
    let header = Header::parse(&bytes).unwrap().0;
    assert!(header.extensions.iter().eq([Extension::Rdma { key: 77 }]));
    to.handle_frame(&bytes).unwrap();
    assert_eq!(events(&mut to), ["received Some(77) None"]);
    // The peer's acknowledgement may come before the completion.
    from.handle_frame(&frame(&mut to).unwrap()).unwrap();
    assert!(events(&mut from).is_empty());
    from.operation_over(7, RdmaStatus::Success);
    assert_eq!(events(&mut from), ["1007 Success", "over 7", "released 68"]);
    assert!(!from.has_messages());
}

#[test]
fn a_cookie_reaches_the_receiver() {
    let (mut from, mut to) = (up(), up());
    let destination = Some(Cookie { key: 5, offset: 260 });
    from.send(Outgoing { destination, ..message(None, b"") });
    to.handle_frame(&frame(&mut from).unwrap()).unwrap();
    assert_eq!(events(&mut to), ["received None Some(Cookie { key: 5, offset: 260 })"]);
}

#[test]
fn a_fenced_message_waits_for_its_read() {
    let mut from = up();
    let fenced = RdmaOptions { is_fenced: true, ..RdmaOptions::default() };
    from.send(message(Some(operation(1, Direction::Read, RdmaOptions::default())), b"unfenced"));
    from.send(message(Some(operation(2, Direction::Read, fenced)), b"fenced"));
    from.send(message(None, b"behind"));
    assert_eq!(posted(&mut from), Some(1));
    assert!(frame(&mut from).is_some());
    assert_eq!(posted(&mut from), Some(2));
    assert!(frame(&mut from).is_none());
    from.operation_over(1, RdmaStatus::Success);
    assert!(frame(&mut from).is_none());
    from.operation_over(2, RdmaStatus::Success);
    assert!(frame(&mut from).is_some() && frame(&mut from).is_some());
}

#[test]
fn a_silent_operation_sends_no_frame() {
    let mut from = up();
    let silent = RdmaOptions { is_silent: true, ..RdmaOptions::default() };
    from.send(message(Some(operation(1, Direction::Write, silent)), b""));
    assert_eq!(posted(&mut from), Some(1));
    assert!(frame(&mut from).is_none() && from.has_messages());
    from.operation_over(1, RdmaStatus::Success);
    assert_eq!(events(&mut from), ["over 1", "released 64"]);
    assert!(!from.has_messages());
    // With data there is a frame.
    from.send(message(Some(operation(2, Direction::Write, silent)), b"x"));
    assert_eq!(posted(&mut from), Some(2));
    assert!(frame(&mut from).is_some());
}

#[test]
fn a_lost_connection_drops_operations_in_flight_alone() {
    let mut from = up();
    let reports = RdmaOptions { reports_errors: true, ..RdmaOptions::default() };
    from.send(message(Some(operation(1, Direction::Write, NOTIFIES)), b"completed"));
    from.send(message(Some(operation(2, Direction::Write, NOTIFIES)), b"failed"));
    from.send(message(Some(operation(3, Direction::Write, reports)), b"in flight"));
    from.send(message(Some(operation(4, Direction::Write, NOTIFIES)), b"waiting"));
    for id in 1..=3 {
        assert_eq!(posted(&mut from), Some(id));
        assert!(frame(&mut from).is_some());
    }
    from.operation_over(1, RdmaStatus::Success);
    from.operation_over(2, RdmaStatus::RemoteError);
    assert_eq!(events(&mut from), ["1001 Success", "over 1", "1002 RemoteError"]);
    from.handle(ConnectionInput::Lost);
    assert_eq!(events(&mut from), ["1003 Dropped", "over 3", "released 73", "over 2", "released 70"]);
    from.handle(ConnectionInput::Elapsed);
    from.handle(ConnectionInput::Established);
    let mut sequences = Vec::new();
    loop {
        if let Some(bytes) = frame(&mut from) {
            sequences.push(Header::parse(&bytes).unwrap().0.sequence);
        } else if posted(&mut from).is_none() {
            break;
        }
    }
    // Two frames of the congestion map, the completed operation's message, and the one that waited.
    assert_eq!(sequences, [0, 0, 1, 4]);
}

#[test]
fn cancelling_leaves_operations_in_flight_alone() {
    let mut from = up();
    for id in 1..=3 {
        from.send(message(Some(operation(id, Direction::Read, NOTIFIES)), b""));
    }
    assert_eq!(posted(&mut from), Some(1));
    assert!(frame(&mut from).is_some());
    from.cancel(1, 4);
    assert_eq!(events(&mut from), ["1002 Canceled", "over 2", "released 64", "1003 Canceled", "over 3", "released 64"]);
    from.operation_over(1, RdmaStatus::Success);
    assert_eq!(events(&mut from), ["1001 Success", "over 1"]);
    // A socket that closes takes its waiting operations with it, and leaves its datagrams.
    from.send(message(Some(operation(4, Direction::Read, RdmaOptions::default())), b""));
    from.send(message(None, b"stays"));
    from.cancel_operations(1);
    assert_eq!(events(&mut from), ["over 4", "released 64"]);
    assert_eq!(posted(&mut from), None);
    assert!(frame(&mut from).is_some());
}
