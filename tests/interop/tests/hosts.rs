//! Virtual hosts are Linux hosts: programs of the kernel's own network find each other by name, a remote shell starts
//! MPI, and nothing of a host outlives its fabric. All of it for root and for an ordinary user.

use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weft_interop::proc::{Ended, Proc};
use weft_interop::{Fabric, Lab, Shape, Table, Who, mpi, product, skip};

/// Time limit of a program.
const LIMIT: Duration = Duration::from_secs(60);
/// Time limit for a server to listen, and for the kernel to remove a namespace.
const SOON: Duration = Duration::from_secs(10);
const HTTP_PORT: u16 = 8000;
const IPERF_PORT: u16 = 5201;

/// A fabric of four hosts of a user.
struct Hosts<'a> {
    lab: &'a Lab,
    who: Who,
    fabric: Fabric<'a>,
}

impl<'a> Hosts<'a> {
    fn up(lab: &'a Lab, who: Who) -> Result<Hosts<'a>> {
        let (fabric, _) = Fabric::managed_by(lab, who, &["--star", "4"])?;
        Ok(Hosts { lab, who, fabric })
    }

    /// Runs a program as a host, with `weft` on its path.
    fn run(&self, host: &str, line: &str) -> Result<Ended> {
        self.fabric.run(host, &["sh", "-c", line])
    }

    fn start(&self, host: &str, line: &str) -> Result<Proc> {
        self.lab.start_line(&self.fabric.words(host, &["sh", "-c", &format!("exec {line}")])?, &[])
    }

    /// Starts a server, and waits until it listens on the host's own TCP.
    fn serve(&self, host: &str, line: &str, port: u16) -> Result<Proc> {
        let mut server = self.start(host, line)?;
        ensure!(server.wait_listening(port, SOON), "{line} does not listen: {}", server.text());
        Ok(server)
    }

    /// Runs a shell command outside the hosts, as their user.
    fn outside(&self, line: &str) -> Result<Ended> {
        Ok(self.lab.start_bare(self.lab.client(), self.who, &["sh", "-c", line])?.wait(LIMIT))
    }
}

fn weft() -> Result<String> {
    Ok(product::weft()?.display().to_string())
}

/// Each case with the hosts of root and with those of an ordinary user.
fn for_both(name: &'static str, tools: &[&str], cases: impl Fn(&mut Table, &Hosts<'_>, &dyn Fn(&str) -> String)) {
    if !skip::have(name, &[&["ip"], tools].concat()) {
        return;
    }
    let mut table = Table::new(name);
    for who in Who::BOTH {
        let lab = Lab::new(Shape::Loopback).expect("a lab");
        let hosts = Hosts::up(&lab, who).expect("a fabric");
        cases(&mut table, &hosts, &|label| format!("{who:?}: {label}"));
    }
    table.finish();
}

#[test]
fn hosts_have_names() {
    for_both("names of hosts", &["getent", "ibping"], |table, hosts, label| {
        table.case(&label("hostname"), || {
            let text = hosts.run("node2", "hostname; uname -n; cat /proc/sys/kernel/hostname")?.success()?.text;
            ensure!(text == "node2\n".repeat(3), "{text}");
            Ok(())
        });
        table.case(&label("/etc/hosts"), || {
            let text = hosts.run("node1", "getent hosts node3; getent hosts 10.0.0.2; cat /etc/hosts")?.success()?.text;
            let words: Vec<&str> = text.split_whitespace().collect();
            ensure!(words.starts_with(&["10.0.0.3", "node3"]), "{text}");
            for host in 1..=4 {
                let (ip, name) = (format!("10.0.0.{host}"), format!("node{host}"));
                let line = text.lines().find(|line| line.split_whitespace().next() == Some(&ip));
                ensure!(line.is_some_and(|line| line.contains(&name)), "no {name} in\n{text}");
            }
            ensure!(text.contains("127.0.0.1"), "the machine's own names are gone:\n{text}");
            Ok(())
        });
        table.case(&label("ibping"), || {
            let _server = hosts.start("node1", "ibping -S")?;
            let ask = "n=0; until ibping -c 1 1 | grep Pong; do n=$((n + 1)); [ $n -lt 20 ] || exit 1; done";
            let text = hosts.run("node2", ask)?.success()?.text;
            ensure!(text.contains("Pong from node1.(none) (Lid 1)"), "{text}");
            Ok(())
        });
    });
}

#[test]
fn programs_talk_by_name() {
    let tools = ["ping", "python3", "curl", "cmp"];
    for_both("IP between hosts", &tools, |table, hosts, label| {
        table.case(&label("ping"), || {
            let text = hosts.run("node1", "ping -c 3 -i 0.2 -W 5 node2")?.success()?.text;
            ensure!(text.contains("3 packets transmitted, 3 received"), "{text}");
            Ok(())
        });
        table.case(&label("HTTP, and two servers on one port"), || {
            let line = |dir: &Path| format!("python3 -m http.server {HTTP_PORT} --directory {}", dir.display());
            let dirs = ["node2", "node3"].map(|host| files(hosts.lab, host));
            let [second, third] = dirs;
            let (second, third) = (second?, third?);
            let _second = hosts.serve("node2", &line(&second), HTTP_PORT)?;
            let _third = hosts.serve("node3", &line(&third), HTTP_PORT)?;
            for (host, dir) in [("node2", &second), ("node3", &third)] {
                let fetch = format!("curl -sf http://{host}:{HTTP_PORT}/data | cmp - {}/data", dir.display());
                hosts.run("node1", &fetch)?.success()?;
            }
            let fetch = format!("curl -sf -m 5 http://127.0.0.1:{HTTP_PORT}/data >/dev/null");
            ensure!(!hosts.run("node1", &fetch)?.ok(), "node2's server listens on node1");
            ensure!(!hosts.outside(&fetch)?.ok(), "node2's server listens on the machine");
            Ok(())
        });
    });
}

/// A directory with a file of a few packets, which differs from host to host.
fn files(lab: &Lab, host: &str) -> Result<PathBuf> {
    let dir = lab.file(&format!("files-{host}"));
    std::fs::create_dir_all(&dir)?;
    std::fs::write(dir.join("data"), format!("{host} has this line\n").repeat(50_000))?;
    Ok(dir)
}

/// The section "Enabling NFS over RDMA on an NFS server" of RHEL's guide, with `weft nfs serve` in the place of nfs-server.
#[test]
fn nfs_over_rdma_is_mounted_as_the_guide_types_it() {
    for_both("NFS of hosts", &["mount.nfs", "fusermount3"], |table, hosts, label| {
        for (port, options) in [(None, "rdma"), (Some(20050), "rdma,port=20050")] {
            table.case(&label(options), || nfs(hosts, port, options));
        }
    });
}

fn nfs(hosts: &Hosts<'_>, port: Option<u16>, options: &str) -> Result<()> {
    let (export, mounted) = (hosts.lab.file(&format!("export-{:?}", hosts.who)), hosts.lab.file("mnt"));
    let config = hosts.lab.file("nfs.conf");
    std::fs::write(&config, port.map(|port| format!("[nfsd]\nrdma-port={port}\n")).unwrap_or_default())?;
    let (export, mounted, config) = (export.display(), mounted.display(), config.display());
    hosts.outside(&format!("mkdir -p {export}/nfs/projects {mounted}; echo text > {export}/nfs/projects/file"))?;
    let weft = weft()?;
    let mut server =
        hosts.start("node1", &format!("{weft} nfs serve --export {export} --no-root-squash --config {config}"))?;
    ensure!(server.wait_until(SOON, |proc| proc.text().contains("listening on port")), "{}", server.text());
    let script = format!(
        "set -e; mount -o {options} node1:/nfs/projects/ {mounted}; mount | grep '{mounted}'; cat {mounted}/file
         mount -t nfs | grep -c ' type nfs (.*,proto=rdma'; echo back > {mounted}/new; umount {mounted}; mount"
    );
    let text = hosts.run("node2", &script)?.success().with_context(|| server.text())?.text;
    let start = format!("node1:/nfs/projects/ on {mounted} type nfs (rw,");
    let line = text.lines().next().unwrap_or_default();
    ensure!(line.starts_with(&start) && line.ends_with(",proto=rdma)"), "{text}");
    ensure!(text.contains(")\ntext\n1\n") && !text.contains("fuse.nfs"), "{text}");
    let back = std::fs::read_to_string(format!("{export}/nfs/projects/new"))?;
    ensure!(back == "back\n", "{back}");
    Ok(())
}

#[test]
fn iperf3_runs() {
    for_both("iperf3 between hosts", &["iperf3"], |table, hosts, label| {
        table.case(&label("iperf3"), || {
            let server = hosts.serve("node2", "iperf3 -s -1", IPERF_PORT)?;
            let text = hosts.run("node1", "iperf3 -c node2 -t 1 --connect-timeout 5000")?.success()?.text;
            ensure!(text.contains("receiver") && text.contains("connected to 10.0.0.2 port"), "{text}");
            server.wait(LIMIT).success().map(drop)
        });
    });
}

#[test]
fn servers_are_waited_for() {
    for_both("--wait-port and --detach on hosts", &["python3", "curl"], |table, hosts, label| {
        let weft = weft().expect("the product");
        let server = format!("python3 -m http.server {HTTP_PORT}");
        table.case(&label("--detach"), || {
            // It returns once the server listens, so that the client needs no second try. The server, which is no process
            // of the test's any more, ends by itself.
            let line = format!(
                "{weft} run -d --wait-port {HTTP_PORT} --host node2 -- timeout 20 {server} >/dev/null 2>&1 && \
                 {weft} run --host node1 -- curl -sf -m 5 -o /dev/null http://node2:{HTTP_PORT}/"
            );
            hosts.outside(&line)?.success().map(drop)
        });
        table.case(&label("--wait-port"), || {
            let waits = format!("{weft} run --host node3 --wait-port {HTTP_PORT} -- echo listens");
            let mut waiting = hosts.lab.start_bare(hosts.lab.client(), hosts.who, &["sh", "-c", &waits])?;
            // node2's server of the same port is not node3's.
            std::thread::sleep(Duration::from_secs(1));
            ensure!(waiting.running() && waiting.text().is_empty(), "{}", waiting.text());
            let _server = hosts.serve("node3", &server, HTTP_PORT)?;
            let text = waiting.wait(SOON).success()?.text;
            ensure!(text.contains("listens"), "{text}");
            Ok(())
        });
    });
}

#[test]
fn commands_run_on_many_hosts() {
    for_both("weft exec and weft shell", &[], |table, hosts, label| {
        table.case(&label("exec --all"), || {
            let text = hosts.fabric.weft(&["exec", "--all", "--", "hostname"])?;
            let lines: BTreeSet<&str> = text.lines().collect();
            let wanted: Vec<String> = (1..=4).map(|host| format!("node{host}: node{host}")).collect();
            ensure!(lines == wanted.iter().map(String::as_str).collect(), "{text}");
            Ok(())
        });
        table.case(&label("exec --serial keeps the order, and the first failure counts"), || {
            let script = "hostname; echo told >&2; printf unfinished; exit $(hostname | tr -dc 0-9)";
            let words = ["exec", "--serial", "node[2-4]!node3", "--", "sh", "-c", script];
            let ended = hosts.fabric.try_weft(&words)?;
            ensure!(ended.status.and_then(|status| status.code()) == Some(2), "{}", ended.report());
            let of = |host: &str| ended.text.lines().filter(|line| line.starts_with(host)).collect::<Vec<_>>();
            for host in ["node2", "node4"] {
                let lines: BTreeSet<String> = of(host).into_iter().map(str::to_owned).collect();
                let wanted = [host, "told", "unfinished"].map(|text| format!("{host}: {text}"));
                ensure!(lines == wanted.into_iter().collect(), "{}", ended.report());
            }
            let place = |text: &str| ended.text.find(text);
            ensure!(place("node2: unfinished") < place("node4: node4"), "{}", ended.report());
            ensure!(ended.text.contains("weft exec: node4: exit status 4"), "{}", ended.report());
            Ok(())
        });
        table.case(&label("an unknown host stops it"), || {
            let ended = hosts.fabric.try_weft(&["exec", "node[1-9]", "--", "hostname"])?;
            ensure!(!ended.ok() && ended.text.contains("unknown host `node5`"), "{}", ended.report());
            ensure!(!ended.text.contains("node1: node1"), "it ran on a part: {}", ended.report());
            Ok(())
        });
        table.case(&label("shell"), || {
            let weft = weft()?;
            let line = format!("echo 'hostname; echo $WEFT_HOST $PS1; exit 7' | SHELL=/bin/sh {weft} shell node3");
            let ended = hosts.outside(&line)?;
            ensure!(ended.status.and_then(|status| status.code()) == Some(7), "{}", ended.report());
            ensure!(ended.text.starts_with("node3\nnode3 node3"), "{}", ended.report());
            Ok(())
        });
    });
}

#[test]
fn a_remote_shell_starts_programs() {
    let tools = ["mpirun.openmpi", "mpicc.openmpi", "mpiexec.mpich", "mpicc.mpich"];
    for_both("weft rsh", &tools, |table, hosts, label| {
        let weft = weft().expect("the product");
        table.case(&label("standard input, quoting, exit status"), || {
            let line =
                format!("echo in | {weft} rsh -x -l $(id -un) node2 'cat; hostname;' echo \"'a  b'\" '; exit 5'");
            let ended = hosts.outside(&line)?;
            ensure!(ended.status.and_then(|status| status.code()) == Some(5), "{}", ended.report());
            ensure!(ended.text == "in\nnode2\na  b\n", "{}", ended.report());
            let ended = hosts.outside(&format!("echo in | {weft} rsh -n $(id -un)@node2 cat"))?.success()?;
            ensure!(ended.text.is_empty(), "{}", ended.report());
            Ok(())
        });
        table.case(&label("from host to host"), || {
            let ended =
                hosts.run("node1", &format!("hostname; {weft} rsh node2 '{weft} rsh node3 hostname; hostname'"))?;
            ensure!(ended.success()?.text == "node1\nnode3\nnode2\n", "not the hosts in order");
            Ok(())
        });
        table.case(&label("another user, and an unknown host"), || {
            for (words, why) in [("nobody@node2 true", "cannot run as nobody"), ("node9 true", "node9")] {
                let ended = hosts.outside(&format!("{weft} rsh {words}"))?;
                ensure!(ended.status.and_then(|status| status.code()) == Some(255), "{}", ended.report());
                ensure!(ended.text.contains(why), "{}", ended.report());
            }
            Ok(())
        });
        let layers = [
            ("TCP", "--mca pml ob1 --mca btl self,tcp --mca osc ^ucx"),
            (
                "UCX",
                "--mca pml ucx --mca btl self --mca osc ucx --mca opal_common_ucx_tls any \
                 --mca opal_common_ucx_devices any -x UCX_TLS=rc_v,self -x UCX_NET_DEVICES=weft0:1",
            ),
        ];
        for (name, layer) in layers {
            table.case(&label(&format!("Open MPI on four hosts, {name}")), || {
                let program = mpi::compile(hosts.lab, "mpicc.openmpi")?;
                let root = "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1";
                let line = format!(
                    "env {root} mpirun.openmpi --mca plm_rsh_agent '{weft} rsh' {layer} \
                     --host node1,node2,node3,node4 {program}"
                );
                all_right(hosts, &line, 4)
            });
        }
        table.case(&label("MPICH on three hosts"), || {
            let program = mpi::compile(hosts.lab, "mpicc.mpich")?;
            let agent = hosts.lab.file(&format!("{:?}", hosts.who)).join("weft-rsh");
            std::fs::create_dir_all(agent.parent().context("a directory")?)?;
            std::os::unix::fs::symlink(&weft, &agent)?;
            let line = format!(
                "mpiexec.mpich -launcher rsh -launcher-exec {} -hosts node1,node2,node3 -n 3 {program}",
                agent.display()
            );
            all_right(hosts, &line, 3)
        });
    });
}

/// Runs MPI's launcher on node1, with a home directory and temporary files of its own.
fn all_right(hosts: &Hosts<'_>, line: &str, processes: usize) -> Result<()> {
    let place = hosts.lab.file(&format!("mpi-{:?}", hosts.who)).display().to_string();
    let ended = hosts.run("node1", &format!("mkdir -p {place}; HOME={place} TMPDIR={place} timeout 50 {line}"))?;
    ensure!(ended.ok() && ended.text.contains(&format!("all {processes} right")), "{}", ended.report());
    Ok(())
}

#[test]
fn all_pairs_are_pinged() {
    let name = "weft up --test pingall";
    if !skip::have(name, &["ip"]) {
        return;
    }
    let mut table = Table::new(name);
    for who in Who::BOTH {
        let lab = Lab::new(Shape::Loopback).expect("a lab");
        table.case(&format!("{who:?}: all arrive"), || {
            let (_fabric, said) = Fabric::managed_by(&lab, who, &["--fat-tree", "4,2", "--test", "pingall"])?;
            for method in ["LIDs (NodeInfo)", "verbs (UD)", "IPoIB (ICMP)"] {
                let line = said.lines().find(|line| line.trim_start().starts_with(method));
                ensure!(line.is_some_and(|line| line.ends_with("56/56 received")), "{said}");
            }
            ensure!(said.ends_with("Results: 0% lost (168/168 received)\n"), "{said}");
            Ok(())
        });
    }
    table.case("a host without a cable is named", || {
        let lab = Lab::new(Shape::Loopback)?;
        let file = lab.file("fabric.toml");
        let text = "[[switch]]\nname = \"leaf\"\nports = 4\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n\
                    [[host]]\nname = \"c\"\n[[cable]]\nends = [\"a:1\", \"leaf:1\"]\n[[cable]]\nends = [\"b:1\", \"leaf:2\"]\n";
        std::fs::write(&file, text)?;
        let file = file.to_str().context("a path in UTF-8")?;
        let ended = lab.weft(lab.client(), Who::Root, &[], &["up", file, "--test", "pingall"])?;
        ensure!(ended.status.and_then(|status| status.code()) == Some(1), "{}", ended.report());
        for pair in ["a -> c (lids)", "b -> c (verbs)", "c -> a (ipoib)"] {
            ensure!(ended.text.contains(pair), "no {pair}: {}", ended.report());
        }
        ensure!(!ended.text.contains("a -> b"), "{}", ended.report());
        ensure!(ended.text.contains("12 of 18 pings failed"), "{}", ended.report());
        Ok(())
    });
    table.finish();
}

#[test]
fn nothing_is_left() {
    for_both("what a fabric leaves", &["readlink"], |table, hosts, label| {
        table.case(&label("kill -9 of the daemon"), || {
            let networks = networks(hosts)?;
            let daemon = hosts.lab.daemon(hosts.lab.client()).context("no daemon")?;
            // Programs of a host that has lost its fabric: one that was there, and those that it starts.
            let uses = "ibv_devices; while kill -0 $DAEMON 2>/dev/null || [ -d /proc/$DAEMON ]; do sleep 0.1; done; \
                        ibv_devices; ibv_devinfo; ibstat; echo tried; read end";
            let line = format!("DAEMON={daemon}; {uses}");
            let mut shell = hosts.lab.start_line(&hosts.fabric.words("node1", &["sh", "-c", &line])?, &[])?;
            ensure!(shell.wait_until(SOON, |shell| shell.text().contains("weft0")), "{}", shell.text());
            let daemon = rustix::process::Pid::from_raw(daemon.cast_signed()).context("a process id")?;
            rustix::process::kill_process(daemon, rustix::process::Signal::KILL)?;
            ensure!(shell.wait_until(SOON, |shell| shell.text().contains("tried")), "{}", shell.text());
            let started = weft_interop::networks::daemons_in(&networks);
            ensure!(started.is_empty(), "in a host without a fabric: {started:?}");
            drop(shell);
            all_gone(hosts, &networks)
        });
        table.case(&label("weft down"), || {
            hosts.fabric.weft(&["up", "--star", "4"])?;
            let networks = networks(hosts)?;
            hosts.fabric.weft(&["down"])?;
            all_gone(hosts, &networks)
        });
    });
}

/// The network namespaces of all hosts, as links below /proc name them: `net:[4026532000]`.
fn networks(hosts: &Hosts<'_>) -> Result<BTreeSet<String>> {
    let text = hosts.fabric.weft(&["exec", "--all", "--", "readlink", "/proc/self/ns/net"])?;
    let networks: BTreeSet<String> =
        text.lines().filter_map(|line| Some(line.split_once(": ")?.1.to_owned())).collect();
    let own = std::fs::read_link("/proc/self/ns/net")?.display().to_string();
    ensure!(networks.len() == 4 && !networks.contains(&own), "not four networks: {text}");
    Ok(networks)
}

/// Checks that soon no process is in one of the networks or has one open, and that the machine has no interface of
/// theirs.
fn all_gone(hosts: &Hosts<'_>, networks: &BTreeSet<String>) -> Result<()> {
    weft_interop::networks::wait_until_unused(networks, SOON)?;
    let links = hosts.outside("ip -o link")?.success()?.text;
    ensure!(links.lines().count() == 1 && links.contains(" lo: "), "{links}");
    Ok(())
}
