//! `WEFT_PCAP`: tshark decodes the captures without a malformed packet.

use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use weft_interop::{Lab, Pair, Shape, Table, Who, skip};

/// A program and the opcodes (tshark's decimal `infiniband.bth.opcode`) that its captures must hold.
const CASES: &[(&str, &str, &[u8])] = &[
    ("ibv_rc_pingpong", "-n 20 -s 4096 -m 1024", &[0, 1, 2, 17]),
    ("ibv_rc_pingpong", "-n 20 -s 100", &[4, 17]),
    ("ibv_uc_pingpong", "-n 20 -s 4096 -m 1024", &[32, 33, 34]),
    ("ibv_ud_pingpong", "-n 20 -s 512", &[100]),
    ("ib_write_bw", "-n 20 -s 4096 -m 1024", &[6, 7, 8, 17]),
    ("ib_write_lat", "-n 20 -s 8", &[10, 17]),
    ("ib_read_bw", "-n 20 -s 4096 -m 1024", &[12, 13, 14, 15]),
    ("ib_atomic_bw", "-n 20", &[20, 18]),
    ("ib_atomic_bw", "-n 20 -A CMP_AND_SWAP", &[19, 18]),
    ("ibv_xsrq_pingpong", "-n 20 -m 1024 -s 100", &[0xA0 + 4, 0xA0 + 17]),
];

#[test]
fn tshark_decodes_what_we_captured() {
    if !skip::have("tshark_decodes_what_we_captured", &["ip", "tshark", "ib_write_bw", "ibv_rc_pingpong"]) {
        return;
    }
    let lab = Lab::new(Shape::Two { mtu: 1500 }).expect("a lab");
    let mut table = Table::new("captures");
    for (number, (tool, args, opcodes)) in CASES.iter().enumerate() {
        let v6 = number % 2 == 1;
        let who = if number % 3 == 0 { Who::Ordinary } else { Who::Root };
        table.case(&format!("{tool} {args} {who:?} {}", if v6 { "IPv6" } else { "IPv4" }), || {
            let (s, c) = (lab.file(&format!("{number}-server.pcapng")), lab.file(&format!("{number}-client.pcapng")));
            let mut pair = Pair::new(tool, args).devices(&lab)?.who(who);
            let gid = |side| -> Result<usize> {
                let device = lab.device(side)?;
                Ok(if v6 { device.gid_v6 } else { device.gid_v4 })
            };
            if tool.starts_with("ibv_") {
                pair = pair.each(&format!("-g {}", gid(lab.server())?), &format!("-g {}", gid(lab.client())?));
            } else if v6 {
                pair = pair.both("--ipv6");
            }
            pair.server_env.push(("WEFT_PCAP".into(), s.display().to_string()));
            pair.client_env.push(("WEFT_PCAP".into(), c.display().to_string()));
            pair.succeed(&lab)?;
            for file in [&s, &c] {
                check(file, opcodes)?;
            }
            Ok(())
        });
    }
    table.finish();
}

/// Checks a capture: every packet is RoCE v2 and well formed, and the opcodes are there.
fn check(file: &Path, wanted: &[u8]) -> Result<()> {
    let text = tshark(file, &["-T", "fields", "-e", "frame.protocols", "-e", "infiniband.bth.opcode"])?;
    let mut seen = BTreeSet::new();
    for line in text.lines() {
        let (protocols, opcode) = line.split_once('\t').unwrap_or((line, ""));
        ensure!(protocols.contains("infiniband"), "{}: a packet is no RoCE: {line}", file.display());
        ensure!(!protocols.contains("malformed"), "{}: a malformed packet: {line}", file.display());
        seen.insert(opcode.parse::<u8>().with_context(|| format!("tshark's opcode {opcode:?}"))?);
    }
    for opcode in wanted {
        ensure!(seen.contains(opcode), "{}: no packet of opcode {opcode}, only {seen:?}", file.display());
    }
    let bad = tshark(file, &["-Y", "_ws.malformed || _ws.expert.severity >= 0x800000 || ip.checksum.status == 0"])?;
    ensure!(bad.trim().is_empty(), "{}: tshark objects to\n{bad}", file.display());
    Ok(())
}

fn tshark(file: &Path, args: &[&str]) -> Result<String> {
    // tshark takes small payloads for RPC over RDMA and then calls them malformed.
    let mut command = Command::new("tshark");
    command.args(["--disable-protocol", "rpcordma", "-r"]).arg(file).args(args);
    let out = command.output().context("cannot run tshark")?;
    if !out.status.success() {
        bail!("tshark -r {}: {}", file.display(), String::from_utf8_lossy(&out.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}
