//! Properties of CM messages: reading arbitrary bytes never panics, a message that is read is written and read again
//! unchanged, each field is where the specification puts it, and the IP CM header survives its round trip.

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use weft_wire::cm::*;
use weft_wire::mad::{AttrId, DATA_LEN, Gmp, Mad};
use weft_wire::{Packet, Psn, fuzzing, roce};

fn attributes() -> impl Strategy<Value = AttrId> {
    prop::sample::select(CmMessage::ALL.iter().map(|(id, _)| *id).collect::<Vec<_>>())
}

fn path() -> impl Strategy<Value = Path> {
    let small = (0..1_u32 << 20, 0..64_u8, 0..16_u8, 0..32_u8);
    (any::<(u16, u16, [u8; 16], [u8; 16])>(), any::<(u8, u8, bool)>(), small).prop_map(
        |((local_lid, remote_lid, local_gid, remote_gid), (traffic_class, hop_limit, subnet_local), small)| Path {
            local_lid,
            remote_lid,
            local_gid,
            remote_gid,
            flow_label: small.0,
            packet_rate: small.1,
            traffic_class,
            hop_limit,
            sl: small.2,
            subnet_local,
            local_ack_timeout: small.3,
        },
    )
}

proptest! {
    #[test]
    fn any_bytes_are_a_message_that_round_trips(id in attributes(), data: [u8; 32], fill: u8, at in 0..DATA_LEN - 32) {
        let mut bytes = [fill; DATA_LEN];
        bytes[at..at + 32].copy_from_slice(&data);
        let message = CmMessage::parse(id, &bytes).unwrap();
        let written = message.encode();
        prop_assert_eq!(CmMessage::parse(id, &written).unwrap(), message);
        // Writing invents nothing: every bit that is written was read.
        prop_assert!(written.iter().zip(bytes).all(|(w, b)| w & !b == 0));
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        fuzzing::cm(&bytes);
    }

    #[test]
    fn a_req_round_trips(primary in path(), alternate in path(), ids: (u32, u64, u64, u32), flags: (bool, bool, bool, bool),
        wide in (0..1_u32 << 24, 0..1_u32 << 24, 0..1_u32 << 24, any::<u32>()), small in (0..32_u8, 0..32_u8, 0..8_u8, 0..8_u8, 0..16_u8, 0..16_u8, 0..4_u8, 0..8_u8),
        private in prop::collection::vec(any::<u8>(), 0..=REQ_PRIVATE_MAX)) {
        let req = Req {
            local_comm_id: ids.0,
            vendor_id: wide.2,
            service_id: ServiceId(ids.1),
            local_ca_guid: ids.2,
            local_qkey: ids.3,
            local_qpn: wide.0,
            responder_resources: ids.1 as u8,
            local_eecn: wide.1,
            initiator_depth: ids.2 as u8,
            remote_eecn: wide.2,
            remote_cm_response_timeout: small.0,
            transport_service: TransportService(small.6),
            end_to_end_flow_control: flags.0,
            starting_psn: Psn::new(wide.3),
            local_cm_response_timeout: small.1,
            retry_count: small.2,
            pkey: ids.0 as u16,
            path_mtu: small.4,
            rdc_exists: flags.1,
            rnr_retry_count: small.3,
            max_cm_retries: small.5,
            srq: flags.2,
            extended_transport: ExtendedTransport(small.7),
            primary,
            alternate,
            sap_supported: flags.3,
            private_data: PrivateData::new(&private).unwrap(),
        };
        prop_assert_eq!(Req::parse(&req.encode()), req.clone());
        let lap = Lap { alternate, remote_qpn: wide.0, remote_cm_response_timeout: small.0, ..Lap::default() };
        prop_assert_eq!(Lap::parse(&lap.encode()), lap);
        let rep = Rep { vendor_id: wide.2, local_qpn: wide.0, local_eecn: wide.1, starting_psn: req.starting_psn, ..Rep::default() };
        prop_assert_eq!(Rep::parse(&rep.encode()), rep);
        let sidr = SidrRep { vendor_id: wide.2, qpn: wide.0, qkey: ids.3, info_len: 72, ..SidrRep::default() };
        prop_assert_eq!(SidrRep::parse(&sidr.encode()), sidr);
    }

    #[test]
    fn a_gmp_round_trips(id in attributes(), tid: u64, pkey: u16, psn: u32, src_qp in 0..1_u32 << 24, fill: u8, seed: u32) {
        let message = CmMessage::parse(id, &[fill; DATA_LEN]).unwrap();
        let gmp = Gmp { pkey, psn: Psn::new(psn), src_qp, mad: message.to_mad(tid) };
        let ib = roce::seal(|_| seed, gmp.headers().as_slice(), gmp.payload());
        let again = Gmp::from_packet(&Packet::parse(&ib).unwrap()).unwrap();
        prop_assert_eq!(again, gmp);
        prop_assert_eq!(CmMessage::from_mad(&again.mad), Ok(message));
        prop_assert_eq!(Mad::parse(&gmp.payload()[1..]), None);
    }

    #[test]
    fn an_ip_cm_header_round_trips(port: u16, a: [u8; 16], b: [u8; 16], rest in prop::collection::vec(any::<u8>(), 0..60)) {
        let v4 = |a: [u8; 16]| Ipv4Addr::new(a[0], a[1], a[2], a[3]);
        for addresses in [IpPair::V4(v4(a), v4(b)), IpPair::V6(Ipv6Addr::from(a), Ipv6Addr::from(b))] {
            let header = IpCmHeader { source_port: port, addresses };
            let bytes = [&header.encode()[..], &rest].concat();
            prop_assert_eq!(IpCmHeader::parse(&bytes), Ok((header, &rest[..])));
            prop_assert_eq!(IpPair::new(addresses.source(), addresses.destination()), Some(addresses));
        }
    }
}

/// Sample bits, counted by hand in the tables of the specification.
#[test]
fn fields_stand_where_the_specification_puts_them() {
    type Case = (CmMessage, &'static [(usize, u8)]);
    let lap = Path {
        flow_label: 0xabcde,
        traffic_class: 0x12,
        hop_limit: 0x34,
        packet_rate: 0x3f,
        sl: 0xa,
        ..Path::default()
    };
    let cases: [Case; 9] = [
        (Req { vendor_id: 0x123456, ..Req::default() }.into(), &[(5, 0x12), (6, 0x34), (7, 0x56)]),
        (
            Req { alternate: lap, ..Req::default() }.into(),
            &[(132, 0xab), (133, 0xcd), (134, 0xe0), (135, 0x3f), (136, 0x12), (137, 0x34), (138, 0xa0)],
        ),
        (
            Mra { message_mraed: MessageMraed::LAP, service_timeout: 31, ..Mra::default() }.into(),
            &[(8, 0x80), (9, 0xf8)],
        ),
        (
            Rej {
                message_rejected: MessageRejected::REP,
                reject_info_len: 72,
                reason: RejectReason::CONSUMER_DEFINED,
                ..Rej::default()
            }
            .into(),
            &[(8, 0x40), (9, 144), (11, 28)],
        ),
        (
            Rep { vendor_id: 0x123456, failover: Failover::REJECTED, srq: true, ..Rep::default() }.into(),
            &[(15, 0x12), (19, 0x34), (23, 0x56), (26, 0x04), (27, 0x10)],
        ),
        (Dreq { remote_qpn: 0x123456, ..Dreq::default() }.into(), &[(8, 0x12), (9, 0x34), (10, 0x56)]),
        (
            Lap { remote_qpn: 0x123456, remote_cm_response_timeout: 31, alternate: lap, ..Lap::default() }.into(),
            &[
                (12, 0x12),
                (13, 0x34),
                (14, 0x56),
                (15, 0xf8),
                (56, 0xab),
                (57, 0xcd),
                (58, 0xe0),
                (59, 0x12),
                (60, 0x34),
                (61, 0x3f),
                (62, 0xa0),
            ],
        ),
        (Apr { info_len: 16, status: ApStatus::INVALID_SL, ..Apr::default() }.into(), &[(8, 16), (9, 13)]),
        (
            SidrRep { vendor_id: 0x123456, status: SidrStatus::NO_QP, ..SidrRep::default() }.into(),
            &[(4, 3), (6, 0x12), (7, 0x34), (11, 0x56)],
        ),
    ];
    for (message, bytes) in cases {
        let mut want = [0; DATA_LEN];
        bytes.iter().for_each(|(at, byte)| want[*at] = *byte);
        assert_eq!(message.encode(), want, "{message:?}");
    }
}

#[test]
fn private_data_begins_where_its_length_says() {
    let lengths = [
        (AttrId::CM_REQ, REQ_PRIVATE_MAX, 92),
        (AttrId::CM_MRA, MRA_PRIVATE_MAX, 222),
        (AttrId::CM_REJ, REJ_PRIVATE_MAX, 148),
        (AttrId::CM_REP, REP_PRIVATE_MAX, 196),
        (AttrId::CM_RTU, RTU_PRIVATE_MAX, 224),
        (AttrId::CM_DREQ, DREQ_PRIVATE_MAX, 220),
        (AttrId::CM_DREP, DREP_PRIVATE_MAX, 224),
        (AttrId::CM_LAP, LAP_PRIVATE_MAX, 168),
        (AttrId::CM_APR, APR_PRIVATE_MAX, 148),
        (AttrId::CM_SIDR_REQ, SIDR_REQ_PRIVATE_MAX, 216),
        (AttrId::CM_SIDR_REP, SIDR_REP_PRIVATE_MAX, 136),
    ];
    assert_eq!(lengths.len(), CmMessage::ALL.len());
    for (id, max, legal) in lengths {
        assert_eq!(max, legal, "{id:?}");
        let message = CmMessage::parse(id, &[0xff; DATA_LEN]).unwrap();
        assert_eq!(message.private_data(), vec![0xff; legal], "{}", message.name());
    }
}
