//! CM packets that Linux's rxe exchanged for Debian's rping (IPv4 and IPv6), ucmatose, udaddy and a connection to a
//! port without a listener: each is a GMP, is read as tshark reads it, and is written again byte for byte.

use std::path::Path;

use weft_wire::cm::{
    CLASS_VERSION, CmMessage, Dreq, IpCmHeader, IpPair, LID_PERMISSIVE, MessageRejected, PrivateData, Rej,
    RejectReason, Rep, Req, Rtu, ServiceId, SidrRep, SidrReq, SidrStatus, TransportService,
};
use weft_wire::mad::{Class, Gmp, Method, Status};
use weft_wire::roce::IpMeta;
use weft_wire::{Packet, Psn, icrc, pcapng, roce};

const CLIENT_GUID: u64 = 0x5054_00ff_fe77_0002;
const SERVER_GUID: u64 = 0x5054_00ff_fe77_0001;

/// Returns the messages of a capture, after the round trip of every packet.
fn messages(capture: &str) -> Vec<(IpMeta, Gmp, CmMessage)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(capture);
    let file = std::fs::read(path).expect("capture");
    let read = pcapng::frames(&file).map(|frame| {
        let (meta, ib) = roce::parse_v2_frame(frame).expect("RoCE v2");
        let packet = Packet::parse(ib).expect("packet");
        let flow = meta.flow().expect("one family");
        assert_eq!(icrc::of_packet(flow.seed(ib.len(), meta.ip_id), ib), Packet::icrc(ib).unwrap());
        let gmp = Gmp::from_packet(&packet).expect("GMP");
        let header = &gmp.mad.header;
        assert_eq!((header.class(), header.class_version()), (Class::CM, CLASS_VERSION));
        assert_eq!((header.method(), header.status(), header.attr_mod()), (Method::SEND, Status::SUCCESS, 0));
        assert_eq!((gmp.pkey, gmp.src_qp), (0xffff, 1));
        let message = CmMessage::from_mad(&gmp.mad).expect("CM message");
        let again = Gmp { mad: message.to_mad(header.tid()), ..gmp };
        assert_eq!(again.mad, gmp.mad, "{message:?}");
        let sealed = roce::seal(|len| flow.seed(len, meta.ip_id), again.headers().as_slice(), again.payload());
        assert_eq!(sealed, ib, "{message:?}");
        (meta, gmp, message)
    });
    read.collect()
}

fn names(messages: &[(IpMeta, Gmp, CmMessage)]) -> Vec<&'static str> {
    messages.iter().map(|(_, _, message)| message.name()).collect()
}

fn req(message: &CmMessage) -> &Req {
    let CmMessage::Req(req) = message else { panic!("{message:?}") };
    req
}

/// Checks the values that Linux's cma writes into every REQ over RoCE.
fn assert_of_linux(req: &Req, meta: &IpMeta, port: u16) {
    assert_eq!(req.service_id, ServiceId::of_ip(ServiceId::PROTOCOL_TCP, port));
    assert_eq!((req.local_ca_guid, req.vendor_id, req.local_qkey), (CLIENT_GUID, 0, 0));
    assert_eq!((req.responder_resources, req.initiator_depth), (1, 1));
    assert_eq!((req.remote_cm_response_timeout, req.local_cm_response_timeout, req.max_cm_retries), (20, 20, 15));
    assert_eq!((req.transport_service, req.end_to_end_flow_control), (TransportService::RC, false));
    assert_eq!((req.pkey, req.path_mtu, req.srq, req.rdc_exists), (0xffff, 3, false, false));
    assert_eq!((req.primary.local_lid, req.primary.remote_lid), (LID_PERMISSIVE, LID_PERMISSIVE));
    assert_eq!(gid(req.primary.local_gid), meta.src.to_canonical());
    assert_eq!(gid(req.primary.remote_gid), meta.dst.to_canonical());
    assert_eq!((req.primary.hop_limit, req.primary.traffic_class, req.primary.sl), (64, 0, 0));
    assert_eq!((req.primary.packet_rate, req.primary.subnet_local, req.primary.local_ack_timeout), (0, false, 19));
    assert!(req.primary.is_present() && !req.alternate.is_present() && !req.sap_supported);
    let (header, rest) = IpCmHeader::parse(req.private_data.as_slice()).expect("IP CM header");
    assert_eq!((header.addresses.source(), header.addresses.destination()), (meta.src, meta.dst));
    assert_eq!([&header.encode()[..], rest].concat(), req.private_data.as_slice());
}

fn gid(gid: [u8; 16]) -> std::net::IpAddr {
    std::net::Ipv6Addr::from(gid).to_canonical()
}

fn rping(capture: &str, local_comm_id: u32, remote_comm_id: u32, qpn: u32, flow_label: u32, source_port: u16) {
    let all = messages(capture);
    assert_eq!(names(&all), ["REQ", "REP", "RTU", "DREQ", "DREP"]);
    let (meta, gmp, first) = &all[0];
    let req = req(first);
    assert_of_linux(req, meta, 7174);
    assert_eq!((req.local_comm_id, req.local_qpn, req.primary.flow_label), (local_comm_id, qpn, flow_label));
    assert_eq!((req.retry_count, req.rnr_retry_count), (7, 7));
    assert_eq!(IpCmHeader::parse(req.private_data.as_slice()).unwrap().0.source_port, source_port);
    // The lower half of the transaction ID is the communication ID, throughout the handshake.
    assert_eq!(gmp.mad.header.tid() as u32, local_comm_id.swap_bytes());
    assert!(all.iter().all(|(_, g, _)| g.mad.header.tid() == gmp.mad.header.tid()));
    let CmMessage::Rep(rep) = &all[1].2 else { panic!("{:?}", all[1]) };
    let want = Rep {
        local_comm_id: remote_comm_id,
        remote_comm_id: local_comm_id,
        local_qpn: qpn,
        starting_psn: rep.starting_psn,
        responder_resources: 1,
        initiator_depth: 1,
        target_ack_delay: 15,
        rnr_retry_count: 7,
        local_ca_guid: SERVER_GUID,
        ..Rep::default()
    };
    assert_eq!(*rep, want);
    assert_eq!(all[2].2, Rtu { local_comm_id, remote_comm_id, ..Rtu::default() }.into());
    assert_eq!(all[3].2, Dreq { local_comm_id, remote_comm_id, remote_qpn: qpn, ..Dreq::default() }.into());
    let CmMessage::Drep(drep) = &all[4].2 else { panic!("{:?}", all[4]) };
    assert_eq!((drep.local_comm_id, drep.remote_comm_id), (remote_comm_id, local_comm_id));
}

#[test]
fn rping_over_ipv4() {
    rping("cm-rping.pcap", 0x0b3d_4e95, 0xf2d5_e1d3, 0x11, 0x522a4, 0xada2);
    let CmMessage::Rep(rep) = &messages("cm-rping.pcap")[1].2 else { panic!("REP") };
    assert_eq!(rep.starting_psn, Psn::new(0x3433e3));
}

#[test]
fn rping_over_ipv6() {
    rping("cm-rping_v6.pcap", 0x0a3d_4e95, 0xf0d5_e1d3, 0x12, 0x24663, 0x9603);
    let all = messages("cm-rping_v6.pcap");
    let (header, _) = IpCmHeader::parse(req(&all[0].2).private_data.as_slice()).unwrap();
    assert_eq!(header.addresses, IpPair::V6("fd77::2".parse().unwrap(), "fd77::1".parse().unwrap()));
}

#[test]
fn ucmatose_with_two_connections() {
    let all = messages("cm-ucmatose.pcap");
    let want = ["REQ", "REQ", "REP", "RTU", "REP", "RTU", "DREQ", "DREQ", "DREP", "DREP"];
    assert_eq!(names(&all), want);
    for (meta, _, message) in &all[..2] {
        let req = req(message);
        assert_of_linux(req, meta, 7471);
        assert_eq!((req.retry_count, req.rnr_retry_count), (5, 0));
    }
    // Here the passive side disconnects: the IDs swap places, the transaction is new.
    let CmMessage::Dreq(dreq) = &all[6].2 else { panic!("{:?}", all[6]) };
    assert_eq!((dreq.local_comm_id, dreq.remote_comm_id, dreq.remote_qpn), (0xf6d5_e1d3, 0x093d_4e95, 0x13));
    assert_eq!(all[6].1.mad.header.tid(), 0x0000_0002_d3e1_d5f6);
}

#[test]
fn a_port_where_nobody_listens() {
    let all = messages("cm-reject.pcap");
    assert_eq!(names(&all), ["REQ", "REJ"]);
    assert_of_linux(req(&all[0].2), &all[0].0, 9999);
    let want = Rej {
        local_comm_id: 0,
        remote_comm_id: 0x023d_4e95,
        message_rejected: MessageRejected::REQ,
        reason: RejectReason::INVALID_SERVICE_ID,
        ..Rej::default()
    };
    assert!(want.ari().is_empty());
    assert_eq!(all[1].2, want.into());
}

#[test]
fn udaddy_resolves_a_service() {
    let all = messages("cm-udaddy.pcap");
    assert_eq!(names(&all), ["SIDR_REQ", "SIDR_REP"]);
    let service_id = ServiceId::of_ip(ServiceId::PROTOCOL_UDP, 7174);
    let addresses = IpPair::V4([10, 77, 0, 2].into(), [10, 77, 0, 1].into());
    let header = IpCmHeader { source_port: 0x814f, addresses }.encode();
    let request =
        SidrReq { request_id: 0x0f3d_4e95, pkey: 0xffff, service_id, private_data: PrivateData::new(&header).unwrap() };
    let reply = SidrRep {
        request_id: 0x0f3d_4e95,
        status: SidrStatus::SUCCESS,
        qpn: 0x15,
        service_id,
        qkey: 0x0123_4567,
        ..SidrRep::default()
    };
    assert_eq!(all[0].2, request.into());
    assert_eq!(all[1].2, reply.into());
}
