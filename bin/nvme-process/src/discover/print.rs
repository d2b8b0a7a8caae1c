//! Discovery log in nvme-cli's form.

use std::fmt::Write;

use anyhow::Result;
use serde_json::{Value, json};
use weft_nvme::{DiscoveryLog, DiscoveryRecord};

const UNKNOWN: &str = "unrecognized";

/// Returns the text of a log.
pub fn text(log: &DiscoveryLog) -> String {
    let mut out =
        format!("\nDiscovery Log Number of Records {}, Generation counter {}\n", log.records.len(), log.generation);
    for (index, record) in log.records.iter().enumerate() {
        let _ = write!(
            out,
            "=====Discovery Log Entry {index}======\ntrtype:  {}\nadrfam:  {}\nsubtype: {}\ntreq:    {}\nportid:  {}\n\
             trsvcid: {}\nsubnqn:  {}\ntraddr:  {}\neflags:  {}\n",
            transport(record),
            family(record),
            subtype(record),
            requirements(record),
            record.port_id,
            record.service,
            record.subsystem,
            record.address,
            flags(record),
        );
        if record.transport == 1 {
            let [qp_type, provider, cm] = rdma(record);
            let _ = write!(
                out,
                "rdma_prtype: {provider}\nrdma_qptype: {qp_type}\nrdma_cms:    {cm}\nrdma_pkey: {:#06x}\n",
                record.pkey
            );
        }
    }
    out
}

/// Returns the JSON of a log.
///
/// # Errors
/// It cannot be written.
pub fn json(log: &DiscoveryLog) -> Result<String> {
    let records: Vec<Value> = log.records.iter().map(record).collect();
    let root = json!({ "genctr": log.generation, "records": records });
    Ok(serde_json::to_string_pretty(&root)? + "\n")
}

fn record(record: &DiscoveryRecord) -> Value {
    let [qp_type, provider, cm] = rdma(record);
    json!({
        "trtype": transport(record),
        "adrfam": family(record),
        "subtype": subtype(record),
        "treq": requirements(record),
        "portid": record.port_id,
        "trsvcid": record.service,
        "subnqn": record.subsystem,
        "traddr": record.address,
        "eflags": flags(record),
        "rdma_prtype": provider,
        "rdma_qptype": qp_type,
        "rdma_cms": cm,
        "rdma_pkey": format!("{:#06x}", record.pkey),
    })
}

fn transport(record: &DiscoveryRecord) -> &'static str {
    match record.transport {
        1 => "rdma",
        2 => "fc",
        3 => "tcp",
        254 => "loop",
        _ => UNKNOWN,
    }
}

fn family(record: &DiscoveryRecord) -> &'static str {
    match record.family {
        1 => "ipv4",
        2 => "ipv6",
        3 => "infiniband",
        4 => "fibre-channel",
        _ => UNKNOWN,
    }
}

fn subtype(record: &DiscoveryRecord) -> &'static str {
    match record.subtype {
        1 => "discovery subsystem referral",
        2 => "nvme subsystem",
        3 => "current discovery subsystem",
        _ => UNKNOWN,
    }
}

fn requirements(record: &DiscoveryRecord) -> String {
    let channel = match record.requirements & 3 {
        0 => "not specified",
        1 => "required",
        2 => "not required",
        _ => return UNKNOWN.to_owned(),
    };
    let flow = if record.requirements & 4 != 0 { ", sq flow control disable supported" } else { "" };
    format!("{channel}{flow}")
}

fn flags(record: &DiscoveryRecord) -> &'static str {
    match record.flags & 3 {
        0 => "none",
        1 => "duplicate discovery information",
        2 => "explicit discovery connections",
        _ => "explicit discovery connections, duplicate discovery information",
    }
}

fn rdma(record: &DiscoveryRecord) -> [&'static str; 3] {
    let [qp_type, provider, cm] = record.rdma;
    [
        match qp_type {
            1 => "connected",
            2 => "datagram",
            _ => UNKNOWN,
        },
        match provider {
            1 => "not specified",
            2 => "infiniband",
            3 => "roce",
            4 => "roce-v2",
            5 => "iwarp",
            _ => UNKNOWN,
        },
        if cm == 1 { "rdma-cm" } else { UNKNOWN },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_nvme_clis_lines() {
        let record = DiscoveryRecord {
            transport: 1,
            family: 1,
            subtype: 2,
            requirements: 4,
            port_id: 1,
            controller: 0xffff,
            admin_entries: 32,
            flags: 0,
            service: "4420".into(),
            subsystem: "nqn.2026-01.io.weft:disk".into(),
            address: "10.77.0.1".into(),
            rdma: [1, 1, 1],
            pkey: 0,
        };
        let log = DiscoveryLog { generation: 3, records: vec![record] };
        assert_eq!(
            text(&log),
            "\nDiscovery Log Number of Records 1, Generation counter 3\n=====Discovery Log Entry 0======\n\
             trtype:  rdma\nadrfam:  ipv4\nsubtype: nvme subsystem\n\
             treq:    not specified, sq flow control disable supported\nportid:  1\ntrsvcid: 4420\n\
             subnqn:  nqn.2026-01.io.weft:disk\ntraddr:  10.77.0.1\neflags:  none\n\
             rdma_prtype: not specified\nrdma_qptype: connected\nrdma_cms:    rdma-cm\nrdma_pkey: 0x0000\n"
        );
        let parsed: Value = serde_json::from_str(&json(&log).expect("JSON")).expect("JSON");
        assert_eq!((&parsed["genctr"], &parsed["records"][0]["trsvcid"]), (&json!(3), &json!("4420")));
    }
}
