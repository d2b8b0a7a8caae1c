//! After many crashes no descriptor, shared memory or slot has leaked, and the daemon exits in the end.
//! `WEFT_ALL=1` makes two hundred of them.

use anyhow::{Context, Result, ensure};
use std::time::{Duration, Instant};
use weft_interop::{Lab, Pair, Path, Shape, Side, Who, skip, table};

/// Number of kills: of a quick run, by default, and of all tests.
const ROUNDS: [usize; 3] = [20, 60, 200];

/// The daemon exits ten seconds after its last client.
const LEAVES_WITHIN: Duration = Duration::from_secs(25);

/// Sockets for each slot: IPv4 and IPv6.
const SOCKETS_OF_SLOT: u64 = 2;

/// Resources held by a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Holdings {
    daemon: u32,
    /// Descriptors, without the pool's sockets; the pool grows while freed slots rest before reuse.
    daemon_fds: u64,
    slots: u64,
    shared_files: usize,
}

impl Holdings {
    /// Returns whether nothing grew. The daemon may still know the two processes of the last round: it forgets them
    /// when the next one ends.
    fn is_no_more_than(&self, before: &Holdings) -> bool {
        let daemon_fds = before.daemon_fds.max(self.daemon_fds);
        daemon_fds <= before.daemon_fds + 2 && Holdings { daemon_fds, ..*before } == Holdings { daemon_fds, ..*self }
    }
}

#[test]
fn crashes_leak_nothing() {
    if !skip::have("crashes_leak_nothing", &["ip", "ibv_rc_pingpong"]) {
        return;
    }
    crashes(rounds(), Path::SameHost).expect("no leak");
}

#[test]
fn crashes_of_who_sends_packets_leak_nothing() {
    if !skip::have("crashes_of_who_sends_packets_leak_nothing", &["ip", "ibv_rc_pingpong"]) {
        return;
    }
    crashes(rounds() / 2, Path::Wire).expect("no leak");
}

fn rounds() -> usize {
    let [quick, default, all] = ROUNDS;
    if table::quick() {
        quick
    } else if table::all() {
        all
    } else {
        default
    }
}

fn crashes(rounds: usize, path: Path) -> Result<()> {
    let lab = Lab::new(Shape::One)?.on(path);
    let side = lab.client();
    let gid = lab.device(side)?.gid_v4;
    // The first rounds let the daemon grow to its working size.
    for round in 0..3 {
        crash(&lab, gid, round)?;
    }
    let before = settled(&lab, side, None)?;
    for round in 0..rounds {
        crash(&lab, gid, round).with_context(|| format!("round {round}"))?;
    }
    let after = settled(&lab, side, Some(before))?;
    table::note(&format!("leaks, {}: {before:?} before, {after:?} after {rounds} crashes", path.name()));
    ensure!(after.is_no_more_than(&before), "{before:?} before and {after:?} after {rounds} crashes");
    // The next run works, and then the daemon has no clients.
    Pair::new("ibv_rc_pingpong", &format!("-c -g {gid}")).devices(&lab)?.succeed(&lab)?;
    let until = Instant::now() + LEAVES_WITHIN;
    while lab.daemon(side).is_some() {
        ensure!(Instant::now() < until, "the daemon stays {LEAVES_WITHIN:?} after its last client");
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// Runs one round: a pair in traffic, one or both killed at a moment that differs from round to round.
fn crash(lab: &Lab, gid: usize, round: usize) -> Result<()> {
    let who = if round % 3 == 2 { Who::Ordinary } else { Who::Root };
    let pair = Pair::new("ibv_rc_pingpong", &format!("-n 100000000 -g {gid}")).devices(lab)?.who(who);
    let server = pair.start_server(lab)?;
    let client = pair.start_client(lab)?;
    std::thread::sleep(Duration::from_millis(10 + (round as u64 * 7) % 60));
    if round.is_multiple_of(2) {
        client.kill();
        server.kill();
    } else {
        server.kill();
        client.kill();
    }
    Ok(())
}

/// Returns the resources held once the daemon has noticed the last death (or that still differ from `wanted` after a
/// while).
fn settled(lab: &Lab, side: &Side, wanted: Option<Holdings>) -> Result<Holdings> {
    let until = Instant::now() + Duration::from_secs(5);
    loop {
        let now = holdings(lab, side)?;
        let still = wanted.map_or(now.slots == 0, |wanted| now.is_no_more_than(&wanted));
        if still || Instant::now() > until {
            return Ok(now);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn holdings(lab: &Lab, side: &Side) -> Result<Holdings> {
    let ended = lab.weft(side, Who::Root, &[], &["status", "--json"])?.success()?;
    let status: serde_json::Value = serde_json::from_str(&ended.text).with_context(|| ended.report())?;
    let number = |name: &str| {
        status.get(name).and_then(serde_json::Value::as_u64).with_context(|| format!("no {name} in {}", ended.report()))
    };
    let daemon = u32::try_from(number("pid")?)?;
    let open = std::fs::read_dir(format!("/proc/{daemon}/fd")).context("the daemon is gone")?.count() as u64;
    // Trees of views are other tests': nothing here needs one.
    let is_ours = |name: &str| name.contains("weft") && !name.starts_with("weft-view-");
    let shared = std::fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    Ok(Holdings {
        daemon,
        daemon_fds: open.saturating_sub(SOCKETS_OF_SLOT * number("pool_slots")?),
        slots: number("slots_in_use")?,
        shared_files: shared.filter(|entry| is_ours(&entry.file_name().to_string_lossy())).count(),
    })
}
