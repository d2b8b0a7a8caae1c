//! Both ends of a program on one processor, where each keeps the other from answering unless it yields: every way to
//! wait for a peer, on every transport. A wait that spins to the end of its time slice shows in the processor time of
//! an exchange, however busy or fast the machine is. Also many pairs on two processors, which end only if they yield: a
//! few dozen, or the number in `WEFT_PAIRS`.

use anyhow::{Context, Result, ensure};
use std::time::Duration;
use weft_interop::pair::DEFAULT_PORT;
use weft_interop::proc::Ended;
use weft_interop::{Fabric, Lab, Pair, Path, Shape, Table, skip};

const TOOLS: &[&str] = &["ip", "taskset", "ibv_rc_pingpong", "ib_send_lat", "ib_read_lat"];

/// Exchanges of each program.
const EXCHANGES: u32 = 1000;
/// Maximum processor time of both ends for an exchange. Two spinning ends take two time slices of 0.7 ms or more.
const SECONDS_EACH: f64 = 0.001;
/// Processor time of both ends besides the exchanges: perftest measures the processor's frequency.
const SECONDS_BESIDE: f64 = 1.5;

/// Programs that poll a completion queue, by `ibv_poll_cq` and (`-t`) by `ibv_start_poll`.
const PROGRAMS: &[&str] = &[
    "ibv_rc_pingpong -g 0",
    "ibv_rc_pingpong -g 0 -t",
    "ibv_uc_pingpong -g 0",
    "ibv_ud_pingpong -g 0",
    "ib_send_lat -F -s 8",
    "ib_send_lat -F -s 8 -c XRC",
    "ib_read_lat -F -s 8",
];
/// Programs to run on two hosts of an InfiniBand fabric.
const ON_A_FABRIC: &[&str] = &["ibv_rc_pingpong", "ib_send_lat -F -s 8"];

/// Pairs that run at the same time.
const PAIRS: u32 = 40;
/// Time limit of the pairs: ten times as long as on two busy processors.
const PAIRS_WITHIN: Duration = Duration::from_secs(90);

#[test]
fn two_ends_on_one_processor_yield_to_each_other() {
    if !skip::have("two_ends_on_one_processor_yield_to_each_other", TOOLS) {
        return;
    }
    let mut table = Table::new("two ends on one processor");
    for path in [Path::SameHost, Path::Wire] {
        let lab = Lab::new(Shape::Loopback).expect("a lab").on(path);
        for program in PROGRAMS {
            table.case(&format!("{program}, {}", path.name()), || between_programs(&lab, program));
        }
    }
    let lab = Lab::new(Shape::Two { mtu: 1500 }).expect("a lab");
    for program in ["ibv_rc_pingpong -g 0", "ib_send_lat -F -s 8"] {
        table.case(&format!("{program}, two hosts"), || between_programs(&lab, program));
    }
    drop(lab);
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    for (mode, words, programs) in [
        ("verdicts", &["--star", "2"][..], ON_A_FABRIC),
        ("hop by hop", &["--packets", "--star", "2"], &ON_A_FABRIC[..1]),
    ] {
        let fabric = Fabric::managed(&lab, words).expect("a fabric");
        for program in programs {
            table.case(&format!("{program}, fabric, {mode}"), || on_a_fabric(&fabric, &lab, program));
        }
    }
    table.finish();
}

#[test]
fn many_pairs_on_two_processors_end() {
    if !skip::have("many_pairs_on_two_processors_end", TOOLS) {
        return;
    }
    for path in [Path::SameHost, Path::Wire] {
        many_pairs(path).expect("every pair ends");
    }
}

/// Returns the command line that runs `program` on the given processors and prints its processor time.
fn timed(processors: &str, program: &str) -> Vec<String> {
    let shell = ["taskset", "-c", processors, "sh", "-c", "\"$0\" \"$@\" && times"];
    shell.into_iter().chain(program.split_whitespace()).map(str::to_owned).collect()
}

/// Returns the processors that this test may use, the last first.
fn processors() -> Result<Vec<String>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let list =
        status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).context("no list of processors")?;
    let mut all = Vec::new();
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        all.extend(first.parse::<u32>()?..=last.parse()?);
    }
    Ok(all.into_iter().rev().map(|number| number.to_string()).collect())
}

fn between_programs(lab: &Lab, program: &str) -> Result<()> {
    let processor = &processors()?[0];
    let words = timed(processor, &format!("{program} -n {EXCHANGES}"));
    let pair = Pair { server: words.clone(), client: words, ..Pair::new("", "") }.within(60);
    let outcome = pair.succeed(lab)?;
    judge(&outcome.client, &outcome.server)
}

fn on_a_fabric(fabric: &Fabric<'_>, lab: &Lab, program: &str) -> Result<()> {
    let processor = &processors()?[0];
    let start = |host: &str, address: &str| {
        let words = timed(processor, &format!("{program} -n {EXCHANGES} {address}"));
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        lab.start_line(&fabric.words(host, &words)?, &[])
    };
    let mut server = start("node1", "")?;
    ensure!(server.wait_listening(DEFAULT_PORT, Duration::from_secs(15)), "the server does not listen");
    let client = start("node2", "node1")?.wait(Duration::from_secs(60)).success()?;
    judge(&client, &server.wait(Duration::from_secs(10)).success()?)
}

fn judge(client: &Ended, server: &Ended) -> Result<()> {
    let spent = seconds(&client.text)? + seconds(&server.text)?;
    let allowed = SECONDS_BESIDE + SECONDS_EACH * f64::from(EXCHANGES);
    ensure!(
        spent <= allowed,
        "both ends took {spent} s of processor time; {allowed} s are enough for {EXCHANGES} exchanges"
    );
    Ok(())
}

/// Parses the processor time of the shell's children from the last line of `times`: user and system, as `0m1.250000s`.
fn seconds(text: &str) -> Result<f64> {
    let line = text.lines().last().context("nothing was printed")?;
    line.split_whitespace()
        .map(|word| {
            let (minutes, seconds) = word.strip_suffix('s').and_then(|time| time.split_once('m')).context("no time")?;
            Ok(minutes.parse::<f64>()? * 60.0 + seconds.parse::<f64>()?)
        })
        .sum()
}

fn many_pairs(path: Path) -> Result<()> {
    let lab = Lab::new(Shape::Loopback)?.on(path);
    let count = std::env::var("WEFT_PAIRS").ok().map_or(Ok(PAIRS), |text| text.parse())?;
    let two = processors()?.into_iter().take(2).collect::<Vec<_>>().join(",");
    let pairs: Vec<_> = (0..count)
        .map(|number| {
            let port = 20_000 + number;
            let words = timed(&two, &format!("ibv_rc_pingpong -g 0 -n {EXCHANGES} -p {port}"));
            Pair { server: words.clone(), client: words, port: port as u16, ..Pair::new("", "") }
        })
        .collect();
    let servers: Vec<_> = pairs.iter().map(|pair| pair.start_server(&lab)).collect::<Result<_>>()?;
    let clients: Vec<_> = pairs.iter().map(|pair| pair.start_client(&lab)).collect::<Result<_>>()?;
    let until = std::time::Instant::now() + PAIRS_WITHIN * count.div_ceil(PAIRS);
    let left = || until.saturating_duration_since(std::time::Instant::now());
    for proc in clients.into_iter().chain(servers) {
        proc.wait(left()).success()?;
    }
    Ok(())
}

#[test]
fn processor_time_is_read_from_the_shells_line() {
    assert_eq!(seconds("0m0.000000s 0m0.000000s\n1m1.500000s 0m0.250000s\n").unwrap(), 61.75);
    assert!(seconds("usec/iter\n").is_err());
}
