//! A hostile peer: segments that are nearly right, and bytes that are nothing at all.

use weft_iwarp::StreamParams;
use weft_transport::StreamOrder;
use weft_verbs::{Access, Instant, QpState, RecvWr, RemoteTarget, SendFlags, SendOp, SendWr, Sge};
use weft_wire::iwarp::{HEADER_LEN_MAX, RdmapOpcode, pad_len};

use super::host::{Host, Region};
use super::run::queue_pair;
use crate::Rng;

/// Bytes of each region.
const REGION: usize = 8192;
/// Segments of one stream.
const SEGMENTS: u64 = 60;

/// Runs a seed: nothing panics, memory without remote rights stays as it is, and every stream can be ended.
pub fn hostile(seed: u64) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let markers = rng.chance(1, 8);
    let params = StreamParams {
        ird: 2,
        ord: 2,
        markers_in: markers,
        extensions: rng.chance(1, 2),
        awaits_rtr: rng.chance(1, 4),
        yields_first: rng.chance(1, 4),
        ..StreamParams::default()
    };
    let mut host = Host::new(0x1000_0000);
    let secret_bytes: Vec<u8> = (0..REGION).map(|_| rng.bits() as u8).collect();
    let secret = host.region(0x10, &secret_bytes, Access::empty());
    let open = host.region(0x20, &[0; REGION], Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ);
    let own = host.region(0x30, &[0; REGION], Access::LOCAL_WRITE);
    let mut qp = queue_pair(0, &params, &mut host);
    let sge = Sge { addr: own.addr, length: 1000, lkey: own.key };
    for wr_id in 0..3 {
        qp.post_recv(&RecvWr { wr_id, sges: &[sge] }, &mut host).expect("room");
        let op = SendOp::Read(RemoteTarget { addr: 1, rkey: 2 });
        let wr = SendWr { wr_id, flags: SendFlags::SIGNALED, op, sges: &[sge], ud: None, xrc_srqn: None };
        qp.post_send(Instant(0), &wr, &mut host).expect("room");
    }
    let mut msn = [1; 4];
    for step in 0..SEGMENTS {
        let now = Instant(step * 1000);
        qp.poll_stream(now, 10_000, &mut host);
        let len = qp.stream_batch().map_or(0, weft_transport::StreamBatch::len);
        qp.stream_sent(now, rng.below(len as u64 + 1) as usize, &mut host);
        let bytes = segment(&mut rng, &[secret, open, own], &mut msn);
        for piece in bytes.chunks(rng.range(1, 200) as usize) {
            let places = qp.stream_places(&host);
            let room: u64 = places.ranges().iter().map(|range| range.len).sum();
            let direct = if rng.chance(1, 2) { room.min(piece.len() as u64) } else { 0 };
            qp.handle_stream(now, direct as u32, &piece[direct as usize..], &mut host);
        }
        if qp.state() != QpState::Rts {
            break;
        }
    }
    qp.close_stream(Instant(1_000_000), &mut host);
    while qp.wants_stream() {
        qp.poll_stream(Instant(1_000_000), 10_000, &mut host);
        let len = qp.stream_batch().map_or(0, weft_transport::StreamBatch::len);
        qp.stream_sent(Instant(1_000_000), len, &mut host);
    }
    if host.memory.bytes(secret.addr, REGION) != secret_bytes {
        return Err("memory without remote rights was changed".into());
    }
    if (host.sends.len(), host.recvs.len()) != (3, 3) {
        return Err(format!("{} and {} completions instead of three each", host.sends.len(), host.recvs.len()));
    }
    if matches!(qp.stream_order(), StreamOrder::Continue | StreamOrder::Pause) {
        return Err(format!("the stream does not end: {:?}", qp.stream_phase()));
    }
    if qp.stream_order() == StreamOrder::ShutDown {
        let deadline = qp.poll_timeout().ok_or("a peer that does not end keeps the stream for ever")?;
        qp.handle_timeout(deadline, &mut host);
    }
    if (qp.stream_order(), qp.poll_timeout()) != (StreamOrder::Close, None) {
        return Err(format!("the stream stays in {:?}", qp.stream_phase()));
    }
    Ok(())
}

/// Makes up a segment: mostly a valid header with some wrong fields, sometimes noise.
fn segment(rng: &mut Rng, regions: &[Region], msn: &mut [u32; 4]) -> Vec<u8> {
    if rng.chance(1, 30) {
        return (0..rng.below(100)).map(|_| rng.bits() as u8).collect();
    }
    let opcode = if rng.chance(1, 20) { RdmapOpcode(rng.bits() as u8 & 15) } else { RdmapOpcode(rng.below(12) as u8) };
    let tagged = opcode.info().is_some_and(|info| info.queue.is_none());
    let mut header = vec![if tagged { 0x81 } else { 0x01 } | if rng.chance(3, 4) { 0x40 } else { 0 }, 0x40 | opcode.0];
    let region = regions[rng.below(regions.len() as u64) as usize];
    let key = if rng.chance(7, 8) { region.key } else { rng.bits() as u32 };
    let addr = region.addr.wrapping_add(rng.below(REGION as u64 + 50)).wrapping_sub(20);
    if tagged {
        header.extend(key.to_be_bytes());
        header.extend(addr.to_be_bytes());
    } else {
        let queue = opcode.info().and_then(|info| info.queue).map_or(0, |queue| queue.0);
        let number = msn[(queue & 3) as usize];
        msn[(queue & 3) as usize] += u32::from(header[0] & 0x40 != 0);
        let fields = [key, queue, number, if rng.chance(7, 8) { 0 } else { rng.below(2000) as u32 }];
        fields.iter().for_each(|field| header.extend(field.to_be_bytes()));
        if opcode == RdmapOpcode::READ_REQUEST {
            header.extend([0; 12]);
            header.extend((rng.below(9000) as u32).to_be_bytes());
            header.extend(key.to_be_bytes());
            header.extend(addr.to_be_bytes());
        }
    }
    let want = opcode.info().map_or(0, |info| info.header_len());
    while header.len() < want.min(HEADER_LEN_MAX) {
        header.push(rng.bits() as u8);
    }
    let carries = opcode.info().is_none_or(|info| info.carries_payload()) || rng.chance(1, 30);
    let payload = if carries { rng.below(1500) } else { 0 };
    header.extend((0..payload).map(|_| 0xee));
    if rng.chance(1, 40) {
        let at = rng.below(header.len() as u64) as usize;
        header[at] ^= 1 << rng.below(8);
    }
    let pad = pad_len(header.len());
    [&(header.len() as u16).to_be_bytes()[..], &header, &[0; 3][..pad], &[0; 4]].concat()
}
