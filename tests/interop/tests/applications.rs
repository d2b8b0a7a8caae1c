//! Middleware under real applications: UCX, libfabric, Open MPI, MPICH and fio, unmodified, within a host, between two,
//! and on a fabric. The data is compared where possible: by fi_pingpong's `-c`, and by Weft's own MPI program.

use anyhow::{Context, Result, ensure};
use std::time::Duration;
use weft_interop::early::{UNREADY, until_late_enough};
use weft_interop::ends::Ends;
use weft_interop::mpi::{compile, open_mpi as mpi};
use weft_interop::proc::on_a_terminal;
use weft_interop::{Lab, Proc, Shape, Table, Who, skip, table};

/// TCP port where UCX's and libfabric's programs find each other.
const PORT: u16 = 13737;
/// Time limit of any of the programs.
const LIMIT: Duration = Duration::from_secs(30);

/// UCX's transports: connected queue pairs that datagrams set up, and datagrams alone.
const UCX_TRANSPORTS: [&str; 2] = ["rc_v,self", "ud_verbs,self"];
/// UCX's tests, with the number of messages and their bytes.
const UCX_TESTS: &[(&str, &str, &str)] = &[
    ("tag_lat", "1000", "8"),
    ("tag_lat", "1000", "1"),
    ("tag_bw", "5", "8388608"),
    ("tag_sync_lat", "200", "2000"),
    ("ucp_am_bw", "1000", "4096"),
    ("stream_bw", "200", "65536"),
    ("ucp_put_lat", "1000", "8"),
    ("ucp_put_bw", "10", "1048576"),
    ("ucp_get", "100", "65536"),
    ("ucp_add", "1000", "8"),
    ("ucp_fadd", "500", "8"),
    ("ucp_swap", "500", "4"),
    ("ucp_cswap", "500", "8"),
];
/// UCX 1.18 fences by a flush that its `rc_verbs` does not have on any adapter, unless told otherwise; older ones do not
/// know the variable.
const FENCE: [(&str, &str); 2] = [("UCX_FENCE_MODE", "weak"), ("UCX_WARN_UNUSED_ENV_VARS", "n")];
/// UCT tests, each on one device and transport.
const UCT_TESTS: &[(&str, &str)] = &[
    ("rc_verbs", "-t am_lat -D short -s 8"),
    ("rc_verbs", "-t am_bw -D bcopy -s 4096"),
    ("rc_verbs", "-t put_bw -D zcopy -s 1048576"),
    ("rc_verbs", "-t get -D bcopy -s 4096"),
    ("rc_verbs", "-t fadd -D short -s 8"),
    ("rc_verbs", "-t cswap -D short -s 8"),
    ("ud_verbs", "-t am_lat -D short -s 8"),
    ("ud_verbs", "-t am_bw -D bcopy -s 512"),
];
/// libfabric's providers and endpoint types.
const ENDPOINTS: &[(&str, &str)] =
    &[("verbs", "msg"), ("verbs;ofi_rxm", "rdm"), ("verbs;ofi_rxd", "rdm"), ("verbs", "dgram")];
/// Open MPI's configurations: the point-to-point layer, then its transport.
const MPI_WAYS: &[(&str, &str)] = &[
    ("--mca pml ucx", "UCX_TLS=rc_v,self"),
    ("--mca pml ucx", "UCX_TLS=ud_v,self"),
    ("--mca pml ucx --mca osc ucx", "UCX_TLS=rc_v,self"),
    ("--mca pml cm --mca mtl ofi", "FI_PROVIDER=verbs;ofi_rxm"),
];

#[test]
fn ucx() {
    if !skip::have("ucx", &["ip", "ucx_perftest", "ucx_info"]) {
        return;
    }
    let mut table = Table::new("UCX");
    for (shape, who) in [(Shape::Two { mtu: 1500 }, Who::Root), (Shape::One, Who::Root), (Shape::One, Who::Ordinary)] {
        let lab = Lab::new(shape).expect("a lab");
        // An ordinary user's programs access each other's memory in another way: a sample shows that it works.
        let every = if who == Who::Ordinary { 3 } else { 1 };
        let tests = UCX_TRANSPORTS.iter().flat_map(|t| UCX_TESTS.iter().map(move |c| (t, c))).step_by(every);
        for (transport, (test, count, bytes)) in tests {
            let words = format!("-t {test} -n {count} -s {bytes}");
            table.case(&format!("{shape:?} {who:?}: {transport} {words}"), || perftest(&lab, who, transport, &words));
        }
        for (transport, words) in UCT_TESTS.iter().step_by(every) {
            table.case(&format!("{shape:?} {who:?}: UCT {transport} {words}"), || {
                let device = format!("{}:1", lab.device(lab.client())?.name);
                let of_both = format!("-d {device} -x {transport}");
                perftest_with(&lab, who, "all", &of_both, &format!("{words} -n 500"))
            });
        }
    }
    let lab = Lab::new(Shape::One).expect("a lab");
    table.case("ucx_info -d: atomics of connected queue pairs", || {
        let text = lab.run(lab.client(), Who::Root, &[], &["ucx_info", "-d"])?.success()?.text;
        let of_rc = text.split("Transport: ").find(|part| part.starts_with("rc_verbs")).context("no rc_verbs")?;
        ensure!(of_rc.contains("atomic_fadd: 64 bit") && of_rc.contains("atomic_cswap: 64 bit"), "{of_rc}");
        Ok(())
    });
    table.finish();
}

#[test]
fn ucx_on_a_fabric() {
    if !skip::have("ucx on a fabric", &["ip", "ucx_perftest"]) {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let mut table = Table::new("UCX on a fabric");
    for words in [&["--star", "3"][..], &["--packets", "--star", "3"]] {
        lab.weft(lab.client(), Who::Root, &[], &[&["up"], words].concat())
            .and_then(|up| up.success())
            .expect("a fabric");
        for transport in UCX_TRANSPORTS {
            for test in ["tag_lat -s 8 -n 300", "ucp_put_bw -s 65536 -n 50", "ucp_fadd -s 8 -n 100"] {
                table.case(&format!("{words:?}: {transport} {test}"), || on_a_fabric(&lab, transport, test));
            }
        }
        lab.weft(lab.client(), Who::Root, &[], &["down"]).and_then(|down| down.success()).expect("it goes down");
    }
    table.finish();
}

#[test]
fn libfabric() {
    if !skip::have("libfabric", &["ip", "fi_pingpong"]) {
        return;
    }
    let mut table = Table::new("libfabric");
    for (shape, who) in [(Shape::Two { mtu: 1500 }, Who::Root), (Shape::One, Who::Ordinary)] {
        let lab = Lab::new(shape).expect("a lab");
        for (provider, endpoint) in ENDPOINTS {
            for bytes in ["1", "900", "1000000"] {
                // A datagram is at most a packet long, and rxd is slow with large messages.
                if (*endpoint == "dgram" || *provider == "verbs;ofi_rxd") && bytes.len() > 3 {
                    continue;
                }
                table.case(&format!("{shape:?} {who:?}: {provider} {endpoint} {bytes}"), || {
                    let common = ["-p", provider, "-e", endpoint, "-S", bytes, "-I", "20", "-c"];
                    let port = PORT.to_string();
                    let server = [&["fi_pingpong", "-B", &port], &common[..]].concat();
                    let client = [&["fi_pingpong", "-P", &port], &common[..], &[lab.server().v4]].concat();
                    let client = pair(&lab, who, &[], &server, &client)?;
                    ensure!(client.contains("MB/sec"), "no figures: {client}");
                    Ok(())
                });
            }
        }
    }
    table.finish();
}

#[test]
fn fio() {
    if !skip::have("fio", &["ip", "fio"]) {
        return;
    }
    let mut table = Table::new("fio");
    let ways = [(Shape::Two { mtu: 1500 }, &["write", "read", "send"][..]), (Shape::One, &["write"])];
    for (shape, verbs) in ways {
        let lab = Lab::new(shape).expect("a lab");
        for verb in verbs {
            table.case(&format!("{shape:?}: verb={verb}"), || {
                let common = "fio --name=job --ioengine=rdma --port=8765 --bs=64k --size=8m";
                // fio allows no RNR retries, and sleeps half a second after connecting before it sends. Within that
                // time the receiver must post a receive for every message.
                let server = format!("{common} --rw=read --iodepth=128");
                let client = format!("{common} --rw=write --iodepth=8 --verb={verb} --hostname={}", lab.server().v4);
                until_late_enough(3, &[UNREADY], |_| {
                    Ends::two(&server, &client).judged(&lab, |client, server| {
                        ensure!(client.contains("io=8192KiB") && client.contains("err= 0"), "the client's words");
                        ensure!(server.contains("err= 0"), "the server's words");
                        Ok(())
                    })
                })
            });
        }
    }
    table.finish();
}

#[test]
fn open_mpi() {
    if !skip::have("Open MPI", &["ip", "mpicc.openmpi", "mpirun.openmpi"]) {
        return;
    }
    let mut table = Table::new("Open MPI");
    for who in Who::BOTH {
        let lab = Lab::new(Shape::One).expect("a lab");
        let program = compile(&lab, "mpicc.openmpi").expect("mpi.c compiles");
        for (layer, way) in MPI_WAYS {
            for processes in if who == Who::Root { 2..=3 } else { 2..=2 } {
                table.case(&format!("{who:?}: {layer} {way}, {processes} processes"), || {
                    mpi(&lab, who, layer, way, processes, &program)
                });
            }
        }
    }
    table.finish();
}

/// Open MPI's openib BTL with InfiniBand's own connection manager, which knows no speed beyond HDR.
#[test]
fn open_mpi_by_verbs_on_a_fabric() {
    if !skip::have("Open MPI by verbs", &["ip", "mpicc.openmpi", "mpirun.openmpi", "ompi_info"]) {
        return;
    }
    // Open MPI 5 has it no more: `UCX` is its only way to an InfiniBand adapter.
    let info = std::process::Command::new("ompi_info").arg("--parsable").output().expect("ompi_info runs");
    if !String::from_utf8_lossy(&info.stdout).contains("btl:openib:") {
        return table::note("Open MPI without openib: nothing to run");
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let program = compile(&lab, "mpicc.openmpi").expect("mpi.c compiles");
    let weft = weft_interop::product::weft().expect("the product").display().to_string();
    let mut table = Table::new("Open MPI by verbs on a fabric");
    for words in [&["--star", "3", "--speed", "HDR"][..], &["--packets", "--star", "3", "--speed", "EDR"]] {
        lab.weft(lab.client(), Who::Root, &[], &[&["up"], words].concat())
            .and_then(|up| up.success())
            .expect("a fabric");
        table.case(&format!("{words:?}: openib, 3 processes"), || {
            let place = lab.file("mpi-verbs").display().to_string();
            std::fs::create_dir_all(&place)?;
            let (home, temporary) = (format!("HOME={place}"), format!("TMPDIR={place}"));
            let root = ["OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"];
            let before =
                [&[weft.as_str(), "run", "--host", "node1", "--", "env", &home, &temporary], &root[..]].concat();
            let options = "mpirun.openmpi --oversubscribe --mca plm isolated --mca pml ob1 --mca osc rdma,pt2pt \
                           --mca btl openib,self --mca btl_openib_allow_ib 1 -n 3";
            let line: Vec<_> = before.into_iter().chain(options.split_whitespace()).chain([program.as_str()]).collect();
            let ended = lab.start_line(&lab.bare(lab.client(), Who::Root, &line), &[])?.wait(LIMIT).success()?;
            ensure!(ended.text.contains("all 3 right"), "{}", ended.report());
            Ok(())
        });
        lab.weft(lab.client(), Who::Root, &[], &["down"]).and_then(|down| down.success()).expect("it goes down");
    }
    table.finish();
}

#[test]
fn mpich() {
    if !skip::have("MPICH", &["ip", "mpicc.mpich", "mpiexec.mpich"]) {
        return;
    }
    let mut table = Table::new("MPICH");
    for who in Who::BOTH {
        let lab = Lab::new(Shape::One).expect("a lab");
        let program = compile(&lab, "mpicc.mpich").expect("mpi.c compiles");
        for transport in ["rc_v,self", "ud_v,self"] {
            table.case(&format!("{who:?}: UCX_TLS={transport}, 3 processes"), || {
                let device = format!("UCX_NET_DEVICES={}:1", lab.device(lab.client())?.name);
                let transport = format!("UCX_TLS={transport}");
                // Otherwise its processes of one host use shared memory instead.
                let before = ["env", "MPIR_CVAR_NOLOCAL=1", &transport, &device];
                let line = [&before[..], &["mpiexec.mpich", "-n", "3", &program]].concat();
                let ended = lab.run(lab.client(), who, &[], &line)?.success()?;
                ensure!(ended.text.contains("all 3 right"), "{}", ended.report());
                Ok(())
            });
        }
    }
    table.finish();
}

/// Runs one test of ucx_perftest at both ends.
fn perftest(lab: &Lab, who: Who, transport: &str, words: &str) -> Result<()> {
    perftest_with(lab, who, transport, "", words)
}

/// The same with options of both ends: newer servers do not hear them from the client.
fn perftest_with(lab: &Lab, who: Who, transport: &str, of_both: &str, words: &str) -> Result<()> {
    let device = format!("{}:1", lab.device(lab.client())?.name);
    let env = [FENCE[0], FENCE[1], ("UCX_TLS", transport), ("UCX_NET_DEVICES", &device)];
    let port = PORT.to_string();
    let client = on_a_terminal(&["ucx_perftest", lab.server().v4, "-p", &port, of_both, words]);
    let server = on_a_terminal(&["ucx_perftest", "-p", &port, of_both]);
    let [server, client] = [&server, &client].map(|words| words.iter().map(String::as_str).collect::<Vec<_>>());
    measured(&pair(lab, who, &env, &server, &client)?)
}

fn on_a_fabric(lab: &Lab, transport: &str, test: &str) -> Result<()> {
    let port = PORT.to_string();
    let test: Vec<_> = test.split_whitespace().collect();
    let client = on_a_terminal(&[&["ucx_perftest", "node1", "-p", &port, "-t"], &test[..]].concat());
    let server = on_a_terminal(&["ucx_perftest", "-p", &port]);
    let weft = weft_interop::product::weft()?.display().to_string();
    let env = [FENCE[0], FENCE[1], ("UCX_TLS", transport), ("UCX_NET_DEVICES", "weft0:1")];
    let start = |host: &str, words: &[String]| {
        let before = [weft.as_str(), "run", "--host", host, "--"];
        let words: Vec<_> = before.into_iter().chain(words.iter().map(String::as_str)).collect();
        lab.start_line(&lab.bare(lab.client(), Who::Root, &words), &env)
    };
    let server = listening(start("node1", &server)?)?;
    measured(&both(start("node2", &client)?, server)?)
}

/// Checks the result at the end of ucx_perftest's output.
fn measured(text: &str) -> Result<()> {
    ensure!(text.contains("Final:"), "no figures: {text}");
    ensure!(!text.contains("ERROR") && !text.contains("WARN"), "{text}");
    Ok(())
}

/// Runs a server that listens on TCP and its client to success; returns the client's output.
fn pair(lab: &Lab, who: Who, env: &[(&str, &str)], server: &[&str], client: &[&str]) -> Result<String> {
    let server = listening(lab.start(lab.server(), who, env, server)?)?;
    both(lab.start(lab.client(), who, env, client)?, server)
}

fn listening(mut server: Proc) -> Result<Proc> {
    ensure!(server.wait_listening(PORT, Duration::from_secs(10)), "the server does not listen: {}", server.text());
    Ok(server)
}

fn both(client: Proc, server: Proc) -> Result<String> {
    let client = client.wait(LIMIT);
    let server = server.wait(if client.ok() { Duration::from_secs(10) } else { Duration::from_secs(1) });
    ensure!(client.ok() && server.ok(), "server: {}\n      client: {}", server.report(), client.report());
    Ok(client.text)
}
