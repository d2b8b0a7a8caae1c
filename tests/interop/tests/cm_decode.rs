//! CM messages written by Weft and read by tshark: no packet is malformed, and tshark finds the right value in each
//! field.

use std::path::Path as File;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use weft_interop::{Table, skip};
use weft_wire::cm::*;
use weft_wire::mad::Gmp;
use weft_wire::pcapng::{self, Direction};
use weft_wire::roce::{self, IpMeta};
use weft_wire::{Psn, ROCE_V2_PORT};

/// Fields by tshark's names, and their expected values.
type Fields = &'static [(&'static str, &'static str)];

const LOCAL: u32 = 0x1122_3344;
const REMOTE: u32 = 0x5566_7788;

fn gid(v6: bool, last: u8) -> [u8; 16] {
    match address(v6, last) {
        std::net::IpAddr::V4(a) => a.to_ipv6_mapped().octets(),
        std::net::IpAddr::V6(a) => a.octets(),
    }
}

fn address(v6: bool, last: u8) -> std::net::IpAddr {
    if v6 { [0xfd77, 0, 0, 0, 0, 0, 0, u16::from(last)].into() } else { [10, 77, 0, last].into() }
}

fn req(v6: bool) -> Req {
    let addresses = IpPair::new(address(v6, 1), address(v6, 2)).expect("one family");
    let private = [&IpCmHeader { source_port: 0xabcd, addresses }.encode()[..], b"hello"].concat();
    Req {
        local_comm_id: LOCAL,
        vendor_id: 0x010203,
        service_id: ServiceId::of_ip(ServiceId::PROTOCOL_TCP, 7174),
        local_ca_guid: 0x0102_0304_0506_0708,
        local_qpn: 0x123456,
        responder_resources: 16,
        initiator_depth: 8,
        remote_cm_response_timeout: 20,
        local_cm_response_timeout: 21,
        starting_psn: Psn::new(0xabcdef),
        retry_count: 7,
        rnr_retry_count: 6,
        pkey: 0xffff,
        path_mtu: 3,
        max_cm_retries: 15,
        srq: true,
        primary: Path {
            local_lid: LID_PERMISSIVE,
            remote_lid: LID_PERMISSIVE,
            local_gid: gid(v6, 1),
            remote_gid: gid(v6, 2),
            traffic_class: 0x68,
            hop_limit: 64,
            sl: 3,
            local_ack_timeout: 19,
            ..Path::default()
        },
        private_data: PrivateData::new(&private).expect("it fits"),
        ..Req::default()
    }
}

const REQ: Fields = &[
    ("infiniband.cm.req", "0x11223344"),
    ("infiniband.cm.req.serviceid.protocol", "0x06"),
    ("infiniband.cm.req.serviceid.dport", "0x1c06"),
    ("infiniband.cm.req.localcaguid", "0x0102030405060708"),
    ("infiniband.cm.req.localqpn", "0x123456"),
    ("infiniband.cm.req.responderres", "0x10"),
    ("infiniband.cm.req.initdepth", "0x08"),
    ("infiniband.cm.req.remoteresptout", "0x14"),
    ("infiniband.cm.req.localresptout", "0x15"),
    ("infiniband.cm.req.transpsvctype", "0x00"),
    ("infiniband.cm.req.startpsn", "0xabcdef"),
    ("infiniband.cm.req.retrcount", "0x07"),
    ("infiniband.cm.req.rnrretrcount", "0x06"),
    ("infiniband.cm.req.pkey", "0xffff"),
    ("infiniband.cm.req.pppmtu", "0x03"),
    ("infiniband.cm.req.maxcmretr", "0x0f"),
    ("infiniband.cm.req.srq", "0x01"),
    ("infiniband.cm.req.prim_tfcclass", "0x68"),
    ("infiniband.cm.req.prim_hoplim", "0x40"),
    ("infiniband.cm.req.prim_sl", "0x03"),
    ("infiniband.cm.req.prim_subnetlocal", "0x00"),
    ("infiniband.cm.req.prim_localacktout", "0x13"),
    ("infiniband.cm.req.ip_cm.majv", "0x00"),
    ("infiniband.cm.req.ip_cm.sport", "0xabcd"),
];

const REQ_V4: Fields = &[
    ("infiniband.cm.req.ip_cm.ipv", "0x04"),
    ("infiniband.cm.req.ip_cm.sip4", "10.77.0.1"),
    ("infiniband.cm.req.ip_cm.dip4", "10.77.0.2"),
    ("infiniband.cm.req.prim_localgid_ipv4", "10.77.0.1"),
    ("infiniband.cm.req.prim_remotegid_ipv4", "10.77.0.2"),
];

const REQ_V6: Fields = &[
    ("infiniband.cm.req.ip_cm.ipv", "0x06"),
    ("infiniband.cm.req.ip_cm.sip6", "fd77::1"),
    ("infiniband.cm.req.ip_cm.dip6", "fd77::2"),
    ("infiniband.cm.req.prim_localgid", "fd77::1"),
    ("infiniband.cm.req.prim_remotegid", "fd77::2"),
];

const REP: Fields = &[
    ("infiniband.cm.rep", "0x11223344"),
    ("infiniband.cm.rep.remotecommid", "0x55667788"),
    ("infiniband.cm.rep.localqpn", "0x123456"),
    ("infiniband.cm.rep.localeecn", "0x0a0b0c"),
    ("infiniband.cm.rep.startpsn", "0xabcdef"),
    ("infiniband.cm.rep.respres", "0x10"),
    ("infiniband.cm.rep.initdepth", "0x08"),
    ("infiniband.cm.rep.tgtackdelay", "0x0f"),
    ("infiniband.cm.rep.failoveracc", "0x01"),
    ("infiniband.cm.rep.e2eflowctrl", "0x01"),
    ("infiniband.cm.rep.rnrretrcount", "0x07"),
    ("infiniband.cm.rep.srq", "0x01"),
    ("infiniband.cm.rep.localcaguid", "0x0102030405060708"),
];

const REJ: Fields = &[
    ("infiniband.cm.rej.localcommid", "0x11223344"),
    ("infiniband.cm.rej.remotecommid", "0x55667788"),
    ("infiniband.cm.rej.msgrej", "0x01"),
    ("infiniband.cm.rej.rejinfolen", "0x02"),
    ("infiniband.cm.rej.reason", "0x001c"),
];

const RTU: Fields =
    &[("infiniband.cm.rtu.localcommid", "0x11223344"), ("infiniband.cm.rtu.remotecommid", "0x55667788")];

const DREQ: Fields = &[
    ("infiniband.cm.dreq.localcommid", "0x11223344"),
    ("infiniband.cm.dreq.remotecommid", "0x55667788"),
    ("infiniband.cm.req.remoteqpneecn", "0x123456"),
];

const DREP: Fields =
    &[("infiniband.cm.drsp.localcommid", "0x11223344"), ("infiniband.cm.drsp.remotecommid", "0x55667788")];

fn rep() -> Rep {
    Rep {
        local_comm_id: LOCAL,
        remote_comm_id: REMOTE,
        local_qpn: 0x123456,
        local_eecn: 0x0a0b0c,
        starting_psn: Psn::new(0xabcdef),
        responder_resources: 16,
        initiator_depth: 8,
        target_ack_delay: 15,
        failover: Failover::NOT_SUPPORTED,
        end_to_end_flow_control: true,
        rnr_retry_count: 7,
        srq: true,
        local_ca_guid: 0x0102_0304_0506_0708,
        private_data: PrivateData([0xee; REP_PRIVATE_MAX]),
        ..Rep::default()
    }
}

fn rej() -> Rej {
    Rej {
        local_comm_id: LOCAL,
        remote_comm_id: REMOTE,
        message_rejected: MessageRejected::REP,
        reject_info_len: 2,
        reason: RejectReason::CONSUMER_DEFINED,
        ari: PrivateData::new(&[7, 8]).expect("it fits"),
        private_data: PrivateData([0xee; REJ_PRIVATE_MAX]),
    }
}

/// Returns every message, with the fields that this tshark can show of it. Of the others it shows at least the name.
fn cases() -> Vec<(CmMessage, bool, Vec<Fields>)> {
    let ids = (LOCAL, REMOTE);
    let rtu = Rtu { local_comm_id: ids.0, remote_comm_id: ids.1, private_data: PrivateData([1; RTU_PRIVATE_MAX]) };
    let dreq = Dreq { local_comm_id: ids.0, remote_comm_id: ids.1, remote_qpn: 0x123456, ..Dreq::default() };
    let drep = Drep { local_comm_id: ids.0, remote_comm_id: ids.1, ..Drep::default() };
    vec![
        (req(false).into(), false, vec![REQ, REQ_V4]),
        (req(true).into(), true, vec![REQ, REQ_V6]),
        (rep().into(), false, vec![REP]),
        (rej().into(), false, vec![REJ]),
        (rtu.into(), false, vec![RTU]),
        (dreq.into(), true, vec![DREQ]),
        (drep.into(), true, vec![DREP]),
        (Mra { local_comm_id: LOCAL, service_timeout: 24, ..Mra::default() }.into(), false, vec![]),
        (Lap { local_comm_id: LOCAL, alternate: req(false).primary, ..Lap::default() }.into(), false, vec![]),
        (Apr { local_comm_id: LOCAL, status: ApStatus::UNSUPPORTED, ..Apr::default() }.into(), false, vec![]),
        (SidrReq { request_id: LOCAL, pkey: 0xffff, ..SidrReq::default() }.into(), false, vec![]),
        (SidrRep { request_id: LOCAL, qpn: 7, ..SidrRep::default() }.into(), true, vec![]),
    ]
}

/// Returns a capture of one frame.
fn capture(message: &CmMessage, v6: bool) -> Vec<u8> {
    let gmp = Gmp { pkey: 0xffff, psn: Psn::new(7), src_qp: 1, mad: message.to_mad(0x0102_0304_0506_0708) };
    let (src, dst) = (address(v6, 1), address(v6, 2));
    let meta = IpMeta { src, dst, sport: 0xd000, traffic_class: 0, hop_limit: 64, ip_id: 0 };
    let flow = meta.flow().expect("one family");
    let ib = roce::seal(|len| flow.seed(len, 0), gmp.headers().as_slice(), gmp.payload());
    let mut frame = vec![2; 12];
    frame.extend_from_slice(if v6 { &[0x86, 0xdd] } else { &[0x08, 0x00] });
    roce::put_v2(&mut frame, &meta, &ib);
    let mut file = Vec::new();
    pcapng::put_header(&mut file, "weft", pcapng::LINKTYPE_ETHERNET);
    pcapng::put_packet(&mut file, 0, Direction::Outbound, &frame);
    file
}

fn tshark(file: &File, args: &[&str]) -> Result<String> {
    let out = Command::new("tshark").arg("-r").arg(file).args(args).output().context("cannot run tshark")?;
    ensure!(out.status.success(), "tshark {args:?}: {}", String::from_utf8_lossy(&out.stderr).trim());
    Ok(String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

#[test]
fn tshark_reads_the_cm_messages_that_we_write() {
    if !skip::have("tshark_reads_the_cm_messages_that_we_write", &["tshark"]) {
        return;
    }
    let file = std::env::temp_dir().join(format!("weft-cm-decode-{}.pcapng", std::process::id()));
    let mut table = Table::new("CM messages");
    for (message, v6, fields) in cases() {
        table.case(&format!("{} over {}", message.name(), if v6 { "IPv6" } else { "IPv4" }), || {
            std::fs::write(&file, capture(&message, v6)).context("the capture")?;
            let fields = fields.concat();
            let mut args = vec!["-T", "fields", "-e", "frame.protocols", "-e", "udp.dstport"];
            args.extend(["-e", "infiniband.mad.attributeid", "-e", "infiniband.mad.transactionid"]);
            fields.iter().for_each(|(field, _)| args.extend(["-e", field]));
            let line = tshark(&file, &args)?;
            let mut shown = line.split('\t');
            let protocols = shown.next().unwrap_or_default();
            ensure!(protocols.ends_with("infiniband") && !protocols.contains("malformed"), "{protocols}");
            let id = format!("0x{:04x}", message.attr_id().0);
            let common = [("port", ROCE_V2_PORT.to_string()), ("attribute", id)];
            for (what, want) in common.into_iter().chain([("transaction", "0x0102030405060708".to_owned())]) {
                let shown = shown.next().unwrap_or_default();
                ensure!(shown == want, "{what} {shown}, want {want}");
            }
            for (field, want) in fields {
                let shown = shown.next().unwrap_or_default();
                ensure!(shown == want, "{field} {shown}, want {want}");
            }
            let bad = tshark(&file, &["-Y", "_ws.malformed || _ws.expert.severity >= 0x800000"])?;
            ensure!(bad.is_empty(), "tshark objects to {bad}");
            Ok(())
        });
    }
    let _ = std::fs::remove_file(&file);
    table.finish();
}
