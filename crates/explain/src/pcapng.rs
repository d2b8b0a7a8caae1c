//! Recorded packets as a capture for Wireshark: pcapng, each process an interface. A record has a packet's BTH and syndrome, and
//! neither other extended headers nor payload, so that a packet's captured length is shorter than its length. The headers
//! below the BTH are reconstructed from the queue pair's addresses.

use weft_record::{Address, Event, Fate, Framing, PacketInfo};
use weft_verbs::Gid;
use weft_wire::ethernet;
use weft_wire::grh::Grh;
use weft_wire::link_packet::{self, VCRC_LEN};
use weft_wire::opcode::header;
use weft_wire::packet::{ICRC_LEN, pad_for};
use weft_wire::pcapng::{self, CapturedPacket, Direction, LINKTYPE_ERF, LINKTYPE_ETHERNET};
use weft_wire::roce::IpMeta;
use weft_wire::{Bth, Opcode, Psn};
use zerocopy::IntoBytes as _;

use crate::names;
use crate::recording::Recording;
use crate::render::describe;
use crate::story::QpStory;

/// Maximum payload of a packet.
const PAYLOAD_MAX: u32 = 4096;
/// UDP source port: the record does not have the packet's own. The first that RoCE v2 uses.
const SOURCE_PORT: u16 = 0xc000;
/// TTL and hop limit: not recorded, either.
const HOP_LIMIT: u8 = 64;

/// A capture file.
#[derive(Debug, Default)]
pub struct Capture {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Number of its packets.
    pub packets: usize,
    /// Number of packets that it lacks, because the record does not have the addresses of both ends or the framing.
    pub left_out: usize,
}

/// A packet and where it comes from.
struct Entry<'a> {
    time_ns: u64,
    story: &'a QpStory,
    event: &'a Event,
    packet: PacketInfo,
    direction: Direction,
    address: Address,
}

/// Returns the packets of queue pairs as a capture, by time.
pub fn capture(stories: &[&QpStory], recordings: &[Recording]) -> Capture {
    let mut capture = Capture::default();
    pcapng::put_section(&mut capture.bytes);
    for recording in recordings {
        let name = format!("{} {}", recording.host, recording.pid);
        pcapng::put_interface(&mut capture.bytes, &name, LINKTYPE_ETHERNET);
        pcapng::put_interface(&mut capture.bytes, &name, LINKTYPE_ERF);
    }
    let mut entries = Vec::new();
    for story in stories {
        if let Some(recording) = recordings.get(story.id.recording) {
            collect(story, recording, &mut entries, &mut capture.left_out);
        }
    }
    entries.sort_by_key(|entry| entry.time_ns);
    let mut frame = Vec::new();
    for entry in &entries {
        let Some(recording) = recordings.get(entry.story.id.recording) else { continue };
        match put(&mut capture.bytes, &mut frame, entry, recording) {
            Some(()) => capture.packets += 1,
            None => capture.left_out += 1,
        }
    }
    capture
}

fn collect<'a>(story: &'a QpStory, recording: &Recording, entries: &mut Vec<Entry<'a>>, left_out: &mut usize) {
    for record in &story.records {
        let (packet, direction) = match record.event {
            Event::Sent(packet) => (packet, Direction::Outbound),
            Event::Received(packet, _) => (packet, Direction::Inbound),
            _ => continue,
        };
        // A datagram queue pair has no path of its own.
        let Some(address) = story.address_at(record.at) else {
            *left_out += 1;
            continue;
        };
        // A packet that did not come from the queue pair's peer came along another path.
        let address = match record.event {
            Event::Received(_, Fate::BadAddress) if address.is_global => Address { dgid: packet.peer, ..address },
            _ => address,
        };
        let time_ns = recording.realtime(record.at);
        entries.push(Entry { time_ns, story, event: &record.event, packet, direction, address });
    }
}

/// Appends a packet; `None` if it has no opcode of the specification's, or an unknown framing.
fn put(out: &mut Vec<u8>, frame: &mut Vec<u8>, entry: &Entry<'_>, recording: &Recording) -> Option<()> {
    frame.clear();
    let (ib, known) = transport(&entry.packet)?;
    let hidden = ib.len() - known;
    let trailer = lower(frame, entry, &ib)?;
    let captured = frame.get(..frame.len().checked_sub(hidden + trailer)?)?;
    let QpStory { id, qp_type, .. } = entry.story;
    let kind = names::qp_type(qp_type.unwrap_or_default());
    let verb = names::operation_of_packet(entry.packet.opcode);
    let verb = verb.map_or_else(String::new, |verb| format!("; {}", names::operation(verb)));
    let comment = format!("{kind} 0x{:06x} of process {}: {}{verb}", id.qpn, recording.pid, describe(entry.event));
    let is_ib = entry.address.framing == Framing::InfiniBand;
    let packet = CapturedPacket {
        interface: id.recording as u32 * 2 + u32::from(is_ib),
        time_ns: entry.time_ns,
        direction: entry.direction,
        frame: captured,
        original_len: frame.len() as u32,
        comment: &comment,
    };
    pcapng::put_captured(out, &packet);
    Some(())
}

/// Returns a packet from BTH to ICRC, with zeroes for what the record lacks, and the length of the known part.
fn transport(packet: &PacketInfo) -> Option<(Vec<u8>, usize)> {
    let info = Opcode(packet.opcode).info()?;
    if packet.bytes > PAYLOAD_MAX {
        return None;
    }
    let payload = packet.bytes as usize;
    let mut bth = Bth::new(Opcode(packet.opcode), packet.pkey, packet.dest_qpn, Psn::new(packet.psn));
    bth.set_pad_count(pad_for(payload));
    bth.set_ack_req(packet.ack_req);
    let mut ib = bth.as_bytes().to_vec();
    // The syndrome is the first byte of the AETH, which is a response's first extended header.
    let before = info.headers & (header::AETH - 1);
    if let Some(syndrome) = packet.syndrome.filter(|_| info.headers & header::AETH != 0 && before == 0) {
        ib.push(syndrome);
    }
    let known = ib.len();
    ib.resize(info.header_len + payload + pad_for(payload) + ICRC_LEN, 0);
    Some((ib, known))
}

/// Appends a packet with the headers below the BTH. Returns the length of what follows the ICRC.
fn lower(frame: &mut Vec<u8>, entry: &Entry<'_>, ib: &[u8]) -> Option<usize> {
    let Address { sgid, dgid, dlid, slid, is_global, framing } = entry.address;
    let (gids, lids) = match entry.direction {
        Direction::Outbound => ([sgid, dgid], [slid, dlid]),
        Direction::Inbound => ([dgid, sgid], [dlid, slid]),
    };
    match framing {
        Framing::Unknown => return None,
        Framing::RoceV2 => {
            let [src, dst] = gids.map(|gid| gid.ip());
            let meta = IpMeta { src, dst, sport: SOURCE_PORT, traffic_class: 0, hop_limit: HOP_LIMIT, ip_id: 0 };
            ethernet::put_v2(frame, &meta, ib);
        }
        Framing::RoceV1 => ethernet::put_v1(frame, &grh(gids, ib.len()), ib),
        Framing::InfiniBand => {
            let mut packet = Vec::new();
            let grh = is_global.then(|| grh(gids, ib.len()));
            link_packet::put_headers(&mut packet, (0, 0), lids, grh.as_ref(), ib.len());
            packet.extend_from_slice(ib);
            packet.extend_from_slice(&[0; VCRC_LEN]);
            pcapng::put_infiniband(frame, entry.time_ns, &packet);
            return Some(VCRC_LEN);
        }
    }
    Some(0)
}

fn grh(gids: [Gid; 2], ib_len: usize) -> Grh {
    Grh::new(0, 0, ib_len as u16, Grh::NEXT_HEADER_IBA, HOP_LIMIT, gids.map(|gid| gid.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::story::stories;
    use crate::testing::*;
    use weft_record::Record;
    use weft_wire::roce;

    fn of(records: &[Record]) -> Capture {
        let recordings = [recording(7, records)];
        let all = stories(&recordings);
        capture(&all.iter().collect::<Vec<_>>(), &recordings)
    }

    /// Returns the packets' interface, captured and original length, and frame.
    fn packets(file: &[u8]) -> Vec<(u32, usize, usize, Vec<u8>)> {
        let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
        let (mut at, mut found) = (0, Vec::new());
        while at < file.len() {
            if word(at) == 6 {
                let captured = word(at + 20) as usize;
                found.push((word(at + 8), captured, word(at + 24) as usize, file[at + 28..][..captured].to_vec()));
            }
            at += word(at + 4) as usize;
        }
        found
    }

    #[test]
    fn a_packet_has_the_headers_that_are_known_and_its_length() {
        let read = PacketInfo { opcode: 0x0d, bytes: 1023, ..answer(4, 0x1f) };
        let capture = of(&own(&[(2, Event::Sent(packet(4))), (3, Event::Received(read, Fate::Delivered))]));
        let found = packets(&capture.bytes);
        assert_eq!((capture.packets, capture.left_out), (2, 0));
        let below = 14 + 20 + 8;
        assert_eq!((found[0].1, found[0].2), (below + 12, below + 12 + 1024 + 4));
        assert_eq!((found[1].1, found[1].2), (below + 13, below + 16 + 1024 + 4), "the syndrome is known");
        assert_eq!(found[1].3.last(), Some(&0x1f));
        // The headers count the whole packet.
        let whole = |nth: usize| {
            let (_, _, length, frame) = &found[nth];
            let mut frame = frame.clone();
            frame.resize(*length, 0);
            let (meta, ib) = roce::parse_v2_frame(&frame).unwrap();
            (meta.src, meta.dst, ib.len())
        };
        assert_eq!(whole(0), (HERE.ip(), THERE.ip(), 12 + 1024 + 4));
        assert_eq!(whole(1), (THERE.ip(), HERE.ip(), 16 + 1024 + 4));
        let text = String::from_utf8_lossy(&capture.bytes);
        assert!(text.contains("RC 0x000011 of process 7: sent SEND Only PSN 4, 1024 bytes; IBV_WR_SEND"), "{text}");
    }

    #[test]
    fn packets_of_infiniband_have_another_interface() {
        let lids = Address { dlid: 9, slid: 5, is_global: false, framing: Framing::InfiniBand, ..roce_v2(HERE, THERE) };
        let mut records = own(&[]);
        records.retain(|record| !matches!(record.event, Event::Address(_)));
        let record = |event| Record { at: 2, qpn: OWN, event };
        records.extend([record(Event::Address(lids)), record(Event::Sent(packet(4)))]);
        let capture = of(&records);
        let (interface, captured, original, frame) = &packets(&capture.bytes)[0];
        assert_eq!((*interface, *captured, *original), (1, 16 + 8 + 12, 16 + 8 + 12 + 1024 + 4 + 2));
        assert_eq!((&frame[18..20], &frame[22..24]), (&[0, 9][..], &[0, 5][..]), "LIDs");
    }

    #[test]
    fn packets_without_addresses_are_left_out() {
        let unknown = Address { framing: Framing::Unknown, ..roce_v2(HERE, THERE) };
        let mut records = own(&[(2, Event::Sent(packet(4)))]);
        for record in &mut records {
            if let Event::Address(address) = &mut record.event {
                *address = unknown;
            }
        }
        let of_an_earlier_version = of(&records);
        records.retain(|record| !matches!(record.event, Event::Address(_)));
        let of_datagrams = of(&records);
        let nonsense = of(&own(&[(2, Event::Sent(PacketInfo { bytes: u32::MAX, ..packet(4) }))]));
        for capture in [of_an_earlier_version, of_datagrams, nonsense] {
            assert_eq!((capture.packets, capture.left_out), (0, 1));
        }
    }
}
