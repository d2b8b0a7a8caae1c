//! Packets that a kernel has not cut or summed: the plain frames say the same, and no header makes them say more.

use proptest::prelude::*;

use super::*;
use crate::limits::SEGMENTS_MAX;
use crate::vnet_header::{GSO_ECN, GSO_NONE, GSO_TCPV4, GSO_TCPV6, GSO_UDP_L4, NEEDS_CSUM};

const TCP: u8 = 6;
const UDP: u8 = 17;
const FIN_PSH_ACK_CWR: u8 = 0x99;

/// A packet of the kernel: its headers' lengths, and what is in them.
#[derive(Clone, Debug)]
struct Shape {
    protocol: u8,
    is_ipv6: bool,
    /// Four bytes of IPv4 options, or eight of extension headers, this many times.
    options: usize,
    tcp_options: usize,
    size: u16,
    payload: Vec<u8>,
    id: u16,
    sequence: u32,
}

fn shapes() -> impl Strategy<Value = Shape> {
    let payload = (1..40_000_usize, any::<u8>()).prop_map(|(length, seed)| {
        (0..length).map(|at| (at as u8).wrapping_mul(31) ^ (at >> 8) as u8 ^ seed).collect()
    });
    let numbers = (prop_oneof![Just(TCP), Just(UDP)], any::<bool>(), 0..4_usize, 0..11_usize);
    (numbers, 400..9000_u16, payload, any::<u16>(), any::<u32>()).prop_map(
        |((protocol, is_ipv6, options, tcp_options), size, payload, id, sequence)| Shape {
            protocol,
            is_ipv6,
            options,
            tcp_options,
            size,
            payload,
            id,
            sequence,
        },
    )
}

impl Shape {
    fn ip_header(&self, message_len: usize) -> Vec<u8> {
        if self.is_ipv6 {
            let length = (self.options * 8 + message_len) as u16;
            let next = |at: usize| if at == self.options { self.protocol } else { 60 };
            let mut header = vec![0x60, 0, 0, 0, (length >> 8) as u8, length as u8, next(0), 64];
            header.extend((0..32).map(|at| 0xa0 | at));
            (0..self.options).for_each(|at| header.extend([next(at + 1), 0, 1, 4, 0, 0, 0, 0]));
            return header;
        }
        let header_len = 20 + self.options * 4;
        let length = (header_len + message_len) as u16;
        let mut header = vec![0x45 + self.options as u8, 0, (length >> 8) as u8, length as u8];
        header.extend(self.id.to_be_bytes());
        header.extend([0x40, 0, 64, self.protocol, 0, 0, 10, 1, 2, 3, 10, 9, 8, 7]);
        header.resize(header_len, 1);
        let sum = !naive_sum(&header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        header
    }

    fn transport_header(&self) -> Vec<u8> {
        if self.protocol == UDP {
            let length = (8 + self.payload.len()) as u16;
            return [&[1, 2, 3, 4][..], &length.to_be_bytes(), &[0, 0]].concat();
        }
        let offset = (5 + self.tcp_options as u8) << 4;
        let mut header =
            [&[1, 2, 3, 4][..], &self.sequence.to_be_bytes(), &[5; 4], &[offset, FIN_PSH_ACK_CWR]].concat();
        header.resize(20 + self.tcp_options * 4, 1);
        header[16..18].fill(0);
        header
    }

    /// Builds the packet as a kernel does: the checksum is that of the pseudo header. Returns the header before it, too.
    fn packet(&self, gso_type: u8) -> ([u8; VNET_HEADER_LEN], Vec<u8>) {
        let mut message = [self.transport_header(), self.payload.clone()].concat();
        let ip = self.ip_header(message.len());
        let sum = naive_sum(&pseudo_header(&ip, self.protocol, message.len()));
        let csum_offset = if self.protocol == TCP { 16 } else { 6 };
        message[csum_offset..csum_offset + 2].copy_from_slice(&sum.to_be_bytes());
        let header = VnetHeader {
            flags: NEEDS_CSUM,
            gso_type,
            hdr_len: 0.into(),
            gso_size: self.size.into(),
            csum_start: (ip.len() as u16).into(),
            csum_offset: (csum_offset as u16).into(),
        };
        (zerocopy::transmute!(header), [ip, message].concat())
    }

    fn gso_type(&self) -> u8 {
        match (self.protocol, self.is_ipv6) {
            (UDP, _) => GSO_UDP_L4,
            (_, true) => GSO_TCPV6,
            (_, false) => GSO_TCPV4 | GSO_ECN,
        }
    }

    fn frame(&self) -> Frame {
        let (header, packet) = self.packet(self.gso_type());
        Frame::of_kernel(&header, &packet).expect("a packet of a kernel")
    }

    /// Lengths of the IP header and of all headers.
    fn header_lens(&self) -> (usize, usize) {
        let ip = if self.is_ipv6 { 40 + self.options * 8 } else { 20 + self.options * 4 };
        (ip, ip + if self.protocol == TCP { 20 + self.tcp_options * 4 } else { 8 })
    }
}

fn naive_sum(bytes: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for word in bytes.chunks(2) {
        sum += u32::from(word[0]) << 8 | u32::from(word.get(1).copied().unwrap_or(0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn pseudo_header(ip: &[u8], protocol: u8, message_len: usize) -> Vec<u8> {
    let addresses = if ip[0] >> 4 == 4 { &ip[12..20] } else { &ip[8..40] };
    [addresses, &(message_len as u32).to_be_bytes(), &[0, 0, 0, protocol]].concat()
}

/// Checks lengths and checksums of a packet, as its receiver does.
fn verify(packet: &[u8], ip_len: usize, protocol: u8) {
    let (ip, message) = packet.split_at(ip_len);
    if ip[0] >> 4 == 4 {
        assert_eq!((naive_sum(ip), usize::from(u16::from_be_bytes([ip[2], ip[3]]))), (0xffff, packet.len()));
    } else {
        assert_eq!(usize::from(u16::from_be_bytes([ip[4], ip[5]])), packet.len() - 40);
    }
    if protocol == UDP {
        assert_eq!(usize::from(u16::from_be_bytes([message[4], message[5]])), message.len());
        assert_ne!(message[6..8], [0, 0], "no checksum");
    }
    let all = [&pseudo_header(ip, protocol, message.len()), message].concat();
    assert_eq!(naive_sum(&all), 0xffff);
}

fn number(packet: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(packet[at..at + 4].try_into().unwrap())
}

proptest! {
    #[test]
    fn segments_together_are_the_packet_and_each_is_one(shape in shapes()) {
        let frame = shape.frame();
        let (ip_len, headers) = shape.header_lens();
        let (runs, len_max) = (frame.runs(), frame.len_max());
        let plain: Vec<Frame> = frame.into_plain().collect();
        let size = usize::from(shape.size);
        prop_assert_eq!(plain.len(), shape.payload.len().div_ceil(size));
        let lens: Vec<usize> = plain.iter().map(|frame| frame.bytes().len()).collect();
        let announced: Vec<usize> = runs.iter().flat_map(|run| std::iter::repeat_n(run.len, run.count)).collect();
        prop_assert_eq!(&lens, &announced);
        prop_assert_eq!(lens.iter().max(), Some(&len_max));
        prop_assert!(len_max <= HEADER_LEN + headers + size);
        let mut payload = Vec::new();
        for (at, frame) in plain.iter().enumerate() {
            let (packet, is_last) = (frame.packet(), at + 1 == plain.len());
            prop_assert!(frame.is_plain());
            verify(packet, ip_len, shape.protocol);
            if !shape.is_ipv6 {
                prop_assert_eq!(number(packet, 4) >> 16, u32::from(shape.id.wrapping_add(at as u16)));
            }
            if shape.protocol == TCP {
                prop_assert_eq!(number(packet, ip_len + 4), shape.sequence.wrapping_add((at * size) as u32));
                let expected = 0x10 | if is_last { 0x09 } else { 0 } | if at == 0 { 0x80 } else { 0 };
                prop_assert_eq!(packet[ip_len + 13], expected);
            }
            payload.extend_from_slice(&packet[headers..]);
        }
        prop_assert_eq!(payload, shape.payload);
    }

    #[test]
    fn a_packet_that_is_not_cut_gets_its_checksum_and_nothing_else(shape in shapes()) {
        let (header, packet) = shape.packet(GSO_NONE);
        let frame = Frame::of_kernel(&header, &packet).expect("a packet");
        prop_assert!(!frame.is_plain());
        prop_assert_eq!(frame.packet(), &packet[..]);
        let plain: Vec<Frame> = frame.into_plain().collect();
        prop_assert_eq!(plain.len(), 1);
        let ip_len = shape.header_lens().0;
        verify(plain[0].packet(), ip_len, shape.protocol);
        let at = ip_len + if shape.protocol == TCP { 16 } else { 6 };
        prop_assert_eq!((&packet[..at], &packet[at + 2..]), (&plain[0].packet()[..at], &plain[0].packet()[at + 2..]));
    }

    #[test]
    fn another_kernel_gets_the_same_frame(shape in shapes(), is_cut: bool) {
        let (header, packet) = shape.packet(if is_cut { shape.gso_type() } else { GSO_NONE });
        let frame = Frame::of_kernel(&header, &packet).expect("a packet");
        prop_assert_eq!(Frame::of_kernel(&frame.vnet_header(), frame.packet()), Some(frame));
    }

    #[test]
    fn hostile_headers_are_survived(
        shape in shapes(),
        header: [u8; VNET_HEADER_LEN],
        is_theirs: [bool; VNET_HEADER_LEN],
        changes in prop::collection::vec((0..120_usize, any::<u8>()), 0..4),
        length in 0..300_usize,
    ) {
        let (own, mut packet) = shape.packet(shape.gso_type());
        let header: [u8; VNET_HEADER_LEN] = std::array::from_fn(|at| if is_theirs[at] { header[at] } else { own[at] });
        for (at, value) in changes {
            packet.get_mut(at).into_iter().for_each(|byte| *byte = value);
        }
        if length < 150 {
            packet.truncate(length);
        }
        if let Some(frame) = Frame::of_kernel(&header, &packet) {
            let total: usize = frame.runs().iter().map(|run| run.count).sum();
            prop_assert!(total <= SEGMENTS_MAX && frame.len_max() <= frame.bytes().len());
            let lens: Vec<usize> = frame.clone().into_plain().map(|frame| frame.bytes().len()).collect();
            let announced: Vec<usize> = frame.runs().iter().flat_map(|run| std::iter::repeat_n(run.len, run.count)).collect();
            prop_assert_eq!(lens, announced);
        }
    }

    #[test]
    fn any_bytes_are_survived(header: [u8; VNET_HEADER_LEN], packet: Vec<u8>) {
        if let Some(frame) = Frame::of_kernel(&header, &packet) {
            prop_assert!(frame.into_plain().count() <= SEGMENTS_MAX);
        }
    }
}

fn tcp() -> Shape {
    let payload = vec![7; 10_000];
    Shape { protocol: TCP, is_ipv6: false, options: 0, tcp_options: 3, size: 1000, payload, id: 9, sequence: 1 }
}

#[test]
fn headers_that_are_not_the_packets_are_refused() {
    let (header, packet) = tcp().packet(GSO_TCPV4);
    let header = VnetHeader::read_from_bytes(&header).unwrap();
    let is_taken =
        |header: VnetHeader, packet: &[u8]| Frame::of_kernel(&zerocopy::transmute!(header), packet).is_some();
    assert!(is_taken(header, &packet));
    let beyond = (packet.len() as u16 - 17).into();
    for (wrong, why) in [
        (VnetHeader { flags: 0, ..header }, "segments without checksums"),
        (VnetHeader { gso_type: GSO_TCPV6, ..header }, "another version of IP"),
        (VnetHeader { gso_type: GSO_UDP_L4, ..header }, "another protocol"),
        (VnetHeader { gso_type: 3, ..header }, "fragments of UDP"),
        (VnetHeader { gso_type: GSO_ECN, ..header }, "a flag of no type"),
        (VnetHeader { gso_size: 0.into(), ..header }, "segments of nothing"),
        (VnetHeader { gso_size: 1.into(), ..header }, "too many segments"),
        (VnetHeader { csum_start: 24.into(), ..header }, "a checksum elsewhere"),
        (VnetHeader { csum_start: u16::MAX.into(), csum_offset: u16::MAX.into(), ..header }, "a checksum far outside"),
        (VnetHeader { gso_type: GSO_NONE, csum_start: beyond, ..header }, "a checksum at the end"),
    ] {
        assert!(!is_taken(wrong, &packet), "{why}");
    }
    let changed = |at: usize, value: u8| {
        let mut packet = packet.clone();
        packet[at] = value;
        packet
    };
    for (wrong, why) in [
        (changed(0, 0x4f), "options beyond the transport header"),
        (changed(3, 0), "another length"),
        (changed(6, 0x20), "a fragment"),
        (changed(9, UDP), "another protocol"),
        (changed(32, 0x40), "a TCP header that is too short"),
        (packet[..52].to_vec(), "no payload"),
        (packet[..39].to_vec(), "half a header"),
        (Vec::new(), "nothing"),
    ] {
        assert!(!is_taken(header, &wrong), "{why}");
    }
    let plain = VnetHeader::default();
    assert!(is_taken(plain, &[0x45]) && !is_taken(plain, &[0x55; 40]) && !is_taken(plain, &[]));
}
