//! Profiles of IPoIB interfaces: the commands of Red Hat's guide for RHEL 8 (4.1, 6.3 and 6.4) and Debian's ifupdown, as
//! root and as an ordinary user.

use anyhow::{Context, Result, ensure};
use weft_interop::{Fabric, Lab, Shape, Table, Who, skip};

const TOOLS: &[&str] = &["ip", "ping"];

/// All ports are members of the partition of the guide.
const PARTITIONS: &str = "Default=0x7fff,ipoib: ALL=full;\nblue=0x0002,ipoib: ALL=full;\n";

/// The commands of 6.3 in their order.
const NMCLI: &[&str] = &[
    "nmcli connection add type infiniband con-name mlx4_ib0 ifname mlx4_ib0 transportmode Connected mtu 65520",
    "nmcli connection modify mlx4_ib0 infiniband.p-key 0x8002",
    "nmcli connection modify mlx4_ib0 ipv4.addresses 192.0.2.1/24",
    "nmcli connection modify mlx4_ib0 ipv4.gateway 192.0.2.254",
    "nmcli connection modify mlx4_ib0 ipv4.dns 192.0.2.253",
    "nmcli connection modify mlx4_ib0 ipv4.method manual",
    "nmcli connection modify mlx4_ib0 ipv6.addresses 2001:db8:1::1/32",
    "nmcli connection modify mlx4_ib0 ipv6.gateway 2001:db8:1::fffe",
    "nmcli connection modify mlx4_ib0 ipv6.dns 2001:db8:1::fffd",
    "nmcli connection modify mlx4_ib0 ipv6.dns 2001:db8:1::fffd",
    "nmcli connection modify mlx4_ib0 ipv6.method manual",
];

/// The playbook of 6.4, with addresses of node2.
const PLAYBOOK: &str = "\
- name: Configure the network
  hosts: managed-node-01.example.com
  tasks:
    - name: Configure IPoIB
      ansible.builtin.include_role:
        name: rhel-system-roles.network
      vars:
        network_connections:
          # InfiniBand connection mlx4_ib0
          - name: mlx4_ib0
            interface_name: mlx4_ib0
            type: infiniband
          # IPoIB device mlx4_ib0.8002 on top of mlx4_ib0
          - name: mlx4_ib0.8002
            type: infiniband
            autoconnect: yes
            infiniband:
              p_key: 0x8002
              transport_mode: datagram
            parent: mlx4_ib0
            ip:
              address:
                - 192.0.2.2/24
                - 2001:db8:1::2/64
";

/// The stanza of Debian's guide.
const STANZA: &str =
    "auto ib0\niface ib0 inet static\n  address 10.20.0.34\n  netmask 255.255.255.0\n  broadcast 10.20.0.255\n";

#[test]
fn interfaces_are_configured_as_the_guides_do() {
    if !skip::have("interfaces_are_configured_as_the_guides_do", TOOLS) {
        return;
    }
    let mut table = Table::new("profiles of interfaces");
    for (who, label) in [(Who::Root, "root"), (Who::Ordinary, "an ordinary user")] {
        let lab = Lab::new(Shape::Loopback).expect("a lab");
        let fabric = fabric(&lab, who).expect("a fabric");
        let label = |what: &str| format!("{what} by {label}");
        table.case(&label("4.1: 70-persistent-ipoib.rules"), || rules(&lab, &fabric));
        table.case(&label("6.3: nmcli"), || nmcli(&fabric));
        table.case(&label("6.4: the system role"), || role(&lab, &fabric));
        table.case(&label("both ends reach each other"), || reach(&fabric));
        table.case(&label("down, delete, another run"), || down(&fabric));
        table.case(&label("what was there before"), || kept(&lab, &fabric));
        table.case(&label("faults name their reason"), || faults(&lab, &fabric));
        table.case(&label("a host in a host"), || nested(&fabric));
        if skip::have("ifupdown", &["ifup"]) {
            table.case(&label("/etc/network/interfaces"), || ifupdown(&lab, &fabric));
        }
        table.case(&label("profiles end with the fabric"), || ends(&lab, fabric, who));
    }
    table.finish();
}

fn fabric(lab: &Lab, who: Who) -> Result<Fabric<'_>> {
    let (parts, config) = (lab.file("partitions.conf"), lab.file("opensm.conf"));
    std::fs::write(&parts, PARTITIONS)?;
    std::fs::write(&config, format!("partition_config_file {}\nlog_file /dev/null\n", parts.display()))?;
    Ok(Fabric::managed_by(lab, who, &["--star", "3", "--sm-config", &config.display().to_string()])?.0)
}

fn shell(fabric: &Fabric<'_>, host: &str, script: &str) -> Result<String> {
    Ok(fabric.run(host, &["sh", "-c", script])?.success()?.text)
}

/// Runs `weft host apply` as a host.
fn apply(fabric: &Fabric<'_>, host: &str, words: &str) -> Result<String> {
    let weft = weft_interop::product::weft()?;
    shell(fabric, host, &format!("{} host apply {words} 2>&1", weft.display()))
}

fn rules(lab: &Lab, fabric: &Fabric<'_>) -> Result<()> {
    for host in ["node1", "node2"] {
        let address = shell(fabric, host, "cat /sys/class/net/ib0/address")?;
        let guid = address.trim().get(36..).context("the last eight bytes")?.to_owned();
        let rule = format!(
            "ACTION==\"add\", SUBSYSTEM==\"net\", DRIVERS==\"?*\", ATTR{{type}}==\"32\", ATTR{{address}}==\"?*{guid}\", \
             NAME=\"mlx4_ib0\"\n"
        );
        let file = lab.file(&format!("{host}-70-persistent-ipoib.rules"));
        std::fs::write(&file, rule)?;
        let file = file.display();
        let plan = apply(fabric, host, &format!("--dry-run {file}"))?;
        ensure!(plan.contains("ip link set dev ib0 name mlx4_ib0\n"), "{plan}");
        ensure!(shell(fabric, host, "ls /sys/class/net")?.contains("ib0\n"));
        apply(fabric, host, &file.to_string())?;
        let shown = shell(fabric, host, "cat /sys/class/net/mlx4_ib0/pkey && ip link show mlx4_ib0")?;
        ensure!(shown.starts_with("0xffff\n") && shown.contains("<BROADCAST,MULTICAST,UP,LOWER_UP>"), "{shown}");
    }
    Ok(())
}

fn nmcli(fabric: &Fabric<'_>) -> Result<()> {
    let added = shell(fabric, "node1", NMCLI[0])?;
    ensure!(added.starts_with("Connection 'mlx4_ib0' (") && added.ends_with(") successfully added.\n"), "{added}");
    // The interface of the port, before the guide makes the profile one of a child.
    let up = shell(fabric, "node1", "nmcli connection up mlx4_ib0 && cat /sys/class/net/mlx4_ib0/mode")?;
    let path = "/org/freedesktop/NetworkManager/ActiveConnection/1";
    let activated = |path: &str| format!("Connection successfully activated (D-Bus active path: {path})\n");
    ensure!(up == activated(path) + "connected\n", "{up}");
    for command in &NMCLI[1..] {
        let said = shell(fabric, "node1", command)?;
        ensure!(said.is_empty(), "{command}: {said}");
    }
    let up = shell(fabric, "node1", "nmcli connection up mlx4_ib0 2>/dev/null")?;
    ensure!(up.starts_with("Connection successfully activated"), "{up}");
    let class = "/sys/class/net/mlx4_ib0.8002";
    let shown = shell(fabric, "node1", &format!("cat {class}/pkey {class}/mode {class}/mtu {class}/parent"))?;
    ensure!(shown == "0x8002\nconnected\n65520\nmlx4_ib0\n", "{shown}");
    let addresses = shell(fabric, "node1", "ip address show mlx4_ib0.8002; ip route; ip -6 route")?;
    for part in [
        "mlx4_ib0.8002@mlx4_ib0: ",
        "inet 192.0.2.1/24 brd 192.0.2.255 scope global noprefixroute mlx4_ib0.8002",
        "inet6 2001:db8:1::1/32 scope global",
        "default via 192.0.2.254 dev mlx4_ib0.8002 proto static metric 150",
        "default via 2001:db8:1::fffe dev mlx4_ib0.8002 proto static metric 150",
    ] {
        ensure!(addresses.contains(part), "no {part:?} in\n{addresses}");
    }
    for (command, expected) in [
        ("nmcli -t -f NAME,TYPE,DEVICE con", "mlx4_ib0:infiniband:mlx4_ib0.8002\n"),
        ("nmcli -g ipv4.addresses c s mlx4_ib0", "192.0.2.1/24\n"),
        ("nmcli -g infiniband.p-key c s mlx4_ib0", "0x8002\n"),
        ("nmcli -t -f DEVICE,STATE d | grep 8002", "mlx4_ib0.8002:connected\n"),
        ("nmcli -t -f GENERAL.STATE d show mlx4_ib0.8002", "GENERAL.STATE:100 (connected)\n"),
    ] {
        let said = shell(fabric, "node1", command)?;
        ensure!(said == expected, "{command}: {said}");
    }
    Ok(())
}

fn role(lab: &Lab, fabric: &Fabric<'_>) -> Result<()> {
    let file = lab.file("playbook.yml");
    std::fs::write(&file, PLAYBOOK)?;
    let file = file.display().to_string();
    // Twice: a playbook may be played again.
    for _ in 0..2 {
        let said = apply(fabric, "node2", &file)?;
        ensure!(said.is_empty(), "{said}");
    }
    let class = "/sys/class/net/mlx4_ib0.8002";
    let shown = shell(fabric, "node2", &format!("cat {class}/pkey {class}/mode; ip address show mlx4_ib0.8002"))?;
    ensure!(shown.starts_with("0x8002\ndatagram\n"), "{shown}");
    ensure!(shown.contains("inet 192.0.2.2/24 brd 192.0.2.255") && shown.contains("inet6 2001:db8:1::2/64"), "{shown}");
    let profiles = shell(fabric, "node2", "nmcli -t -f NAME,DEVICE c")?;
    ensure!(profiles == "mlx4_ib0:mlx4_ib0\nmlx4_ib0.8002:mlx4_ib0.8002\n", "{profiles}");
    Ok(())
}

fn reach(fabric: &Fabric<'_>) -> Result<()> {
    let until_up = "for i in $(seq 50); do ping -c1 -W1 192.0.2.2 && exit; sleep 0.1; done; exit 1";
    shell(fabric, "node1", until_up).map(drop)
}

fn down(fabric: &Fabric<'_>) -> Result<()> {
    let said = shell(fabric, "node1", "nmcli con down mlx4_ib0; ip link show mlx4_ib0.8002 2>&1; ip route")?;
    ensure!(said.starts_with("Connection 'mlx4_ib0' successfully deactivated (D-Bus active path: "), "{said}");
    ensure!(said.contains("does not exist") && !said.contains("192.0.2.254"), "{said}");
    let said = shell(
        fabric,
        "node1",
        "nmcli con up mlx4_ib0 2>/dev/null; nmcli con delete mlx4_ib0; nmcli con; ls /sys/class/net",
    )?;
    ensure!(said.contains(") successfully deleted.\n") && !said.contains("NAME") && !said.contains("8002"), "{said}");
    Ok(())
}

/// The end of an activation leaves what was there before it, and a failed rename leaves the link on.
fn kept(lab: &Lab, fabric: &Fabric<'_>) -> Result<()> {
    let addresses = "ip -4 -br address show ib0";
    let script = format!(
        "ip address add 192.0.2.30/24 dev ib0; nmcli -t -e no con add type infiniband con-name x ifname ib0 ipv4.method manual \
         ipv4.addresses 192.0.2.30/24,192.0.2.31/24 connection.zone public ipv4.may-fail no >/dev/null; \
         nmcli con up x >/dev/null; {addresses}; nmcli con down x >/dev/null; {addresses}; \
         nmcli -g connection.zone,ipv4.may-fail,ipv4.route-metric con show x; nmcli -m multiline -t -f NAME,ACTIVE con"
    );
    let said = shell(fabric, "node3", &script)?;
    let lines: Vec<&str> = said.lines().collect();
    let [up, down, rest @ ..] = &lines[..] else { anyhow::bail!("{said}") };
    ensure!(up.contains("192.0.2.30/24") && up.contains("192.0.2.31/24"), "{said}");
    ensure!(down.contains("192.0.2.30/24") && !down.contains("192.0.2.31/24") && down.contains("10."), "{said}");
    ensure!(*rest == ["public", "no", "-1", "NAME:x", "ACTIVE:no"], "{said}");
    // A profile that does not activate itself, while it is active.
    let file = lab.file("x.nmconnection");
    let text = "[connection]\nid=x\ntype=infiniband\ninterface-name=ib0\nautoconnect=false\n[ipv4]\nmethod=manual\n\
                address1=192.0.2.31/24\n";
    std::fs::write(&file, text)?;
    shell(fabric, "node3", "nmcli con up x >/dev/null")?;
    apply(fabric, "node3", &file.display().to_string())?;
    let said = shell(fabric, "node3", &format!("nmcli -t -f NAME,DEVICE con; {addresses}"))?;
    ensure!(said.starts_with("x:ib0\n") && said.contains("192.0.2.31/24"), "{said}");
    let rules = lab.file("taken.rules");
    std::fs::write(&rules, "KERNEL==\"ib0\", NAME=\"lo\"\n")?;
    let said = apply(fabric, "node3", &format!("{} || ip -br link show ib0", rules.display()))?;
    ensure!(said.contains("ip link set dev ib0 name lo: ") && said.contains("UP"), "{said}");
    // A user's MTU, and a profile without one.
    let mtu = "nmcli con modify x infiniband.transport-mode connected && ip link set ib0 mtu 1500 && nmcli con up x >/dev/null; \
               cat /sys/class/net/ib0/mode /sys/class/net/ib0/mtu; nmcli con delete x >/dev/null; \
               echo datagram > /sys/class/net/ib0/mode; ip address delete 192.0.2.30/24 dev ib0";
    let said = shell(fabric, "node3", mtu)?;
    ensure!(said == "connected\n1500\n", "{said}");
    Ok(())
}

fn faults(lab: &Lab, fabric: &Fabric<'_>) -> Result<()> {
    for (command, expected, code) in [
        ("nmcli con up none", "Error: unknown connection 'none'.\n", 10),
        ("nmcli con add con-name x", "Error: 'type' argument is required.\n", 2),
        ("nmcli general", "Error: NetworkManager is not running.\n", 8),
        ("nmcli frob", "Error: argument 'frob' not understood. Try passing --help instead.\n", 2),
    ] {
        let said = shell(fabric, "node3", &format!("{command} 2>&1; echo $?"))?;
        ensure!(said == format!("{expected}{code}\n"), "{command}: {said}");
    }
    let absent = "nmcli con add type infiniband con-name x ifname mlx4_ib0 >/dev/null && nmcli con up x 2>&1; echo $?; nmcli con del x";
    let said = shell(fabric, "node3", absent)?;
    let expected = "Error: Connection activation failed: No suitable device found for this connection: the host has no IPoIB \
                    interface mlx4_ib0; it has ib0;";
    ensure!(said.starts_with(expected) && said.contains("\n4\n"), "{said}");
    let file = lab.file("bad.nmconnection");
    std::fs::write(&file, "[connection]\ntype=infiniband\n[infiniband]\np-key=nonsense\n")?;
    let said = apply(fabric, "node3", &format!("{} || true", file.display()));
    let said = said?;
    ensure!(said.contains("bad.nmconnection: line 4: infiniband.p-key: 'nonsense' is not a valid"), "{said}");
    Ok(())
}

/// In a view inside a view, the commands that Weft stands in for are the outer view's.
fn nested(fabric: &Fabric<'_>) -> Result<()> {
    let weft = weft_interop::product::weft()?;
    let script =
        format!("{} run --host node2 -- sh -c 'ip -br link show ib0 2>&1 || ip -br link; nmcli -t c'", weft.display());
    let said = shell(fabric, "node3", &format!("timeout 20 {script}"))?;
    ensure!(said.contains("mlx4_ib0.8002@mlx4_ib0") && said.contains("mlx4_ib0:"), "{said}");
    Ok(())
}

fn ifupdown(lab: &Lab, fabric: &Fabric<'_>) -> Result<()> {
    let (file, state) = (lab.file("interfaces"), lab.file("ifstate"));
    std::fs::write(&file, STANZA)?;
    // Scripts of other packages are not the test's matter.
    let options = format!("--no-scripts -i {} --state-dir {}", file.display(), state.display());
    let script = format!(
        "mkdir -p {} && ifup {options} ib0 && ip address show ib0 && ifdown {options} ib0 && ip -br address show ib0",
        state.display()
    );
    let said = shell(fabric, "node3", &script)?;
    ensure!(said.contains("inet 10.20.0.34/24 brd 10.20.0.255 scope global ib0"), "{said}");
    ensure!(said.trim_end().lines().last().is_some_and(|line| line.contains("DOWN")), "{said}");
    Ok(())
}

fn ends(lab: &Lab, fabric: Fabric<'_>, who: Who) -> Result<()> {
    drop(fabric);
    let fabric = self::fabric(lab, who)?;
    let said = shell(&fabric, "node2", "nmcli con; ls /sys/class/net")?;
    ensure!(said == "ib0\nlo\n", "{said}");
    Ok(())
}
