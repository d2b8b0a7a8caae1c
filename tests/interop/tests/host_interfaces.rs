//! The kernel's interfaces to IPoIB on a fabric's hosts: attributes in /sys, iproute2, next hops of routes, multicast
//! memberships, and children for other partitions; by programs of others.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use weft_interop::{Fabric, Lab, Shape, Table, skip};

const TOOLS: &[&str] = &["ip", "ping", "python3"];

/// The port of node1 is a full member of the partition, node2's and node3's are limited ones.
const PARTITIONS: &str = "Default=0x7fff,ipoib: ALL=full;\nblue=0x0002,ipoib: ALL=limited, SELF=full;\n";

const RECEIVE: &str = "
import socket, struct, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('', 5007))
own = socket.inet_aton(sys.argv[1])
s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton('239.1.2.3') + own)
s.settimeout(20)
print('ready', flush=True)
print(s.recv(100).decode(), flush=True)
";
const SEND: &str = "
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(sys.argv[1]))
for _ in range(20):
    s.sendto(b'to the group', ('239.1.2.3', 5007))
    time.sleep(0.1)
";

#[test]
fn interfaces_are_those_of_linux() {
    if !skip::have("interfaces_are_those_of_linux", TOOLS) {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let (parts, config) = (lab.file("partitions.conf"), lab.file("opensm.conf"));
    std::fs::write(&parts, PARTITIONS).expect("partitions");
    let log = lab.file("opensm.log");
    let text = format!("partition_config_file {}\nlog_file {}\n", parts.display(), log.display());
    std::fs::write(&config, text).expect("a configuration");
    let words = ["--star", "3", "--sm-config", &config.display().to_string()];
    let fabric = Fabric::managed(&lab, &words).expect("a fabric");
    let mut table = Table::new("interfaces of hosts");
    table.case("attributes in /sys", || attributes(&fabric));
    table.case("ip link and ip addr", || iproute2(&fabric));
    table.case("other interfaces stay byte for byte", || others(&fabric));
    table.case("a route by a gateway", || gateway(&fabric));
    table.case("a multicast group", || multicast(&lab, &fabric));
    table.case("children by sysfs and by ip", || children(&fabric));
    table.case("limited members reach full members only", || partition(&fabric));
    table.case("another name", || rename(&fabric));
    table.finish();
}

fn shell(fabric: &Fabric<'_>, host: &str, script: &str) -> Result<String> {
    Ok(fabric.run(host, &["sh", "-c", script])?.success()?.text)
}

fn address(fabric: &Fabric<'_>, host: &str) -> Result<String> {
    let text = shell(fabric, host, "ip -4 -o addr show dev ib0")?;
    let with_prefix = text.split_whitespace().nth(3).context("an address")?;
    Ok(with_prefix.split('/').next().unwrap_or_default().to_owned())
}

fn attributes(fabric: &Fabric<'_>) -> Result<()> {
    let script = "cd /sys/class/net/ib0 && cat address addr_len broadcast type mode pkey umcast dev_port mtu && \
                  ls device/infiniband /sys/class/infiniband/weft0/device/net && stat -c %a create_child";
    let text = shell(fabric, "node1", script)?;
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    let address = lines.first().context("an address")?;
    ensure!(address.len() == 59 && address.contains(":fe:80:00:00:00:00:00:00:"), "{text}");
    let broadcast = "00:ff:ff:ff:ff:12:40:1b:ff:ff:00:00:00:00:00:00:ff:ff:ff:ff";
    ensure!(lines[1..9] == ["20", broadcast, "32", "datagram", "0xffff", "0", "0", "2044"], "{text}");
    ensure!(lines.contains(&"weft0") && lines.contains(&"ib0") && lines.last() == Some(&"200"), "{text}");
    // A value that Linux refuses leaves the attribute as it was.
    let script = "echo nonsense > /sys/class/net/ib0/mode; sleep 0.3; cat /sys/class/net/ib0/mode";
    ensure!(shell(fabric, "node1", script)?.trim() == "datagram");
    Ok(())
}

fn iproute2(fabric: &Fabric<'_>) -> Result<()> {
    let sysfs = shell(fabric, "node1", "cat /sys/class/net/ib0/address")?;
    let address = sysfs.trim();
    let link = shell(fabric, "node1", "ip -d link show ib0")?;
    ensure!(link.contains("<BROADCAST,MULTICAST,UP,LOWER_UP>"), "{link}");
    let addresses =
        format!("link/infiniband {address} brd 00:ff:ff:ff:ff:12:40:1b:ff:ff:00:00:00:00:00:00:ff:ff:ff:ff ");
    ensure!(link.contains(&addresses) && link.contains("    ipoib pkey 0xffff mode datagram umcast 0000 "), "{link}");
    for options in ["-o link", "-br link", "addr"] {
        let text = shell(fabric, "node1", &format!("ip {options} show ib0"))?;
        ensure!(text.contains(address) && !text.contains("NOARP"), "{options}: {text}");
    }
    for options in ["-j -d link", "-j -p -d link", "-j addr"] {
        let text = shell(fabric, "node1", &format!("ip {options} show ib0"))?;
        let value: serde_json::Value = serde_json::from_str(&text).context(text.clone())?;
        ensure!(value[0]["address"] == address && value[0]["link_type"] == "infiniband", "{options}: {text}");
        ensure!(!options.contains("-d") || value[0]["linkinfo"]["info_data"]["mode"] == "datagram", "{text}");
    }
    let peer = self::address(fabric, "node2")?;
    shell(fabric, "node1", &format!("ping -c1 -W3 {peer}"))?;
    let neighbours = shell(fabric, "node1", "ip neigh show dev ib0")?;
    let of_peer = shell(fabric, "node2", "cat /sys/class/net/ib0/address")?;
    ensure!(neighbours.contains(&format!("{peer} lladdr {} REACHABLE", of_peer.trim())), "{neighbours}");
    Ok(())
}

fn others(fabric: &Fabric<'_>) -> Result<()> {
    let forms = [
        "link show lo",
        "-d link show lo",
        "-j -d link show lo",
        "-br addr show lo",
        "-o addr show lo",
        "route",
        "-s -s link show lo",
        "-j -p addr show lo",
        "link show nothing",
        "link add",
        "rule",
        "neigh show dev lo",
    ];
    for form in forms {
        let run = |ip: &str| shell(fabric, "node1", &format!("{ip} {form} 2>&1; echo $?"));
        let (ours, theirs) = (run("ip")?, run("/sys/class/infiniband_verbs/.original/ip")?);
        ensure!(ours == theirs, "{form}:\n{ours}\n{theirs}");
    }
    Ok(())
}

fn gateway(fabric: &Fabric<'_>) -> Result<()> {
    let router = address(fabric, "node3")?;
    shell(fabric, "node3", "echo 1 > /proc/sys/net/ipv4/ip_forward; ip addr add 192.168.9.1/24 dev lo")?;
    shell(fabric, "node1", &format!("ip route add 192.168.9.0/24 via {router} && ping -c2 -W3 192.168.9.1"))?;
    // The kernel's choice is followed, not the first one that worked.
    let lost =
        shell(fabric, "node1", "ip route replace 192.168.9.0/24 via 10.99.0.1; ping -c1 -W1 192.168.9.1 || echo lost")?;
    ensure!(lost.contains("lost"), "{lost}");
    Ok(())
}

fn multicast(lab: &Lab, fabric: &Fabric<'_>) -> Result<()> {
    let (from, to) = (address(fabric, "node1")?, address(fabric, "node2")?);
    let mut receiver = lab.start_line(&fabric.words("node2", &["python3", "-c", RECEIVE, &to])?, &[])?;
    let limit = Duration::from_secs(20);
    ensure!(receiver.wait_until(limit, |process| process.text().contains("ready")), "{}", receiver.text());
    fabric.run("node1", &["python3", "-c", SEND, &from])?.success()?;
    let received = receiver.wait_until(limit, |process| process.text().contains("to the group"));
    ensure!(received, "nothing came: {}", receiver.kill().report());
    Ok(())
}

fn children(fabric: &Fabric<'_>) -> Result<()> {
    let script = "echo 0x8002 > /sys/class/net/ib0/create_child && ip link show ib0.8002 && \
                  cat /sys/class/net/ib0.8002/pkey /sys/class/net/ib0.8002/parent && \
                  ip link set ib0.8002 up && ip addr add 10.1.1.1/16 dev ib0.8002";
    let text = shell(fabric, "node1", script)?;
    ensure!(text.contains("ib0.8002@ib0: ") && text.contains("0x8002\nib0\n"), "{text}");
    for host in [2, 3] {
        let script = format!(
            "ip link add link ib0 name ib0.8002 type ipoib pkey 0x8002 && ip link set ib0.8002 up && \
             ip addr add 10.1.{host}.1/16 dev ib0.8002"
        );
        shell(fabric, &format!("node{host}"), &script)?;
    }
    let again = shell(fabric, "node1", "ip link add link ib0 name x type ipoib pkey 0x8002 2>&1; echo $?")?;
    ensure!(again.starts_with("RTNETLINK answers: Name not unique on network") && again.ends_with("2\n"), "{again}");
    // No port is a member of this partition.
    let none = "ip link add link ib0 name ib0.8009 type ipoib pkey 0x8009 && ip link set ib0.8009 up && sleep 0.5 && \
                cat /sys/class/net/ib0.8009/carrier && ip link del ib0.8009 && ip link show ib0.8009 2>&1 || true";
    let text = shell(fabric, "node1", none)?;
    ensure!(text.starts_with("0\n") && text.contains("does not exist"), "{text}");
    Ok(())
}

fn partition(fabric: &Fabric<'_>) -> Result<()> {
    let until_up = "for i in $(seq 50); do [ $(cat /sys/class/net/ib0.8002/carrier) = 1 ] && break; sleep 0.1; done";
    shell(fabric, "node2", &format!("{until_up}; ping -c2 -W3 10.1.1.1"))?;
    let lost = shell(fabric, "node2", "ping -c2 -W1 10.1.3.1 || echo lost")?;
    ensure!(lost.contains("lost"), "{lost}");
    let gone = "echo 0x8002 > /sys/class/net/ib0/delete_child; ip link show ib0.8002 2>&1 || true";
    ensure!(shell(fabric, "node3", gone)?.contains("does not exist"));
    Ok(())
}

fn rename(fabric: &Fabric<'_>) -> Result<()> {
    let script = "ip link set ib0 down && ip link set ib0 name ibx && ip link set ibx up && sleep 0.5 && \
                  cat /sys/class/net/ibx/pkey /sys/class/net/ibx/mtu && ip addr show ibx && \
                  ip link set ibx down && ip link set ibx name ib0 && ip link set ib0 up";
    let text = shell(fabric, "node2", script)?;
    ensure!(text.starts_with("0xffff\n2044\n") && text.contains("inet6 fe80::"), "{text}");
    Ok(())
}
