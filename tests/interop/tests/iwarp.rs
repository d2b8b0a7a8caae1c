//! iWARP: devices of type siw, as Linux's Soft-iWARP shows them, and Debian's programs over them, in one namespace and
//! between two, with MPA's options; a capture that tshark reads.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use weft_interop::early::{FREED, REFUSED, until_late_enough};
use weft_interop::ends::Ends;
use weft_interop::{Lab, Shape, Side, Table, Who, skip};

const TOOLS: &[&str] =
    &["ip", "rdma", "rping", "ucmatose", "rstream", "riostream", "ib_write_bw", "qperf", "tshark", "fi_pingpong"];

/// TCP ports by which libfabric's and qperf's ends meet.
const FI_PINGPONG_PORT: u16 = 47592;
const QPERF_PORT: u16 = 19765;
/// Time limit for a server to listen.
const LISTENS_WITHIN: Duration = Duration::from_secs(15);

/// Tries of perftest, whose server may not listen yet for the second connection.
const TRIES: u32 = 8;

/// Agreements of MPA, as `WEFT_MPA` names them.
const AGREEMENTS: [&str; 6] = ["crc", "markers", "crc,markers", "revision=1", "rtr=write", "crc,rtr=read"];

#[test]
fn one_namespace() {
    programs("iWARP, one namespace", Shape::One);
}

#[test]
fn two_namespaces() {
    programs("iWARP, two namespaces", Shape::Two { mtu: 1500 });
}

fn programs(name: &'static str, shape: Shape) {
    if !skip::have(name, TOOLS) {
        return;
    }
    let lab = Lab::new(shape).expect("a lab");
    let mut table = Table::new(name);
    table.case("rdma link add siw0 type siw", || lab.sides().iter().try_for_each(|side| add(&lab, side)));
    table.case("the device is an RNIC", || shown(&lab));
    let address = lab.server().v4;
    for who in Who::BOTH {
        for options in ["-C 20", "-C 5 -S 65535 -V", "-C 3 -V -q"] {
            table.case(&format!("rping {options} {who:?}"), || {
                let ends = Ends::new("rping", &format!("-v {options}")).each("-s", &format!("-c -a {address}"));
                pings(&lab, &ends.who(who))
            });
        }
    }
    table.case("rping over IPv6", || {
        let v6 = lab.server().v6;
        let ends = Ends::new("rping", "-v -C 5").each(&format!("-s -a {v6}"), &format!("-c -a {v6}"));
        pings(&lab, &ends)
    });
    for (tool, options, wanted) in [
        ("ucmatose", "-c 50 -C 10 -S 5000", "return status 0"),
        ("ucmatose", "-c 3 -C 20 -S 60000 -m", "return status 0"),
        ("rstream", "-S 20000 -I 5 -C 10 -T v", "custom"),
        ("riostream", "-S 5000 -I 5 -C 10 -T v", "custom"),
    ] {
        table.case(&format!("{tool} {options}"), || {
            let ends = Ends::new(tool, options).each(&format!("-b {address}"), &format!("-s {address}"));
            ends.judged(&lab, |client, _| {
                ensure!(client.contains(wanted), "no {wanted}");
                Ok(())
            })
        });
    }
    for (tool, options) in [
        ("ib_write_bw", "-s 65536 -n 500"),
        ("ib_write_bw", "-a -n 5"),
        ("ib_read_bw", "-s 65536 -n 500"),
        ("ib_send_bw", "-s 65536 -n 500"),
        ("ib_send_lat", "-s 2 -n 500"),
        ("ib_write_lat", "-s 2 -n 500"),
        ("ib_read_lat", "-s 8 -n 500"),
    ] {
        table.case(&format!("{tool} -R {options}"), || {
            let ends = Ends::new(tool, &format!("-R -F -d siw0 {options}")).each("", address);
            until_late_enough(TRIES, &[REFUSED, FREED], |_| {
                ends.judged(&lab, |client, _| {
                    ensure!(client.contains("#bytes"), "no table");
                    Ok(())
                })
            })
        });
    }
    for (provider, endpoint) in [("verbs", "msg"), ("verbs;ofi_rxm", "rdm")] {
        table.case(&format!("libfabric: {provider}"), || libfabric(&lab, provider, endpoint));
    }
    table.case("qperf -cm 1", || qperf(&lab));
    for agreement in AGREEMENTS {
        table.case(&format!("WEFT_MPA={agreement}"), || {
            let ends = Ends::new("rping", "-v -C 10 -S 30000 -V").each("-s", &format!("-c -a {address}"));
            let with = |words: &[String]| {
                let front = ["env".to_owned(), format!("WEFT_MPA={agreement}")];
                front.iter().chain(words).cloned().collect()
            };
            pings(&lab, &ends.named("rping").under(with, with))
        });
    }
    table.case("udaddy is refused: iWARP has no datagrams", || {
        let ended = lab.run(lab.client(), Who::Root, &[], &["udaddy", "-s", address])?;
        ensure!(!ended.ok(), "{}", ended.report());
        Ok(())
    });
    table.case("nothing listens: rejected", || {
        let ended = lab.run(lab.client(), Who::Root, &[], &["rping", "-c", "-a", address, "-p", "9"])?;
        ensure!(!ended.ok() && ended.text.contains("REJECTED"), "{}", ended.report());
        Ok(())
    });
    table.case("the port is another program's: address in use", || {
        let script = "python3 -c 'import socket,time; s=socket.socket(); s.bind((\"0.0.0.0\",7174)); s.listen(); \
                      print(\"up\",flush=True); time.sleep(30)' & sleep 1; rping -s; echo ended $?; kill $!";
        let ended = lab.run(lab.server(), Who::Root, &[], &["sh", "-c", script])?;
        ensure!(ended.text.contains("rdma_listen") && !ended.text.contains("ended 0"), "{}", ended.report());
        Ok(())
    });
    if matches!(lab.shape, Shape::Two { .. }) {
        for agreement in ["", "crc", "crc,markers"] {
            table.case(&format!("tshark reads every frame, WEFT_MPA={agreement}"), || dissected(&lab, agreement));
        }
    }
    table.case("rdma link delete", || {
        for side in lab.sides() {
            lab.run(side, Who::Root, &[], &["rdma", "link", "delete", "siw0"])?.success()?;
        }
        Ok(())
    });
    table.finish();
}

/// Adds a device as the guide does.
fn add(lab: &Lab, side: &Side) -> Result<()> {
    let words = ["rdma", "link", "add", "siw0", "type", "siw", "netdev", side.interface];
    lab.run(side, Who::Root, &[], &words)?.success()?;
    let shown = lab.run(side, Who::Root, &[], &["rdma", "link", "show"])?.success()?.text;
    let wanted = format!("link siw0/1 state ACTIVE physical_state LINK_UP netdev {}", side.interface);
    ensure!(shown.contains(&wanted), "{shown}");
    Ok(())
}

/// Checks what the guide prints of the device.
fn shown(lab: &Lab) -> Result<()> {
    let side = lab.server();
    for who in Who::BOTH {
        let devices = lab.run(side, who, &[], &["ibv_devices"])?.success()?.text;
        ensure!(devices.contains("siw0"), "{devices}");
        let info = lab.run(side, who, &[], &["ibv_devinfo", "-d", "siw0"])?.success()?.text;
        for wanted in ["iWARP (1)", "0x626d74", "PORT_ACTIVE (4)", "Ethernet"] {
            ensure!(info.contains(wanted), "no {wanted} in\n{info}");
        }
    }
    let kind = lab.run(side, Who::Root, &[], &["cat", "/sys/class/infiniband/siw0/node_type"])?.success()?.text;
    ensure!(kind.contains("4: RNIC"), "{kind}");
    Ok(())
}

/// Runs rping, and checks the number of pings at both ends.
fn pings(lab: &Lab, ends: &Ends) -> Result<()> {
    ends.judged(lab, |client, server| {
        for (text, words) in [(client, "ping data: rdma-ping-2"), (server, "server ping data: rdma-ping-2")] {
            ensure!(text.contains(words), "no {words}");
        }
        Ok(())
    })
}

/// Runs libfabric's ping-pong.
fn libfabric(lab: &Lab, provider: &str, endpoint: &str) -> Result<()> {
    let words = ["fi_pingpong", "-p", provider, "-d", "siw0", "-e", endpoint, "-I", "50"];
    let mut server = lab.start(lab.server(), Who::Ordinary, &[], &words)?;
    ensure!(server.wait_listening(FI_PINGPONG_PORT, LISTENS_WITHIN), "no server: {}", server.text());
    let client = lab.run(lab.client(), Who::Ordinary, &[], &[&words[..], &[lab.server().v4]].concat())?;
    let server = server.wait(Duration::from_secs(15));
    ensure!(client.ok() && server.ok(), "{}\n{}", client.report(), server.report());
    ensure!(client.text.contains("64k"), "no table: {}", client.text);
    Ok(())
}

fn qperf(lab: &Lab) -> Result<()> {
    let mut server = lab.start(lab.server(), Who::Ordinary, &[], &["qperf"])?;
    ensure!(server.wait_listening(QPERF_PORT, LISTENS_WITHIN), "no server: {}", server.text());
    for (test, figure) in [("rc_bw", "bw"), ("rc_lat", "latency"), ("rc_rdma_read_bw", "bw")] {
        let words = ["qperf", "-t", "1", "-cm", "1", lab.server().v4, test];
        // Its server names the port before it listens there.
        let run = |_| Ok(lab.run(lab.client(), Who::Ordinary, &[], &words)?.success()?.text);
        let text = until_late_enough(TRIES, &[REFUSED], run)?;
        ensure!(text.contains(&format!("{figure}  =  ")), "{text}");
    }
    server.kill();
    Ok(())
}

/// Captures an rping, and has tshark read it.
fn dissected(lab: &Lab, agreement: &str) -> Result<()> {
    let address = lab.server().v4;
    let file = lab.file(&format!("iwarp-{}.pcap", agreement.replace(',', "-")));
    let file = file.to_str().context("path")?;
    let words = ["tshark", "-q", "-i", lab.client().interface, "-w", file, "-f", "tcp port 7174"];
    let mut capture = lab.start_bare(lab.client(), Who::Root, &words)?;
    ensure!(capture.wait_until(Duration::from_secs(20), |_| std::path::Path::new(file).exists()), "no capture");
    let ends = Ends::new("rping", "-v -C 10 -S 9000 -V").each("-s", &format!("-c -a {address}"));
    let with = |words: &[String]| {
        let front = ["env".to_owned(), format!("WEFT_MPA={agreement}")];
        front.iter().chain(words).cloned().collect()
    };
    pings(lab, &ends.named("rping").under(with, with))?;
    std::thread::sleep(Duration::from_secs(1));
    capture.kill();
    let read = |filter: &str| -> Result<String> {
        let words = ["tshark", "-2", "-r", file, "-Y", filter];
        Ok(lab.start_bare(lab.client(), Who::Root, &words)?.wait(Duration::from_secs(60)).success()?.text)
    };
    let wrong = read("_ws.malformed || _ws.expert.severity >= 0x00800000 && (iwarp_mpa || iwarp_ddp_rdmap)")?;
    ensure!(!wrong.contains("7174"), "tshark complains:\n{wrong}");
    for filter in [
        "iwarp_mpa.req",
        "iwarp_mpa.rep",
        "iwarp_rdma.opcode == 0x00",
        "iwarp_rdma.opcode == 0x01",
        "iwarp_rdma.opcode == 0x03",
    ] {
        ensure!(read(filter)?.contains("7174"), "no frame is {filter}");
    }
    Ok(())
}
