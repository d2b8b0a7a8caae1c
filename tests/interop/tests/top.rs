//! `weft top` on terminals that tmux provides, of 80 and 200 columns, while perftest runs: on a RoCE machine, on an iWARP
//! machine and on a fabric; its keys, its ends, and its batch mode.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use weft_interop::proc::Proc;
use weft_interop::{Fabric, Lab, Shape, Table, Who, product, skip};

const TOOLS: &[&str] = &["ip", "tmux", "ib_write_bw", "pkill"];
/// Time limit for a text to appear on a screen.
const SHOWN_WITHIN: Duration = Duration::from_secs(15);

#[test]
fn on_a_machine() {
    if !skip::have("weft top", TOOLS) {
        return;
    }
    let mut table = Table::new("weft top");
    let lab = Lab::new(Shape::One).expect("a lab");
    table.case("RoCE: 80 columns, keys", || roce(&lab));
    table.case("RoCE: 200 columns, sizes", || sizes(&lab));
    table.case("the terminal is restored", || restored(&lab));
    table.case("batch mode", || batch(&lab));
    table.case("idle", || idle(&lab));
    table.case("iWARP", || iwarp(&lab));
    table.finish();
}

#[test]
fn on_a_fabric() {
    if !skip::have("weft top on a fabric", TOOLS) {
        return;
    }
    let mut table = Table::new("weft top on a fabric");
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let fabric = Fabric::managed(&lab, &["--packets", "--star", "3"]).expect("a fabric");
    table.case("hosts, queue pairs, ports", || hosts(&lab, &fabric));
    table.finish();
}

/// A terminal of tmux with a shell in it.
struct Screen<'a> {
    lab: &'a Lab,
    socket: String,
    weft: String,
}

impl<'a> Screen<'a> {
    fn open(lab: &'a Lab, columns: u32, rows: u32) -> Result<Screen<'a>> {
        let socket = lab.file("tmux").display().to_string();
        let weft = product::weft()?.display().to_string();
        let screen = Screen { lab, socket, weft };
        let (columns, rows) = (columns.to_string(), rows.to_string());
        screen.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", &columns, "-y", &rows, "exec env PS1='$ ' sh"])?;
        Ok(screen)
    }

    fn tmux(&self, words: &[&str]) -> Result<String> {
        let words = [&["tmux", "-u", "-S", &self.socket], words].concat();
        let line = self.lab.bare(self.lab.client(), Who::Root, &words);
        let env = [("LC_ALL", "C.UTF-8"), ("SHELL", "/bin/sh")];
        Ok(self.lab.start_line(&line, &env)?.wait(Duration::from_secs(10)).success()?.text)
    }

    /// Types a command line into the shell.
    fn command(&self, line: &str) -> Result<()> {
        self.tmux(&["send-keys", "-l", &line.replace("weft ", &format!("{} ", self.weft))])?;
        self.keys(&["Enter"])
    }

    fn keys(&self, keys: &[&str]) -> Result<()> {
        self.tmux(&[&["send-keys"], keys].concat()).map(drop)
    }

    fn resize(&self, columns: u32, rows: u32) -> Result<()> {
        self.tmux(&["resize-window", "-x", &columns.to_string(), "-y", &rows.to_string()]).map(drop)
    }

    fn text(&self) -> Result<String> {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Waits until the screen is as wanted; returns it.
    fn wait(&self, what: &str, wanted: impl Fn(&str) -> bool) -> Result<String> {
        let until = Instant::now() + SHOWN_WITHIN;
        loop {
            let text = self.text()?;
            if wanted(&text) {
                return Ok(text);
            }
            ensure!(Instant::now() < until, "not on the screen within {SHOWN_WITHIN:?}: {what}:\n{text}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn pane(&self, format: &str) -> Result<String> {
        Ok(self.tmux(&["display-message", "-p", format])?.trim().to_owned())
    }
}

impl Drop for Screen<'_> {
    fn drop(&mut self) {
        let _ = self.tmux(&["kill-server"]);
    }
}

/// The cells below a heading, of the rows with a word; heading and cells end at the same column.
fn cells<'a>(screen: &'a str, heading: &str, word: &str) -> Vec<&'a str> {
    let Some(headings) = screen.lines().find(|line| line.contains(heading)) else { return Vec::new() };
    let before = headings.split(heading).next().unwrap_or_default();
    // A mark behind the heading tells the order.
    let marked = headings.contains(&format!("{heading}▽")) || headings.contains(&format!("{heading}△"));
    let end = before.chars().count() + heading.chars().count() + usize::from(marked);
    let rows = screen.lines().filter(|line| line.contains(word));
    rows.filter_map(|row| {
        let end = row.char_indices().nth(end).map_or(row.len(), |(at, _)| at);
        row[..end].split_whitespace().last()
    })
    .collect()
}

/// Rows of connected queue pairs.
fn queue_pairs(screen: &str) -> usize {
    screen.lines().filter(|line| line.contains(" RTS ") || line.contains(" RTR ")).count()
}

/// Whether any of these cells is a number other than 0.
fn has_rate(screen: &str, heading: &str, word: &str) -> bool {
    let is_rate = |cell: &&str| *cell != "0" && !cell.ends_with('%') && cell.starts_with(|c: char| c.is_ascii_digit());
    cells(screen, heading, word).iter().any(is_rate)
}

fn writes(lab: &Lab, wire: bool) -> Result<(Proc, Proc)> {
    let mut pair = weft_interop::Pair::new("ib_write_bw", "-D 60 -s 4096 -F").devices(lab)?;
    if wire {
        pair = pair.env("WEFT_LOOPBACK", "wire");
    }
    let server = pair.start_server(lab)?;
    Ok((server, pair.start_client(lab)?))
}

fn roce(lab: &Lab) -> Result<()> {
    let (server, client) = writes(lab, true)?;
    let screen = Screen::open(lab, 80, 24)?;
    screen.command("weft top -d 0.5")?;
    let shown = screen.wait("rates of ib_write_bw", |text| has_rate(text, "SEND/s", "ib_write_bw"))?;
    println!("{shown}");
    ensure!(shown.lines().all(|line| line.chars().count() <= 80), "wider than 80 columns:\n{shown}");
    ensure!(shown.matches("ib_write_bw").count() == 2, "not both processes:\n{shown}");
    let measured = |cell: &&str| cell.ends_with("us") || cell.ends_with("ms");
    ensure!(cells(&shown, "RTT", "ib_write_bw").iter().any(measured), "no round trip:\n{shown}");
    screen.keys(&["2"])?;
    let shown = screen.wait("queue pairs", |text| text.contains("[2 Queue pairs]") && queue_pairs(text) == 2)?;
    println!("{shown}");
    screen.keys(&["F2"])?;
    let shown = screen.wait("rates of ports", |text| has_rate(text, "SEND/s", "rxe_"))?;
    println!("{shown}");
    screen.keys(&["1"])?;
    screen.keys(&["/", "n", "o", "t", "h", "i", "n", "g", "!"])?;
    screen.wait("an empty table", |text| text.contains("Filter: nothing!_") && !text.contains("ib_write_bw"))?;
    screen.keys(&["Escape"])?;
    screen.wait("the whole table", |text| text.matches("ib_write_bw").count() == 2)?;
    screen.keys(&["F6"])?;
    screen.wait("the menu of columns", |text| text.starts_with("Sort by"))?;
    screen.keys(&["Home", "Enter"])?;
    screen.wait("the order by PID", |text| text.contains("PID△"))?;
    screen.keys(&["Down", "Enter"])?;
    screen.wait("queue pairs of one process", |text| {
        text.contains("[2 Queue pairs of ib_write_bw (Esc: all)]") && queue_pairs(text) == 1
    })?;
    screen.keys(&["Escape", "F1"])?;
    screen.wait("the help", |text| text.contains("Keys of weft top"))?;
    screen.keys(&["x", "F10"])?;
    screen.wait("the shell", |text| !text.contains("Processes") && text.contains("$ "))?;
    client.kill();
    server.kill();
    Ok(())
}

fn sizes(lab: &Lab) -> Result<()> {
    let (server, client) = writes(lab, true)?;
    let screen = Screen::open(lab, 200, 50)?;
    screen.command("weft top -d 0.5 --view qps")?;
    let shown = screen.wait("all columns", |text| {
        ["DEVICE", "PEER", "PATH", "RNR/s", "RETX/s", "RTT", "PROGRAM"].iter().all(|title| text.contains(title))
            && text.matches("ib_write_bw").count() == 2
    })?;
    println!("{shown}");
    ensure!(shown.contains(" wire "), "no path:\n{shown}");
    for (columns, rows) in [(80, 24), (20, 5), (10, 2), (1, 1), (300, 3), (40, 100), (200, 50)] {
        screen.resize(columns, rows)?;
        std::thread::sleep(Duration::from_millis(100));
    }
    screen.wait("all columns again", |text| text.contains("RNR/s") && text.matches("ib_write_bw").count() == 2)?;
    screen.keys(&["q"])?;
    screen.wait("the shell", |text| !text.contains("Queue pairs"))?;
    client.kill();
    server.kill();
    Ok(())
}

/// Ends `weft top` in every way, and looks at the terminal behind it.
fn restored(lab: &Lab) -> Result<()> {
    let screen = Screen::open(lab, 80, 24)?;
    let shell = screen.pane("#{pane_pid}")?;
    let signal = |name: &str| -> Result<()> {
        let line = lab.bare(lab.client(), Who::Root, &["pkill", name, "-P", &shell]);
        lab.start_line(&line, &[])?.wait(Duration::from_secs(5)).success().map(drop)
    };
    for (way, status) in [("q", 0), ("C-c", 0), ("-TERM", 143), ("-INT", 130), ("-QUIT", 131), ("-HUP", 129)] {
        screen.command("weft top; echo status=$?; stty -a | grep -o -- '-*icanon\\|-*echo\\b'; echo done")?;
        screen.wait("weft top", |text| text.contains("Processes") && text.contains("F10Quit"))?;
        ensure!(screen.pane("#{alternate_on} #{cursor_flag}")? == "1 0", "not the alternate screen without a cursor");
        if way.starts_with('-') {
            signal(way)?
        } else {
            screen.keys(&[way])?
        }
        let shown = screen.wait("the shell", |text| text.lines().any(|line| line == "done"))?;
        ensure!(shown.contains(&format!("status={status}\nicanon\necho\ndone")), "{way}:\n{shown}");
        ensure!(screen.pane("#{alternate_on} #{cursor_flag}")? == "0 1", "{way}: not the shell's screen");
        screen.command("clear")?;
        screen.wait("an empty screen", |text| !text.contains("done"))?;
    }
    // Stopped by Ctrl-Z, and continued. A shell without job control would not notice.
    screen.command("set -m; clear; weft top")?;
    screen.wait("weft top", |text| text.contains("F10Quit"))?;
    screen.keys(&["C-z"])?;
    screen.wait("the shell", |text| text.contains("Stopped"))?;
    ensure!(screen.pane("#{alternate_on} #{cursor_flag}")? == "0 1", "stopped, but not the shell's screen");
    screen.command("fg")?;
    screen.wait("weft top again", |text| text.contains("F10Quit"))?;
    screen.keys(&["q"])?;
    screen.wait("the shell", |text| !text.contains("F10Quit"))?;
    Ok(())
}

fn batch(lab: &Lab) -> Result<()> {
    let (server, client) = writes(lab, false)?;
    std::thread::sleep(Duration::from_secs(2));
    let words = ["top", "-b", "-n", "2", "-d", "0.5", "--sort", "pid", "--filter", "ib_write"];
    let ended = lab.weft(lab.client(), Who::Ordinary, &[], &words)?.success()?;
    ensure!(ended.text.matches("weft top ").count() == 2, "{}", ended.report());
    ensure!(ended.text.matches(" ib_write_bw\n").count() == 4, "{}", ended.report());
    ensure!(has_rate(&ended.text, "COPY/s", "ib_write_bw"), "no copies within the host: {}", ended.report());
    let narrow =
        lab.weft(lab.client(), Who::Root, &[], &["top", "-b", "-n", "1", "-d", "0.2", "-w", "80"])?.success()?;
    ensure!(narrow.text.lines().all(|line| line.chars().count() <= 80), "{}", narrow.report());
    let no_terminal = lab.weft(lab.client(), Who::Root, &[], &["top"])?;
    ensure!(!no_terminal.ok() && no_terminal.text.contains("--batch prints reports"), "{}", no_terminal.report());
    let wrong = lab.weft(lab.client(), Who::Root, &[], &["top", "-b", "--sort", "x"])?;
    ensure!(wrong.text.contains("no such column; columns are PID, "), "{}", wrong.report());
    client.kill();
    server.kill();
    Ok(())
}

/// Ticks of the processor that a process has taken.
fn ticks(pid: &str) -> Result<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    Ok(fields.get(11).context("utime")?.parse::<u64>()? + fields.get(12).context("stime")?.parse::<u64>()?)
}

/// Without traffic `weft top` takes less than a hundredth of a processor.
fn idle(lab: &Lab) -> Result<()> {
    let screen = Screen::open(lab, 80, 24)?;
    screen.command("clear; exec weft top")?;
    screen.wait("weft top", |text| text.contains("F10Quit"))?;
    let pid = screen.pane("#{pane_pid}")?;
    std::thread::sleep(Duration::from_secs(2));
    let before = ticks(&pid)?;
    std::thread::sleep(Duration::from_secs(8));
    let spent = ticks(&pid)? - before;
    // A tick is 10 ms.
    ensure!(spent <= 8, "{spent} ticks in 8 s");
    Ok(())
}

fn iwarp(lab: &Lab) -> Result<()> {
    let interface = lab.client().interface;
    let words = ["link", "add", "siw0", "type", "siw", "netdev", interface];
    lab.weft(lab.client(), Who::Root, &[], &words)?.success()?;
    let pair = weft_interop::Pair::new("ib_write_bw", "-D 60 -s 4096 -F -R -d siw0").env("WEFT_LOOPBACK", "wire");
    let server = pair.start_server(lab)?;
    let client = pair.start_client(lab)?;
    let screen = Screen::open(lab, 80, 24)?;
    screen.command("weft top -d 0.5")?;
    let shown = screen.wait("rates of ib_write_bw", |text| has_rate(text, "SEND/s", "ib_write_bw"));
    let shown = shown.with_context(|| format!("server: {}\nclient: {}", server.text(), client.text()))?;
    println!("{shown}");
    screen.keys(&["3"])?;
    let shown = screen.wait("rates of the port", |text| has_rate(text, "SEND/s", "siw0/1"))?;
    println!("{shown}");
    client.kill();
    server.kill();
    Ok(())
}

fn hosts(lab: &Lab, fabric: &Fabric<'_>) -> Result<()> {
    let words = ["ib_write_bw", "-d", "weft0", "-F", "-D", "60"];
    let mut server = lab.start_line(&fabric.words("node2", &words)?, &[])?;
    ensure!(server.wait_listening(18515, SHOWN_WITHIN), "the server does not listen:\n{}", server.text());
    let client = lab.start_line(&fabric.words("node3", &[&words[..], &["node2"]].concat())?, &[])?;
    let screen = Screen::open(lab, 80, 24)?;
    screen.command("weft top -d 0.5")?;
    let shown = screen.wait("rates of node3", |text| has_rate(text, "SEND/s", " node3 "))?;
    println!("{shown}");
    ensure!(shown.contains("fabric: ") && shown.contains(" node2 "), "{shown}");
    ensure!(shown.lines().all(|line| line.chars().count() <= 80), "wider than 80 columns:\n{shown}");
    screen.keys(&["3"])?;
    let shown = screen.wait("rates of ports", |text| has_rate(text, "SEND/s", "node3:1 "))?;
    println!("{shown}");
    ensure!(shown.contains("active"), "{shown}");
    let inside =
        fabric.run("node3", &[&screen.weft, "top", "-b", "-n", "1", "-d", "0.5", "--view", "qps"])?.success()?;
    ensure!(inside.text.contains(" ib_write_bw\n"), "as a host: {}", inside.report());
    let ports = lab.weft(lab.client(), Who::Root, &[], &["stat", "port", "node3:1", "--json"])?.success()?;
    let ports: serde_json::Value = serde_json::from_str(ports.text.trim())?;
    ensure!(ports[0]["xmit_bytes"].as_u64() > Some(1 << 20) && ports[0]["state"] == "active", "{ports}");
    client.kill();
    server.kill();
    Ok(())
}
