//! Two iWARP queue pairs and the bytes between them.

use weft_iwarp::{FpduEvent, FpduReader, StreamParams};
use weft_verbs::*;
use weft_wire::iwarp::{Body, SegmentHeader, Terminate};

use crate::testing::*;
use crate::{Memory, Piece, Qp, StreamOrder, StreamPhase};

pub struct StreamPair {
    pub qps: [Qp; 2],
    pub worlds: [World; 2],
    pub params: [StreamParams; 2],
    pub now: Instant,
    /// All bytes that each side sent.
    pub sent: [Vec<u8>; 2],
    /// How many of them the other side has received.
    taken: [usize; 2],
    /// Bytes of one receive.
    pub cut: usize,
    /// Bytes of one send that TCP takes.
    pub room: usize,
    ended: [bool; 2],
}

pub fn params() -> [StreamParams; 2] {
    let params = StreamParams { ird: 4, ord: 4, extensions: true, ..StreamParams::default() };
    [params, params]
}

/// Returns an FPDU without CRC of these header bytes.
pub fn fpdu(header: &[u8]) -> Vec<u8> {
    let pad = weft_wire::iwarp::pad_len(header.len());
    [&(header.len() as u16).to_be_bytes()[..], header, &[0; 3][..pad], &[0; 4]].concat()
}

impl StreamPair {
    pub fn new(params: [StreamParams; 2]) -> StreamPair {
        StreamPair::with(params, |_| {}, |_| {})
    }

    /// Creates a pair with changed inits and attributes.
    pub fn with(params: [StreamParams; 2], init_of: impl Fn(&mut QpInit), attr_of: impl Fn(&mut QpAttr)) -> StreamPair {
        let now = Instant(1_000_000);
        let mut worlds = [World::new(0), World::new(0xa5)];
        let qps = [0, 1].map(|side| {
            let id = QpId { index: side as u32, generation: 0 };
            let mut init = init(QpType::Rc);
            init_of(&mut init);
            let mut qp = Qp::new_iwarp(id, 0x10 + side as u32, &init, DeviceId(0));
            let mut attr = attr(side, QpState::Init);
            attr_of(&mut attr);
            qp.modify(now, &attr, QpAttrMask::STATE | QpAttrMask::ACCESS_FLAGS, &mut worlds[side]);
            assert!(qp.attach_stream(now, &params[side]));
            assert!(!qp.attach_stream(now, &params[side]), "one stream for life");
            qp
        });
        StreamPair {
            qps,
            worlds,
            params,
            now,
            sent: [Vec::new(), Vec::new()],
            taken: [0; 2],
            cut: usize::MAX,
            room: usize::MAX,
            ended: [false; 2],
        }
    }

    pub fn post(
        &mut self,
        side: usize,
        wr_id: u64,
        op: SendOp,
        sges: &[Sge],
        flags: SendFlags,
    ) -> Result<(), VerbsError> {
        let wr = SendWr { wr_id, flags, op, sges, ud: None, xrc_srqn: None };
        self.qps[side].post_send(self.now, &wr, &mut self.worlds[side])
    }

    pub fn send(&mut self, side: usize, wr_id: u64, op: SendOp, sges: &[Sge]) {
        self.post(side, wr_id, op, sges, SendFlags::SIGNALED).unwrap();
    }

    pub fn recv(&mut self, side: usize, wr_id: u64, sges: &[Sge]) {
        let (qp, world) = (&mut self.qps[side], &mut self.worlds[side]);
        qp.post_recv(&RecvWr { wr_id, sges }, world).unwrap();
        qp.resume_stream(self.now, world);
    }

    /// Lets the time pass that a message waits for a receive.
    pub fn end_wait(&mut self, side: usize) {
        self.now = self.qps[side].poll_timeout().expect("a wait");
        self.qps[side].handle_timeout(self.now, &mut self.worlds[side]);
    }

    /// Lets a side write, and TCP take what it has room for. Returns whether bytes moved.
    pub fn transmit(&mut self, side: usize) -> bool {
        if !self.qps[side].wants_stream() {
            return false;
        }
        let (qp, world) = (&mut self.qps[side], &mut self.worlds[side]);
        qp.poll_stream(self.now, self.room, world);
        let batch = qp.stream_batch().unwrap();
        let mut bytes = Vec::new();
        for piece in batch.pieces() {
            match *piece {
                Piece::Host { addr, len } => bytes.extend_from_slice(world.memory.at(addr, len as usize)),
                Piece::Arena { .. } => bytes.extend_from_slice(batch.arena(*piece)),
            }
        }
        assert_eq!(bytes.len(), batch.len());
        bytes.truncate(self.room);
        qp.stream_sent(self.now, bytes.len(), world);
        let named = qp.stream_batch().unwrap().pieces().iter().any(|piece| matches!(piece, Piece::Host { .. }));
        assert!(!named, "memory is named after the call");
        self.sent[side].extend_from_slice(&bytes);
        true
    }

    /// Delivers the next bytes to a side: directly where it says so.
    pub fn deliver(&mut self, side: usize) -> bool {
        if self.qps[side].stream_order() == StreamOrder::Pause {
            return false;
        }
        let from = 1 - side;
        let waiting = &self.sent[from][self.taken[from]..];
        let mut bytes = &waiting[..waiting.len().min(self.cut)];
        self.taken[from] += bytes.len();
        let moved = !bytes.is_empty();
        let (qp, world) = (&mut self.qps[side], &mut self.worlds[side]);
        let mut direct = 0;
        for place in qp.stream_places(world).ranges() {
            let (now, later) = bytes.split_at(bytes.len().min(place.len as usize));
            world.memory.write(place.addr, now);
            direct += now.len() as u32;
            bytes = later;
        }
        qp.handle_stream(self.now, direct, bytes, world);
        let is_open = matches!(self.qps[from].stream_order(), StreamOrder::Continue | StreamOrder::Pause);
        if moved || self.ended[side] || is_open {
            return moved;
        }
        self.ended[side] = true;
        self.qps[side].stream_closed(self.now, false, &mut self.worlds[side]);
        true
    }

    /// Runs until nothing moves.
    pub fn run(&mut self) {
        loop {
            let wrote = [0, 1].map(|side| self.transmit(side));
            let read = [0, 1].map(|side| self.deliver(side));
            if wrote == [false; 2] && read == [false; 2] {
                return;
            }
        }
    }

    /// Hands bytes of a made-up peer to a side.
    pub fn inject(&mut self, side: usize, bytes: &[u8]) {
        self.qps[side].handle_stream(self.now, 0, bytes, &mut self.worlds[side]);
    }

    /// Returns the segments that a side sent, as names with the bytes of their payload.
    pub fn segments(&self, side: usize) -> Vec<(SegmentHeader, Vec<u8>)> {
        let params = StreamParams { markers_in: self.params[side].markers_out, ..self.params[side] };
        let mut reader = FpduReader::new(&params);
        let (mut input, mut segments) = (&self.sent[side][..], Vec::new());
        while let Some(event) = reader.next(&mut input).expect("our own stream") {
            match event {
                FpduEvent::Header(header) => segments.push((header, Vec::new())),
                FpduEvent::Payload(bytes) => segments.last_mut().unwrap().1.extend_from_slice(bytes),
                FpduEvent::End | FpduEvent::Empty => {}
            }
        }
        segments
    }

    pub fn names(&self, side: usize) -> Vec<(&'static str, usize)> {
        let name = |header: &SegmentHeader| header.control.opcode().info().unwrap().name;
        self.segments(side).iter().map(|(header, payload)| (name(header), payload.len())).collect()
    }

    /// Returns the TERMINATE that a side sent.
    pub fn terminate(&self, side: usize) -> Option<Terminate> {
        self.segments(side).iter().find_map(|(header, payload)| match header.body {
            Body::Terminate(_, control) => Terminate::parse(&[&control[..], payload].concat()).map(|(t, _)| t),
            _ => None,
        })
    }

    pub fn phases(&self) -> [StreamPhase; 2] {
        [0, 1].map(|side| self.qps[side].stream_phase().unwrap())
    }
}
