//! RDS sockets of `weft run --rds`: against Linux's rds_rdma, in a guest with rdma_rxe, and between two of Weft's hosts.
//!
//! The judges are two C programs (`kernel_peer_rds/talk.c`, and `rdma.c` for RDMA) that run unchanged on both sides, and Debian's
//! qperf. rds-tools are not in Debian: their programs join where the PATH has them.

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use weft_interop::guest_peer::GUEST_V4;
use weft_interop::proc::{Ended, Proc};
use weft_interop::{Fabric, Lab, Shape, Side, Table, Who, guest, product, skip, table};

#[path = "kernel_peer_rds/sides.rs"]
mod sides;

use sides::Sides;

/// Time limit of one step.
const LIMIT: Duration = Duration::from_secs(300);
/// Time to repeat measurements that were refused.
const MEASURED_WITHIN: Duration = Duration::from_secs(60);
const STARTS_WITHIN: Duration = Duration::from_secs(60);
const PORT: &str = "4000";
/// TCP port of qperf.
const QPERF_PORT: u16 = 19765;
/// Lengths around those of fragments, of records between library and service, and the longest.
const SIZES: &[&str] =
    &["0", "1", "47", "4095", "4096", "4097", "8192", "12345", "65535", "65536", "65537", "200000", "1048576"];
/// Lines of an RDMA initiator, one for each part in which Linux does less than Weft: as the initiator, and as its target.
const SILENT_REPORTS: &str = "a silent operation reports its result by itself";
const TARGET_NEEDS_MESSAGES: &str = "the target offers memory along with messages alone";
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kernel_peer_rds");

#[test]
fn linux_rds() {
    let name = "linux_rds";
    if let Some(why) = guest::obstacle() {
        return skip::skip(name, &why);
    }
    if !skip::have(name, &["cc", "qperf"]) {
        return;
    }
    let sides = Sides::new().expect("a guest with RDS");
    let mut table = Table::new("kernel peer, RDS");
    table::note(&format!("kernel peer, RDS: {}", sides.peer.guest().package));
    table.case("calls, on Linux", || sides.guest_talk(&["calls", GUEST_V4]).and_then(all_right));
    table.case("calls, on Weft", || sides.host_talk(&["calls", sides.host()]).and_then(all_right));
    table.case("weft rds ping", || sides.ping());
    table.case("the guest serves datagrams of all sizes", || sides.guest_serves());
    table.case("the host serves datagrams of all sizes", || sides.host_serves());
    table.case("bursts, in order, with congestion", || sides.bursts());
    table.case("RDMA: calls, on Linux", || sides.guest_rdma(&["calls", GUEST_V4]).and_then(all_right));
    table.case("RDMA: calls, on Weft", || sides.host_rdma(&["calls", sides.host()]).and_then(all_right));
    table.case("RDMA: the guest's memory", || sides.guest_is_target("initiate"));
    table.case("RDMA: the host's memory", || sides.host_is_target("initiate"));
    table.case("RDMA: two threads, the guest's memory", || sides.guest_is_target("threads"));
    table.case("RDMA: two threads, the host's memory", || sides.host_is_target("threads"));
    table.case("1% loss", || sides.lossy());
    table.case("the service starts again", || sides.starts_again());
    table.case("qperf rds_lat, rds_bw", || sides.qperf());
    table.case("rds-tools", || sides.rds_tools());
    table.case("the kernel has nothing to complain of", || {
        let complaints = sides.peer.complaints()?;
        ensure!(complaints.is_empty(), "{}", complaints.join("\n"));
        Ok(())
    });
    table.case("the service ends", || sides.stop());
    table.finish();
}

#[test]
fn two_of_wefts_hosts() {
    let name = "two_of_wefts_hosts";
    if !skip::have(name, &["ip", "cc", "qperf"]) {
        return;
    }
    let mut table = Table::new("RDS");
    for shape in [Shape::Two { mtu: 1500 }, Shape::One] {
        let lab = Lab::new(shape).expect("a lab");
        let [talk, rdma] = ["talk", "rdma"].map(|name| compile(&lab, name).expect("the C program compiles"));
        for who in Who::BOTH {
            let ends = Ends { lab: &lab, talk: &talk, rdma: &rdma, who };
            table.case(&format!("calls {shape:?} {who:?}"), || ends.calls());
            table.case(&format!("datagrams of all sizes {shape:?} {who:?}"), || ends.sizes());
            table.case(&format!("bursts {shape:?} {who:?}"), || ends.bursts());
            table.case(&format!("RDMA: calls {shape:?} {who:?}"), || ends.rdma_calls());
            table.case(&format!("RDMA {shape:?} {who:?}"), || ends.rdma(&ends.hosts(), "initiate"));
            table.case(&format!("RDMA: two threads {shape:?} {who:?}"), || ends.rdma(&ends.hosts(), "threads"));
            table.case(&format!("RDMA on one host {shape:?} {who:?}"), || ends.rdma(&ends.one_host(), "initiate"));
            table.case(&format!("qperf {shape:?} {who:?}"), || ends.qperf());
            table.case(&format!("the services end {shape:?} {who:?}"), || ends.stop());
        }
    }
    table.case("a virtual fabric, by host name", on_a_fabric);
    table.finish();
}

/// Two hosts of a fabric, each with a service of its own.
fn on_a_fabric() -> Result<()> {
    let lab = Lab::new(Shape::One)?;
    let fabric = Fabric::managed(&lab, &["--star", "2"])?;
    let (talk, weft) = (compile(&lab, "talk")?.display().to_string(), product::weft()?.display().to_string());
    let start = |host: &str, words: &[&str]| {
        let words = [&[&weft[..], "run", "--host", host, "--rds", "--"], words].concat();
        lab.start_line(&lab.bare(lab.client(), Who::Root, &words), &[])
    };
    let count = SIZES.len();
    let mut server = start("node2", &[&talk, "serve", "10.0.0.2", PORT, &count.to_string()])?;
    ensure!(server.wait_until(STARTS_WITHIN, |server| server.text().contains("serving")), "{}", server.text());
    let words = [&[&talk[..], "send", "10.0.0.1", "10.0.0.2", PORT], SIZES].concat();
    came_back(start("node1", &words)?.wait(LIMIT).success().with_context(|| server.text())?, count)?;
    server.wait(LIMIT).success()?;
    let pings = fabric.run("node1", &[&weft, "rds", "ping", "-c", "2", "-i", "100ms", "node2"])?.success()?.text;
    ensure!(pings.lines().filter(|line| line.ends_with(" usec")).count() == 2, "{pings}");
    for host in ["node1", "node2"] {
        fabric.run(host, &[&weft, "rds", "stop"])?.success()?;
    }
    fabric.weft(&["down"]).map(drop)
}

/// Compiles a C program into the lab.
fn compile(lab: &Lab, name: &str) -> Result<PathBuf> {
    let program = lab.file(name);
    compile_to(name, &program)?;
    Ok(program)
}

fn compile_to(name: &str, program: &Path) -> Result<()> {
    let source = format!("{SOURCES}/{name}.c");
    let status =
        Command::new("cc").args(["-Wall", "-Werror", "-O1", "-pthread", "-o"]).arg(program).arg(source).status()?;
    ensure!(status.success(), "{name}.c does not compile");
    Ok(())
}

fn all_right(ended: Ended) -> Result<()> {
    ensure!(ended.text.contains("all as it must be"), "{}", ended.report());
    Ok(())
}

/// Checks an initiator of Weft's.
fn reports_silent_operations(initiator: Ended, mode: &str) -> Result<()> {
    ensure!(mode != "initiate" || initiator.text.contains(SILENT_REPORTS), "{}", initiator.report());
    all_right(initiator)
}

/// Checks an initiator whose target is Weft's.
fn offers_by_socket_options(initiator: &Ended) -> Result<()> {
    ensure!(!initiator.text.contains(TARGET_NEEDS_MESSAGES), "{}", initiator.report());
    Ok(())
}

fn came_back(ended: Ended, count: usize) -> Result<()> {
    ensure!(ended.text.contains(&format!("{count} datagrams came back")), "{}", ended.report());
    Ok(())
}

/// Measures RDS with qperf. Its client does not wait until the server listens for a test's data, and is refused at times, on
/// Linux's RDS too: the more often, the slower the server's machine is.
fn measure(server: &str, mut client: impl FnMut(&[&str]) -> Result<Ended>) -> Result<()> {
    for (test, result) in [("rds_lat", "latency"), ("rds_bw", "bw")] {
        let until = Instant::now() + MEASURED_WITHIN;
        loop {
            let ended = client(&["qperf", "-t", "2", "-to", "60", server, test])?;
            if Instant::now() >= until || !ended.text.contains("Connection refused") {
                let text = ended.success()?.text;
                ensure!(text.contains(result), "{text}");
                break;
            }
        }
    }
    Ok(())
}

/// Starts a program under `weft run --rds`.
fn start(lab: &Lab, side: &Side, who: Who, env: &[(&str, &str)], words: &[&str]) -> Result<Proc> {
    let weft = product::weft()?.display().to_string();
    lab.start_line(&lab.bare(side, who, &[&[&weft[..], "run", "--rds", "--"], words].concat()), env)
}

fn stop(lab: &Lab, side: &Side, who: Who) -> Result<()> {
    lab.weft(side, who, &[], &["rds", "stop"])?.success().map(drop)
}

/// Two hosts, or one.
struct Ends<'a> {
    lab: &'a Lab,
    talk: &'a Path,
    rdma: &'a Path,
    who: Who,
}

impl Ends<'_> {
    fn talk(&self, side: &Side, words: &[&str]) -> Result<Proc> {
        let talk = self.talk.display().to_string();
        start(self.lab, side, self.who, &[], &[&[&talk[..]], words].concat())
    }

    fn calls(&self) -> Result<()> {
        let side = self.lab.client();
        self.talk(side, &["calls", side.v4])?.wait(LIMIT).success().and_then(all_right)
    }

    fn start_rdma(&self, side: &Side, words: &[&str]) -> Result<Proc> {
        let rdma = self.rdma.display().to_string();
        start(self.lab, side, self.who, &[], &[&[&rdma[..]], words].concat())
    }

    fn rdma_calls(&self) -> Result<()> {
        let side = self.lab.client();
        for mode in ["calls", "memory"] {
            self.start_rdma(side, &[mode, side.v4])?.wait(LIMIT).success().and_then(all_right)?;
        }
        Ok(())
    }

    /// The initiator's and the target's host.
    fn hosts(&self) -> [&Side; 2] {
        [self.lab.client(), self.lab.server()]
    }

    fn one_host(&self) -> [&Side; 2] {
        [self.lab.client(), self.lab.client()]
    }

    fn rdma(&self, [initiator, target]: &[&Side; 2], mode: &str) -> Result<()> {
        let mut serving = self.start_rdma(target, &["target", target.v4, PORT])?;
        let is_serving = serving.wait_until(STARTS_WITHIN, |serving| serving.text().contains("serving"));
        ensure!(is_serving, "{}", serving.text());
        let ended = self.start_rdma(initiator, &[mode, initiator.v4, target.v4, PORT])?.wait(LIMIT);
        let done = ended.success().with_context(|| serving.text())?;
        offers_by_socket_options(&done)?;
        reports_silent_operations(done, mode)?;
        serving.wait(LIMIT).success().map(drop)
    }

    fn serve(&self, count: usize, words: &[&str]) -> Result<()> {
        let (server, client) = (self.lab.server(), self.lab.client());
        let mut serving = self.talk(server, &["serve", server.v4, PORT, &count.to_string()])?;
        let is_serving = serving.wait_until(STARTS_WITHIN, |serving| serving.text().contains("serving"));
        ensure!(is_serving, "{}", serving.text());
        let ended = self.talk(client, words)?.wait(LIMIT).success().with_context(|| serving.text())?;
        came_back(ended, count)?;
        serving.wait(LIMIT).success().map(drop)
    }

    fn sizes(&self) -> Result<()> {
        let (server, client) = (self.lab.server(), self.lab.client());
        self.serve(SIZES.len(), &[&["send", client.v4, server.v4, PORT], SIZES].concat())
    }

    fn bursts(&self) -> Result<()> {
        let (server, client) = (self.lab.server(), self.lab.client());
        self.serve(500, &["burst", client.v4, server.v4, PORT, "500", "9000"])
    }

    fn qperf(&self) -> Result<()> {
        let (server, client) = (self.lab.server(), self.lab.client());
        let mut serving = start(self.lab, server, self.who, &[], &["qperf"])?;
        ensure!(serving.wait_listening(QPERF_PORT, STARTS_WITHIN), "{}", serving.text());
        let measured = measure(server.v4, |words| Ok(start(self.lab, client, self.who, &[], words)?.wait(LIMIT)));
        serving.kill();
        measured
    }

    fn stop(&self) -> Result<()> {
        self.lab.sides().iter().try_for_each(|side| stop(self.lab, side, self.who))
    }
}
