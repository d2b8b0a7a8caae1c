//! Text and JSON of each record type.

use std::fmt::Write;

use serde_json::{Value, json};
use weft_wire::mad::sa::{
    GuidInfoRecord, InformInfoRecord, LinearForwardingTableRecord, LinkRecord, McMemberRecord,
    MulticastForwardingTableRecord, NodeRecord, PKeyTableRecord, PathRecord, PortInfoRecord, ServiceRecord,
    SlToVlTableRecord, SmInfoRecord, SwitchInfoRecord, VlArbitrationTableRecord,
};
use weft_wire::mad::subn::{NodeInfo, PortInfo, SmInfo, SwitchInfo};
use weft_wire::mad::{ClassPortInfo, InformInfo};
use weft_wire::span;
use weft_wire::span::Span;

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
const MULTICAST_LID: u64 = 0xc000;

/// Reserved bits of a NodeRecord, which infiniband-diags prints.
const NODE_RESERVED: Span = Span::new(16, 16);
/// Reserved bits at the end of a PathRecord, likewise.
const PATH_RESERVED: Span = Span::new(464, 48);
/// SwitchInfo's flags, with the reserved bits of their byte.
const SWITCH_FLAGS: Span = Span::new(128, 8);
/// MTU of a group, with its selector.
const GROUP_MTU: Span = span!(McMemberRecord.mtu_selector).through(span!(McMemberRecord.mtu));
/// Rate of a group, with its selector.
const GROUP_RATE: Span = span!(McMemberRecord.rate_selector).through(span!(McMemberRecord.rate));
/// The bit that infiniband-diags prints as ProxyJoin: the last one of its byte.
pub const PROXY_JOIN: Span = Span::new(399, 1);

fn node_type(kind: u64) -> &'static str {
    match kind {
        1 => "Channel Adapter",
        2 => "Switch",
        3 => "Router",
        _ => "UNKNOWN",
    }
}

/// NodeRecord.
pub fn node(r: Bytes<'_>, context: &Context) -> Record {
    let info = r.part(span!(NodeRecord.node_info));
    let description = r.part(span!(NodeRecord.node_description));
    let name = context.names.name(info.get(span!(NodeInfo.node_guid)), description.0);
    Record::new("NodeRecord dump:", COLUMN)
        .field("lid", dec(r.get(span!(NodeRecord.lid))))
        .field("reserved", hex(r.get(NODE_RESERVED)))
        .field("base_version", hex(info.get(span!(NodeInfo.base_version))))
        .field("class_version", hex(info.get(span!(NodeInfo.class_version))))
        .field("node_type", text(node_type(info.get(span!(NodeInfo.node_type)))))
        .field("num_ports", dec(info.get(span!(NodeInfo.num_ports))))
        .field("sys_guid", guid(info.get(span!(NodeInfo.system_image_guid))))
        .field("node_guid", guid(info.get(span!(NodeInfo.node_guid))))
        .field("port_guid", guid(info.get(span!(NodeInfo.port_guid))))
        .field("partition_cap", hex(info.get(span!(NodeInfo.partition_cap))))
        .field("device_id", hex(info.get(span!(NodeInfo.device_id))))
        .field("revision", hex(info.get(span!(NodeInfo.revision))))
        .field("port_num", dec(info.get(span!(NodeInfo.local_port_num))))
        .field("vendor_id", hex(info.get(span!(NodeInfo.vendor_id))))
        .field("NodeDescription", text(&name))
}

/// PathRecord.
pub fn path(r: Bytes<'_>, _: &Context) -> Record {
    let hop_flow_raw = span!(PathRecord.raw_traffic).through(span!(PathRecord.hop_limit));
    let num_path_revers = span!(PathRecord.reversible).through(span!(PathRecord.numb_path));
    let mtu = span!(PathRecord.mtu_selector).through(span!(PathRecord.mtu));
    let rate = span!(PathRecord.rate_selector).through(span!(PathRecord.rate));
    let life = span!(PathRecord.packet_life_time_selector).through(span!(PathRecord.packet_life_time));
    Record::new("PathRecord dump:", COLUMN)
        .field("service_id", guid(r.get(span!(PathRecord.service_id))))
        .field("dgid", gid(r.gid(span!(PathRecord.dgid))))
        .field("sgid", gid(r.gid(span!(PathRecord.sgid))))
        .field("dlid", dec(r.get(span!(PathRecord.dlid))))
        .field("slid", dec(r.get(span!(PathRecord.slid))))
        .field("hop_flow_raw", hex(r.get(hop_flow_raw)))
        .field("tclass", hex(r.get(span!(PathRecord.tclass))))
        .field("num_path_revers", hex(r.get(num_path_revers)))
        .field("pkey", hex(r.get(span!(PathRecord.pkey))))
        .field("qos_class", hex(r.get(span!(PathRecord.qos_class))))
        .field("sl", hex(r.get(span!(PathRecord.sl))))
        .field("mtu", hex(r.get(mtu)))
        .field("rate", hex(r.get(rate)))
        .field("pkt_life", hex(r.get(life)))
        .field("preference", hex(r.get(span!(PathRecord.preference))))
        .field("resv2", hex_of(r.get(PATH_RESERVED), 12))
}

/// The SA's ClassPortInfo.
pub fn class_port_info(r: Bytes<'_>, _: &Context) -> Record {
    let redirect = span!(ClassPortInfo.redirect_tc).through(span!(ClassPortInfo.redirect_fl));
    let trap = span!(ClassPortInfo.trap_tc).through(span!(ClassPortInfo.trap_fl));
    let trap_qp = span!(ClassPortInfo.trap_hl).through(span!(ClassPortInfo.trap_qp));
    Record::new("SA ClassPortInfo:", 25)
        .field("Base version", dec(r.get(span!(ClassPortInfo.base_version))))
        .field("Class version", dec(r.get(span!(ClassPortInfo.class_version))))
        .field("Capability mask", hex_of(r.get(span!(ClassPortInfo.capability_mask)), 4))
        .field("Capability mask 2", hex_of(r.get(span!(ClassPortInfo.capability_mask2)), 8))
        .field("Response time value", hex_of(r.get(span!(ClassPortInfo.resp_time_value)), 2))
        .field("Redirect GID", gid(r.gid(span!(ClassPortInfo.redirect_gid))))
        .field("Redirect TC/SL/FL", hex_of(r.get(redirect), 8))
        .field("Redirect LID", dec(r.get(span!(ClassPortInfo.redirect_lid))))
        .field("Redirect PKey", hex_of(r.get(span!(ClassPortInfo.redirect_pkey)), 4))
        .field("Redirect QP", hex_of(r.get(span!(ClassPortInfo.redirect_qp)), 8))
        .field("Redirect QKey", hex_of(r.get(span!(ClassPortInfo.redirect_qkey)), 8))
        .field("Trap GID", gid(r.gid(span!(ClassPortInfo.trap_gid))))
        .field("Trap TC/SL/FL", hex_of(r.get(trap), 8))
        .field("Trap LID", dec(r.get(span!(ClassPortInfo.trap_lid))))
        .field("Trap PKey", hex_of(r.get(span!(ClassPortInfo.trap_pkey)), 4))
        .field("Trap HL/QP", hex_of(r.get(trap_qp), 8))
        .field("Trap QKey", hex_of(r.get(span!(ClassPortInfo.trap_qkey)), 8))
}

/// PortInfoRecord, in short form.
pub fn port_info_short(r: Bytes<'_>, _: &Context) -> Record {
    let info = r.part(span!(PortInfoRecord.port_info));
    Record::new("PortInfoRecord dump:", COLUMN)
        .field("EndPortLid", dec(r.get(span!(PortInfoRecord.lid))))
        .field("PortNum", dec(r.get(span!(PortInfoRecord.port_num))))
        .field("base_lid", dec(info.get(span!(PortInfo.lid))))
        .field("master_sm_base_lid", dec(info.get(span!(PortInfo.master_sm_lid))))
        .field("capability_mask", hex(info.get(span!(PortInfo.capability_mask))))
}

/// PortInfoRecord.
pub fn port_info(r: Bytes<'_>, context: &Context) -> Record {
    let info = r.part(span!(PortInfoRecord.port_info)).0;
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
        .field("EndPortLid", dec(r.get(span!(PortInfoRecord.lid))))
        .field("PortNum", dec(r.get(span!(PortInfoRecord.port_num))))
        .field("Options", small(r.get(span!(PortInfoRecord.options))))
        .lines("\tPortInfo dump:\n")
        .table(lines, "PortInfo", values.into())
}

/// MCMemberRecord.
pub fn member(r: Bytes<'_>, _: &Context) -> Record {
    let life = span!(McMemberRecord.packet_life_time_selector).through(span!(McMemberRecord.packet_life_time));
    Record::new("MCMember Record dump:", COLUMN)
        .field("MGID", gid(r.gid(span!(McMemberRecord.mgid))))
        .field("PortGid", gid(r.gid(span!(McMemberRecord.port_gid))))
        .field("qkey", small(r.get(span!(McMemberRecord.qkey))))
        .field("mlid", small(r.get(span!(McMemberRecord.mlid))))
        .field("mtu", small(r.get(GROUP_MTU)))
        .field("TClass", small(r.get(span!(McMemberRecord.tclass))))
        .field("pkey", small(r.get(span!(McMemberRecord.pkey))))
        .field("rate", small(r.get(GROUP_RATE)))
        .field("pkt_life", small(r.get(life)))
        .field("SL", small(r.get(span!(McMemberRecord.sl))))
        .field("FlowLabel", small(r.get(span!(McMemberRecord.flow_label))))
        .field("HopLimit", small(r.get(span!(McMemberRecord.hop_limit))))
        .field("Scope", small(r.get(span!(McMemberRecord.scope))))
        .field("JoinState", small(r.get(span!(McMemberRecord.join_state))))
        .field("ProxyJoin", small(r.get(PROXY_JOIN)))
}

/// MCMemberRecord of a group.
pub fn group(r: Bytes<'_>, _: &Context) -> Record {
    Record::new("MCMemberRecord group dump:", COLUMN)
        .field("MGID", gid(r.gid(span!(McMemberRecord.mgid))))
        .field("Mlid", hex(r.get(span!(McMemberRecord.mlid))))
        .field("Mtu", hex(r.get(GROUP_MTU)))
        .field("pkey", hex(r.get(span!(McMemberRecord.pkey))))
        .field("Rate", hex(r.get(GROUP_RATE)))
        .field("SL", hex(r.get(span!(McMemberRecord.sl))))
}

/// ServiceRecord.
pub fn service(r: Bytes<'_>, context: &Context) -> Record {
    let key = r.part(span!(ServiceRecord.service_key)).0;
    let key = key.iter().fold("0x".to_owned(), |text, byte| text + &format!("{byte:02x}"));
    let name = crate::ib::format::text_until_zero(r.part(span!(ServiceRecord.service_name)).0);
    let mut record = Record::new("ServiceRecord dump:", COLUMN)
        .field("ServiceID", guid(r.get(span!(ServiceRecord.service_id))))
        .field("ServiceGID", gid(r.gid(span!(ServiceRecord.service_gid))))
        .field("ServiceP_Key", hex(r.get(span!(ServiceRecord.service_pkey))))
        .field("ServiceLease", hex(r.get(span!(ServiceRecord.service_lease))))
        .field("ServiceKey", text(if context.show_keys { &key } else { NOT_DISPLAYED }))
        .field("ServiceName", text(&name));
    let data = |name: &str, number: u16| format!("{name}.{}", number + 1);
    for i in 0..16 {
        let byte = r.byte(span!(ServiceRecord.service_data8), usize::from(i));
        record = record.field(&data("ServiceData8", i), hex(byte));
    }
    for i in 0..8 {
        record = record.field(&data("ServiceData16", i), hex(r.get(span!(ServiceRecord.service_data16).at(i))));
    }
    for i in 0..4 {
        record = record.field(&data("ServiceData32", i), hex(r.get(span!(ServiceRecord.service_data32).at(i))));
    }
    for i in 0..2 {
        record = record.field(&data("ServiceData64", i), guid(r.get(span!(ServiceRecord.service_data64).at(i))));
    }
    record
}

/// SMInfoRecord.
pub fn sm_info(r: Bytes<'_>, _: &Context) -> Record {
    let info = r.part(span!(SmInfoRecord.sm_info));
    Record::new("SMInfoRecord dump:", 22)
        .lines("\t\tRID\n")
        .field("LID", dec(r.get(span!(SmInfoRecord.lid))))
        .lines("\t\tSMInfo dump:\n")
        .field("GUID", guid(info.get(span!(SmInfo.guid))))
        .field("SM_Key", guid(info.get(span!(SmInfo.sm_key))))
        .field("ActCount", dec(info.get(span!(SmInfo.act_count))))
        .field("Priority", dec(info.get(span!(SmInfo.priority))))
        .field("SMState", dec(info.get(span!(SmInfo.state))))
}

/// SwitchInfoRecord.
pub fn switch_info(r: Bytes<'_>, context: &Context) -> Record {
    let info = r.part(span!(SwitchInfoRecord.switch_info));
    let life = span!(SwitchInfo.life_time_value).through(span!(SwitchInfo.optimized_sl_to_vl_mapping));
    let record = Record::new("SwitchInfoRecord dump:", 40)
        .lines("\t\tRID\n")
        .field("LID", dec(r.get(span!(SwitchInfoRecord.lid))))
        .lines("\t\tSwitchInfo dump:\n")
        .field("LinearFDBCap", hex(info.get(span!(SwitchInfo.linear_fdb_cap))))
        .field("RandomFDBCap", hex(info.get(span!(SwitchInfo.random_fdb_cap))))
        .field("MulticastFDBCap", hex(info.get(span!(SwitchInfo.multicast_fdb_cap))))
        .field("LinearFDBTop", hex(info.get(span!(SwitchInfo.linear_fdb_top))))
        .field("DefaultPort", dec(info.get(span!(SwitchInfo.default_port))))
        .field("DefaultMulticastPrimaryPort", dec(info.get(span!(SwitchInfo.default_multicast_primary_port))))
        .field("DefaultMulticastNotPrimaryPort", dec(info.get(span!(SwitchInfo.default_multicast_not_primary_port))))
        .field("LifeTimeValue/PortStateChange/OpSL2VL", hex(info.get(life)))
        .field("LIDsPerPort", hex(info.get(span!(SwitchInfo.lids_per_port))))
        .field("PartitionEnforcementCap", hex(info.get(span!(SwitchInfo.partition_enforcement_cap))))
        .field("flags", hex(info.get(SWITCH_FLAGS)));
    if context.sa_cap_mask2 & CAP_MASK2_MCAST_TOP == 0 {
        return record;
    }
    record.field("MulticastFDBTop", hex(info.get(span!(SwitchInfo.multicast_fdb_top))))
}

/// InformInfoRecord.
pub fn inform_info(r: Bytes<'_>, context: &Context) -> Record {
    let info = r.part(span!(InformInfoRecord.inform_info));
    let generic = info.get(span!(InformInfo.is_generic)) != 0;
    let (qpn, number) = (info.get(span!(InformInfo.qpn)), info.get(span!(InformInfo.trap_number)));
    let record = Record::new("InformInfoRecord dump:", COLUMN)
        .lines("\t\tRID\n")
        .field("SubscriberGID", gid(r.gid(span!(InformInfoRecord.subscriber_gid))))
        .field("SubscriberEnum", hex(r.get(span!(InformInfoRecord.subscriber_enum))))
        .lines("\t\tInformInfo dump:\n")
        .field("gid", gid(info.gid(span!(InformInfo.gid))))
        .field("lid_range_begin", dec(info.get(span!(InformInfo.lid_range_begin))))
        .field("lid_range_end", dec(info.get(span!(InformInfo.lid_range_end))))
        .field("is_generic", hex(info.get(span!(InformInfo.is_generic))))
        .field("subscribe", hex(info.get(span!(InformInfo.subscribe))))
        .field("trap_type", hex(info.get(span!(InformInfo.inform_type))));
    let record = match generic {
        true => record.field("trap_num", dec(number)),
        false => record.field("dev_id", hex(number)),
    };
    let producer = hex_of(info.get(span!(InformInfo.producer_type)), 6);
    record
        .field("qpn", if context.show_keys { hex_of(qpn, 6) } else { text(NOT_DISPLAYED) })
        .field("resp_time_val", hex(info.get(span!(InformInfo.resp_time_value))))
        .field(if generic { "node_type" } else { "vendor_id" }, producer)
}

/// LinkRecord.
pub fn link(r: Bytes<'_>, _: &Context) -> Record {
    Record::new("LinkRecord dump:", TABLE_COLUMN)
        .field("FromLID", dec(r.get(span!(LinkRecord.from_lid))))
        .field("FromPort", dec(r.get(span!(LinkRecord.from_port_num))))
        .field("ToPort", dec(r.get(span!(LinkRecord.to_port_num))))
        .field("ToLID", dec(r.get(span!(LinkRecord.to_lid))))
}

/// SLtoVLMappingTableRecord.
pub fn sl2vl(r: Bytes<'_>, _: &Context) -> Record {
    let lanes: Vec<u64> = (0..16).map(|sl| r.get(span!(SlToVlTableRecord.vls).at(sl))).collect();
    let mut lines = "\t\tSL: 0| 1| 2| 3| 4| 5| 6| 7| 8| 9|10|11|12|13|14|15|\n\t\tVL:".to_owned();
    for lane in &lanes {
        let _ = write!(lines, "{lane:2}|");
    }
    lines.push('\n');
    Record::new("SL2VLTableRecord dump:", TABLE_COLUMN)
        .field("LID", dec(r.get(span!(SlToVlTableRecord.lid))))
        .field("InPort", dec(r.get(span!(SlToVlTableRecord.input_port_num))))
        .field("OutPort", dec(r.get(span!(SlToVlTableRecord.output_port_num))))
        .table(lines, "VL", json!(lanes))
}

/// VLArbitrationTableRecord.
pub fn vl_arbitration(r: Bytes<'_>, _: &Context) -> Record {
    let entry = |i: u16| {
        let [vl, weight] = (r.get(span!(VlArbitrationTableRecord.entries).at(i)) as u16).to_be_bytes();
        (vl, weight)
    };
    let mut lines = String::new();
    for first in [0, 16] {
        let row = |value: fn((u8, u8)) -> u8| -> String {
            (first..first + 16).map(|i| format!("{:2}|", value(entry(i)))).collect()
        };
        let _ = write!(lines, "\t\tVL    :{}\n\t\tWeight:{}\n", row(|e| e.0), row(|e| e.1));
    }
    let entries: Vec<Value> = (0..32).map(entry).map(|(vl, weight)| json!({"VL": vl, "Weight": weight})).collect();
    Record::new("VLArbTableRecord dump:", TABLE_COLUMN)
        .field("LID", dec(r.get(span!(VlArbitrationTableRecord.lid))))
        .field("Port", dec(r.get(span!(VlArbitrationTableRecord.output_port_num))))
        .field("Block", dec(r.get(span!(VlArbitrationTableRecord.block_num))))
        .table(lines, "Entries", entries.into())
}

/// P_KeyTableRecord.
pub fn pkeys(r: Bytes<'_>, _: &Context) -> Record {
    let keys: Vec<String> = (0..32).map(|i| format!("0x{:04x}", r.get(span!(PKeyTableRecord.pkeys).at(i)))).collect();
    let mut lines = "\t\tPKey Table:\n".to_owned();
    for row in keys.chunks(8) {
        let _ = writeln!(lines, "\t\t{}", row.join(" "));
    }
    lines.push('\n');
    Record::new("PKeyTableRecord dump:", TABLE_COLUMN)
        .field("LID", dec(r.get(span!(PKeyTableRecord.lid))))
        .field("Port", dec(r.get(span!(PKeyTableRecord.port_num))))
        .field("Block", dec(r.get(span!(PKeyTableRecord.block_num))))
        .table(lines, "PKeys", json!(keys))
}

/// LinearForwardingTableRecord.
pub fn linear_forwarding(r: Bytes<'_>, _: &Context) -> Record {
    let block = r.get(span!(LinearForwardingTableRecord.block_num));
    let port = |i: usize| r.byte(span!(LinearForwardingTableRecord.ports), i);
    let ports: Vec<(u64, u8)> = (0..64).map(|i| (block * 64 + i as u64, port(i))).collect();
    let mut lines = "\t\tLFT:\n\t\tLID\tPort Number\n".to_owned();
    for (lid, port) in &ports {
        let _ = writeln!(lines, "\t\t{lid}\t{port}");
    }
    lines.push('\n');
    Record::new("LFT Record dump:", TABLE_COLUMN)
        .field("LID", dec(r.get(span!(LinearForwardingTableRecord.lid))))
        .field("Block", dec(block))
        .table(lines, "LFT", ports.iter().map(|(lid, port)| json!({"lid": lid, "port": port})).collect())
}

/// GUIDInfoRecord.
pub fn guid_info(r: Bytes<'_>, _: &Context) -> Record {
    let record = Record::new("GUIDInfo Record dump:", TABLE_COLUMN)
        .field("LID", dec(r.get(span!(GuidInfoRecord.lid))))
        .field("Block", dec(r.get(span!(GuidInfoRecord.block_num))));
    let guid_at = |i| guid(r.get(span!(GuidInfoRecord.guids).at(i)));
    (0..8).fold(record, |record, i| record.field(&format!("GUID {i}"), guid_at(i)))
}

/// MulticastForwardingTableRecord.
pub fn multicast_forwarding(r: Bytes<'_>, _: &Context) -> Record {
    let block = r.get(span!(MulticastForwardingTableRecord.block_num));
    let mask_at = |i| r.get(span!(MulticastForwardingTableRecord.masks).at(i));
    let masks: Vec<(u64, u64)> = (0..32).map(|i| (MULTICAST_LID + block * 32 + u64::from(i), mask_at(i))).collect();
    let mut lines = "\t\tMFT:\n\t\tMLID\tPort Mask\n".to_owned();
    for (mlid, mask) in &masks {
        let _ = writeln!(lines, "\t\t0x{mlid:04x}\t0x{mask:04x}");
    }
    lines.push('\n');
    let mask = |(mlid, mask): &(u64, u64)| json!({"mlid": format!("0x{mlid:04x}"), "mask": format!("0x{mask:04x}")});
    Record::new("MFT Record dump:", TABLE_COLUMN)
        .field("LID", dec(r.get(span!(MulticastForwardingTableRecord.lid))))
        .field("Position", dec(r.get(span!(MulticastForwardingTableRecord.position))))
        .field("Block", dec(block))
        .table(lines, "MFT", masks.iter().map(mask).collect())
}

fn text(text: &str) -> Shown {
    Shown::Text(text.to_owned())
}
