//! Bodies of the fuzz targets; unit tests feed them random bytes.

use std::net::Ipv4Addr;
use std::time::Duration;

use crate::local::{LocalOperation, Message, OfferedRegion};
use crate::wire::{PrivateData, Version};
use crate::{Action, Node, NodeConfig, Pair};

/// Feeds frames to a host with one socket on port 4000. Each begins with its length in units of 16 bytes; every frame gets a
/// valid checksum, or else none would pass. Returns the number of datagrams for the socket.
pub fn frames(mut bytes: &[u8]) -> usize {
    let pair = Pair { local: Ipv4Addr::new(10, 0, 0, 1), peer: Ipv4Addr::new(10, 0, 0, 2) };
    let mut node = Node::new(NodeConfig { first_sequence: 1, seed: 1 });
    assert!(node.open(1).is_ok());
    assert!(node.bind(1, std::net::SocketAddrV4::new(pair.local, 4000)).is_ok());
    let mut datagrams = 0;
    let mut now = Duration::ZERO;
    let mut is_up = false;
    while let [len, rest @ ..] = bytes {
        now += Duration::from_millis(100);
        node.handle_timeout(now);
        if !is_up {
            let version = Version::V4_1;
            let request = PrivateData { source: pair.peer, destination: pair.local, version, acknowledgement: 0 };
            node.handle_request(pair, &request);
            node.handle_established(pair, None);
            is_up = true;
        }
        let (frame, rest) = rest.split_at(rest.len().min(usize::from(*len) * 16));
        bytes = rest;
        node.handle_frame(pair, &with_checksum(frame));
        while let Some(action) = node.poll() {
            is_up &= action != Action::Disconnect(pair);
        }
        while node.poll_frame(pair).is_some() {}
        while node.next_datagram(1).is_some() {
            datagrams += 1;
            node.delivered(1);
        }
    }
    datagrams
}

fn with_checksum(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    // A header without checksum is valid.
    for byte in frame.iter_mut().skip(30).take(2) {
        *byte = 0;
    }
    frame
}

/// Feeds bytes to the readers of private data and of local messages.
pub fn readers(bytes: &[u8]) {
    if let Ok(data) = PrivateData::parse(bytes) {
        assert_eq!(PrivateData::parse(&data.to_bytes()), Ok(data));
    }
    if let Some((message, _)) = Message::parse(bytes) {
        assert_eq!(Message::parse(&message.to_bytes()).map(|(message, _)| message), Some(message));
    }
    if let Some((operation, data, payload)) = LocalOperation::parse(bytes) {
        let again = [&operation.to_bytes()[..], data, payload].concat();
        assert_eq!(LocalOperation::parse(&again), Some((operation, data, payload)));
    }
    if let Some(region) = OfferedRegion::parse(bytes) {
        assert_eq!(OfferedRegion::parse(&region.to_bytes()), Some(region));
    }
}
