//! kill -9 in the middle of traffic: the survivor gets the errors of an adapter, and the next run works.

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use std::time::Duration;
use weft_interop::{Ended, Lab, Pair, Path, Proc, Shape, Table, Who, skip};

/// Shape of the lab, and transport.
const PLACES: [(Shape, Path); 4] = [
    (Shape::One, Path::SameHost),
    (Shape::One, Path::Copies),
    (Shape::One, Path::Wire),
    (Shape::Two { mtu: 1500 }, Path::SameHost),
];

/// Tries until a death comes while a message is unacknowledged.
const TRIES: usize = 10;

/// Time limit of each try: a survivor that still runs then waits for a reply.
const TRY: Duration = Duration::from_secs(5);

/// Duration of traffic before the kill.
const FLOW: Duration = Duration::from_millis(300);

/// retry_cnt 7 with timeout 14 takes at least half a second; an adapter may take four times as long.
const GIVE_UP: Duration = Duration::from_secs(10);

#[test]
fn survivors() {
    if !skip::have("survivors", &["ip", "ibv_rc_pingpong", "ib_write_bw"]) {
        return;
    }
    let mut table = Table::new("kill -9");
    for (shape, path) in PLACES {
        let lab = Lab::new(shape).expect("a lab").on(path);
        let place = format!("{shape:?}, {}:", path.name());
        for victim in ["client", "server"] {
            table.case(&format!("{place} {victim} of ibv_rc_pingpong"), || {
                let pair = pingpong(&lab, "-n 100000000")?;
                // A survivor whose message was already acknowledged waits for the reply forever, on adapters too.
                let survivor = (0..TRIES).try_fold(None, |last: Option<Ended>, _| match last {
                    Some(ended) if ended.status.is_some() => Ok(Some(ended)),
                    _ => kill_one(&lab, &pair, victim).map(|survivor| Some(survivor.wait(TRY))),
                })?;
                let survivor = survivor.context("nobody survived")?;
                ensure!(survivor.status.is_some(), "the survivor hangs: {}", survivor.report());
                let wanted = "transport retry counter exceeded (12)";
                ensure!(survivor.text.contains(wanted), "no {wanted:?}: {}", survivor.report());
                next_run_works(&lab)
            });
            table.case(&format!("{place} {victim} of ib_write_bw"), || {
                let pair = Pair::new("ib_write_bw", "-s 65536 -D 60 -f 1").devices(&lab)?;
                let survivor = kill_one(&lab, &pair, victim)?.wait(GIVE_UP);
                ensure!(survivor.status.is_some(), "the survivor hangs: {}", survivor.report());
                ensure!(survivor.status.is_some_and(|s| s.code().is_some()), "it crashed: {}", survivor.report());
                next_run_works(&lab)
            });
        }
        table.case(&format!("{place} daemon"), || {
            let pair = pingpong(&lab, "-c -n 30000")?.within(60);
            let server = pair.start_server(&lab)?;
            let client = pair.start_client(&lab)?;
            std::thread::sleep(FLOW);
            for side in lab.sides() {
                let daemon = lab.daemon(side);
                ensure!(daemon.is_some(), "no daemon found in {}", side.netns);
                if let Some(pid) = daemon.and_then(|pid| Pid::from_raw(pid.cast_signed())) {
                    kill_process(pid, Signal::KILL)?;
                }
            }
            // While these still run, new programs find a new daemon.
            lab.run(lab.client(), Who::Root, &[], &["ibv_devinfo"])?.success()?;
            client.wait(pair.limit).success()?;
            server.wait(Duration::from_secs(10)).success()?;
            next_run_works(&lab)
        });
        table.case(&format!("{place} a stopped client goes on"), || {
            let pair = pingpong(&lab, "-c -n 20000")?.within(60);
            let server = pair.start_server(&lab)?;
            let client = pair.start_client(&lab)?;
            std::thread::sleep(FLOW);
            client.signal(Signal::STOP);
            std::thread::sleep(Duration::from_millis(150));
            client.signal(Signal::CONT);
            client.wait(pair.limit).success()?;
            server.wait(Duration::from_secs(10)).success().map(drop)
        });
    }
    table.finish();
}

fn pingpong(lab: &Lab, args: &str) -> Result<Pair> {
    let (server, client) = (lab.device(lab.server())?.gid_v4, lab.device(lab.client())?.gid_v4);
    let pair = Pair::new("ibv_rc_pingpong", args).devices(lab)?;
    Ok(pair.each(&format!("-g {server}"), &format!("-g {client}")))
}

/// Starts both, lets traffic flow, and kills one with SIGKILL; returns the other.
fn kill_one(lab: &Lab, pair: &Pair, victim: &str) -> Result<Proc> {
    let mut server = pair.start_server(lab)?;
    let mut client = pair.start_client(lab)?;
    std::thread::sleep(FLOW);
    ensure!(client.running(), "the client ended before it was killed:\n{}", client.text());
    ensure!(server.running(), "the server ended before it was killed:\n{}", server.text());
    if victim == "client" {
        client.kill();
        Ok(server)
    } else {
        server.kill();
        Ok(client)
    }
}

fn next_run_works(lab: &Lab) -> Result<()> {
    pingpong(lab, "-c -n 100")?.succeed(lab).map(drop)
}
