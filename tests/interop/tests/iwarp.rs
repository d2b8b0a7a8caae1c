//! iWARP: devices of type siw, as Linux's Soft-iWARP shows them, and Debian's programs over them: in one namespace by the
//! rings of the processes and by TCP, and between two, with MPA's options; ends of connections; a capture that tshark reads.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use weft_interop::early::{FREED, REFUSED, until_late_enough};
use weft_interop::ends::Ends;
use weft_interop::{Lab, Path, Shape, Side, Table, Who, skip, table};

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

/// Programs that move data in every way, and more of it than TCP carries in the segments of [`FEW_SEGMENTS`].
const MOVERS: [&str; 5] = [
    "ib_write_bw -s 65536 -n 500",
    "ib_read_bw -s 65536 -n 500",
    "ib_send_bw -s 65536 -n 500",
    "ib_send_lat -s 8 -n 1000",
    "ib_write_lat -s 8 -n 1000",
];
/// TCP segments of a connection without data: TCP's own, and MPA's frames.
const FEW_SEGMENTS: u64 = 60;
/// Duration of traffic before one end dies, and time limit for the other to notice.
const FLOW: Duration = Duration::from_secs(1);
/// A failure of the 100th WRITE.
const FAILURE: &str = "WEFT_FAULT=status=RETRY_EXC_ERR,from=100,count=1,only=write";
/// perftest's word for a request that was flushed.
const FLUSHED: &[&str] = &["Failed status 5"];
/// The last words of a server of ib_send_bw that polls for ever: its credits fill the send queue, one poll returns them all,
/// and after the first that failed it forgets the others and waits for them.
const FORGOTTEN: &str = "Poll send CQ error status=5 qp 0 credit=";
const GIVE_UP: Duration = Duration::from_secs(8);

#[test]
fn one_namespace_by_rings() {
    programs("iWARP, one namespace, rings", Shape::One, Path::SameHost);
}

#[test]
fn one_namespace_by_streams() {
    programs("iWARP, one namespace, streams", Shape::One, Path::Wire);
}

#[test]
fn two_namespaces() {
    programs("iWARP, two namespaces", Shape::Two { mtu: 1500 }, Path::SameHost);
}

#[test]
fn both_ends_take_the_same_path() {
    let name = "iWARP, paths within a host";
    if !skip::have(name, TOOLS) {
        return;
    }
    let mut table = Table::sampling(name, 3, 0);
    for path in Path::ALL {
        let lab = Lab::new(Shape::One).expect("a lab").on(path);
        table.case(&format!("{}: a device", path.name()), || add(&lab, lab.server()));
        for (number, mover) in MOVERS.iter().enumerate() {
            let who = Who::BOTH[number % 2];
            table.sampled(&format!("{} {mover} {who:?}", path.name()), || {
                by_tcp(&lab, &perftest(&lab, mover).who(who), path == Path::Wire)
            });
        }
    }
    let lab = Lab::new(Shape::One).expect("a lab");
    table.case("a device", || add(&lab, lab.server()));
    for mover in MOVERS {
        for wire in ["server", "client"] {
            table.sampled(&format!("{mover}, the {wire} asks for packets"), || {
                let (here, there) = (asking(wire == "server"), asking(wire == "client"));
                by_tcp(&lab, &perftest(&lab, mover).under(here, there), true)
            });
        }
    }
    for who in Who::BOTH {
        table.case(&format!("data is compared, {who:?}"), || {
            let address = lab.server().v4;
            let ends = Ends::new("rping", "-V -v -C 50 -S 60000").each("-s", &format!("-c -a {address}"));
            by_tcp(&lab, &ends.who(who), false)
        });
    }
    table.case("users differ", || {
        let ends = perftest(&lab, MOVERS[2]);
        until_late_enough(TRIES, &[REFUSED, FREED], |_| {
            let server = ends.start_server(&lab)?;
            ends.clone().who(Who::Ordinary).start_client(&lab)?.wait(Duration::from_secs(30)).success()?;
            server.wait(GIVE_UP).success().map(drop)
        })
    });
    table.case("weft qp shows the path", || path_is_shown(&lab));
    table.finish();
}

/// Prepends the variable that asks for the stream.
fn asking(asks: bool) -> impl Fn(&[String]) -> Vec<String> {
    move |words| {
        let front: &[&str] = if asks { &["env", "WEFT_LOOPBACK=wire"] } else { &[] };
        front.iter().map(|word| (*word).to_owned()).chain(words.iter().cloned()).collect()
    }
}

/// Returns a program of perftest, connected by the connection manager.
fn perftest(lab: &Lab, line: &str) -> Ends {
    let tool = line.split_whitespace().next().unwrap_or_default();
    Ends::new(line, "-R -F -d siw0").each("", lab.server().v4).named(tool)
}

/// Runs two programs to success, and checks whether TCP carried their data.
fn by_tcp(lab: &Lab, ends: &Ends, is_expected: bool) -> Result<()> {
    let before = lab.segments(lab.client())?;
    until_late_enough(TRIES, &[REFUSED, FREED], |_| ends.judged(lab, |_, _| Ok(())))?;
    let segments = lab.segments(lab.client())? - before;
    ensure!((segments > FEW_SEGMENTS * 8) == is_expected, "{segments} segments");
    Ok(())
}

/// Checks `weft qp` during a transfer.
fn path_is_shown(lab: &Lab) -> Result<()> {
    for (words, wanted) in [(&["env"][..], "path same-host"), (&["env", "WEFT_LOOPBACK=wire"], "path tcp")] {
        let with = |line: &[String]| words.iter().map(|word| (*word).to_owned()).chain(line.iter().cloned()).collect();
        let ends = perftest(lab, "ib_write_bw -s 65536 -D 4 -f 1").under(with, with);
        let shown = until_late_enough(TRIES, &[REFUSED, FREED], |_| {
            let server = ends.start_server(lab)?;
            let client = ends.start_client(lab)?;
            std::thread::sleep(2 * FLOW);
            let shown = lab.weft(lab.server(), Who::Root, &[], &["qp"])?.success()?.text;
            client.wait(Duration::from_secs(20)).success()?;
            server.wait(GIVE_UP).success()?;
            Ok(shown)
        })?;
        // perftest has a queue pair for its control messages, too.
        let links: Vec<_> = shown.lines().filter(|line| line.starts_with("link siw0/")).collect();
        let is_shown = links.len() >= 2 && links.iter().all(|line| line.contains(wanted));
        ensure!(is_shown, "not {wanted} alone:\n{shown}");
    }
    Ok(())
}

#[test]
fn ends_of_connections() {
    let name = "iWARP, ends within a host";
    if !skip::have(name, TOOLS) {
        return;
    }
    let mut table = Table::new(name);
    for path in Path::BOTH {
        let lab = Lab::new(Shape::One).expect("a lab").on(path);
        table.case(&format!("{}: a device", path.name()), || add(&lab, lab.server()));
        let tools = ["ib_send_bw", "ib_write_bw", "ib_read_bw"];
        for tool in &tools[..if table::all() { 3 } else { 1 }] {
            for victim in ["client", "server"] {
                table.case(&format!("{}: kill -9 of the {victim} of {tool}", path.name()), || {
                    let ends = perftest(&lab, &format!("{tool} -s 1048576 -D 20 -f 1"));
                    let (mut server, mut client) = (ends.start_server(&lab)?, ends.start_client(&lab)?);
                    std::thread::sleep(FLOW);
                    ensure!(client.running() && server.running(), "{}\n{}", client.text(), server.text());
                    let survivor = if victim == "client" {
                        client.kill();
                        server
                    } else {
                        server.kill();
                        client
                    };
                    let ended = survivor.wait(GIVE_UP);
                    // A server whose requests are all one-sided runs until its own time limit.
                    let waits = victim == "client" && *tool != "ib_send_bw";
                    let has_ended = ended.status.is_some_and(|s| s.code().is_some());
                    ensure!(waits || has_ended || ended.text.contains(FORGOTTEN), "{}", ended.report());
                    by_tcp(&lab, &perftest(&lab, MOVERS[2]), path == Path::Wire)
                });
            }
        }
        table.case(&format!("{}: the daemon dies", path.name()), || {
            let ends = perftest(&lab, "ib_write_bw -s 65536 -D 4 -f 1");
            // On a busy machine, the daemon may not have passed both ends of the stream on when it dies.
            until_late_enough(TRIES, &[REFUSED, FREED, FLUSHED], |_| {
                let (server, client) = (ends.start_server(&lab)?, ends.start_client(&lab)?);
                std::thread::sleep(FLOW);
                let daemon = lab.daemon(lab.server()).and_then(|pid| rustix::process::Pid::from_raw(pid.cast_signed()));
                rustix::process::kill_process(daemon.context("no daemon")?, rustix::process::Signal::KILL)?;
                client.wait(Duration::from_secs(20)).success()?;
                server.wait(GIVE_UP).success().map(drop)
            })
        });
        table.case(&format!("{}: an injected failure", path.name()), || {
            let plain = |line: &[String]| line.to_vec();
            let failing = |line: &[String]| {
                ["env", FAILURE].into_iter().map(str::to_owned).chain(line.iter().cloned()).collect::<Vec<String>>()
            };
            let ends = perftest(&lab, MOVERS[0]).under(plain, failing);
            until_late_enough(TRIES, &[REFUSED, FREED], |_| {
                let server = ends.start_server(&lab)?;
                let client = ends.start_client(&lab)?.wait(GIVE_UP);
                server.kill();
                ensure!(!client.ok() && client.text.contains("Failed status 12"), "{}", client.report());
                Ok(())
            })
        });
        table.case(&format!("{}: rping ends by its own disconnect", path.name()), || {
            let ends = Ends::new("rping", "-v -C 100").each("-s", &format!("-c -a {}", lab.server().v4));
            pings(&lab, &ends)
        });
    }
    table.finish();
}

fn programs(name: &'static str, shape: Shape, path: Path) {
    if !skip::have(name, TOOLS) {
        return;
    }
    let lab = Lab::new(shape).expect("a lab").on(path);
    // Both paths within one namespace run half of the programs, each the other half.
    let (one_in, first) = if matches!(shape, Shape::One) { (2, usize::from(path == Path::Wire)) } else { (1, 0) };
    let mut table = Table::sampling(name, one_in, first);
    table.case("rdma link add siw0 type siw", || lab.sides().iter().try_for_each(|side| add(&lab, side)));
    table.case("the device is an RNIC", || shown(&lab));
    let address = lab.server().v4;
    for who in Who::BOTH {
        for options in ["-C 20", "-C 5 -S 65535 -V", "-C 3 -V -q"] {
            table.sampled(&format!("rping {options} {who:?}"), || {
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
        table.sampled(&format!("{tool} {options}"), || {
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
        table.sampled(&format!("{tool} -R {options}"), || {
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
        table.sampled(&format!("WEFT_MPA={agreement}"), || {
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
