//! Cost of idle programs: no processor time, and little memory.

use anyhow::{Context, Result, ensure};
use std::time::Duration;
use weft_interop::{Lab, Path, Shape, Who, python, skip};

/// Duration of the observation.
const WATCH: Duration = Duration::from_secs(2);

/// Memory of an idle RC queue pair besides its rings.
const QP_KIB_MAX: f64 = 16.0;

#[test]
fn a_connected_idle_process_and_the_daemon_use_no_cpu() {
    if skip::have("a_connected_idle_process_and_the_daemon_use_no_cpu", &["ip", python::PYVERBS]) {
        for path in Path::BOTH {
            idle_cpu(path).expect("no processor time used");
        }
    }
}

#[test]
fn an_idle_queue_pair_is_small() {
    if skip::have("an_idle_queue_pair_is_small", &["ip", python::PYVERBS]) {
        qp_memory().expect("16 KiB or less for a queue pair");
    }
}

fn idle_cpu(path: Path) -> Result<()> {
    let lab = Lab::new(Shape::One)?.on(path);
    let side = lab.client();
    // Two connected queue pairs exchange a message, then are silent with events armed.
    let mut idle = python::start(
        &lab,
        side,
        Who::Ordinary,
        "idle",
        r"
channel = CompChannel(context)
cq = CQ(context, 16, None, channel)
a, b = rc(cq), rc(cq)
connect(a, b.qp_num, gid()); connect(b, a.qp_num, gid())
mr = MR(pd, 64, e.IBV_ACCESS_LOCAL_WRITE)
b.post_recv(RecvWR(num_sge=1, sg=[SGE(mr.buf, 32, mr.lkey)]))
a.post_send(SendWR(num_sge=1, sg=[SGE(mr.buf + 32, 32, mr.lkey)]))
done = 0
while done < 2:
    done += cq.poll(2)[0]
cq.req_notify()
print('idle', flush=True)
channel.get_cq_event(cq)
",
    )?;
    let ready = idle.wait_until(Duration::from_secs(20), |p| p.text().contains("idle\n"));
    ensure!(ready, "it never became idle:\n{}", idle.kill().report());
    // Traffic after the last message (acknowledgements, a last timer) may finish first.
    std::thread::sleep(Duration::from_millis(1500));
    let pids = lab.pids(side);
    ensure!(lab.daemon(side).is_some_and(|daemon| pids.contains(&daemon)), "no daemon among {pids:?}");
    let before: Vec<_> = pids.iter().map(|&pid| (pid, ticks(pid))).collect();
    std::thread::sleep(WATCH);
    ensure!(idle.running(), "it ended early:\n{}", idle.kill().report());
    for (pid, earlier) in before {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default().replace('\0', " ");
        let used = ticks(pid).context("the process ended")? - earlier.context("no such process")?;
        let path = path.name();
        ensure!(used == 0, "{path}: process {pid} ({line}) used {used} ticks of processor time in {WATCH:?}");
    }
    Ok(())
}

/// Returns the user and system time of a process, all threads, in clock ticks.
fn ticks(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<_> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
}

fn qp_memory() -> Result<()> {
    let lab = Lab::new(Shape::One)?;
    let script = python::start(
        &lab,
        lab.client(),
        Who::Root,
        "memory",
        r"
cq = CQ(context, 16)
def pair():
    a, b = rc(cq), rc(cq)
    connect(a, b.qp_num, gid()); connect(b, a.qp_num, gid())
    return a, b
kept = [pair() for _ in range(50)]
before = rss_kib()
kept += [pair() for _ in range(500)]
print('per_qp_kib', (rss_kib() - before) / 1000)
",
    )?;
    let ended = script.wait(Duration::from_secs(60)).success()?;
    let words: Vec<_> = ended.text.split_whitespace().collect();
    let kib = words.windows(2).find(|w| w[0] == "per_qp_kib").and_then(|w| w[1].parse::<f64>().ok());
    let kib = kib.with_context(|| ended.report())?;
    weft_interop::table::note(&format!("an idle RC queue pair takes {kib:.1} KiB"));
    ensure!(kib <= QP_KIB_MAX, "an idle RC queue pair takes {kib} KiB, more than {QP_KIB_MAX}");
    Ok(())
}
