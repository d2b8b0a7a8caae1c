//! RDMA CM between virtual hosts of an InfiniBand fabric: Debian's programs connect by the addresses of ports, over
//! path records from Debian's opensm.

use anyhow::{Result, ensure};
use std::time::{Duration, Instant};
use weft_interop::early::{FREED, REFUSED, until_late_enough};
use weft_interop::ends::lasting_cmtime;
use weft_interop::proc::{Ended, Proc};
use weft_interop::{Fabric, Lab, Shape, Table, skip, table};

const TOOLS: &[&str] = &["ip", "opensm", "rping", "ucmatose", "udaddy", "cmtime", "ib_write_bw"];

/// The hosts, and the server's address: that of the fabric's second port.
const CLIENT: &str = "node1";
const SERVER: &str = "node2";
const ADDRESS: &str = "10.0.0.2";

/// Time limit of an undelayed answer: a lost request takes longer, because of its retries.
const ANSWERED_WITHIN: Duration = Duration::from_secs(3);

/// Servers that keep waiting for the next client.
const SERVES_ON: &[&str] = &["cmtime"];

/// Tries to reach a server that may not listen yet.
const TRIES_MAX: u32 = 25;
/// Runs of perftest.
const RACES: u32 = 5;

/// A program, its server and client command lines, and a word that shows success.
const EXCHANGES: &[(&str, &str, &str)] = &[
    ("rping -s -a 10.0.0.2 -C 10 -v", "rping -c -a 10.0.0.2 -C 10 -v", "rdma-ping-9"),
    ("rping -s -C 3 -S 60000 -V", "rping -c -a 10.0.0.2 -C 3 -S 60000 -V", ""),
    ("ucmatose -c 20", "ucmatose -s 10.0.0.2 -c 20", "return status 0"),
    ("udaddy -c 5", "udaddy -s 10.0.0.2 -c 5", "return status 0"),
    ("cmtime", "cmtime -s 10.0.0.2 -c 50", "disconnect"),
];

/// Server and client of perftest. The client requests its second connection whether or not the server listens again
/// yet. A request waits some milliseconds for its listener; if that is later still the request is rejected, as it must
/// be, and the client continues with freed memory. So a client that loses that race runs again.
const PERFTEST: (&str, &str) = ("ib_write_bw -R -d weft0 -n 200", "ib_write_bw -R -d weft0 -n 200 10.0.0.2");

/// Time limit of a run of it that succeeds.
const RACE_WITHIN: Duration = Duration::from_secs(8);

#[test]
fn programs_connect_by_address() {
    if !skip::have("programs_connect_by_address", TOOLS) {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let mut table = Table::new("RDMA CM on a fabric");
    let fabric = Fabric::up(&lab, &["--star", "3"]).expect("a fabric");
    table.case("without a subnet manager there is no route", || {
        let ended = fabric.run(CLIENT, &["rping", "-c", "-a", ADDRESS, "-C", "1"])?;
        ensure!(!ended.ok() && ended.text.contains("ROUTE_ERROR"), "{}", ended.report());
        Ok(())
    });
    let opensm = fabric.opensm("node3", "minhop").expect("a subnet manager");
    let exchanges = if table::quick() { &EXCHANGES[..2] } else { EXCHANGES };
    // The newer cmtime also needs the hosts' network, which they do not have.
    for (serves, asks, shows) in exchanges.iter().filter(|exchange| exchange.0 != "cmtime" || lasting_cmtime()) {
        table.case(asks, || exchange(&lab, &fabric, serves, asks, shows));
    }
    table.case(PERFTEST.1, || race(&lab, &fabric));
    table.case("where nobody listens a connection is rejected", || {
        let started = Instant::now();
        let ended = fabric.run(CLIENT, &["ucmatose", "-s", ADDRESS, "-p", "9", "-c", "1"])?;
        ensure!(!ended.ok() && ended.text.contains("REJECTED"), "{}", ended.report());
        ensure!(started.elapsed() < ANSWERED_WITHIN, "the answer came late: {}", ended.report());
        Ok(())
    });
    table.case("an address of nobody is out of reach", || {
        let ended = fabric.run(CLIENT, &["rping", "-c", "-a", "10.0.0.77", "-C", "1"])?;
        ensure!(!ended.ok() && ended.text.contains("unreachable"), "{}", ended.report());
        Ok(())
    });
    table.case("programs hear that the fabric is gone", || {
        let mut server = lab.start_line(&fabric.words(SERVER, &["rping", "-s", "-P", "-a", ADDRESS, "-v"])?, &[])?;
        connect(&lab, &fabric, "rping -c -a 10.0.0.2 -C 1")?;
        fabric.weft(&["down"])?;
        let told = |proc: &Proc| proc.text().contains("device removal");
        let heard = server.wait_until(Duration::from_secs(10), told);
        let text = server.text();
        server.kill();
        ensure!(heard, "{text}");
        Ok(())
    });
    opensm.proc.kill();
    table.finish();
}

fn exchange(lab: &Lab, fabric: &Fabric<'_>, serves: &str, asks: &str, shows: &str) -> Result<()> {
    let serves: Vec<&str> = serves.split_whitespace().collect();
    let server = lab.start_line(&fabric.words(SERVER, &serves)?, &[])?;
    let client = match connect(lab, fabric, asks) {
        Ok(client) => client,
        Err(error) => return Err(error.context(format!("its server: {}", server.kill().report()))),
    };
    ensure!(client.text.contains(shows), "{}", client.report());
    if SERVES_ON.contains(&serves[0]) {
        server.kill();
        return Ok(());
    }
    server.wait(Duration::from_secs(10)).success().map(drop)
}

/// Runs perftest until its client comes late enough.
fn race(lab: &Lab, fabric: &Fabric<'_>) -> Result<()> {
    let words = |line: &'static str| line.split_whitespace().collect::<Vec<_>>();
    until_late_enough(RACES, &[REFUSED, FREED], |_| {
        let server = lab.start_line(&fabric.words(SERVER, &words(PERFTEST.0))?, &[])?;
        std::thread::sleep(Duration::from_millis(500));
        let client = lab.start_line(&fabric.words(CLIENT, &words(PERFTEST.1))?, &[])?.wait(RACE_WITHIN).success()?;
        ensure!(client.text.contains("65536"), "{}", client.report());
        server.wait(Duration::from_secs(10)).success().map(drop)
    })
}

/// Runs a client; a server that does not listen yet rejects it, and the client tries again.
fn connect(lab: &Lab, fabric: &Fabric<'_>, asks: &str) -> Result<Ended> {
    let asks: Vec<&str> = asks.split_whitespace().collect();
    until_late_enough(TRIES_MAX, &[REFUSED], |_| {
        lab.start_line(&fabric.words(CLIENT, &asks)?, &[])?.wait(Duration::from_secs(30)).success()
    })
}
