//! Text and JSON of each record type.

use std::fmt::Write;

use serde_json::{Value, json};

use super::record::{Bytes, Record, Shown, dec, gid, guid, hex, hex_of, small};
use crate::ib::fields::subn::port_info;
use crate::ib::names::NodeNames;
use crate::ib::port_info::NOT_DISPLAYED;

/// Settings of the printers.
#[derive(Debug, Default)]
pub struct Context {
    /// Names of nodes.
    pub names: NodeNames,
    /// Whether to show keys.
    pub show_keys: bool,
    /// ClassPortInfo's CapabilityMask2 of the SA.
    pub sa_cap_mask2: u32,
}

/// Formats a record.
pub type Printer = fn(Bytes<'_>, &Context) -> Record;

/// Column of the values in most records.
const COLUMN: usize = 24;
/// Column of the values in records of tables.
const TABLE_COLUMN: usize = 27;
/// CapabilityMask2: SwitchInfo:MulticastFDBTop is supported.
const CAP_MASK2_MCAST_TOP: u32 = 1 << 3;
/// The first multicast LID.
const MULTICAST_LID: u32 = 0xc000;

fn node_type(kind: u8) -> &'static str {
    match kind {
        1 => "Channel Adapter",
        2 => "Switch",
        3 => "Router",
        _ => "UNKNOWN",
    }
}

/// NodeRecord.
pub fn node(r: Bytes<'_>, context: &Context) -> Record {
    let name = context.names.name(r.u64(16), r.slice(44, 64));
    Record::new("NodeRecord dump:", COLUMN)
        .field("lid", dec(r.u16(0)))
        .field("reserved", hex(r.u16(2)))
        .field("base_version", hex(r.u8(4)))
        .field("class_version", hex(r.u8(5)))
        .field("node_type", text(node_type(r.u8(6))))
        .field("num_ports", dec(r.u8(7)))
        .field("sys_guid", guid(r.u64(8)))
        .field("node_guid", guid(r.u64(16)))
        .field("port_guid", guid(r.u64(24)))
        .field("partition_cap", hex(r.u16(32)))
        .field("device_id", hex(r.u16(34)))
        .field("revision", hex(r.u32(36)))
        .field("port_num", dec(r.u8(40)))
        .field("vendor_id", hex(r.u32(40) & 0x00ff_ffff))
        .field("NodeDescription", text(&name))
}

/// PathRecord.
pub fn path(r: Bytes<'_>, _: &Context) -> Record {
    let reserved = r.u64(56) & 0xffff_ffff_ffff;
    Record::new("PathRecord dump:", COLUMN)
        .field("service_id", guid(r.u64(0)))
        .field("dgid", gid(r.gid(8)))
        .field("sgid", gid(r.gid(24)))
        .field("dlid", dec(r.u16(40)))
        .field("slid", dec(r.u16(42)))
        .field("hop_flow_raw", hex(r.u32(44)))
        .field("tclass", hex(r.u8(48)))
        .field("num_path_revers", hex(r.u8(49)))
        .field("pkey", hex(r.u16(50)))
        .field("qos_class", hex(r.u16(52) >> 4))
        .field("sl", hex(r.u16(52) & 15))
        .field("mtu", hex(r.u8(54)))
        .field("rate", hex(r.u8(55)))
        .field("pkt_life", hex(r.u8(56)))
        .field("preference", hex(r.u8(57)))
        .field("resv2", hex_of(reserved, 12))
}

/// The SA's ClassPortInfo.
pub fn class_port_info(r: Bytes<'_>, _: &Context) -> Record {
    Record::new("SA ClassPortInfo:", 25)
        .field("Base version", dec(r.u8(0)))
        .field("Class version", dec(r.u8(1)))
        .field("Capability mask", hex_of(r.u16(2), 4))
        .field("Capability mask 2", hex_of(r.u32(4) >> 5, 8))
        .field("Response time value", hex_of(r.u8(7) & 31, 2))
        .field("Redirect GID", gid(r.gid(8)))
        .field("Redirect TC/SL/FL", hex_of(r.u32(24), 8))
        .field("Redirect LID", dec(r.u16(28)))
        .field("Redirect PKey", hex_of(r.u16(30), 4))
        .field("Redirect QP", hex_of(r.u32(32), 8))
        .field("Redirect QKey", hex_of(r.u32(36), 8))
        .field("Trap GID", gid(r.gid(40)))
        .field("Trap TC/SL/FL", hex_of(r.u32(56), 8))
        .field("Trap LID", dec(r.u16(60)))
        .field("Trap PKey", hex_of(r.u16(62), 4))
        .field("Trap HL/QP", hex_of(r.u32(64), 8))
        .field("Trap QKey", hex_of(r.u32(68), 8))
}

/// PortInfoRecord, in short form.
pub fn port_info_short(r: Bytes<'_>, _: &Context) -> Record {
    Record::new("PortInfoRecord dump:", COLUMN)
        .field("EndPortLid", dec(r.u16(0)))
        .field("PortNum", dec(r.u8(2)))
        .field("base_lid", dec(r.u16(20)))
        .field("master_sm_base_lid", dec(r.u16(22)))
        .field("capability_mask", hex(r.u32(24)))
}

/// PortInfoRecord.
pub fn port_info(r: Bytes<'_>, context: &Context) -> Record {
    let info = r.slice(4, 64);
    let mut lines = String::new();
    let mut values = serde_json::Map::new();
    for field in port_info::ALL {
        let hidden = field.name == port_info::MKEY.name && !context.show_keys;
        let line = if hidden { field.line_with(NOT_DISPLAYED) } else { field.line(info) };
        let value = if hidden { NOT_DISPLAYED.into() } else { field.json(info) };
        values.insert(field.label(), value);
        let _ = writeln!(lines, "\t\t{line}");
    }
    Record::new("PortInfoRecord dump:", COLUMN)
        .lines("\tRID\n")
        .field("EndPortLid", dec(r.u16(0)))
        .field("PortNum", dec(r.u8(2)))
        .field("Options", small(r.u8(3)))
        .lines("\tPortInfo dump:\n")
        .table(lines, "PortInfo", values.into())
}

/// MCMemberRecord.
pub fn member(r: Bytes<'_>, _: &Context) -> Record {
    let word = r.u32(44);
    Record::new("MCMember Record dump:", COLUMN)
        .field("MGID", gid(r.gid(0)))
        .field("PortGid", gid(r.gid(16)))
        .field("qkey", small(r.u32(32)))
        .field("mlid", small(r.u16(36)))
        .field("mtu", small(r.u8(38)))
        .field("TClass", small(r.u8(39)))
        .field("pkey", small(r.u16(40)))
        .field("rate", small(r.u8(42)))
        .field("pkt_life", small(r.u8(43)))
        .field("SL", small(word >> 28))
        .field("FlowLabel", small(word >> 8 & 0xf_ffff))
        .field("HopLimit", small(word & 0xff))
        .field("Scope", small(r.u8(48) >> 4))
        .field("JoinState", small(r.u8(48) & 15))
        .field("ProxyJoin", small(r.u8(49) & 1))
}

/// MCMemberRecord of a group.
pub fn group(r: Bytes<'_>, _: &Context) -> Record {
    Record::new("MCMemberRecord group dump:", COLUMN)
        .field("MGID", gid(r.gid(0)))
        .field("Mlid", hex(r.u16(36)))
        .field("Mtu", hex(r.u8(38)))
        .field("pkey", hex(r.u16(40)))
        .field("Rate", hex(r.u8(42)))
        .field("SL", hex(r.u32(44) >> 28))
}

/// ServiceRecord.
pub fn service(r: Bytes<'_>, context: &Context) -> Record {
    let key = r.slice(32, 16).iter().fold("0x".to_owned(), |text, byte| text + &format!("{byte:02x}"));
    let name = crate::ib::format::text_until_zero(r.slice(48, 64));
    let mut record = Record::new("ServiceRecord dump:", COLUMN)
        .field("ServiceID", guid(r.u64(0)))
        .field("ServiceGID", gid(r.gid(8)))
        .field("ServiceP_Key", hex(r.u16(24)))
        .field("ServiceLease", hex(r.u32(28)))
        .field("ServiceKey", text(if context.show_keys { &key } else { NOT_DISPLAYED }))
        .field("ServiceName", text(&name));
    for i in 0..16 {
        record = record.field(&format!("ServiceData8.{}", i + 1), hex(r.u8(112 + i)));
    }
    for i in 0..8 {
        record = record.field(&format!("ServiceData16.{}", i + 1), hex(r.u16(128 + 2 * i)));
    }
    for i in 0..4 {
        record = record.field(&format!("ServiceData32.{}", i + 1), hex(r.u32(144 + 4 * i)));
    }
    for i in 0..2 {
        record = record.field(&format!("ServiceData64.{}", i + 1), guid(r.u64(160 + 8 * i)));
    }
    record
}

/// SMInfoRecord.
pub fn sm_info(r: Bytes<'_>, _: &Context) -> Record {
    Record::new("SMInfoRecord dump:", 22)
        .lines("\t\tRID\n")
        .field("LID", dec(r.u16(0)))
        .lines("\t\tSMInfo dump:\n")
        .field("GUID", guid(r.u64(4)))
        .field("SM_Key", guid(r.u64(12)))
        .field("ActCount", dec(r.u32(20)))
        .field("Priority", dec(r.u8(24) >> 4))
        .field("SMState", dec(r.u8(24) & 15))
}

/// SwitchInfoRecord.
pub fn switch_info(r: Bytes<'_>, context: &Context) -> Record {
    let record = Record::new("SwitchInfoRecord dump:", 40)
        .lines("\t\tRID\n")
        .field("LID", dec(r.u16(0)))
        .lines("\t\tSwitchInfo dump:\n")
        .field("LinearFDBCap", hex(r.u16(4)))
        .field("RandomFDBCap", hex(r.u16(6)))
        .field("MulticastFDBCap", hex(r.u16(8)))
        .field("LinearFDBTop", hex(r.u16(10)))
        .field("DefaultPort", dec(r.u8(12)))
        .field("DefaultMulticastPrimaryPort", dec(r.u8(13)))
        .field("DefaultMulticastNotPrimaryPort", dec(r.u8(14)))
        .field("LifeTimeValue/PortStateChange/OpSL2VL", hex(r.u8(15)))
        .field("LIDsPerPort", hex(r.u16(16)))
        .field("PartitionEnforcementCap", hex(r.u16(18)))
        .field("flags", hex(r.u8(20)));
    if context.sa_cap_mask2 & CAP_MASK2_MCAST_TOP == 0 {
        return record;
    }
    record.field("MulticastFDBTop", hex(r.u16(22)))
}

/// InformInfoRecord.
pub fn inform_info(r: Bytes<'_>, context: &Context) -> Record {
    let generic = r.u8(46) != 0;
    let qpn = r.u32(52) >> 8;
    let producer = u32::from(r.u8(57)) << 16 | u32::from(r.u16(58));
    let record = Record::new("InformInfoRecord dump:", COLUMN)
        .lines("\t\tRID\n")
        .field("SubscriberGID", gid(r.gid(0)))
        .field("SubscriberEnum", hex(r.u16(16)))
        .lines("\t\tInformInfo dump:\n")
        .field("gid", gid(r.gid(24)))
        .field("lid_range_begin", dec(r.u16(40)))
        .field("lid_range_end", dec(r.u16(42)))
        .field("is_generic", hex(r.u8(46)))
        .field("subscribe", hex(r.u8(47)))
        .field("trap_type", hex(r.u16(48)));
    let record = match generic {
        true => record.field("trap_num", dec(r.u16(50))),
        false => record.field("dev_id", hex(r.u16(50))),
    };
    record
        .field("qpn", if context.show_keys { hex_of(qpn, 6) } else { text(NOT_DISPLAYED) })
        .field("resp_time_val", hex(r.u8(55) & 31))
        .field(if generic { "node_type" } else { "vendor_id" }, hex_of(producer, 6))
}

/// LinkRecord.
pub fn link(r: Bytes<'_>, _: &Context) -> Record {
    Record::new("LinkRecord dump:", TABLE_COLUMN)
        .field("FromLID", dec(r.u16(0)))
        .field("FromPort", dec(r.u8(2)))
        .field("ToPort", dec(r.u8(3)))
        .field("ToLID", dec(r.u16(4)))
}

/// SLtoVLMappingTableRecord.
pub fn sl2vl(r: Bytes<'_>, _: &Context) -> Record {
    let lanes: Vec<u8> = (0..16).map(|sl| r.u8(8 + sl / 2) >> (4 * (1 - sl % 2)) & 15).collect();
    let mut lines = "\t\tSL: 0| 1| 2| 3| 4| 5| 6| 7| 8| 9|10|11|12|13|14|15|\n\t\tVL:".to_owned();
    for lane in &lanes {
        let _ = write!(lines, "{lane:2}|");
    }
    lines.push('\n');
    Record::new("SL2VLTableRecord dump:", TABLE_COLUMN)
        .field("LID", dec(r.u16(0)))
        .field("InPort", dec(r.u8(2)))
        .field("OutPort", dec(r.u8(3)))
        .table(lines, "VL", json!(lanes))
}

/// VLArbitrationTableRecord.
pub fn vl_arbitration(r: Bytes<'_>, _: &Context) -> Record {
    let entry = |i: usize| (r.u8(8 + 2 * i), r.u8(9 + 2 * i));
    let mut lines = String::new();
    for first in [0, 16] {
        let row = |value: fn((u8, u8)) -> u8| -> String {
            (first..first + 16).map(|i| format!("{:2}|", value(entry(i)))).collect()
        };
        let _ = write!(lines, "\t\tVL    :{}\n\t\tWeight:{}\n", row(|e| e.0), row(|e| e.1));
    }
    let entries: Vec<Value> = (0..32).map(entry).map(|(vl, weight)| json!({"VL": vl, "Weight": weight})).collect();
    Record::new("VLArbTableRecord dump:", TABLE_COLUMN)
        .field("LID", dec(r.u16(0)))
        .field("Port", dec(r.u8(2)))
        .field("Block", dec(r.u8(3)))
        .table(lines, "Entries", entries.into())
}

/// P_KeyTableRecord.
pub fn pkeys(r: Bytes<'_>, _: &Context) -> Record {
    let keys: Vec<String> = (0..32).map(|i| format!("0x{:04x}", r.u16(8 + 2 * i))).collect();
    let mut lines = "\t\tPKey Table:\n".to_owned();
    for row in keys.chunks(8) {
        let _ = writeln!(lines, "\t\t{}", row.join(" "));
    }
    lines.push('\n');
    Record::new("PKeyTableRecord dump:", TABLE_COLUMN)
        .field("LID", dec(r.u16(0)))
        .field("Port", dec(r.u8(4)))
        .field("Block", dec(r.u16(2)))
        .table(lines, "PKeys", json!(keys))
}

/// LinearForwardingTableRecord.
pub fn linear_forwarding(r: Bytes<'_>, _: &Context) -> Record {
    let block = u32::from(r.u16(2));
    let ports: Vec<(u32, u8)> = (0..64u32).map(|i| (block * 64 + i, r.u8(8 + i as usize))).collect();
    let mut lines = "\t\tLFT:\n\t\tLID\tPort Number\n".to_owned();
    for (lid, port) in &ports {
        let _ = writeln!(lines, "\t\t{lid}\t{port}");
    }
    lines.push('\n');
    Record::new("LFT Record dump:", TABLE_COLUMN).field("LID", dec(r.u16(0))).field("Block", dec(block)).table(
        lines,
        "LFT",
        ports.iter().map(|(lid, port)| json!({"lid": lid, "port": port})).collect(),
    )
}

/// GUIDInfoRecord.
pub fn guid_info(r: Bytes<'_>, _: &Context) -> Record {
    let record =
        Record::new("GUIDInfo Record dump:", TABLE_COLUMN).field("LID", dec(r.u16(0))).field("Block", dec(r.u8(2)));
    (0..8).fold(record, |record, i| record.field(&format!("GUID {i}"), guid(r.u64(8 + 8 * i))))
}

/// MulticastForwardingTableRecord.
pub fn multicast_forwarding(r: Bytes<'_>, _: &Context) -> Record {
    let (position, block) = (r.u16(2) >> 12, u32::from(r.u16(2) & 0x1ff));
    let masks: Vec<(u32, u16)> =
        (0..32u32).map(|i| (MULTICAST_LID + block * 32 + i, r.u16(8 + 2 * i as usize))).collect();
    let mut lines = "\t\tMFT:\n\t\tMLID\tPort Mask\n".to_owned();
    for (mlid, mask) in &masks {
        let _ = writeln!(lines, "\t\t0x{mlid:04x}\t0x{mask:04x}");
    }
    lines.push('\n');
    let mask = |(mlid, mask): &(u32, u16)| json!({"mlid": format!("0x{mlid:04x}"), "mask": format!("0x{mask:04x}")});
    Record::new("MFT Record dump:", TABLE_COLUMN)
        .field("LID", dec(r.u16(0)))
        .field("Position", dec(position))
        .field("Block", dec(block))
        .table(lines, "MFT", masks.iter().map(mask).collect())
}

fn text(text: &str) -> Shown {
    Shown::Text(text.to_owned())
}
