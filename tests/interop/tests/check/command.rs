//! The options of `weft check`, its exit statuses, and its forms of reports.

use anyhow::{Context, Result, ensure};
use std::time::{Duration, Instant};
use weft_interop::{Ended, Lab, Shape, Table, Who, product, skip};

use super::misuse::compile;
use super::reports::{FOUND, run};

const NEEDED: &[&str] = &["ip", "cc", "/usr/include/infiniband/verbs.h", "ibv_rc_pingpong", "ib_write_bw"];
/// A program that expects completions of two queue pairs in the order of its posts.
const UNPROMISED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/strict/unpromised.c");
/// Seeds of which one must show the mistake.
const SEEDS: &str = "100";
/// Time limit for a program in the background to write its reports.
const WRITTEN_WITHIN: Duration = Duration::from_secs(20);

#[test]
fn options_do_as_the_help_says() {
    if !skip::have("options_do_as_the_help_says", NEEDED) {
        return;
    }
    let lab = Lab::new(Shape::One).expect("a lab");
    let program = compile(&lab, "memory").expect("memory.c compiles");
    let device = lab.device(lab.client()).expect("a device").clone();
    let gid = device.gid_v4.to_string();
    let wrong = [program.as_str(), &device.name, &gid, "buffer-changed", "wrong"];
    let mut table = Table::new("check, the command");
    table.case("exit statuses are passed on", || exit_statuses(&lab));
    table.case("an error has its own exit status", || own_exit_status(&lab, &wrong));
    table.case("text names rule, stack and advice", || text(&lab, &wrong));
    table.case("rules are chosen", || chosen(&lab, &wrong));
    table.case("generated suppressions hide their reports", || suppressed(&lab, &wrong));
    table.case("SARIF", || sarif(&lab, &wrong));
    table.case("reports of weft run are read later", || read_later(&lab, &wrong));
    table.case("a shell's children are checked", || children(&lab, &wrong));
    table.case("a program that hangs is killed", || time_limit(&lab));
    table.case("signals reach the program", || signals(&lab));
    table.case("the machine's own adapters", || own_adapters(&lab));
    table.case("without namespaces", || without_namespaces(&lab, &wrong));
    table.case("in the background", || background(&lab, &wrong));
    table.case("a full disk hides no error", || full_disk(&lab, &wrong));
    table.finish();
}

#[test]
fn seeds_find_programs_that_rely_on_luck() {
    if !skip::have("seeds_find_programs_that_rely_on_luck", NEEDED) {
        return;
    }
    let lab = Lab::new(Shape::One).expect("a lab");
    let mut table = Table::new("check, seeds");
    table.case("a pair passes", || passing_pair(&lab));
    table.case("a shell's pair passes", || {
        let pair = "ib_write_bw -n 100 -s 4096 & weft run --wait-port 18515 -- ib_write_bw -n 100 -s 4096 localhost && wait $!";
        let weft = product::weft()?;
        let path = format!("PATH={}:/usr/bin:/bin:/usr/sbin:/sbin", weft.parent().context("a directory")?.display());
        let ended = run(&lab, Who::Ordinary, &["--seeds", "2", "--", "env", &path, "sh", "-c", pair])?.success()?;
        ensure!(ended.text.contains("2 runs passed"), "{}", ended.report());
        Ok(())
    });
    table.case("a program that relies on luck fails", || lucky(&lab));
    table.case("a server that does not listen", || {
        let ended = run(&lab, Who::Root, &["--seeds", "3", "--server", "echo no; exit 4", "--", "true"])?;
        ensure!(code(&ended) == Some(125), "{}", ended.report());
        let wanted = "seed 1: the server ended with exit status 4 before it listened";
        ensure!(ended.text.contains(wanted) && ended.text.contains("output of the server\nno\n"), "{}", ended.report());
        Ok(())
    });
    table.finish();
}

fn code(ended: &Ended) -> Option<i32> {
    ended.status.and_then(|status| status.code())
}

fn exit_statuses(lab: &Lab) -> Result<()> {
    for (script, wanted) in [("exit 7", 7), ("kill -9 $$", 137), ("true", 0)] {
        let ended = run(lab, Who::Ordinary, &["--", "sh", "-c", script])?;
        ensure!(code(&ended) == Some(wanted), "{}", ended.report());
    }
    let missing = run(lab, Who::Root, &["--", "/nonexistent/program"])?;
    ensure!(code(&missing) == Some(127), "{}", missing.report());
    let unknown = run(lab, Who::Root, &["--only", "buffer-chagned", "--", "true"])?;
    ensure!(code(&unknown) == Some(125) && unknown.text.contains("weft check --rules"), "{}", unknown.report());
    Ok(())
}

fn own_exit_status(lab: &Lab, wrong: &[&str]) -> Result<()> {
    for (options, wanted) in [(&[][..], FOUND), (&["--exit-code", "3"], 3), (&["--exit-code", "0"], 0)] {
        let ended = run(lab, Who::Root, &[options, &["--"], wrong].concat())?;
        ensure!(code(&ended) == Some(wanted), "{options:?}: {}", ended.report());
    }
    Ok(())
}

fn text(lab: &Lab, wrong: &[&str]) -> Result<()> {
    let ended = run(lab, Who::Ordinary, &[&["--"], wrong].concat())?;
    let last = ended.text.lines().last().unwrap_or_default();
    ensure!(last.starts_with("weft check: 1 error, 0 warnings"), "{}", ended.report());
    for wanted in ["[buffer-changed]", "ibv_post_send(3)", "at ", "advice:", wrong[0]] {
        ensure!(ended.text.contains(wanted), "{wanted} is missing: {}", ended.report());
    }
    Ok(())
}

fn chosen(lab: &Lab, wrong: &[&str]) -> Result<()> {
    for options in [["--ignore", "buffer-changed"], ["--only", "key-stale"]] {
        let ended = run(lab, Who::Root, &[&options, &["--quiet", "--"], wrong].concat())?.success()?;
        ensure!(!ended.text.contains("weft check:"), "{}", ended.report());
    }
    Ok(())
}

fn suppressed(lab: &Lab, wrong: &[&str]) -> Result<()> {
    let ended = run(lab, Who::Root, &[&["--generate-suppressions", "--output", "/dev/null", "--"], wrong].concat())?;
    let from = ended.text.find("[[suppress]]").with_context(|| ended.report())?;
    let until = ended.text[from..].find("weft check:").map_or(ended.text.len(), |at| from + at);
    let file = lab.file("suppressions.toml");
    std::fs::write(&file, &ended.text[from..until])?;
    let file = file.to_str().context("the lab's path is not UTF-8")?;
    let ended = run(lab, Who::Ordinary, &[&["--suppressions", file, "--"], wrong].concat())?.success()?;
    ensure!(ended.text.contains("0 errors, 0 warnings, 1 suppressed"), "{}", ended.report());
    Ok(())
}

fn sarif(lab: &Lab, wrong: &[&str]) -> Result<()> {
    let file = lab.file("reports.sarif");
    let name = file.to_str().context("the lab's path is not UTF-8")?;
    let ended = run(lab, Who::Root, &[&["--format", "sarif", "--output", name, "--"], wrong].concat())?;
    let log: serde_json::Value = serde_json::from_slice(&std::fs::read(&file)?).with_context(|| ended.report())?;
    ensure!(log["version"] == "2.1.0", "{log:#}");
    let results = log["runs"][0]["results"].as_array().context("no results")?;
    ensure!(results.len() == 1 && results[0]["ruleId"] == "buffer-changed", "{log:#}");
    ensure!(results[0]["level"] == "error", "{log:#}");
    Ok(())
}

fn read_later(lab: &Lab, wrong: &[&str]) -> Result<()> {
    let directory = lab.file("later");
    let directory = directory.to_str().context("the lab's path is not UTF-8")?;
    let env = [("WEFT_CHECK_REPORT", directory)];
    lab.run(lab.client(), Who::Root, &env, wrong)?.success()?;
    lab.run(lab.client(), Who::Root, &env, wrong)?.success()?;
    let ended = run(lab, Who::Root, &["--read", directory])?;
    ensure!(code(&ended) == Some(FOUND) && ended.text.contains("count: 2"), "{}", ended.report());
    Ok(())
}

fn children(lab: &Lab, wrong: &[&str]) -> Result<()> {
    let script = format!("{}; exit 0", wrong.join(" "));
    let ended = run(lab, Who::Root, &["--", "sh", "-c", &script])?;
    ensure!(code(&ended) == Some(FOUND), "{}", ended.report());
    Ok(())
}

fn time_limit(lab: &Lab) -> Result<()> {
    let started = Instant::now();
    let ended = run(lab, Who::Ordinary, &["--timeout", "1", "--", "sh", "-c", "sleep 100 & sleep 100"])?;
    ensure!(code(&ended) == Some(124) && ended.text.contains("time limit"), "{}", ended.report());
    ensure!(started.elapsed() < Duration::from_secs(20), "it took {:?}", started.elapsed());
    Ok(())
}

fn signals(lab: &Lab) -> Result<()> {
    let weft = product::weft()?;
    let weft = weft.to_str().context("the product's path is not UTF-8")?;
    let script = "trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done";
    let line = lab.bare(lab.client(), Who::Root, &[weft, "check", "--", "sh", "-c", script]);
    let mut started = lab.start_line(&line, &[])?;
    ensure!(started.wait_until(WRITTEN_WITHIN, |proc| proc.text().contains("ready")), "{}", started.text());
    let pid = rustix::process::Pid::from_raw(started.pid().cast_signed()).context("a process id")?;
    rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
    let ended = started.wait(WRITTEN_WITHIN);
    ensure!(code(&ended) == Some(5), "{}", ended.report());
    Ok(())
}

/// With the system's libraries the program does as without Weft, in a machine that may have no adapters.
fn own_adapters(lab: &Lab) -> Result<()> {
    let checked = run(lab, Who::Root, &["--system", "--quiet", "--", "ibv_devices"])?;
    let bare = lab.start_bare(lab.client(), Who::Root, &["ibv_devices"])?.wait(WRITTEN_WITHIN);
    ensure!(code(&checked) == code(&bare), "{}\n      {}", checked.report(), bare.report());
    ensure!(checked.text == bare.text, "{}\n      {}", checked.report(), bare.report());
    Ok(())
}

/// Reports that cannot be written are no clean run.
fn full_disk(lab: &Lab, wrong: &[&str]) -> Result<()> {
    let place = lab.file("full").display().to_string();
    let fill =
        format!("mkdir {place} && mount -t tmpfs -o size=64k full {place} && head -c 1M /dev/zero > {place}/file");
    let check = format!("TMPDIR={place} exec {} check --quiet -- {}", product::weft()?.display(), wrong.join(" "));
    let words = ["unshare", "-m", "sh", "-c", &format!("{fill}; {check}")];
    let ended = lab.start_bare(lab.client(), Who::Root, &words)?.wait(WRITTEN_WITHIN);
    ensure!(code(&ended) == Some(125) && ended.text.contains("is the disk full?"), "{}", ended.report());
    Ok(())
}

fn without_namespaces(lab: &Lab, wrong: &[&str]) -> Result<()> {
    let weft = product::weft()?;
    let command = format!("{} check --quiet -- {}", weft.display(), wrong.join(" "));
    let words = lab.in_a_chroot(&command)?;
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let ended = lab.start_bare(lab.client(), Who::Root, &words)?.wait(WRITTEN_WITHIN);
    ensure!(code(&ended) == Some(FOUND) && ended.text.contains("[buffer-changed]"), "{}", ended.report());
    Ok(())
}

fn background(lab: &Lab, wrong: &[&str]) -> Result<()> {
    let file = lab.file("background");
    let name = file.to_str().context("the lab's path is not UTF-8")?;
    let listens = format!("{}; exec timeout --foreground 1 busybox nc -l -p 7999", wrong.join(" "));
    let ended =
        run(lab, Who::Root, &["--detach", "--wait-port", "7999", "--output", name, "--", "sh", "-c", &listens])?;
    ensure!(ended.ok() && !file.exists(), "it waits for its program: {}", ended.report());
    let until = Instant::now() + WRITTEN_WITHIN;
    while !std::fs::read_to_string(&file).is_ok_and(|text| text.contains("[buffer-changed]")) {
        ensure!(Instant::now() < until, "no reports in {name}: {}", ended.report());
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn passing_pair(lab: &Lab) -> Result<()> {
    let device = lab.device(lab.client())?;
    let line = format!("ibv_rc_pingpong -d {} -g {} -n 50", device.name, device.gid_v4);
    let words: Vec<_> = line.split_whitespace().chain([lab.client().v4]).collect();
    let options = ["--seeds", "3", "--seed-from", "5", "--server", &line, "--"];
    let ended = run(lab, Who::Root, &[&options, &words[..]].concat())?.success()?;
    ensure!(ended.text.contains("3 runs passed, with the seeds 5 to 7"), "{}", ended.report());
    ensure!(!ended.text.contains("remote address"), "the output of runs that pass: {}", ended.report());
    Ok(())
}

/// The first seed that fails is told with the program's output, and fails again.
fn lucky(lab: &Lab) -> Result<()> {
    let program = lab.file("unpromised");
    let mut cc = std::process::Command::new("cc");
    cc.args(["-O1", "-o"]).arg(&program).args([UNPROMISED, "-libverbs", "-lpthread"]);
    ensure!(cc.status()?.success(), "unpromised.c does not compile");
    let program = program.to_str().context("the lab's path is not UTF-8")?;
    let device = lab.device(lab.client())?;
    let words = [program, &device.name, &device.gid_v4.to_string(), "completion-order"];
    let ended = run(lab, Who::Root, &[&["--seeds", SEEDS, "--"], &words[..]].concat())?;
    ensure!(code(&ended) == Some(1), "{}", ended.report());
    ensure!(ended.text.contains("the program ended with exit status 1"), "{}", ended.report());
    ensure!(ended.text.contains("the second queue pair completed first"), "the output is missing: {}", ended.report());
    let again = ended.text.lines().find_map(|line| line.split_once("to run it again: weft check "));
    let (_, again) = again.with_context(|| ended.report())?;
    let again: Vec<_> = again.split_whitespace().collect();
    ensure!(again.first() == Some(&"--strict"), "{again:?}");
    let once_more = run(lab, Who::Root, &again)?;
    ensure!(code(&once_more) == Some(1), "another end: {}", once_more.report());
    Ok(())
}
