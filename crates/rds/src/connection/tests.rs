//! Two ends whose connection is cut at any moment, driven by seeds.

use std::collections::VecDeque;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::*;
use crate::wire::{CONGESTION_MAP_BYTES, Flags, HEADER_LEN};

fn message(port: u16, payload: Vec<u8>) -> Outgoing {
    Outgoing { source_port: 9, destination_port: port, payload, owner: Some(1), ..Outgoing::default() }
}

/// A connection that is up, and has sent its map.
fn up() -> Connection {
    let mut connection = Connection::new(1);
    connection.handle(ConnectionInput::Accepted);
    connection.handle(ConnectionInput::Established);
    for _ in 0..2 {
        assert!(connection.poll_frame(&CongestionMap::default()).is_some());
    }
    connection
}

fn received(connection: &mut Connection) -> Vec<Delivery> {
    let mut received = Vec::new();
    while let Some(event) = connection.poll_event() {
        if let ConnectionEvent::Received(delivery) = event {
            received.push(delivery);
        }
    }
    received
}

#[test]
fn a_connection_begins_with_the_congestion_map() {
    let mut connection = Connection::new(1);
    connection.send(message(4, vec![1; 5000]));
    assert!(connection.poll_frame(&CongestionMap::default()).is_none(), "not connected");
    connection.handle(ConnectionInput::Wanted);
    connection.handle(ConnectionInput::Established);
    let frames: Vec<_> = std::iter::from_fn(|| connection.poll_frame(&CongestionMap::default())).collect();
    let lengths: Vec<_> = frames.iter().map(|frame| frame.len() - HEADER_LEN).collect();
    assert_eq!(lengths, [4096, 4096, 4096, 904]);
    let header = |at: usize| Header::parse(&frames[at]).unwrap().0;
    assert_eq!((header(0).flags, header(0).length), (Flags::CONGESTION_MAP, CONGESTION_MAP_BYTES as u32));
    assert_eq!((header(2).sequence, header(2).length, header(2).flags), (1, 5000, Flags::ACK_REQUIRED));
    assert_eq!(header(3), header(2));
}

#[test]
fn acknowledgements_free_the_send_buffer() {
    let (mut from, mut to) = (up(), up());
    for _ in 0..3 {
        from.send(message(4, vec![7; 10]));
    }
    while let Some(frame) = from.poll_frame(&CongestionMap::default()) {
        to.handle_frame(&frame).unwrap();
    }
    assert_eq!(received(&mut to).len(), 3);
    let ack = to.poll_frame(&CongestionMap::default()).unwrap();
    let header = Header::parse(&ack).unwrap().0;
    assert_eq!((ack.len(), header.acknowledgement, header.sequence), (HEADER_LEN, 3, 0));
    assert!(to.poll_frame(&CongestionMap::default()).is_none(), "one is enough");
    from.handle_frame(&ack).unwrap();
    let freed = std::iter::from_fn(|| from.poll_event()).count();
    assert_eq!((freed, from.has_messages()), (3, false));
}

#[test]
fn congested_ports_wait_and_others_do_not() {
    let (mut from, mut to) = (up(), up());
    let mut map = CongestionMap::default();
    map.set(4, true);
    to.congestion_changed();
    while let Some(frame) = to.poll_frame(&map) {
        from.handle_frame(&frame).unwrap();
    }
    from.send(message(4, vec![4]));
    from.send(message(5, vec![5]));
    let ports = |connection: &mut Connection| -> Vec<_> {
        std::iter::from_fn(|| connection.poll_frame(&CongestionMap::default()))
            .map(|frame| Header::parse(&frame).unwrap().0.destination_port)
            .collect()
    };
    assert_eq!(ports(&mut from), [5]);
    from.send(message(4, vec![6]));
    to.congestion_changed();
    while let Some(frame) = to.poll_frame(&CongestionMap::default()) {
        from.handle_frame(&frame).unwrap();
    }
    assert_eq!(ports(&mut from), [4, 4]);
}

#[test]
fn cancelled_messages_are_not_sent() {
    let mut from = up();
    from.send(message(4, vec![4; 5000]));
    from.send(message(4, vec![5]));
    from.send(message(6, vec![6]));
    assert!(from.poll_frame(&CongestionMap::default()).is_some());
    from.cancel(1, 4);
    assert_eq!(from.poll_event(), Some(ConnectionEvent::Released { owner: 1, bytes: 1 + 64 }));
    let frames: Vec<_> = std::iter::from_fn(|| from.poll_frame(&CongestionMap::default())).collect();
    // The message under way is finished, as its receiver expects.
    assert_eq!(frames.len(), 2);
    assert_eq!(Header::parse(&frames[1]).unwrap().0.sequence, 3);
}

#[test]
fn breaches_are_named() {
    let frame = |length: u32, sequence: u64, flags, data: usize| {
        let header = Header { length, sequence, source_port: 1, destination_port: 2, flags, ..Header::default() };
        [&header.to_bytes()[..], &vec![0; data]].concat()
    };
    let none = Flags::default();
    let judge = |frames: &[Vec<u8>]| {
        let mut connection = up();
        frames.iter().try_for_each(|frame| connection.handle_frame(frame)).unwrap_err()
    };
    assert_eq!(judge(&[frame(2 << 20, 1, none, 4096)]), Breach::TooLong(2 << 20));
    assert_eq!(judge(&[frame(10, 1, none, 11)]), Breach::FragmentLength { found: 11, expected: 10 });
    assert_eq!(judge(&[frame(5000, 1, none, 904)]), Breach::FragmentLength { found: 904, expected: 4096 });
    assert_eq!(judge(&[frame(5000, 1, none, 4096), frame(5000, 2, none, 904)]), Breach::Mismatch(1));
    assert_eq!(judge(&[frame(8, 0, Flags::CONGESTION_MAP, 8)]), Breach::MapLength(8));
    assert!(matches!(judge(&[vec![0; 12]]), Breach::Header(_)));
}

#[test]
fn a_peer_that_starts_again_counts_from_one() {
    let mut to = up();
    let frame = |sequence, flags| {
        let header = Header { sequence, source_port: 1, destination_port: 2, flags, ..Header::default() };
        header.to_bytes()
    };
    for (sequence, flags, is_new) in [
        (7, Flags::default(), true),
        (7, Flags::RETRANSMITTED, false),
        (8, Flags::RETRANSMITTED, true),
        (1, Flags::default(), true),
        (2, Flags::default(), true),
    ] {
        to.handle_frame(&frame(sequence, flags)).unwrap();
        assert_eq!(received(&mut to).len(), usize::from(is_new), "{sequence} {flags:?}");
    }
}

/// Both ends, and the frames between them.
struct Ends {
    ends: [Connection; 2],
    wires: [VecDeque<Vec<u8>>; 2],
    received: [Vec<Vec<u8>>; 2],
    is_connected: bool,
}

impl Ends {
    fn new() -> Ends {
        Ends {
            ends: [Connection::new(1), Connection::new(1000)],
            wires: Default::default(),
            received: Default::default(),
            is_connected: false,
        }
    }

    fn connect(&mut self) {
        // Frames that an end sent before it heard of the loss.
        self.wires = Default::default();
        let [from, to] = &mut self.ends;
        match from.state() {
            ConnectionState::Down => from.handle(ConnectionInput::Wanted),
            _ => from.handle(ConnectionInput::Elapsed),
        };
        let request = from.acknowledgement();
        to.handle(ConnectionInput::Accepted);
        to.handle_acknowledgement(request);
        let reply = to.acknowledgement();
        assert!(from.handle(ConnectionInput::Established));
        from.handle_acknowledgement(reply);
        assert!(to.handle(ConnectionInput::Established));
        self.is_connected = true;
    }

    /// Loses what is on the wires; the second end may hear of it later, with the next request.
    fn cut(&mut self, both_hear: bool) {
        self.wires = Default::default();
        self.is_connected = false;
        self.ends[0].handle(ConnectionInput::Lost);
        if both_hear {
            self.ends[1].handle(ConnectionInput::Lost);
        }
    }

    fn step(&mut self, random: &mut Xoshiro256PlusPlus) {
        let end = (random.next_u32() % 2) as usize;
        if random.next_u32().is_multiple_of(2) {
            if let Some(frame) = self.ends[end].poll_frame(&CongestionMap::default()) {
                self.wires[end].push_back(frame);
            }
        } else if self.is_connected
            && let Some(frame) = self.wires[1 - end].pop_front()
        {
            self.ends[end].handle_frame(&frame).expect("our own frames");
            self.received[end].extend(received(&mut self.ends[end]).into_iter().map(|delivery| delivery.payload));
        }
    }

    fn is_quiet(&self) -> bool {
        self.wires.iter().all(VecDeque::is_empty)
    }
}

/// Payload of one message: its number, and bytes that follow from it.
fn payload(random: &mut Xoshiro256PlusPlus, number: u32) -> Vec<u8> {
    let len = match random.next_u32() % 4 {
        0 => 0,
        1 => random.next_u32() % 100,
        2 => 4092,
        _ => random.next_u32() % 20_000,
    };
    let mut bytes = number.to_be_bytes().to_vec();
    bytes.extend((0..len).map(|at| (at ^ number) as u8));
    bytes
}

#[test]
fn every_message_arrives_once_and_in_order_whatever_is_cut() {
    for seed in 0..100 {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut ends = Ends::new();
        let mut sent: [Vec<Vec<u8>>; 2] = Default::default();
        for _ in 0..2000 {
            match random.next_u32() % 100 {
                0..10 if sent[0].len() + sent[1].len() < 60 => {
                    let end = (random.next_u32() % 2) as usize;
                    let bytes = payload(&mut random, sent[end].len() as u32);
                    ends.ends[end].send(message(4, bytes.clone()));
                    sent[end].push(bytes);
                }
                10 if ends.is_connected => ends.cut(random.next_u32().is_multiple_of(2)),
                11..20 if !ends.is_connected => ends.connect(),
                _ => ends.step(&mut random),
            }
        }
        if !ends.is_connected {
            ends.connect();
        }
        for _ in 0..3000 {
            ends.step(&mut random);
        }
        assert!(ends.is_quiet(), "seed {seed}");
        // Not assert_eq: the messages are long.
        assert!(ends.received[1] == sent[0], "seed {seed}: from the first end");
        assert!(ends.received[0] == sent[1], "seed {seed}: from the second end");
    }
}
