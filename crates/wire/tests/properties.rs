//! Properties: every opcode survives the round trip with any values, and no bytes make the parsers panic.

use std::path::Path;

use proptest::prelude::*;
use weft_wire::ext::*;
use weft_wire::grh::Grh;
use weft_wire::packet::{HeaderBuf, Headers};
use weft_wire::{Aeth, Bth, Opcode, Packet, Psn, Syndrome, fuzzing, icrc, opcode::header, roce};

fn opcodes() -> impl Strategy<Value = Opcode> {
    prop::sample::select(Opcode::all().map(|i| i.opcode).collect::<Vec<_>>())
}

fn headers(set: u16, a: u64, b: u64, c: u64) -> Headers {
    let (low, mid) = (a as u32, b as u32);
    Headers {
        xrceth: (set & header::XRCETH != 0).then(|| XrcEth::new(low)),
        rdeth: (set & header::RDETH != 0).then(|| Rdeth::new(low)),
        deth: (set & header::DETH != 0).then(|| Deth::new(low, mid)),
        feth: (set & header::FETH != 0).then(|| Feth::new(a as u8, b as u8)),
        reth: (set & header::RETH != 0).then(|| Reth::new(a, mid, c as u32)),
        atomic: (set & header::ATOMIC != 0).then(|| AtomicEth::new(a, low, b, c)),
        aeth: (set & header::AETH != 0).then(|| Aeth::new(Syndrome::from_byte(a as u8 & 0x7f), mid)),
        atomic_ack: (set & header::ATOMIC_ACK != 0).then(|| AtomicAckEth::new(a)),
        imm: (set & header::IMM != 0).then(|| ImmDt::new(low)),
        ieth: (set & header::IETH != 0).then(|| Ieth::new(mid)),
    }
}

proptest! {
    #[test]
    fn every_opcode_round_trips(
        op in opcodes(), values: (u64, u64, u64), pkey: u16, qp: u32, psn: u32, bits: (bool, bool, bool),
        payload in prop::collection::vec(any::<u8>(), 0..300), seed: u32,
    ) {
        let info = op.info().unwrap();
        let payload = if info.payload { payload } else { Vec::new() };
        let mut bth = Bth::new(op, pkey, qp, Psn::new(psn));
        bth.set_ack_req(bits.0);
        bth.set_solicited(bits.1);
        bth.set_mig_req(bits.2);
        let ext = headers(info.headers, values.0, values.1, values.2);
        let buf = HeaderBuf::write(bth, &ext, payload.len());
        let ib = roce::seal(|_| seed, buf.as_slice(), &payload);
        let packet = Packet::parse(&ib).unwrap();
        prop_assert_eq!(packet.ext, ext);
        prop_assert_eq!(packet.payload, &payload[..]);
        prop_assert_eq!(packet.bth.opcode(), op);
        prop_assert_eq!((packet.bth.ack_req(), packet.bth.solicited(), packet.bth.mig_req()), bits);
        prop_assert_eq!((packet.bth.pkey(), packet.bth.dest_qp(), packet.bth.psn().value()), (pkey, qp & Psn::MASK, psn & Psn::MASK));
        prop_assert_eq!(icrc::of_packet(seed, &ib), Packet::icrc(&ib).unwrap());
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), op in opcodes()) {
        fuzzing::packet(&bytes);
        fuzzing::frame(&bytes);
        fuzzing::mad(&bytes);
        let mut known = bytes;
        if known.len() > 1 {
            known[0] = op.0;
            known[1] &= 0xf0;
        }
        fuzzing::packet(&known);
    }

    #[test]
    fn roce_v1_frames_round_trip(
        gids: [[u8; 16]; 2], class: u8, flow: u32, hops: u8, macs: [[u8; 6]; 2], payload in prop::collection::vec(any::<u8>(), 0..200),
        routed: (u8, u8), hit: (usize, u8),
    ) {
        let bth = Bth::new(Opcode(0x04), 0xffff, 0x1234, Psn::new(7));
        let header = HeaderBuf::write(bth, &Headers::default(), payload.len());
        let grh = |len| Grh::new(class, flow, len, Grh::NEXT_HEADER_IBA, hops, gids);
        let frame = roce::build_v1_frame(macs, grh, header.as_slice(), &payload);
        let (got, ib) = roce::parse_v1_frame(&frame).unwrap();
        prop_assert_eq!((got.sgid(), got.dgid(), got.traffic_class(), got.hop_limit()), (gids[0], gids[1], class, hops));
        prop_assert_eq!(Packet::parse(ib).unwrap().payload, &payload[..]);
        // The ICRC does not cover fields that routers change (class and hop limit) ...
        let mut routed_frame = frame.clone();
        routed_frame[15] = routed_frame[15] & 0x0f | routed.0 << 4;
        routed_frame[21] = routed.1;
        prop_assert!(roce::parse_v1_frame(&routed_frame).is_ok());
        // ... but it covers every other bit.
        let mut damaged = frame.clone();
        let at = 22 + hit.0 % (damaged.len() - 22);
        if hit.1 != 0 && at != 14 + Grh::LEN + 4 {
            damaged[at] ^= hit.1;
            prop_assert!(roce::parse_v1_frame(&damaged).is_err());
        }
    }

    #[test]
    fn psn_distance_is_the_inverse_of_addition(a: u32, n in 0_u32..0x80_0000) {
        let psn = Psn::new(a);
        prop_assert_eq!(psn.add(n).distance(psn), n as i32);
        prop_assert_eq!(psn.add(n).sub(n), psn);
    }
}

#[test]
fn the_corpus_replays() {
    let mut replayed = 0;
    for entry in
        std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")).expect("corpus").flatten()
    {
        let bytes = std::fs::read(entry.path()).expect("corpus file");
        fuzzing::TARGETS.iter().for_each(|(_, target)| target(&bytes));
        replayed += 1;
    }
    assert!(replayed > 0, "the corpus is gone");
}
