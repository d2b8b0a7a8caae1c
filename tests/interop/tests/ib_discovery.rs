//! Weft's discovery tools on Debian's simulated InfiniBand fabrics: they print the same as Debian's, byte for byte,
//! with the same exit codes, and read each other's files; the tables list the differences with their reasons.

use anyhow::{Context, Result, ensure};
use std::path::PathBuf;
use weft_interop::{IbSim, Lab, Originals, Said, Shape, Table, ibsim, originals, product, skip};

/// The host that runs the tools, and the host of the subnet manager.
const HOST: &str = "h00002 HCA-1";
const MANAGER: &str = "h00001 HCA-1";

fn golden(name: &str) -> PathBuf {
    product::root().join("tests/interop/golden").join(name)
}

fn have(what: &str) -> bool {
    skip::have(what, &[ibsim::TOOLS, &["ibnetdiscover", "iblinkinfo", "saquery", "ibqueryerrors"]].concat())
}

/// Reason why an output may differ, which selects the normalization of both.
#[derive(Clone, Copy, PartialEq)]
enum But {
    /// Nothing differs.
    Nothing,
    /// The topology file contains its date.
    Date,
    /// Weft's usage has two more options, `--system` and `--json`.
    Usage,
    /// Queries of counters are traffic that they count.
    Traffic,
    /// The simulator returns only one datagram of a response, and the bytes after its end are arbitrary.
    Truncated,
    /// The original names its source line, Weft's tool its current action.
    Source,
    /// The original is a script that runs another program, and its error has that program's name.
    Script,
}

impl But {
    fn of(self, text: &str) -> String {
        let lines = text.lines().filter_map(|line| self.line(line));
        lines.map(|line| line + "\n").collect()
    }

    fn line(self, line: &str) -> Option<String> {
        match self {
            But::Date if line.starts_with("# Topology file: generated on ") => None,
            But::Usage if line.starts_with("  --system ") || line.starts_with("  --json ") => None,
            But::Traffic => Some(without_traffic(line)),
            But::Truncated if line.contains("preference.") || line.contains("resv2.") => None,
            But::Source if line.contains("; ") => None,
            But::Script => Some(line.split_once("iberror").map_or(line, |(_, rest)| rest).to_owned()),
            _ => Some(line.to_owned()),
        }
    }

    fn both(self, said: &Said) -> Said {
        Said { out: self.of(&said.out), err: self.of(&said.err), code: said.code }
    }
}

/// Removes the packet and byte counts from a line of ibqueryerrors.
fn without_traffic(line: &str) -> String {
    let parts = line.split(" [").map(|part| match part.split_once(" == ") {
        Some((name, _)) if name.ends_with("Data") || name.ends_with("Pkts") => name,
        _ => part,
    });
    parts.collect::<Vec<_>>().join(" [")
}

/// Checks that Weft's output is the same as that of these originals.
fn same(by: Originals, theirs: &Said, ours: &Said, but: But) -> Result<()> {
    let (a, b) = (but.both(theirs), but.both(&by.known_of(ours)));
    ensure!(a == b, "theirs ({:?}):\n{}{}\nours ({:?}):\n{}{}", a.code, a.out, a.err, b.code, b.out, b.err);
    Ok(())
}

/// Command lines; `@` stands for a directory with `kept.cache`, `edited.cache`, `names` and `thresholds`.
const LINES: &[(But, &[&str])] = &[
    (
        But::Date,
        &[
            "ibnetdiscover",
            "ibnetdiscover -g",
            "ibnetdiscover -s",
            "ibnetdiscover -f",
            "ibnetdiscover -m",
            "ibnetdiscover -o 8",
            "ibnetdiscover --node-name-map @/names",
            "ibnetdiscover --load-cache @/kept.cache",
            "ibnetdiscover --load-cache @/kept.cache -g",
            "ibnetdiscover -t 100 -P 1",
        ],
    ),
    (
        But::Nothing,
        &[
            "ibnetdiscover -l",
            "ibnetdiscover -H",
            "ibnetdiscover -S",
            "ibnetdiscover -R",
            "ibnetdiscover -p",
            "ibnetdiscover -S --node-name-map @/names",
            "ibnetdiscover -p --load-cache @/kept.cache",
            "ibnetdiscover --diff @/kept.cache",
            "ibnetdiscover --diff @/edited.cache",
            "ibnetdiscover --diff @/edited.cache --diffcheck sw,port,lid,nodedesc",
            "ibnetdiscover --diff @/edited.cache --diffcheck ca",
            "ibnetdiscover -t x",
            "ibnetdiscover -y 1 -l",
            "iblinkinfo",
            "iblinkinfo -l",
            "iblinkinfo -d",
            "iblinkinfo -p",
            "iblinkinfo -l -p",
            "iblinkinfo -d -l",
            "iblinkinfo --switches-only",
            "iblinkinfo --cas-only",
            "iblinkinfo -D 0,1",
            "iblinkinfo -D 0,1 -a",
            "iblinkinfo -D 0,1 -n 2 -a",
            "iblinkinfo -D 0,1,4 -l",
            "iblinkinfo -D 0,1 --cas-only",
            "iblinkinfo --node-name-map @/names",
            "iblinkinfo --load-cache @/kept.cache",
            "iblinkinfo --load-cache @/kept.cache -D 0,1",
            "iblinkinfo --diff @/kept.cache",
            "iblinkinfo --diff @/edited.cache",
            "iblinkinfo --diff @/edited.cache --diffcheck port,lid",
            "iblinkinfo --diff @/edited.cache --switches-only",
            "iblinkinfo --filterdownports @/kept.cache",
            "iblinkinfo -G 0x99",
            "ibhosts",
            "ibswitches",
            "ibnodes",
            "ibrouters",
            "ibhosts @/topology",
            "ibswitches @/topology",
            "ibnodes @/topology",
            "ibidsverify -R",
            "saquery",
            "saquery -D",
            "saquery -c",
            "saquery -s",
            "saquery -g",
            "saquery -m",
            "saquery -m 0xc000",
            "saquery -x",
            "saquery -S",
            "saquery -I",
            "saquery -N",
            "saquery -L leaf0001",
            "saquery -l leaf0001",
            "saquery -G leaf0001",
            "saquery -O 2",
            "saquery -U 0x2c90300100000",
            "saquery leaf0001",
            "saquery NR 1",
            "saquery PIR 2",
            "saquery PIR 2/1",
            "saquery -K PIR 1",
            "saquery SL2VL 2/1/2",
            "saquery PKTR 2/0/0",
            "saquery --smkey 1 PKTR 2/0/0",
            "saquery VLAR 2/1",
            "saquery VLAR 2//1",
            "saquery IIR",
            "saquery IIR ::1",
            "saquery IIR x",
            "saquery LR",
            "saquery LR 2/4",
            "saquery LR 2/4 4",
            "saquery SR",
            "saquery PR --slid 1 --dlid 2",
            "saquery -p --slid 1 --dlid 2 -n 1",
            "saquery --src-to-dst 1:6",
            "saquery --src-to-dst 99:6",
            "saquery --sgid-to-dgid fe80::2:c903:a00:1-fe80::2:c903:a00:11",
            "saquery MCMR --mlid 0xc000",
            "saquery MCMR --mgid ff12:401b:ffff::ffff:ffff",
            "saquery LFTR 2",
            "saquery LFTR 2/0",
            "saquery MFTR",
            "saquery MFTR 2/0/0",
            "saquery GIR 1",
            "saquery GIR 1/0",
            "saquery SWIR",
            "saquery SWIR 2",
            "saquery SMIR",
            "saquery SMIR 1",
            "saquery CPI",
            "saquery NR nope",
            "saquery NR 0",
            "saquery -P 3",
            "saquery -C nosuch -l x",
            "dump_fts",
            "dump_fts -a",
            "dump_fts -n",
            "dump_fts 3 5",
            "dump_fts 3",
            "dump_fts -M",
            "dump_fts -M -n",
            "dump_fts -M -a 0xc000 0xc003",
            "dump_fts -M 0xc010 0xc020",
            "dump_fts -M -v 1 0xc002",
            "dump_fts --node-name-map @/names",
            "dump_lfts",
            "dump_lfts -n",
            "dump_mfts",
            "ibcacheedit",
            "ibcacheedit @/kept.cache",
            "ibcacheedit --switchguid 0x1:0x2 @/kept.cache @/new",
            "ibcacheedit --caguid 0x1:0x2 @/kept.cache @/new",
            "ibcacheedit --sysimgguid 1:2 @/kept.cache @/new",
            "ibcacheedit --portguid 1:2:3 @/kept.cache @/new",
            "ibcacheedit --portguid 0x2c9030a000000:2:3 @/kept.cache @/new",
            "ibhosts -h",
            "ibswitches -x",
            "ibrouters -C",
            "ibidsverify -h",
            "ibidsverify -x",
            "ibqueryerrors --load-cache @/kept.cache -D 0,1",
        ],
    ),
    (
        But::Usage,
        &[
            "ibnetdiscover -h",
            "iblinkinfo -h",
            "saquery -h",
            "ibqueryerrors -h",
            "dump_fts -h",
            "ibcacheedit -h",
            "saquery -L",
            "saquery -O",
            "saquery -O 0",
            "saquery -U",
            "saquery --src-to-dst 1",
            "saquery --sgid x",
            "saquery --sgid-to-dgid 1",
            "ibnetdiscover --diffcheck x",
            "iblinkinfo --diffcheck sw",
            "ibcacheedit --switchguid 1 a b",
            "ibnetdiscover --bogus",
        ],
    ),
    (
        But::Traffic,
        &[
            "ibqueryerrors",
            "ibqueryerrors -r",
            "ibqueryerrors --data",
            "ibqueryerrors --data -r",
            "ibqueryerrors --counters",
            "ibqueryerrors --counters --switch",
            "ibqueryerrors --details",
            "ibqueryerrors -c",
            "ibqueryerrors -s PortRcvSwitchRelayErrors,VL15Dropped,x",
            "ibqueryerrors --ca",
            "ibqueryerrors --switch --router",
            "ibqueryerrors --skip-sl",
            "ibqueryerrors -D 0,1",
            "ibqueryerrors --threshold-file @/thresholds",
            "ibqueryerrors --threshold-file @/nosuch",
            "ibqueryerrors --load-cache @/kept.cache",
            "ibqueryerrors --node-name-map @/names",
        ],
    ),
    (But::Truncated, &["saquery -p", "saquery PR", "saquery -p -r 1 -n 1 --slid 1"]),
    (
        But::Source,
        &[
            "ibnetdiscover --load-cache @/nosuch",
            "ibnetdiscover --diff @/names",
            "ibnetdiscover @/no/such/file",
            "iblinkinfo --load-cache @/names",
            "ibnetdiscover -C nosuch",
            "ibqueryerrors --load-cache @/nosuch",
            "ibcacheedit @/nosuch @/new",
        ],
    ),
    (But::Script, &["ibhosts @/topology @/topology"]),
];

/// Prepares a fabric with a manager, and files for the command lines.
fn prepare(lab: &Lab, sim: &IbSim<'_>) -> Result<String> {
    let folder = lab.file("").display().to_string();
    let folder = folder.trim_end_matches('/').to_owned();
    std::fs::write(lab.file("names"), "0x2c90300100000 \"core 1\"\n0x2c9030a000000 \"host one\"\n")?;
    std::fs::write(lab.file("thresholds"), "# few\nPortRcvSwitchRelayErrors=1000\nSymbolErrorCounter=10\n")?;
    let kept = format!("{folder}/kept.cache");
    let said = sim.run(HOST, &["ibnetdiscover", "--cache", &kept])?;
    ensure!(said.code == Some(0), "{said:?}");
    std::fs::write(lab.file("topology"), said.out)?;
    let edited = format!("{folder}/edited.cache");
    let edits = ["--switchguid", "0x2c90300100003:0x2c90300100099", "--caguid", "0x2c9030a000050:0x2c9030a000059"];
    let said = sim.run(HOST, &[&["ibcacheedit"], &edits[..], &[&kept, &edited]].concat())?;
    ensure!(said.code == Some(0), "{said:?}");
    // A switch counts an error for a datagram without a route.
    sim.run(HOST, &["smpquery", "-t", "20", "nodeinfo", "99"])?;
    Ok(folder)
}

#[test]
fn discovery_prints_what_the_originals_print() {
    if !have("discovery_prints_what_the_originals_print") {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let sim = IbSim::start(&lab, &golden("ib_fabric.net")).expect("a simulator");
    let _manager = sim.opensm(MANAGER, true).expect("a subnet manager");
    let folder = prepare(&lab, &sim).expect("files");
    let by = Originals::installed().expect("the originals' version");
    let mut table = Table::new("ib discovery, beside the originals");
    for (but, lines) in LINES {
        for line in *lines {
            table.case(line, || {
                let line = line.replace('@', &folder);
                let words: Vec<&str> = line.split(' ').collect();
                let theirs = sim.run(HOST, &words)?;
                if by.crash_at(&line) {
                    return originals::crashed(&theirs);
                }
                same(by, &theirs, &sim.weft(HOST, &words)?, *but)
            });
        }
    }
    table.case("files are the same", || files(&lab, &sim, &folder, by));
    table.case("errors are cleared", || cleared(&sim));
    table.case("the whole fabric is diagnosed", || diagnosed(&sim, &folder));
    for line in JSON {
        table.case(line, || json(&sim, &line.replace('@', &folder)));
    }
    table.finish();
}

/// Each reads the file that the other wrote, and writes the same.
fn files(lab: &Lab, sim: &IbSim<'_>, folder: &str, by: Originals) -> Result<()> {
    let path = |name: &str| format!("{folder}/{name}");
    let ours = sim.weft(HOST, &["ibnetdiscover", "--cache", &path("ours.cache")])?;
    ensure!(ours.code == Some(0), "{ours:?}");
    let read = |name: &str| std::fs::read(lab.file(name)).with_context(|| name.to_owned());
    ensure!(read("kept.cache")? == read("ours.cache")?, "a fabric's file differs");
    let again = sim.weft(HOST, &["ibnetdiscover", "--load-cache", &path("kept.cache"), "--cache", &path("again")])?;
    ensure!(again.code == Some(0) && read("again")? == read("kept.cache")?, "read and written again it differs");
    let edits = ["--switchguid", "0x2c90300100003:0x2c90300100099", "--caguid", "0x2c9030a000050:0x2c9030a000059"];
    let (from, to) = (path("ours.cache"), path("ours.edited"));
    let words = [&["ibcacheedit"], &edits[..], &[&from, &to]].concat();
    let said = sim.weft(HOST, &words)?;
    ensure!(said.code == Some(0) && read("ours.edited")? == read("edited.cache")?, "edited it differs: {said:?}");
    let theirs = sim.run(HOST, &["ibnetdiscover", "-l", "--load-cache", &path("ours.cache")])?;
    same(by, &theirs, &sim.weft(HOST, &["ibnetdiscover", "-l"])?, But::Nothing)
}

/// Errors that one tool clears are gone for the other.
fn cleared(sim: &IbSim<'_>) -> Result<()> {
    for ours_clears in [true, false] {
        sim.run(HOST, &["smpquery", "-t", "20", "nodeinfo", "99"])?;
        let clear = ["ibqueryerrors", "-k", "-K"];
        let before = if ours_clears { sim.weft(HOST, &clear)? } else { sim.run(HOST, &clear)? };
        ensure!(before.code == Some(1), "no error was counted: {before:?}");
        let look = ["ibqueryerrors"];
        let after = if ours_clears { sim.run(HOST, &look)? } else { sim.weft(HOST, &look)? };
        ensure!(after.code == Some(0), "errors stay: {after:?}");
    }
    Ok(())
}

/// Checks the report on a fabric whose links could all be faster, and which has changed.
fn diagnosed(sim: &IbSim<'_>, folder: &str) -> Result<()> {
    let said = sim.weft(HOST, &["diagnose", "--seconds", "0", "--baseline", &format!("{folder}/edited.cache")])?;
    ensure!(said.code == Some(1), "{said:?}");
    for title in ["GUIDs, LIDs, names", "subnet managers", "partitions", "routes", "credit loops", "multicast"] {
        let line = said.out.lines().find(|line| line.starts_with(title));
        ensure!(line.is_some_and(|line| line.contains(" ok ")), "{title} is not ok:\n{}", said.out);
    }
    // A newer simulator's ports support NDR.
    let best =
        if originals::ibsim_minor()? < 12 { "could be 12X and 53.125 Gbps" } else { "could be 12X and 106.25 Gbps" };
    for words in [best, "h00001 HCA-1 port 1 is master", "gone: ", "new: "] {
        ensure!(said.out.contains(words), "nothing is said of {words:?}:\n{}", said.out);
    }
    let said = sim.weft(HOST, &["diagnose", "--path", "1", "h00006 HCA-1"])?;
    ensure!(said.code == Some(0) && said.out.contains("It arrives."), "{said:?}");
    Ok(())
}

/// Every tool for programs.
const JSON: &[&str] = &[
    "ibnetdiscover --json",
    "ibnetdiscover --json -l",
    "ibnetdiscover --json -p",
    "ibnetdiscover --json --diff @/edited.cache",
    "iblinkinfo --json",
    "iblinkinfo --json -d",
    "iblinkinfo --json --diff @/edited.cache",
    "ibhosts --json",
    "ibswitches --json",
    "ibnodes --json",
    "ibidsverify --json",
    "saquery --json",
    "saquery --json -p",
    "saquery --json PIR 1",
    "saquery --json VLAR 2",
    "saquery --json -D",
    "ibqueryerrors --json -r",
    "ibqueryerrors --json --counters",
    "dump_fts --json",
    "dump_fts --json -M",
    "dump_lfts --json",
];

fn json(sim: &IbSim<'_>, line: &str) -> Result<()> {
    let words: Vec<&str> = line.split(' ').collect();
    let said = sim.weft(HOST, &words)?;
    let value: serde_json::Value = serde_json::from_str(&said.out).with_context(|| format!("{said:?}"))?;
    let is_empty = value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(|o| o.is_empty());
    ensure!(!is_empty && value.get("error").is_none(), "{said:?}");
    Ok(())
}

/// Chassis, a router and an adapter with two ports; without a manager, so that all LIDs are 0.
const CHASSIS: &[(But, &[&str])] = &[
    (But::Date, &["ibnetdiscover", "ibnetdiscover -g", "ibnetdiscover -s", "ibnetdiscover -f -g"]),
    (
        But::Nothing,
        &[
            "ibnetdiscover -p",
            "ibnetdiscover -l",
            "ibnetdiscover -R",
            "iblinkinfo",
            "iblinkinfo -l",
            "ibrouters",
            "ibidsverify -R",
        ],
    ),
];

#[test]
fn chassis_are_found_as_the_originals_find_them() {
    if !have("chassis_are_found_as_the_originals_find_them") {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let sim = IbSim::start(&lab, &golden("ib_chassis.net")).expect("a simulator");
    let by = Originals::installed().expect("the originals' version");
    let mut table = Table::new("ib discovery, chassis");
    for (but, lines) in CHASSIS {
        for line in *lines {
            table.case(line, || {
                let words: Vec<&str> = line.split(' ').collect();
                same(by, &sim.run("voltaire", &words)?, &sim.weft("voltaire", &words)?, *but)
            });
        }
    }
    table.finish();
}
