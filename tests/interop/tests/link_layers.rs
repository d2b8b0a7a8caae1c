//! Adapters with an InfiniBand port and an Ethernet port: what tools show of the second, IP, verbs and connections over it,
//! independent of the fabric, and what a host without power leaves of it. All of it for root and for an ordinary user.

use anyhow::{Result, ensure};
use std::time::Duration;
use weft_interop::proc::{Ended, Proc};
use weft_interop::{Fabric, Lab, Shape, Table, Who, product, skip};

/// Time limit of a program.
const LIMIT: Duration = Duration::from_secs(60);
/// Time limit for a client to notice that its peer is gone; it would run on for longer.
const RETRIED: Duration = Duration::from_secs(40);
const PERFTEST_PORT: u16 = 18515;
const QPERF_PORT: u16 = 19765;
const RPING_PORT: u16 = 7174;
const CMATOSE_PORT: u16 = 7471;
const UCX_PORT: u16 = 13337;

/// Two hosts whose InfiniBand ports have a cable, and whose Ethernet ports are on the switch.
const DESCRIPTION: &str = r#"
cables = ["node1:1 - node2:1"]

[[host]]
name = "node1"
adapters = ["mlx4_0"]
guid = "0xf4521403007be130"
port-guids = ["0xf4521403007be131", "0xf65214fffe7be132"]
ports = 2
links = ["4xFDR", "40GbE"]

[[host]]
name = "node2"
adapters = ["mlx4_0"]
ports = 2
links = ["4xFDR", "100GbE"]
"#;

/// The hosts of a user.
struct Hosts<'a> {
    lab: &'a Lab,
    fabric: Fabric<'a>,
}

impl<'a> Hosts<'a> {
    fn up(lab: &'a Lab, who: Who, options: &[&str]) -> Result<Hosts<'a>> {
        let file = lab.file("link-layers.toml");
        std::fs::write(&file, DESCRIPTION)?;
        let file = file.display().to_string();
        let (fabric, _) = Fabric::managed_by(lab, who, &[&[file.as_str()], options].concat())?;
        Ok(Hosts { lab, fabric })
    }

    fn run(&self, host: &str, line: &str) -> Result<Ended> {
        self.fabric.run(host, &["sh", "-c", line])
    }

    fn start(&self, host: &str, line: &str) -> Result<Proc> {
        self.lab.start_line(&self.fabric.words(host, &["sh", "-c", &format!("exec {line}")])?, &[])
    }

    /// Waits until a server listens on node2.
    fn wait(&self, port: u16) -> Result<()> {
        let weft = product::weft()?.display().to_string();
        self.run("node2", &format!("{weft} run --wait-port {port} -- true"))?.success().map(drop)
    }

    /// Runs a server on node2, and on node1 a client that starts once the server listens; both must succeed.
    fn talk(&self, (server, port): (&str, u16), client: &str) -> Result<String> {
        let server = self.start("node2", server)?;
        self.wait(port)?;
        let text = self.run("node1", client)?.success()?.text;
        server.wait(LIMIT).success()?;
        Ok(text)
    }
}

/// Each case with the hosts of root and with those of an ordinary user.
fn for_both(name: &'static str, tools: &[&str], options: &[&str], cases: impl Fn(&mut Table, &Hosts<'_>, Who)) {
    if !skip::have(name, &[&["ip"], tools].concat()) {
        return;
    }
    let mut table = Table::new(name);
    for who in Who::BOTH {
        let lab = Lab::new(Shape::Loopback).expect("a lab");
        match Hosts::up(&lab, who, options) {
            Ok(hosts) => cases(&mut table, &hosts, who),
            Err(error) => table.case(&format!("{who:?}: weft up"), || Err(error)),
        }
    }
    table.finish();
}

#[test]
fn tools_show_both_ports() {
    let tools = ["ibstat", "ibv_devinfo", "rdma", "ping"];
    for_both("two link layers: tools", &tools, &[], |table, hosts, who| {
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let label = |text: &str| format!("{who:?}: {text}");
        table.case(&label("ibstat"), || {
            let text = squeezed(&hosts.run("node1", "ibstat mlx4_0")?.success()?.text);
            let first = "Port 1: State: Active Physical state: LinkUp Rate: 56 Base lid: 1 ";
            let second = "Port 2: State: Active Physical state: LinkUp Rate: 40 Base lid: 0 LMC: 0 SM lid: 0 \
                          Capability mask: 0x04010000 Port GUID: 0xf65214fffe7be132 Link layer: Ethernet";
            ensure!(text.contains(first) && text.contains(second), "{text}");
            Ok(())
        });
        table.case(&label("ibv_devinfo -v"), || {
            let text = squeezed(&hosts.run("node1", "ibv_devinfo -v -d mlx4_0 -i 2")?.success()?.text);
            for part in [
                "state: PORT_ACTIVE (4) max_mtu: 4096 (5) active_mtu: 1024 (3) sm_lid: 0 port_lid: 0",
                "link_layer: Ethernet",
                "GID[ 0]: fe80:0000:0000:0000:f652:14ff:fe7b:e132, RoCE v1",
                "GID[ 1]: fe80::f652:14ff:fe7b:e132, RoCE v2",
                "GID[ 3]: ::ffff:192.168.1.1, RoCE v2",
            ] {
                ensure!(text.contains(part), "no {part:?} in {text}");
            }
            Ok(())
        });
        table.case(&label("rdma link, sysfs"), || {
            let text = hosts.run("node1", "rdma link; cd /sys/class/infiniband/mlx4_0/ports/2; cat gid_attrs/*/*")?;
            let text = text.success()?.text;
            let link = "link mlx4_0/2 state ACTIVE physical_state LINK_UP netdev eth0 \n";
            ensure!(text.contains(link) && text.contains("link mlx4_0/1 subnet_prefix"), "{text}");
            let count = |part: &str| text.lines().filter(|line| *line == part).count();
            ensure!((count("eth0"), count("RoCE v2"), count("IB/RoCE v1")) == (4, 2, 2), "{text}");
            Ok(())
        });
        table.case(&label("interfaces and names"), || {
            let line = "ip -br addr; cat /sys/class/net/eth0/address; getent hosts node2-eth0 node2";
            let text = squeezed(&hosts.run("node1", line)?.success()?.text);
            for part in ["ib0 UP 10.0.0.1/8", "192.168.1.1/16", "f4:52:14:7b:e1:32", "192.168.1.2 node2-eth0"] {
                ensure!(text.contains(part), "no {part:?} in {text}");
            }
            ensure!(text.contains("10.0.0.3 node2"), "a host's name is its InfiniBand port's: {text}");
            Ok(())
        });
        table.case(&label("ping"), || {
            let line = "ping -c 2 -i 0.2 -W 5 node2-eth0; ping -c 2 -i 0.2 -W 5 node2";
            let text = hosts.run("node1", line)?.success()?.text;
            ensure!(text.matches("2 received").count() == 2, "{text}");
            Ok(())
        });
    });
}

#[test]
fn verbs_reach_the_ethernet_port() {
    let tools = ["ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong", "ib_write_bw", "qperf", "ucx_perftest"];
    for_both("two link layers: verbs", &tools, &[], |table, hosts, who| {
        for (service, gid) in [("rc", 1), ("rc", 3), ("uc", 3), ("ud", 0), ("ud", 1), ("ud", 2), ("ud", 3)] {
            table.case(&format!("{who:?}: ibv_{service}_pingpong -g {gid}"), || {
                let line = format!("ibv_{service}_pingpong -c -d mlx4_0 -i 2 -g {gid}");
                let text = hosts.talk((&line, PERFTEST_PORT), &format!("{line} node2-eth0"))?;
                ensure!(text.contains("1000 iters"), "{text}");
                Ok(())
            });
        }
        table.case(&format!("{who:?}: a connection without a GID is refused"), || {
            let server = hosts.start("node2", "ibv_rc_pingpong -d mlx4_0 -i 2")?;
            hosts.wait(PERFTEST_PORT)?;
            ensure!(!hosts.run("node1", "ibv_rc_pingpong -d mlx4_0 -i 2 node2-eth0")?.ok(), "the client is content");
            let ended = server.wait(LIMIT);
            ensure!(!ended.ok() && ended.text.contains("Failed to modify QP to RTR"), "{}", ended.report());
            Ok(())
        });
        table.case(&format!("{who:?}: ib_write_bw"), || {
            let line = "ib_write_bw -n 200 -d mlx4_0 -i 2 -x 3";
            let text = hosts.talk((line, PERFTEST_PORT), &format!("{line} node2-eth0"))?;
            ensure!(text.contains("65536      200") && text.contains("Link type       : Ethernet"), "{text}");
            Ok(())
        });
        table.case(&format!("{who:?}: UCX"), || {
            let line = "env UCX_TLS=rc,ud UCX_NET_DEVICES=mlx4_0:2 ucx_perftest";
            let text = hosts.talk((line, UCX_PORT), &format!("{line} node2-eth0 -t tag_bw -n 1000"))?;
            ensure!(text.contains("Final:"), "{text}");
            Ok(())
        });
    });
}

#[test]
fn connections_are_made_by_ethernet_addresses() {
    let tools = ["rping", "ucmatose", "udaddy", "ib_send_bw", "qperf"];
    // The fabric's cable is out: nothing of this goes over it.
    for_both("two link layers: RDMA CM", &tools, &[], |table, hosts, who| {
        table.case(&format!("{who:?}: weft cable cut"), || {
            hosts.fabric.weft(&["cable", "cut", "node1:1"])?;
            let text = hosts.run("node1", "rdma link")?.success()?.text;
            ensure!(text.contains("mlx4_0/2 state ACTIVE") && !text.contains("lmc 0 state ACTIVE"), "{text}");
            Ok(())
        });
        for (server, port, client) in CONNECTED {
            table.case(&format!("{who:?}: {client}"), || hosts.talk((server, *port), client).map(drop));
        }
        table.case(&format!("{who:?}: the InfiniBand address is not reached"), || {
            let _server = hosts.start("node2", "rping -s -C 1")?;
            hosts.wait(RPING_PORT)?;
            let ended = hosts.run("node1", "timeout 6 rping -c -a 10.0.0.3 -C 1")?;
            ensure!(!ended.ok(), "{}", ended.report());
            Ok(())
        });
    });
}

/// Servers with their ports, and clients.
const CONNECTED: &[(&str, u16, &str)] = &[
    ("rping -s -C 5 -v", RPING_PORT, "rping -c -a node2-eth0 -C 5 -V -v"),
    ("ucmatose", CMATOSE_PORT, "ucmatose -s node2-eth0"),
    ("udaddy", RPING_PORT, "udaddy -s node2-eth0"),
    ("ib_send_bw -R -n 200 -i 2 -x 3", PERFTEST_PORT, "ib_send_bw -R -n 200 -i 2 -x 3 node2-eth0"),
    ("timeout -s INT 50 qperf", QPERF_PORT, "qperf -t 1 -cm 1 node2-eth0 rc_bw ud_lat quit"),
];

#[test]
fn a_host_without_power_is_gone_from_the_switch() {
    for_both("two link layers: power", &["ping", "ib_write_bw"], &[], |table, hosts, who| {
        let ping = "ping -c 1 -W 2 node2-eth0";
        let answers = |is_up: bool| {
            let until = if is_up { "until" } else { "while" };
            let line = format!("n=0; {until} {ping}; do n=$((n + 1)); [ $n -lt 20 ] || exit 1; done");
            hosts.run("node1", &line)?.success().map(drop)
        };
        table.case(&format!("{who:?}: off before a program runs on it"), || {
            hosts.fabric.weft(&["node", "off", "node2"])?;
            answers(false)?;
            hosts.fabric.weft(&["node", "on", "node2"])?;
            answers(true)
        });
        table.case(&format!("{who:?}: off, and on again"), || {
            let server = hosts.start("node2", "ib_write_bw -D 50 -d mlx4_0 -i 2 -x 3")?;
            hosts.wait(PERFTEST_PORT)?;
            let mut client = hosts.start("node1", "stdbuf -oL ib_write_bw -D 50 -d mlx4_0 -i 2 -x 3 node2-eth0")?;
            ensure!(client.wait_until(LIMIT, |client| client.text().contains("remote address")), "{}", client.text());
            hosts.fabric.weft(&["node", "off", "node2"])?;
            let ended = client.wait(RETRIED);
            ensure!(!ended.ok() && ended.text.contains("Failed status 12"), "{}", ended.report());
            // Its program stays, without its adapter.
            server.kill();
            answers(false)?;
            hosts.fabric.weft(&["node", "on", "node2"])?;
            answers(true)?;
            let line = "ib_write_bw -n 200 -d mlx4_0 -i 2 -x 3";
            hosts.talk((line, PERFTEST_PORT), &format!("{line} node2-eth0")).map(drop)
        });
    });
}

#[test]
fn a_fabric_that_carries_packets_has_them_too() {
    for_both(
        "two link layers: packets hop by hop",
        &["rping", "ibv_ud_pingpong"],
        &["--packets"],
        |table, hosts, who| {
            for host in ["node2", "node2-eth0"] {
                table.case(&format!("{who:?}: rping to {host}"), || {
                    hosts.talk(("rping -s -C 3", RPING_PORT), &format!("rping -c -a {host} -C 3")).map(drop)
                });
            }
            table.case(&format!("{who:?}: ibv_ud_pingpong"), || {
                let line = "ibv_ud_pingpong -c -d mlx4_0 -i 2 -g 3";
                hosts.talk((line, PERFTEST_PORT), &format!("{line} node2-eth0")).map(drop)
            });
        },
    );
}
