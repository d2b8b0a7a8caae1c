//! Steps that wait for an event of the program, with Debian's programs.

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use weft_interop::{Ended, Table, Who, product, skip};

use super::{NEEDED, RPING_ENDS, Rails, WITHIN};

/// Fails the next request.
const FAILS: &str = "fault = \"status=RETRY_EXC_ERR,count=1\"";
/// Text of perftest's when that has happened.
const FAILED: &str = "Failed status 12";

/// The user's own trace, and the text of the line that it has when a step adds a fault.
const OWN_TRACE: (&str, &str) = ("WEFT_TRACE", "stderr,state,cqe,fault");
const ADDED: &str = " added \"";

impl Rails {
    /// Writes a scenario of one step, and returns its path.
    fn step(&self, trigger: &str, effect: &str) -> Result<String> {
        let (kinds, trigger) = trigger.split_once(" | ").unwrap_or(("", trigger));
        let file = self.lab.file("events.toml");
        std::fs::write(&file, format!("{kinds}\n[[step]]\n{trigger}\n{effect}\n"))?;
        Ok(file.to_str().context("the lab's path is not UTF-8")?.to_owned())
    }

    /// Plays a step with a tool of perftest's as server and client.
    fn play_tool(&self, trigger: &str, tool: &str, env: &[(&str, &str)]) -> Result<Ended> {
        let words: Vec<&str> = tool.split(' ').chain(["-d", &self.devices[0].name]).collect();
        let client = [&words[..], &[self.lab.client().v4]].concat();
        self.play(&[&self.step(trigger, FAILS)?], &words, &client, env)
    }
}

/// The lines of the user's trace before the step added its fault.
fn before_fault(ended: &Ended) -> Result<&str> {
    let at = ended.text.find(ADDED).with_context(|| format!("no fault is added\n{}", ended.report()))?;
    Ok(&ended.text[..at])
}

#[test]
fn steps_that_wait_for_events() {
    if !skip::have("steps_that_wait_for_events", NEEDED) {
        return;
    }
    let mut table = Table::new("scenarios, steps that wait for events");
    let rails = Rails::new().expect("two rails");
    table.case("ib_write_bw fails once its queue pair is ready to send", || {
        let ended = rails.play_tool("seen = '^state .*to=Rts'", "ib_write_bw -D 30", &[OWN_TRACE])?;
        ensure!(!ended.ok() && ended.text.contains(FAILED), "{}", ended.report());
        ensure!(ended.text.contains(" s  fault "), "{}", ended.report());
        ensure!(before_fault(&ended)?.contains(" to=Rts\n"), "{}", ended.report());
        Ok(())
    });
    table.case("ib_write_bw fails after its 50th completion", || {
        let trigger = "seen = '^cqe .*status=Success'\nnth = 50";
        let ended = rails.play_tool(trigger, "ib_write_bw -D 30", &[OWN_TRACE])?;
        ensure!(!ended.ok() && ended.text.contains(FAILED), "{}", ended.report());
        let count = before_fault(&ended)?.matches("status=Success").count();
        ensure!(count >= 50, "{count} completions\n{}", ended.report());
        Ok(())
    });
    table.case("rping fails after ten receives", || {
        let file = rails.step("seen = '^cqe .*opcode=Recv'\nnth = 10", FAILS)?;
        let client = ["rping", "-c", "-C", "1000000", "-a", rails.lab.client().v4];
        let ended = rails.play(&[&file], &["rping", "-s", "-C", "1000000"], &client, &[])?;
        // The fault concerns its server, too, by its name: which side's request fails first is chance.
        let tells = RPING_ENDS.split('|').any(|text| ended.text.contains(text));
        ensure!(tells && ended.text.contains(" s  fault "), "{}", ended.report());
        Ok(())
    });
    table.case("kinds that the scenario asks for", || {
        let trigger = "trace = \"post,packet\" | seen = '^packet .*way=out .*opcode=Rc:RDMA_WRITE'\nnth = 5";
        let ended = rails.play_tool(trigger, "ib_write_bw -D 30", &[("WEFT_LOOPBACK", "wire")])?;
        ensure!(!ended.ok() && ended.text.contains(FAILED), "{}", ended.report());
        Ok(())
    });
    for (case, trigger) in [
        ("a pattern that no line matches", "seen = 'no such event'"),
        ("more lines than match", "seen = '^cqe .*status=Success'\nnth = 1000"),
        ("a kind that is not traced", "trace = \"loss\" | seen = '^cqe'"),
    ] {
        table.case(&format!("{case} never strikes"), || {
            let ended = rails.play_tool(trigger, "ib_write_bw -n 200", &[])?.success()?;
            ensure!(ended.text.contains("65536") && !ended.text.contains(" s  fault "), "{}", ended.report());
            Ok(())
        });
    }
    table.case("the events of two processes", || {
        // Each has one queue pair, so the second line is the other's. The server's, which sends nothing, stays in RTR.
        let file = rails.step("seen = '^state .*to=Rtr'\nnth = 2", &format!("command = \"ib_write_bw\"\n{FAILS}"))?;
        let (device, v4) = (&rails.devices[0].name, rails.lab.client().v4);
        let script = format!(
            "ib_write_bw -D 30 -d {device} & server=$!
             until ss -Htln | grep -q :18515; do sleep 0.05; done
             ib_write_bw -D 30 -d {device} {v4}; code=$?; kill $server; exit $code"
        );
        let ended = rails.play(&[&file], &[], &["sh", "-c", &script], &[])?;
        ensure!(!ended.ok() && ended.text.contains(FAILED), "{}", ended.report());
        ensure!(ended.text.contains("(2 processes"), "{}", ended.report());
        Ok(())
    });
    for signal in [Signal::STOP, Signal::KILL] {
        table.case(&format!("a program outlives weft fault run's {signal:?}"), || outlives(&rails, signal));
    }
    table.case("without a program there are no events", || {
        let file = rails.step("seen = 'x'", "run = \"true\"")?;
        let ended = rails.lab.weft(rails.lab.client(), Who::Root, &[], &["fault", "run", &file])?;
        let expected = format!(
            "step 1: seen: the events of programs that run already are not known; let the scenario \
                                start the program: weft fault run {file} -- PROGRAM"
        );
        ensure!(!ended.ok() && ended.text.contains(&expected), "{}", ended.report());
        Ok(())
    });
    table.finish();
}

/// Stops or kills the reader of a program's events: the program goes on to its end. It sends only once that has
/// happened, more lines than the socket holds.
fn outlives(rails: &Rails, signal: Signal) -> Result<()> {
    let file = rails.step("seen = 'no such event'", FAILS)?;
    let [started, signalled, ended, log] = ["started", "signalled", "ended", "log"].map(|name| rails.lab.file(name));
    for file in [&started, &signalled, &ended, &log] {
        let _ = std::fs::remove_file(file);
    }
    let (device, v4) = (&rails.devices[0].name, rails.lab.client().v4);
    let script = format!(
        "ib_write_bw -s 8 -n 100000 -d {device} & touch {started}
         until ss -Htln | grep -q :18515 && test -e {signalled}; do sleep 0.05; done
         ib_write_bw -s 8 -n 100000 -d {device} {v4}; echo $? > {ended}.new; mv {ended}.new {ended}",
        started = started.display(),
        signalled = signalled.display(),
        ended = ended.display()
    );
    let weft = product::weft()?;
    let weft = weft.to_str().context("the product's path is not UTF-8")?;
    let line = rails.lab.bare(rails.lab.client(), Who::Root, &[weft, "fault", "run", &file, "--", "sh", "-c", &script]);
    let log_name = log.to_str().context("the lab's path is not UTF-8")?;
    let mut running = rails.lab.start_line(&line, &[("WEFT_LOG", log_name)])?;
    ensure!(running.wait_until(WITHIN, |_| started.exists()), "{}", running.text());
    let pid = Pid::from_raw(running.pid().cast_signed()).context("a process id")?;
    kill_process(pid, signal)?;
    ensure!(running.wait_until(WITHIN, |_| has_halted(pid)), "{}", running.text());
    std::fs::write(&signalled, "")?;
    let until = std::time::Instant::now() + WITHIN;
    while !ended.exists() && std::time::Instant::now() < until {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let code = std::fs::read_to_string(&ended).unwrap_or_default();
    // Ends what is left of the process group.
    running.signal(Signal::KILL);
    let text = running.kill().report();
    ensure!(code == "0\n", "exit status {code:?}\n{text}");
    let notes = std::fs::read_to_string(&log).unwrap_or_default();
    ensure!(notes.contains("reads nothing") == (signal == Signal::STOP), "notes {notes:?}\n{text}");
    Ok(())
}

/// Whether all threads of a process are stopped or dead.
fn has_halted(pid: Pid) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())).into_iter().flatten().flatten();
    let mut stats = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("stat")).ok());
    stats.all(|stat| stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with(['T', 'Z', 'X'])))
}
