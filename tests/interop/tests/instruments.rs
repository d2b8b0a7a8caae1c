//! Monitoring: `weft stat`, `weft qp`, `weft resource show`, counters in /sys, `WEFT_TRACE`. The test compares their
//! numbers with the traffic that perftest reports.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::time::Duration;
use weft_interop::{Lab, Pair, Shape, Table, Who, product, python, skip};

/// Transports between two processes of a host: the environment that forces one, and the prefix of its name.
const WAYS: [(&str, &str); 2] = [("wire", "wire"), ("", "same-host(")];

const MESSAGES: u64 = 1000;
const BYTES: u64 = 4096;

#[test]
fn instruments() {
    if !skip::have("instruments", &["ip", "ib_write_bw", python::PYVERBS]) {
        return;
    }
    let mut table = Table::new("instruments");
    let lab = Lab::new(Shape::One).expect("a namespace");
    for who in Who::BOTH {
        for (loopback, path) in WAYS {
            table.case(&format!("the dead's counters stay, {path} {who:?}"), || counters(&lab, who, loopback));
            table.case(&format!("both ends and their way, {path} {who:?}"), || queue_pairs(&lab, who, loopback, path));
        }
        table.case(&format!("counters in /sys are live, {who:?}"), || sysfs(&lab, who));
        table.case(&format!("a trace, {who:?}"), || trace(&lab, who));
    }
    table.case("a trace that is not understood", || bad_trace(&lab));
    table.case("a trace on a full disk", || full_disk(&lab));
    for (loopback, path) in WAYS {
        table.case(&format!("a receiver that is not ready, {path}"), || receiver_not_ready(&lab, loopback));
    }
    table.case("rates while watching", || watch(&lab));
    table.finish();
}

/// Returns the numbers of `weft stat` for the lab's device.
fn stat(lab: &Lab) -> Result<Value> {
    let name = &lab.device(lab.client())?.name;
    let ended = lab.weft(lab.client(), Who::Ordinary, &[], &["stat", name, "--json"])?.success()?;
    let value: Value = serde_json::from_str(ended.text.trim()).with_context(|| ended.report())?;
    Ok(value)
}

fn counter(value: &Value, name: &str) -> Result<u64> {
    value["devices"][0]["counters"][name].as_u64().with_context(|| format!("no counter {name} in {value}"))
}

fn write_bw(lab: &Lab, who: Who, loopback: &str) -> Result<Pair> {
    let args = format!("-n {MESSAGES} -s {BYTES} -Q 1");
    Ok(Pair::new("ib_write_bw", &args).devices(lab)?.who(who).within(30).env("WEFT_LOOPBACK", loopback))
}

fn counters(lab: &Lab, who: Who, loopback: &str) -> Result<()> {
    let before = stat(lab)?;
    write_bw(lab, who, loopback)?.succeed(lab)?;
    let after = stat(lab)?;
    let moved = |name: &str| -> Result<u64> { Ok(counter(&after, name)? - counter(&before, name)?) };
    let payload = MESSAGES * BYTES;
    ensure!(moved("cqes")? >= MESSAGES, "{} completions", moved("cqes")?);
    ensure!(moved("cqe_errors")? == 0, "{} errors", moved("cqe_errors")?);
    if loopback == "wire" {
        let again = moved("retransmitted_pkts")? * BYTES;
        let sent = moved("wire_bytes_sent")?;
        ensure!((payload..=payload + again).contains(&sent), "{sent} bytes sent for {payload}, {again} of them again");
        ensure!(moved("wire_bytes_rcvd")? >= payload, "{} bytes received", moved("wire_bytes_rcvd")?);
        ensure!(moved("sent_bytes")? > sent, "packets without headers");
        ensure!(moved("memcpy_ops")? + moved("process_vm_ops")? + moved("ring_frames_sent")? == 0, "copies on a wire");
    } else {
        let copied = moved("memcpy_bytes")? + moved("process_vm_bytes")? + moved("ring_bytes_sent")?;
        ensure!(copied >= payload, "{copied} bytes copied for {payload}");
        ensure!(moved("sent_pkts")? == 0, "{} packets within a host", moved("sent_pkts")?);
    }
    let process = &after["process"];
    ensure!(process["posts"].as_u64() > before["process"]["posts"].as_u64(), "nothing posted: {process}");
    Ok(())
}

/// Checks that both queue pairs are shown while both programs run.
fn queue_pairs(lab: &Lab, who: Who, loopback: &str, path: &str) -> Result<()> {
    let pair = Pair::new("ib_write_bw", "-D 6 -s 4096").devices(lab)?.who(who).env("WEFT_LOOPBACK", loopback);
    let server = pair.start_server(lab)?;
    let mut client = pair.start_client(lab)?;
    let name = lab.device(lab.client())?.name.clone();
    let mut last = String::new();
    let shown = client.wait_until(Duration::from_secs(8), |_| {
        last = listed(lab, &name).unwrap_or_else(|error| format!("{error:#}"));
        are_both_ends(&last, path)
    });
    let summary = lab.weft(lab.client(), who, &[], &["resource", "show", "link", &name])?;
    let details = lab.weft(lab.client(), who, &[], &["dev", "show", &name, "-d"])?;
    client.kill();
    server.kill();
    ensure!(shown, "not both ends by {path}:\n{last}");
    ensure!(summary.text.contains(" qp 2 cm_id 0 mr 2 ctx 2 srq 0"), "{}", summary.report());
    ensure!(details.text.contains(&format!("queue pairs by path: {path}")), "{}", details.report());
    let gone = listed(lab, &name)?;
    ensure!(!gone.contains("lqpn"), "killed processes are shown still:\n{gone}");
    Ok(())
}

fn listed(lab: &Lab, device: &str) -> Result<String> {
    Ok(lab.weft(lab.client(), Who::Ordinary, &[], &["qp", "show", "link", device])?.success()?.text)
}

/// Returns whether a text shows two connected queue pairs, each the other's peer, on this transport.
fn are_both_ends(text: &str, path: &str) -> bool {
    let word = |line: &str, key: &str| {
        let mut words = line.split(' ').skip_while(|word| *word != key);
        words.nth(1).unwrap_or_default().to_owned()
    };
    let ends: Vec<&str> = text.lines().filter(|line| line.contains(" state RT")).collect();
    let [a, b] = ends.as_slice() else { return false };
    word(a, "lqpn") == word(b, "rqpn")
        && word(b, "lqpn") == word(a, "rqpn")
        && ends.iter().all(|line| word(line, "path").starts_with(path) && word(line, "comm") == "ib_write_bw")
        && word(a, "pid") != word(b, "pid")
}

/// A program that was already running reads counters of later traffic.
fn sysfs(lab: &Lab, who: Who) -> Result<()> {
    let name = &lab.device(lab.client())?.name;
    let signal = lab.file(&format!("go-{who:?}"));
    let script = format!(
        "cd /sys/class/infiniband/{name}/ports/1; cat counters/port_xmit_packets hw_counters/sent_pkts; echo ready; \
         while [ ! -e {} ]; do sleep 0.05; done; cat counters/port_xmit_packets hw_counters/sent_pkts; \
         cat counters/port_xmit_data hw_counters/rdma_sends counters/symbol_error",
        signal.display()
    );
    let mut reader = lab.start(lab.client(), who, &[], &["sh", "-c", &script])?;
    ensure!(reader.wait_until(Duration::from_secs(10), |p| p.text().contains("ready")), "the reader does not start");
    write_bw(lab, who, "wire")?.succeed(lab)?;
    let told = stat(lab)?;
    std::fs::write(&signal, "")?;
    let ended = reader.wait(Duration::from_secs(10)).success()?;
    let numbers: Vec<u64> = ended.text.lines().filter_map(|line| line.parse().ok()).collect();
    let [packets_before, sent_before, packets, sent, data, sends, 0] = numbers[..] else {
        anyhow::bail!("seven numbers, the last zero, were expected: {}", ended.report());
    };
    ensure!(packets >= packets_before + MESSAGES, "{packets_before}, then {packets} packets");
    ensure!(sent >= sent_before + MESSAGES, "{sent_before}, then {sent} packets");
    ensure!(packets == counter(&told, "sent_pkts")?, "{packets} is not what weft stat says: {told}");
    ensure!(data == counter(&told, "sent_bytes")? / 4, "{data} is not what weft stat says: {told}");
    ensure!(sends == counter(&told, "rdma_sends")?, "{sends} is not what weft stat says: {told}");
    Ok(())
}

fn trace(lab: &Lab, who: Who) -> Result<()> {
    let file = lab.file(&format!("trace-{who:?}"));
    let mut pair = write_bw(lab, who, "wire")?;
    pair.client_env.push(("WEFT_TRACE".to_owned(), file.display().to_string()));
    pair.succeed(lab)?;
    let text = std::fs::read_to_string(&file).context("no trace")?;
    let count = |what: &str| text.lines().filter(|line| line.contains(what)).count() as u64;
    for what in [" from=Rtr to=Rts", " path=wire", " state qp=0x", " wake who=background", " destroyed "] {
        ensure!(count(what) > 0, "no line with {what:?} in {} lines", text.lines().count());
    }
    ensure!(count(" cqe qp=") >= MESSAGES, "{} completions", count(" cqe qp="));
    ensure!(count(" way=out ") >= MESSAGES, "{} packets left", count(" way=out "));
    ensure!(count(" way=in ") > 0, "no packets came");
    Ok(())
}

fn bad_trace(lab: &Lab) -> Result<()> {
    let ended = lab.run(lab.client(), Who::Root, &[("WEFT_TRACE", "stderr,everything")], &["ibv_devinfo"])?;
    ensure!(ended.text.contains("WEFT_TRACE: everything is none of state, post"), "{}", ended.report());
    Ok(())
}

/// A disk smaller than two buffers of the trace: the second write ends in the middle of a line.
fn full_disk(lab: &Lab) -> Result<()> {
    const DISK_BYTES: usize = 100 << 10;
    let (disk, copy) = (lab.file("disk").display().to_string(), lab.file("trace-copy"));
    let weft = product::weft()?.display().to_string();
    let gid = lab.device(lab.client())?.gid_v4;
    let mut server = lab.start(lab.server(), Who::Root, &[], &["ibv_rc_pingpong", "-g", &gid.to_string()])?;
    ensure!(server.wait_listening(18515, Duration::from_secs(10)), "the server does not listen:\n{}", server.text());
    let script = format!(
        "set -e; mkdir {disk}; mount -t tmpfs -o size={DISK_BYTES} none {disk}; \
         WEFT_TRACE={disk}/trace {weft} run -- ibv_rc_pingpong -g {gid} {}; cp {disk}/trace {}",
        lab.server().v4,
        copy.display()
    );
    let line = lab.bare(lab.client(), Who::Root, &["unshare", "-m", "sh", "-c", &script]);
    let client = lab.start_line(&line, &[])?.wait(Duration::from_secs(20)).success()?;
    server.wait(Duration::from_secs(5)).success()?;
    let told = client.text.matches("WEFT_TRACE: the trace ends early: No space left on device").count();
    ensure!(told == 1, "told {told} times: {}", client.report());
    let trace = std::fs::read(&copy)?;
    ensure!((DISK_BYTES - 1000..DISK_BYTES).contains(&trace.len()), "{} bytes of {DISK_BYTES}", trace.len());
    ensure!(trace.ends_with(b"\n"), "the trace ends in the middle of a line");
    Ok(())
}

/// A receive that is posted late: either transport refuses, retries, and counts.
fn receiver_not_ready(lab: &Lab, loopback: &str) -> Result<()> {
    let before = stat(lab)?;
    let script = r"
import time
cq = CQ(context, 16)
a, b = rc(cq), rc(cq)
connect(a, b.qp_num, gid()); connect(b, a.qp_num, gid())
mr = MR(pd, 64, e.IBV_ACCESS_LOCAL_WRITE)
a.post_send(SendWR(num_sge=1, sg=[SGE(mr.buf + 32, 32, mr.lkey)]))
until = time.time() + 0.1
while time.time() < until:
    cq.poll(1)
b.post_recv(RecvWR(num_sge=1, sg=[SGE(mr.buf, 32, mr.lkey)]))
done = 0
while done < 2:
    done += cq.poll(2)[0]
";
    let env = [("WEFT_LOOPBACK", loopback)];
    let ended = python::start_env(lab, lab.client(), Who::Root, &env, "late", script)?;
    ended.wait(Duration::from_secs(20)).success()?;
    let after = stat(lab)?;
    let moved = |name: &str| -> Result<u64> { Ok(counter(&after, name)? - counter(&before, name)?) };
    ensure!((moved("rdma_sends")?, moved("rdma_recvs")?) == (1, 1), "not one send and one receive: {after}");
    let (sent, received) = (moved("send_rnr_err")?, moved("rcvd_rnr_err")?);
    ensure!(sent > 0 && received > 0, "{sent} RNR NAKs sent, {received} received");
    Ok(())
}

fn watch(lab: &Lab) -> Result<()> {
    let pair = Pair::new("ib_write_bw", "-D 5 -s 4096").devices(lab)?.env("WEFT_LOOPBACK", "wire");
    let server = pair.start_server(lab)?;
    let client = pair.start_client(lab)?;
    std::thread::sleep(Duration::from_secs(1));
    let name = &lab.device(lab.client())?.name;
    let watched =
        lab.weft(lab.client(), Who::Ordinary, &[], &["stat", name, "--json", "--watch", "0.5", "--count", "4"]);
    client.kill();
    server.kill();
    let watched = watched?.success()?;
    let looks: Vec<Value> = watched.text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    ensure!(looks.len() == 4, "{} looks: {}", looks.len(), watched.report());
    ensure!(looks[0]["devices"][0].get("per_second").is_none(), "a rate at the first look");
    let fastest = looks[1..].iter().filter_map(|look| look["devices"][0]["per_second"]["sent_pkts"].as_f64());
    let fastest = fastest.fold(0.0, f64::max);
    ensure!(fastest > 1000.0, "{fastest} packets a second: {}", watched.report());
    Ok(())
}
