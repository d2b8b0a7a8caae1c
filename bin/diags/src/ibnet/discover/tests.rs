//! Walks through fabrics simulated by functions.

use super::super::Kind;
use super::*;

/// Answers each request by a function, in order.
struct Fake<F> {
    answer: F,
    waiting: VecDeque<(u64, Question)>,
    sent: u64,
}

impl<F: FnMut(&Question) -> Result<Attribute, Refusal>> Carrier for Fake<F> {
    fn send(&mut self, question: &Question) -> io::Result<u64> {
        self.sent += 1;
        self.waiting.push_back((self.sent, *question));
        Ok(self.sent)
    }

    fn receive(&mut self) -> io::Result<(u64, Result<Attribute, Refusal>)> {
        let (number, question) = self.waiting.pop_front().ok_or_else(|| io::Error::other("nothing was asked"))?;
        Ok((number, (self.answer)(&question)))
    }

    fn own_lid(&self) -> u16 {
        1
    }
}

fn walk(answer: impl FnMut(&Question) -> Result<Attribute, Refusal>, config: Config) -> Result<Fabric, String> {
    discover(&mut Fake { answer, waiting: VecDeque::new(), sent: 0 }, PortId::default(), config)
}

/// A two-port switch with a channel adapter at each port.
fn small(question: &Question) -> Result<Attribute, Refusal> {
    let path = &question.to.dr_path;
    let hops: Vec<u8> = path.path[1..=path.count].to_vec();
    let (kind, guid, local) = match &hops[..] {
        [] => (Kind::CA, 1, 1),
        [1] => (Kind::SWITCH, 2, 1),
        [1, 2] => (Kind::CA, 3, 1),
        _ => return Err(Refusal::Transport(libc::ETIMEDOUT)),
    };
    let mut data = Attribute::ZERO;
    match question.attribute {
        NODE_INFO => {
            (data.0[2], data.0[3], data.0[36]) = (kind.0, if kind == Kind::SWITCH { 2 } else { 1 }, local);
            data.set_u64(12, guid);
            data.set_u64(20, guid);
        }
        PORT_INFO => (data.0[28], data.0[32], data.0[33]) = (local, 4, PHYS_LINK_UP << 4),
        _ => {}
    }
    Ok(data)
}

#[test]
fn every_node_behind_a_cable_is_found_once() {
    for in_flight in [1, 2, 16] {
        let fabric = walk(small, Config { in_flight, ..Config::default() }).unwrap();
        let guids: Vec<u64> = fabric.nodes().map(|(_, node)| node.guid).collect();
        assert_eq!(guids, [3, 2, 1]);
        let end = fabric.node(fabric.find_node(3).unwrap()).port(1).unwrap();
        assert_eq!(fabric.remote(end).unwrap().0.guid, 2);
        assert_eq!((fabric.max_hops, fabric.conflicts().len()), (2, 0));
    }
}

#[test]
fn a_start_that_is_silent_is_told() {
    let silent = |_: &Question| Err(Refusal::Transport(libc::ETIMEDOUT));
    assert!(walk(silent, Config::default()).unwrap_err().contains("does not answer"));
}

#[test]
fn answers_of_any_bytes_do_no_harm() {
    let mut seed = 1u64;
    let mut left = 20_000;
    let any = |_: &Question| {
        left -= 1;
        if left < 0 {
            return Err(Refusal::Status(0x1c));
        }
        let mut data = Attribute::ZERO;
        for byte in &mut data.0 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (seed >> 33) as u8;
        }
        Ok(data)
    };
    // The result does not matter, but the walk must end.
    let _ = walk(any, Config::default());
}

/// A neighbour that claims to be the very port it was found behind must not keep the walk going forever.
#[test]
fn a_start_that_is_its_own_neighbour_ends_the_walk() {
    let mut asked = 0;
    let mirror = |question: &Question| {
        asked += 1;
        assert!(asked < 100, "it goes on and on");
        let mut data = Attribute::ZERO;
        match question.attribute {
            NODE_INFO => (data.0[2], data.0[3], data.0[36]) = (Kind::CA.0, 1, 1),
            PORT_INFO => (data.0[32], data.0[33]) = (4, PHYS_LINK_UP << 4),
            _ => {}
        }
        Ok(data)
    };
    let fabric = walk(mirror, Config::default()).unwrap();
    assert_eq!(fabric.node_count(), 1);
}

/// A new switch behind every port of every switch.
#[test]
fn a_fabric_without_end_is_none() {
    let mut last = 0;
    let endless = |question: &Question| {
        let mut data = Attribute::ZERO;
        match question.attribute {
            NODE_INFO => {
                last += 1;
                (data.0[2], data.0[3], data.0[36]) = (Kind::SWITCH.0, 254, 1);
                data.set_u64(12, last);
            }
            PORT_INFO => (data.0[28], data.0[32], data.0[33]) = (1, 4, PHYS_LINK_UP << 4),
            _ => {}
        }
        Ok(data)
    };
    let why = walk(endless, Config::default()).unwrap_err();
    assert!(why.contains("more than"), "{why}");
}
