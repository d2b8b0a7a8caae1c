//! Ethernet frames around packets of RoCE, for captures: neither UDP sockets nor records show the frames. The MAC addresses are
//! derived from the IP addresses.

use std::net::{IpAddr, Ipv6Addr};

use zerocopy::IntoBytes;

use crate::ROCE_V1_ETHERTYPE;
use crate::grh::Grh;
use crate::roce::{self, IpMeta};

/// Length of the header of a frame in bytes.
pub const HEADER_LEN: usize = 14;

/// Appends the frame of a packet of RoCE v2; `ib` is BTH to ICRC.
pub fn put_v2(out: &mut Vec<u8>, meta: &IpMeta, ib: &[u8]) {
    put_header(out, meta.dst, meta.src, if meta.src.is_ipv4() { 0x0800 } else { 0x86dd });
    roce::put_v2(out, meta, ib);
}

/// Appends the frame of a packet of RoCE v1.
pub fn put_v1(out: &mut Vec<u8>, grh: &Grh, ib: &[u8]) {
    put_header(out, address_of(grh.dgid()), address_of(grh.sgid()), ROCE_V1_ETHERTYPE);
    out.extend_from_slice(grh.as_bytes());
    out.extend_from_slice(ib);
}

fn put_header(out: &mut Vec<u8>, to: IpAddr, from: IpAddr, ethertype: u16) {
    out.extend_from_slice(&mac_of(to));
    out.extend_from_slice(&mac_of(from));
    out.extend_from_slice(&ethertype.to_be_bytes());
}

fn address_of(gid: [u8; 16]) -> IpAddr {
    let v6 = Ipv6Addr::from(gid);
    v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4)
}

/// Returns a locally administered address that identifies its host, or the group's own.
fn mac_of(ip: IpAddr) -> [u8; 6] {
    match ip {
        IpAddr::V4(v4) => {
            let [a, b, c, d] = v4.octets();
            if v4.is_multicast() { [0x01, 0x00, 0x5e, b & 0x7f, c, d] } else { [0x02, 0x00, a, b, c, d] }
        }
        IpAddr::V6(v6) => {
            let o = v6.octets();
            if v6.is_multicast() {
                [0x33, 0x33, o[12], o[13], o[14], o[15]]
            } else {
                [0x02, o[11], o[12], o[13], o[14], o[15]]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_names_its_hosts() {
        let (src, dst) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([224, 0, 0, 2]));
        let meta = IpMeta { src, dst, sport: 50_000, traffic_class: 0, hop_limit: 64, ip_id: 0 };
        let mut frame = Vec::new();
        put_v2(&mut frame, &meta, &[0; 16]);
        assert_eq!(frame[..HEADER_LEN], [1, 0, 0x5e, 0, 0, 2, 2, 0, 10, 0, 0, 1, 8, 0]);
        assert_eq!(roce::parse_v2_frame(&frame), Some((meta, &[0; 16][..])));
        let gid = |last: u8| [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last];
        let grh = Grh::new(0, 0, 16, Grh::NEXT_HEADER_IBA, 64, [gid(1), gid(2)]);
        frame.clear();
        put_v1(&mut frame, &grh, &[0; 16]);
        assert_eq!(frame[..HEADER_LEN], [2, 0, 10, 0, 0, 2, 2, 0, 10, 0, 0, 1, 0x89, 0x15]);
        assert_eq!(frame.len(), HEADER_LEN + Grh::LEN + 16);
    }
}
