//! Virtual hosts on an Ethernet switch are machines of their own: TCP, RoCE and RDMA CM between them by name, a cable's rate,
//! delay and losses, and nothing left afterwards. All of it for root and for an ordinary user.

use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use weft_interop::proc::{Ended, Proc};
use weft_interop::{Fabric, Lab, Shape, Table, Who, mpi, product, skip};

/// Hint of `weft status` for a network that has failed.
const HINT: &str = "run `weft down`, then `weft up --ethernet` again";

/// Time limit of a program.
const LIMIT: Duration = Duration::from_secs(60);
/// Time limit for a server to listen, and for the kernel to remove a namespace.
const SOON: Duration = Duration::from_secs(10);
const RPING_PORT: u16 = 7174;
const PERFTEST_PORT: u16 = 18515;

/// An Ethernet network of a user.
struct Hosts<'a> {
    lab: &'a Lab,
    network: Fabric<'a>,
}

impl<'a> Hosts<'a> {
    fn up(lab: &'a Lab, who: Who, words: &[&str]) -> Result<Hosts<'a>> {
        let (network, _) = Fabric::managed_by(lab, who, &[&["--ethernet"], words].concat())?;
        Ok(Hosts { lab, network })
    }

    fn run(&self, host: &str, line: &str) -> Result<Ended> {
        self.network.run(host, &["sh", "-c", line])
    }

    fn start(&self, host: &str, line: &str) -> Result<Proc> {
        self.lab.start_line(&self.network.words(host, &["sh", "-c", &format!("exec {line}")])?, &[])
    }

    /// Runs a server on node2, and on node1 a client that starts once the server listens.
    fn talk(&self, server: &str, port: u16, client: &str) -> Result<String> {
        let server = self.start("node2", server)?;
        let weft = product::weft()?.display().to_string();
        self.run("node2", &format!("{weft} run --wait-port {port} -- true"))?.success()?;
        let text = self.run("node1", client)?.success()?.text;
        server.wait(LIMIT).success()?;
        Ok(text)
    }
}

/// Each case with the hosts of root and with those of an ordinary user.
fn for_both(name: &'static str, tools: &[&str], words: &[&str], cases: impl Fn(&mut Table, &Hosts<'_>, Who)) {
    if !skip::have(name, &[&["ip"], tools].concat()) {
        return;
    }
    let mut table = Table::new(name);
    for who in Who::BOTH {
        let lab = Lab::new(Shape::Loopback).expect("a lab");
        match Hosts::up(&lab, who, words) {
            Ok(hosts) => cases(&mut table, &hosts, who),
            Err(error) => table.case(&format!("{who:?}: weft up"), || Err(error)),
        }
    }
    table.finish();
}

#[test]
fn hosts_have_interfaces_and_devices_of_their_own() {
    for_both("Ethernet hosts", &["ping", "ibv_devices", "rdma"], &["3"], |table, hosts, who| {
        let label = |text: &str| format!("{who:?}: {text}");
        table.case(&label("name, address, device"), || {
            let text = hosts.run("node2", "hostname; ip -br addr show eth0; ibv_devices; rdma link")?.success()?.text;
            for part in ["node2\n", "192.168.1.2/16", "rxe_eth0", "0077:65ff:fe66:0002", "netdev eth0"] {
                ensure!(text.replace("007765fffe660002", "0077:65ff:fe66:0002").contains(part), "no {part} in {text}");
            }
            Ok(())
        });
        table.case(&label("ping by name, and by link-local address"), || {
            let text =
                hosts.run("node1", "ping -c 2 -i 0.2 -W 5 node3; ping -6 -c 1 -W 5 fe80::77:65ff:fe66:3%eth0")?;
            let text = text.success()?.text;
            ensure!(text.contains("2 received") && text.contains("1 received"), "{text}");
            Ok(())
        });
        table.case(&label("devices of one host are not another's"), || {
            hosts.run("node1", "rdma link add mine type rxe netdev eth0; rdma link show mine/1")?;
            let text = hosts.run("node2", "rdma link")?.success()?.text;
            ensure!(!text.contains("mine"), "{text}");
            Ok(())
        });
        table.case(&label("exec, rsh, status"), || {
            let text = hosts.network.weft(&["exec", "--all", "--", "hostname"])?;
            ensure!(text.lines().collect::<BTreeSet<_>>().len() == 3 && text.contains("node3: node3"), "{text}");
            let weft = product::weft()?.display().to_string();
            let text = hosts.run("node1", &format!("{weft} rsh node2 '{weft} rsh node3 hostname; hostname'"))?;
            ensure!(text.success()?.text == "node3\nnode2\n", "not the hosts in order");
            let text = hosts.network.weft(&["status"])?;
            ensure!(text.contains("Ethernet: 3 hosts on one switch, MTU 1500"), "{text}");
            Ok(())
        });
        table.case(&label("unknown hosts, and a second network"), || {
            let ended = hosts.run("node9", "true")?;
            ensure!(!ended.ok() && ended.text.contains("unknown host `node9`"), "{}", ended.report());
            for words in [&["up", "--ethernet", "2"][..], &["up", "--pair"]] {
                let ended = hosts.network.try_weft(words)?;
                ensure!(!ended.ok() && ended.text.contains("`weft down`"), "{}", ended.report());
            }
            Ok(())
        });
    });
}

#[test]
fn programs_talk_over_roce() {
    let tools = ["ibv_rc_pingpong", "rping", "ib_write_bw", "mpirun.openmpi", "mpicc.openmpi"];
    for_both("RoCE between Ethernet hosts", &tools, &["4", "--mtu", "9000"], |table, hosts, who| {
        let label = |text: &str| format!("{who:?}: {text}");
        table.case(&label("ibv_rc_pingpong"), || {
            let line = "ibv_rc_pingpong -d rxe_eth0 -g 1 -m 4096 -c";
            let text = hosts.talk(line, PERFTEST_PORT, &format!("{line} node2"))?;
            ensure!(text.contains("1000 iters"), "{text}");
            Ok(())
        });
        table.case(&label("rping"), || {
            let text = hosts.talk("rping -s -C 5 -v", RPING_PORT, "rping -c -a node2 -C 5 -V -v")?;
            ensure!(text.matches("ping data:").count() == 5, "{text}");
            Ok(())
        });
        table.case(&label("a server in the background"), || {
            let words = ["run", "--detach", "--host", "node2", "--", "timeout", "20", "rping", "-s", "-p", "7175"];
            let ended = hosts.network.try_weft(&words)?;
            ensure!(ended.ok() && ended.text.is_empty(), "{}", ended.report());
            hosts.run("node1", "rping -c -a node2 -p 7175 -C 3")?.success().map(drop)
        });
        table.case(&label("ib_write_bw -R"), || {
            let line = "ib_write_bw -R -n 200 -m 4096";
            let text = hosts.talk(line, PERFTEST_PORT, &format!("{line} node2"))?;
            ensure!(text.contains("65536      200"), "{text}");
            Ok(())
        });
        table.case(&label("packets cross the switch"), || {
            let counted = |text: &str| text.trim().parse::<u64>().context("a counter");
            let read = "cat /sys/class/net/eth0/statistics/rx_bytes";
            let before = counted(&hosts.run("node2", read)?.success()?.text)?;
            hosts.talk("ib_write_bw -R -n 200", PERFTEST_PORT, "ib_write_bw -R -n 200 node2")?;
            let bytes = counted(&hosts.run("node2", read)?.success()?.text)? - before;
            ensure!(bytes > 200 * 65536, "only {bytes} bytes arrived at eth0");
            Ok(())
        });
        table.case(&label("Open MPI on four hosts, UCX"), || {
            let program = mpi::compile(hosts.lab, "mpicc.openmpi")?;
            let place = hosts.lab.file(&format!("mpi-{who:?}")).display().to_string();
            let weft = product::weft()?.display().to_string();
            let line = format!(
                "mkdir -p {place}; export HOME={place} TMPDIR={place} OMPI_ALLOW_RUN_AS_ROOT=1 \
                 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; timeout 50 mpirun.openmpi --mca plm_rsh_agent '{weft} rsh' \
                 --mca pml ucx --mca btl self --mca osc ucx --mca opal_common_ucx_tls any \
                 --mca opal_common_ucx_devices any -x UCX_TLS=rc_v,self -x UCX_NET_DEVICES=rxe_eth0:1 \
                 --host node1,node2,node3,node4 {program}"
            );
            let ended = hosts.run("node1", &line)?;
            ensure!(ended.ok() && ended.text.contains("all 4 right"), "{}", ended.report());
            Ok(())
        });
    });
}

#[test]
fn cables_have_a_rate_a_delay_and_losses() {
    let limits = ["2", "--rate", "100Mb/s", "--delay", "20ms", "--loss", "2%", "--seed", "7"];
    for_both("limits of Ethernet cables", &["ping", "ib_send_bw"], &limits, |table, hosts, who| {
        let label = |text: &str| format!("{who:?}: {text}");
        table.case(&label("delay and loss, by ping"), || {
            let text = hosts.run("node1", "ping -c 200 -i 0.005 -W 2 node2")?.text;
            let fastest = text.lines().find_map(|line| line.split_once("= ")?.1.split('/').next()?.parse::<f64>().ok());
            ensure!(fastest.is_some_and(|ms| ms >= 40.0), "{text}");
            let arrived = text.lines().find_map(|line| {
                let (_, rest) = line.split_once("transmitted, ")?;
                rest.split(' ').next()?.parse::<u32>().ok()
            });
            // 2% of 400 frames are 8; the seed is fixed, the order of other frames is not.
            ensure!(arrived.is_some_and(|count| (180..200).contains(&count)), "{text}");
            Ok(())
        });
        table.case(&label("the rate bounds RoCE, and losses harm no data"), || {
            let line = "ib_send_bw -R -s 65536 -n 100";
            let start = Instant::now();
            hosts.talk(line, PERFTEST_PORT, &format!("{line} node2"))?;
            // 6.5 MB at 100 Mb/s.
            ensure!(start.elapsed() >= Duration::from_millis(500), "{:?}", start.elapsed());
            Ok(())
        });
    });
}

#[test]
fn the_end_of_a_process_that_hosts_depend_on_is_noticed() {
    let limits = ["2", "--delay", "1ms"];
    for_both("helpers of an Ethernet network", &["readlink"], &limits, |table, hosts, who| {
        for (host, what) in [("node1", "carries the frames of the cables"), ("node2", "owns the switch")] {
            table.case(&format!("{who:?}: the process that {what}"), || {
                let text = hosts.network.weft(&["status"])?;
                ensure!(!text.contains(HINT), "{text}");
                let network = hosts.run(host, "readlink /proc/self/ns/net")?.success()?.text;
                // The helpers run for longer than the hosts' daemons. The first host got its cable from the one that
                // carries frames; the other one stays where it made the last host.
                let helper = weft_interop::networks::oldest_daemon_in(network.trim())?;
                rustix::process::kill_process(helper, rustix::process::Signal::KILL)?;
                let until = Instant::now() + SOON;
                loop {
                    let text = hosts.network.weft(&["status"])?;
                    if text.contains(&format!("the process that {what} has ended; {HINT}")) {
                        break;
                    }
                    ensure!(Instant::now() < until, "{text}");
                    std::thread::sleep(Duration::from_millis(20));
                }
                hosts.network.weft(&["down"])?;
                hosts.network.weft(&[&["up", "--ethernet"][..], &limits].concat()).map(drop)
            });
        }
    });
}

#[test]
fn other_requests_are_answered_while_many_hosts_are_made() {
    for_both("256 Ethernet hosts", &[], &["1"], |table, hosts, who| {
        table.case(&format!("{who:?}: status in the meantime"), || {
            hosts.network.weft(&["down"])?;
            let weft = product::weft()?.display().to_string();
            let up = hosts.lab.start_bare(hosts.lab.client(), who, &[&weft, "up", "--ethernet", "256"])?;
            let (start, mut slowest, mut answers) = (Instant::now(), Duration::ZERO, 0);
            while start.elapsed() < LIMIT {
                let asked = Instant::now();
                let text = hosts.network.try_weft(&["status"])?.text;
                if text.contains("256 hosts") {
                    break;
                }
                slowest = slowest.max(asked.elapsed());
                answers += u32::from(text.contains("daemon"));
            }
            let took = start.elapsed();
            up.wait(LIMIT).success()?;
            ensure!(answers > 2 && slowest < took / 2, "{answers} answers within {took:?}, the slowest in {slowest:?}");
            hosts.network.weft(&["down"]).map(drop)
        });
    });
}

#[test]
fn nothing_is_left() {
    for_both("what an Ethernet network leaves", &["readlink", "rdma"], &["3"], |table, hosts, who| {
        for (way, ends) in [("weft down", false), ("kill -9 of the daemon", true)] {
            table.case(&format!("{who:?}: {way}"), || {
                if ends {
                    hosts.network.weft(&["up", "--ethernet", "3"])?;
                }
                // The host's daemon stays because of the device.
                hosts.run("node1", "rdma link add mine type rxe netdev eth0")?;
                let text = hosts.network.weft(&["exec", "--all", "--", "readlink", "/proc/self/ns/net"])?;
                let networks: BTreeSet<String> =
                    text.lines().filter_map(|line| Some(line.split_once(": ")?.1.to_owned())).collect();
                ensure!(networks.len() == 3, "{text}");
                if ends {
                    let daemon = hosts.lab.daemon(hosts.lab.client()).context("no daemon")?;
                    let daemon = rustix::process::Pid::from_raw(daemon.cast_signed()).context("a process id")?;
                    rustix::process::kill_process(daemon, rustix::process::Signal::KILL)?;
                } else {
                    hosts.network.weft(&["down"])?;
                }
                weft_interop::networks::wait_until_unused(&networks, SOON)
            });
        }
    });
}
