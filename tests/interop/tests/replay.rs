//! `weft replay`: recorded sides of programs that we did not write, replayed to fresh peers of the same programs.

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{CWD, Mode};
use serde_json::Value;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::Duration;
use weft_interop::{Ended, Lab, Proc, Shape, Side, Table, Who, product, skip};

const NEEDED: &[&str] = &["ip", "ucmatose", "rdma_server", "rdma_client", "rping", "ibv_rc_pingpong", "ib_write_bw"];
const READY_WITHIN: Duration = Duration::from_secs(20);
const ENDS_WITHIN: Duration = Duration::from_secs(60);
/// Port of librdmacm's tools.
const MANAGER_PORT: u16 = 7471;
/// TCP port of the pingpongs and perftest.
const TCP_PORT: u16 = 18515;

/// A client to record, its server, and the replay to another server of the same kind.
struct Case {
    name: &'static str,
    server: &'static str,
    client: &'static str,
    port: u16,
    /// Options of the replay.
    options: &'static [&'static str],
    /// Numbers of sends and receives that the report has. A client that never polls its sends ends before some or all of
    /// them complete.
    completions: [Option<u64>; 2],
}

const CASES: &[Case] = &[
    Case {
        name: "ucmatose: the server sends first",
        server: "ucmatose -c 1 -C 10 -S 100",
        client: "ucmatose -c 1 -C 10 -S 100 -s {s}",
        port: MANAGER_PORT,
        options: &[],
        completions: [None, Some(10)],
    },
    Case {
        name: "rdma_client: one message each way, inline",
        server: "rdma_server",
        client: "rdma_client -s {s}",
        port: MANAGER_PORT,
        options: &["--speed", "max"],
        completions: [Some(1), Some(1)],
    },
    Case {
        name: "ibv_rc_pingpong: addresses over TCP",
        server: "ibv_rc_pingpong -n 200 -s 5000 -m 1024 -g {sg}",
        client: "ibv_rc_pingpong -n 200 -s 5000 -m 1024 -g {cg} {s}",
        port: TCP_PORT,
        options: &["--exchange", "pingpong"],
        completions: [Some(200), Some(200)],
    },
    Case {
        name: "ibv_rc_pingpong, as fast as it goes",
        server: "ibv_rc_pingpong -n 200 -g {sg}",
        client: "ibv_rc_pingpong -n 200 -g {cg} {s}",
        port: TCP_PORT,
        options: &["--exchange", "pingpong", "--speed", "max"],
        completions: [Some(200), Some(200)],
    },
    Case {
        name: "ibv_uc_pingpong: without acknowledgements",
        server: "ibv_uc_pingpong -n 50 -g {sg}",
        client: "ibv_uc_pingpong -n 50 -g {cg} {s}",
        port: TCP_PORT,
        options: &["--exchange", "pingpong"],
        completions: [Some(50), Some(50)],
    },
];

#[test]
fn recorded_clients_are_replayed_to_live_servers() {
    if !skip::have("recorded_clients_are_replayed_to_live_servers", NEEDED) {
        return;
    }
    let lab = Lab::new(Shape::Two { mtu: 1500 }).expect("a lab");
    let mut table = Table::new("replay");
    for case in CASES {
        table.case(case.name, || replayed(&lab, case));
    }
    table.case("a server, to a live client", || server_replayed(&lab));
    table.case("both sides of a pingpong, to each other", || both_sides(&lab));
    table.case("a peer that sends other messages", || difference(&lab));
    table.case("records whose replay is not defined", || refused(&lab));
    table.finish();
}

fn replayed(lab: &Lab, case: &Case) -> Result<()> {
    let file = record_client(lab, case.server, case.client, case.port)?;
    let server = start_server(lab, case.server, case.port)?;
    let words = [&["--json"], case.options, &[path(&file), lab.server().v4]].concat();
    let report = report(replay(lab, &words)?.success()?)?;
    ensure!(report["is_same"] == true, "{report:#}");
    let [sends, receives] = case.completions;
    for figures in [&report["recorded"], &report["replayed"]] {
        for (figure, expected) in [("sends", sends), ("receives", receives)] {
            ensure!(expected.is_none_or(|expected| figures[figure] == expected), "{report:#}");
        }
    }
    ensure!(report["posted"][0] == report["posted"][1], "{report:#}");
    // The server is content, too.
    server.wait(ENDS_WITHIN).success().map(drop)
}

/// The recorded side listened.
fn server_replayed(lab: &Lab) -> Result<()> {
    let file = lab.file("listener.record");
    let words = ["ucmatose", "-c", "1", "-C", "5", "-S", "300"];
    let server = lab.start_line(&recorded(lab, lab.server(), &file, &words)?, &[])?;
    await_listener(lab, MANAGER_PORT)?;
    run_client(lab, "ucmatose -c 1 -C 5 -S 300 -s {s}")?.success()?;
    server.wait(ENDS_WITHIN).success()?;
    let words = weft_words(lab, lab.server(), &["replay", "--listen", path(&file)])?;
    let replay = lab.start_line(&words, &[])?;
    await_listener(lab, MANAGER_PORT)?;
    run_client(lab, "ucmatose -c 1 -C 5 -S 300 -s {s}")?.success()?;
    let replay = replay.wait(ENDS_WITHIN).success()?;
    ensure!(replay.text.contains("no completion differs"), "{}", replay.text);
    Ok(())
}

/// Each replay learns the other's queue pair from its standard input.
fn both_sides(lab: &Lab) -> Result<()> {
    let files = ["left", "right"].map(|name| lab.file(&format!("{name}.record")));
    let (server, client) = ("ibv_rc_pingpong -n 100 -g {sg}", "ibv_rc_pingpong -n 100 -g {cg} {s}");
    let words = filled(lab, server)?;
    let server = lab.start_line(&recorded(lab, lab.server(), &files[0], &strs(&words))?, &[])?;
    await_listener(lab, TCP_PORT)?;
    let words = filled(lab, client)?;
    let client = lab.start_line(&recorded(lab, lab.client(), &files[1], &strs(&words))?, &[])?;
    client.wait(ENDS_WITHIN).success()?;
    server.wait(ENDS_WITHIN).success()?;
    // Held open for both, so that neither waits for the other to open it, nor loses its output when the other ends.
    let pipes = ["to-left", "to-right"].map(|name| lab.file(name));
    let _held = pipes.each_ref().map(|pipe| pipe_at(pipe));
    let weft = product::weft()?;
    let start = |side: &Side, nth: usize| -> Result<Proc> {
        let (weft, file, from, to) = (weft.display(), files[nth].display(), &pipes[nth], &pipes[1 - nth]);
        let (from, to) = (from.display(), to.display());
        let script = format!("{weft} replay --speed max {file} - <{from} >{to} && echo the same");
        lab.start_bare(side, Who::Root, &["sh", "-c", &script])
    };
    let ends = [start(lab.server(), 0)?, start(lab.client(), 1)?];
    for end in ends {
        let end = end.wait(ENDS_WITHIN).success()?;
        ensure!(end.text.contains("the same"), "{}", end.text);
    }
    Ok(())
}

fn pipe_at(path: &Path) -> Result<File> {
    let _ = std::fs::remove_file(path);
    rustix::fs::mkfifoat(CWD, path, Mode::from_raw_mode(0o600)).context("mkfifo")?;
    OpenOptions::new().read(true).write(true).open(path).context("open")
}

/// The new server sends half as much: each of its messages differs.
fn difference(lab: &Lab) -> Result<()> {
    let file = record_client(lab, "ucmatose -c 1 -C 10 -S 100", "ucmatose -c 1 -C 10 -S 100 -s {s}", MANAGER_PORT)?;
    let server = start_server(lab, "ucmatose -c 1 -C 10 -S 50", MANAGER_PORT)?;
    let ended = replay(lab, &[path(&file), lab.server().v4])?;
    drop(server.kill());
    ensure!(!ended.ok(), "{}", ended.report());
    let line = "completion 1 of the receive queue: IBV_WC_RECV, 100 bytes; now IBV_WC_RECV, 50 bytes";
    ensure!(ended.text.contains(line), "{}", ended.text);
    Ok(())
}

fn refused(lab: &Lab) -> Result<()> {
    for (server, client, port, options, reason) in [
        (
            "rping -s -C 3 -p 7471",
            "rping -c -C 3 -p 7471 -a {s}",
            MANAGER_PORT,
            &[][..],
            "the peer used memory of the program",
        ),
        (
            "ib_write_bw -F -n 20 -d {sd}",
            "ib_write_bw -F -n 20 -d {cd} {s}",
            TCP_PORT,
            &["--exchange", "pingpong"],
            "give --remote-addr and --remote-key",
        ),
        (
            "ibv_ud_pingpong -n 20 -g {sg}",
            "ibv_ud_pingpong -n 20 -g {cg} {s}",
            TCP_PORT,
            &["--exchange", "pingpong"],
            "datagrams and XRC are not",
        ),
        (
            "ibv_srq_pingpong -q 1 -n 20 -g {sg}",
            "ibv_srq_pingpong -q 1 -n 20 -g {cg} {s}",
            TCP_PORT,
            &["--exchange", "pingpong"],
            "shared receive queue",
        ),
        (
            "ibv_rc_pingpong -n 20 -g {sg}",
            "ibv_rc_pingpong -n 20 -g {cg} {s}",
            TCP_PORT,
            &[],
            "exchanged addresses in a way of its own",
        ),
        (
            "ibv_rc_pingpong -n 20000 -s 64 -g {sg}",
            "ibv_rc_pingpong -n 20000 -s 64 -g {cg} {s}",
            TCP_PORT,
            &["--exchange", "pingpong"],
            "has lost its beginning",
        ),
    ] {
        let file = record_client(lab, server, client, port).with_context(|| client.to_owned())?;
        let words = [options, &[path(&file), lab.server().v4]].concat();
        let ended = replay(lab, &words)?;
        ensure!(!ended.ok() && ended.text.contains(reason), "{client}: {}", ended.report());
    }
    Ok(())
}

/// Records a client with a server that is not recorded, and returns the file.
fn record_client(lab: &Lab, server: &str, client: &str, port: u16) -> Result<PathBuf> {
    let file = lab.file("client.record");
    let server = start_server(lab, server, port)?;
    let words = filled(lab, client)?;
    let client = lab.start_line(&recorded(lab, lab.client(), &file, &strs(&words))?, &[])?;
    let client = client.wait(ENDS_WITHIN);
    let server = server.wait(READY_WITHIN);
    if !client.ok() {
        bail!("{}\n{}", client.report(), server.report());
    }
    Ok(file)
}

/// Starts a server, and waits until it listens.
fn start_server(lab: &Lab, line: &str, port: u16) -> Result<Proc> {
    let server = lab.start(lab.server(), Who::Root, &[], &strs(&filled(lab, line)?))?;
    await_listener(lab, port).with_context(|| server.text())?;
    Ok(server)
}

/// Waits until a program of the server's side listens, by TCP or the connection manager.
fn await_listener(lab: &Lab, port: u16) -> Result<()> {
    let port = port.to_string();
    lab.weft(lab.server(), Who::Root, &[], &["run", "--wait-port", &port, "--", "true"])?.success().map(drop)
}

fn run_client(lab: &Lab, line: &str) -> Result<Ended> {
    lab.run(lab.client(), Who::Root, &[], &strs(&filled(lab, line)?))
}

fn replay(lab: &Lab, words: &[&str]) -> Result<Ended> {
    lab.weft(lab.client(), Who::Root, &[], &[&["replay"], words].concat())
}

fn report(ended: Ended) -> Result<Value> {
    let start = ended.text.find('{').with_context(|| format!("no report:\n{}", ended.text))?;
    let mut values = serde_json::Deserializer::from_str(&ended.text[start..]).into_iter::<Value>();
    values.next().context("no report")?.with_context(|| ended.text.clone())
}

fn recorded(lab: &Lab, side: &Side, file: &Path, words: &[&str]) -> Result<Vec<String>> {
    let _ = std::fs::remove_file(file);
    weft_words(lab, side, &[&["record", "-o", path(file), "--"], words].concat())
}

fn weft_words(lab: &Lab, side: &Side, words: &[&str]) -> Result<Vec<String>> {
    let weft = product::weft()?;
    Ok(lab.bare(side, Who::Root, &[&[path(&weft)], words].concat()))
}

/// Returns the words of a command line with the server's address, the two devices and their rows of the GID table.
fn filled(lab: &Lab, line: &str) -> Result<Vec<String>> {
    let (server, client) = (lab.device(lab.server())?, lab.device(lab.client())?);
    let line = line.replace("{s}", lab.server().v4).replace("{sd}", &server.name).replace("{cd}", &client.name);
    let line = line.replace("{sg}", &server.gid_v4.to_string()).replace("{cg}", &client.gid_v4.to_string());
    Ok(line.split_whitespace().map(str::to_owned).collect())
}

fn strs(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}
