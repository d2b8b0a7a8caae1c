//! A bad network, injected: reliable connections still deliver every byte, without an error.

use weft_interop::{Lab, Pair, Shape, Table, Who, skip, table};

/// Faults of the network. The seeds are fixed, so that failures are reproducible.
const WEATHER: &[&str] = &[
    "loss=1%,seed=1",
    "reorder=1%,seed=2",
    "corrupt=0.1%,seed=3",
    "dup=1%,seed=4",
    "loss=1%,reorder=1%,dup=1%,corrupt=0.1%,seed=5",
    "loss=10%,seed=6",
    "delay=1ms,seed=7",
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
    let mut table = Table::new("faults");
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
                table.case(&format!("{shape:?} {weather} {tool} {args} {who:?}"), || {
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

#[test]
fn a_wrong_fault_is_refused_clearly() {
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let mut table = Table::new("bad WEFT_FAULT");
    for wrong in ["loss=banana", "loss=200%", "lozz=1%", "loss", "seed=-1"] {
        table.case(wrong, || {
            let ended = lab.run(lab.client(), Who::Root, &[("WEFT_FAULT", wrong)], &["ibv_devinfo"])?;
            anyhow::ensure!(ended.text.contains("WEFT_FAULT"), "nothing says what is wrong:\n{}", ended.report());
            Ok(())
        });
    }
    table.finish();
}
