//! A bad network, injected: reliable connections still deliver every byte, without an error.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use weft_interop::ends::Ends;
use weft_interop::{Lab, Outcome, Pair, Shape, Table, Who, skip, table};

/// Faults of the network. The seeds are fixed, so that failures are reproducible.
const WEATHER: &[&str] = &[
    "loss=1%,seed=1",
    "reorder=1%,seed=2",
    "corrupt=0.1%,seed=3",
    "dup=1%,seed=4",
    "loss=1%,reorder=1%,dup=1%,corrupt=0.1%,seed=5",
    "loss=10%,seed=6",
    "delay=1ms,jitter=200us,seed=7",
    // A longer burst outlasts the retries of a queue pair that sends little.
    "loss=1%,burst=3,seed=8",
    "loss=100%,only=ack+response,from=20,count=4",
    "loss=1%,reorder=1%,dup=1%,corrupt=0.1%,delay=100us,dir=out,seed=9",
];

/// Programs that must succeed despite them.
const PROGRAMS: &[(&str, &str)] = &[
    ("ib_write_bw", "-s 65536 -n 300"),
    ("ibv_rc_pingpong", "-c -n 500"),
    ("ibv_srq_pingpong", "-c -q 4 -n 100"),
    ("ibv_xsrq_pingpong", "-m 1024 -n 300"),
    ("ib_read_bw", "-s 65536 -n 200"),
    ("ib_send_bw", "-s 65536 -n 200"),
    ("ib_atomic_bw", "-n 300"),
];

#[test]
fn reliable_transports_finish() {
    if !skip::have("reliable_transports_finish", &["ip", "ib_write_bw", "ibv_rc_pingpong"]) {
        return;
    }
    let mut table = Table::sampling("faults", if table::quick() { 1 } else { 2 }, 0);
    for shape in [Shape::Two { mtu: 1500 }, Shape::Two { mtu: 9000 }] {
        let lab = Lab::new(shape).expect("a lab");
        for (row, weather) in WEATHER.iter().enumerate() {
            for (column, (tool, args)) in PROGRAMS.iter().enumerate() {
                // The first two programs in both shapes, the others in one of them.
                let sample = column < 2 || (row + column) % 2 == usize::from(shape == Shape::Two { mtu: 1500 });
                if !sample || (table::quick() && (row > 0 || column > 1)) {
                    continue;
                }
                let who = if (row + column) % 2 == 0 { Who::Root } else { Who::Ordinary };
                table.sampled(&format!("{shape:?} {weather} {tool} {args} {who:?}"), || {
                    let mut pair = Pair::new(tool, args).devices(&lab)?.who(who).within(60);
                    if tool.starts_with("ibv_") {
                        let (s, c) = (lab.device(lab.server())?.gid_v4, lab.device(lab.client())?.gid_v4);
                        pair = pair.each(&format!("-g {s}"), &format!("-g {c}"));
                    }
                    pair.env("WEFT_FAULT", weather).env("WEFT_LOOPBACK", "wire").succeed(&lab).map(drop)
                });
            }
        }
    }
    table.finish();
}

/// Packets are struck by number and kind, for a time, and at a rate.
#[test]
fn faults_strike_by_number_kind_and_time() {
    if !skip::have("faults_strike_by_number_kind_and_time", &["ip", "ib_send_bw", "ibv_rc_pingpong", "rping"]) {
        return;
    }
    let lab = Lab::new(Shape::Two { mtu: 9000 }).expect("a lab");
    let mut table = Table::new("faults by number, kind and time");
    // The server damages what it receives, the client what it sends; the client says what it sent again.
    let run_both = |args: &str, server: &str, client: &str| -> Result<Outcome> {
        let mut pair = Pair::new("ib_send_bw", args).devices(&lab)?.within(60).env("WEFT_LOOPBACK", "wire");
        pair.server_env.push(("WEFT_FAULT".into(), server.into()));
        pair.client_env.push(("WEFT_FAULT".into(), client.into()));
        pair.client_env.push(("WEFT_TRACE".into(), "stderr,loss".into()));
        pair.run(&lab)
    };
    let run = |args: &str, fault: &str| run_both(args, fault, "");
    let succeeds_both = |args: &str, server: &str, client: &str, must_repeat: bool| -> Result<String> {
        let Outcome { server, client } = run_both(args, server, client)?;
        ensure!(server.ok() && client.ok(), "{}\n{}", server.report(), client.report());
        // A busy machine repeats packets that are only late.
        ensure!(client.text.contains("retransmits=+") || !must_repeat, "{}", client.report());
        Ok(client.text)
    };
    let succeeds = |args: &str, fault: &str, must_repeat: bool| succeeds_both(args, fault, "", must_repeat);
    table.case("one packet is lost, and sent again", || {
        succeeds("-s 1024 -n 200", "loss=100%,only=send,from=150,count=1", true).map(drop)
    });
    table.case("one packet leaves damaged, and is sent again", || {
        let damage = "corrupt=100%,dir=out,only=send,from=150,count=1";
        succeeds_both("-s 1024 -n 200", "", damage, true).map(drop)
    });
    table.case("from one packet on, none leaves", || {
        let outcome = run_both("-s 1024 -n 2000", "", "loss=100%,dir=out,only=send,from=500")?;
        ensure!(
            !outcome.client.ok() && outcome.client.text.contains("Failed status 12"),
            "{}",
            outcome.client.report()
        );
        Ok(())
    });
    table.case("packets of a kind that the client receives leave it unharmed", || {
        succeeds_both("-s 1024 -n 200", "", "loss=100%,dir=out,only=ack", false).map(drop)
    });
    table.case("the kernel counts packets that leave with a mark of congestion", || {
        let marked = || -> Result<u64> {
            let text = lab.run(lab.server(), Who::Root, &[], &["cat", "/proc/net/netstat"])?.success()?.text;
            let mut rows = text.lines().filter_map(|line| line.strip_prefix("IpExt: "));
            let (names, values) = (rows.next().unwrap_or_default(), rows.next().unwrap_or_default());
            let mut columns = names.split(' ').zip(values.split(' '));
            let (_, value) = columns.find(|(name, _)| *name == "InCEPkts").with_context(|| text.clone())?;
            Ok(value.parse()?)
        };
        let before = marked()?;
        succeeds_both("-s 1024 -n 200", "", "ecn=0%,dup=0%,delay=1us,dir=out", false)?;
        let plain = marked()?;
        succeeds_both("-s 1024 -n 200", "", "ecn=100%,dir=out,only=send", false)?;
        let after = marked()?;
        ensure!(plain == before && after > plain, "{before}, {plain} and {after} marked packets");
        Ok(())
    });
    table.case("what is on its way when a program ends arrives", || {
        // The client has its last message, and ends; its acknowledgement of it is on the way.
        let (s, c) = (lab.device(lab.server())?.gid_v4, lab.device(lab.client())?.gid_v4);
        let pair = Pair::new("ibv_rc_pingpong", "-n 4").devices(&lab)?.within(60).env("WEFT_LOOPBACK", "wire");
        let mut pair = pair.each(&format!("-g {s}"), &format!("-g {c}"));
        pair.client_env.push(("WEFT_FAULT".into(), "delay=200ms,dir=out".into()));
        pair.succeed(&lab).map(drop)
    });
    table.case("a connection request leaves late", || {
        let late = |words: &[String]| {
            ["env", "WEFT_FAULT=delay=400ms,dir=out,qp=1"]
                .map(str::to_owned)
                .into_iter()
                .chain(words.iter().cloned())
                .collect()
        };
        let ends = Ends::new("rping", "-v -C 5").each("-s", &format!("-c -a {}", lab.server().v4));
        let begun = std::time::Instant::now();
        ends.under(<[String]>::to_vec, late).judged(&lab, |client, _| {
            ensure!(begun.elapsed() >= Duration::from_millis(400), "after {:?}: {client}", begun.elapsed());
            Ok(())
        })
    });
    table.case("a number that no packet has", || {
        succeeds("-s 1024 -n 200", "loss=100%,only=read,from=150,count=1", false).map(drop)
    });
    table.case("an outage of 200 ms", || succeeds("-s 1024 -D 2", "loss=100%,after=500ms,for=200ms", true).map(drop));
    table.case("an outage without end", || {
        let outcome = run("-s 1024 -n 2000", "loss=100%,from=500")?;
        ensure!(
            !outcome.client.ok() && outcome.client.text.contains("Failed status 12"),
            "{}",
            outcome.client.report()
        );
        Ok(())
    });
    table.case("a line of 80 Mbit/s", || {
        let text = succeeds("-s 65536 -n 40 -t 4 --report_gbits", "rate=80Mbit", false)?;
        let row = text.lines().find(|line| line.trim_start().starts_with("65536 ")).with_context(|| text.clone())?;
        let average: f64 = row.split_whitespace().nth(3).with_context(|| text.clone())?.parse()?;
        // A slow machine takes longer.
        ensure!(average <= 0.0801, "{text}");
        Ok(())
    });
    table.finish();
}

#[test]
fn a_wrong_fault_is_refused_clearly() {
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let mut table = Table::new("bad WEFT_FAULT");
    for wrong in [
        "loss=banana",
        "loss=200%",
        "lozz=1%",
        "loss",
        "seed=-1",
        "only=ack",
        "loss=1%,only=nak",
        "loss=1%,dir=up",
        "rate=10",
    ] {
        table.case(wrong, || {
            let ended = lab.run(lab.client(), Who::Root, &[("WEFT_FAULT", wrong)], &["ibv_devinfo"])?;
            anyhow::ensure!(ended.text.contains("WEFT_FAULT"), "nothing says what is wrong:\n{}", ended.report());
            Ok(())
        });
    }
    table.finish();
}
