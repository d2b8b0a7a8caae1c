//! The rows: what the guides tell an administrator to type, and what is then to be seen.

/// A command of a guide.
pub struct Row {
    /// Guide and line or section.
    pub guide: &'static str,
    /// Where it is typed.
    pub place: Place,
    /// The command as the guide prints it.
    pub types: &'static str,
    /// Words that its output must have, in this order.
    pub shows: &'static [&'static str],
}

/// A machine of the guides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// A machine with an Ethernet interface, eth0.
    Machine,
    /// A host of an InfiniBand fabric, with adapters mlx4_0 and mlx4_1.
    Node1,
    /// Another one.
    Node2,
}
use Place::{Machine, Node1, Node2};

const fn row(guide: &'static str, place: Place, types: &'static str, shows: &'static [&'static str]) -> Row {
    Row { guide, place, types, shows }
}

/// In the order of the guides: a row may need the ones before it.
pub const ROWS: &[Row] = &[
    row("Debian L34", Node1, "find /lib/modules/$(uname -r) -name '*ib_core*'", &["infiniband/core/ib_core.ko"]),
    row("Debian L38", Node1, "modinfo ib_core", &["filename:", "ib_core.ko", "description:"]),
    row("Debian L88", Node1, "lsmod | grep '^ib\\|^rdma'", &["ib_umad", "ib_uverbs", "rdma_cm", "ib_core"]),
    row("Debian L138", Node1, "stat -c '%a %F' /dev/infiniband/umad0", &["600 character special file"]),
    row("Debian L138", Node1, "chmod go+rw /dev/infiniband/umad0; stat -c %a /dev/infiniband/umad0", &["666"]),
    row(
        "Debian L68",
        Node1,
        "systemctl is-active opensm; systemctl status opensm",
        &["active", "subnet manager", "running"],
    ),
    row("Debian L154", Node1, "modprobe ib_ipoib; lsmod | grep ib_ipoib", &["ib_ipoib"]),
    row("Debian L156", Node1, "ip link show ib0", &["ib0:", "link/infiniband"]),
    row("Debian L160", Node1, "ip address add 10.20.0.34/24 dev ib0; ip address show ib0", &["inet 10.20.0.34/24"]),
    row("Debian L160", Node2, "ip address add 10.20.0.35/24 dev ib0; ip address show ib0", &["inet 10.20.0.35/24"]),
    row("Debian L162", Node1, "ping -c 2 10.20.0.34; ping -c 2 10.20.0.35", &["2 received", "2 received"]),
    row("notes L38", Node1, "find /lib/modules/$(uname -r)/kernel/drivers/infiniband -name '*.ko'", &["ib_core.ko"]),
    row(
        "notes L40",
        Node1,
        "modprobe mlx4_core && modprobe mlx4_ib && modprobe ib_umad && modprobe ib_ipoib && modprobe rdma_ucm && \
         lsmod | egrep '^ib_umad|^mlx4_ib'",
        &["mlx4_ib", "ib_umad"],
    ),
    row("notes L110", Node1, "systemctl is-active rdma-hw.target", &["active"]),
    row(
        "notes L113",
        Node1,
        "systemctl restart rdma-load-modules@infiniband.service; systemctl status rdma-load-modules@infiniband.service",
        &["Load RDMA modules from /etc/rdma/modules/infiniband.conf", "Active: active (exited)"],
    ),
    row("notes L58", Node1, "echo connected > /sys/class/net/ib0/mode", &[]),
    row("notes L58", Node1, "cat /sys/class/net/ib0/mode", &["connected"]),
    row("notes L58", Node1, "ip link set ib0 mtu 65520; ip link show ib0", &["mtu 65520"]),
    row("notes L59", Node1, "echo datagram > /sys/class/net/ib0/mode", &[]),
    row("notes L59", Node1, "ip link show ib0", &["mtu 2044"]),
    row("notes L61", Node1, "cat /sys/class/net/ib0/addr_len", &["20"]),
    row("notes L62", Node1, "netstat -g", &["ib0"]),
    row("notes L65", Node1, "tail /sys/class/net/ib*/mode", &["datagram"]),
    row("notes L67", Node1, "cat /sys/class/net/ib0/device/mlx4_port1_mtu", &["4096"]),
    row("notes L68", Node1, "ip a | grep 'ib[0-9]' | grep mtu", &["ib0", "mtu"]),
    row("notes L128", Machine, "modprobe rdma_rxe && modprobe siw && lsmod | grep -w -e siw -e rdma_rxe", &["rxe"]),
    row(
        "notes L129",
        Machine,
        "rdma link add r0 type rxe netdev eth0 && rdma link show r0",
        &["link r0/1 state ACTIVE"],
    ),
    row(
        "notes L129",
        Machine,
        "rdma link delete r0 && rdma link add s0 type siw netdev eth0 && rdma link show s0 && rdma link delete s0",
        &["link s0/1 state ACTIVE"],
    ),
    row("warm-up L133", Node1, "lsmod | grep -e ib_uverbs -e mlx4_ib", &["mlx4_ib", "ib_uverbs"]),
    row("warm-up L152", Node1, "lsmod | grep rdma", &["rdma_ucm", "rdma_cm"]),
    row("warm-up L197", Node1, "ibv_devinfo -d mlx4_0", &["hca_id:", "mlx4_0", "PORT_ACTIVE (4)", "InfiniBand"]),
    row(
        "warm-up L229",
        Node1,
        "ibv_rc_pingpong -g 0 -d mlx4_0 -i 1 & n=0; until ibv_rc_pingpong -g 0 -d mlx4_0 -i 1 localhost; do \
         n=$((n+1)); [ $n -lt 50 ] || exit 1; sleep 0.1; done; wait",
        &["local address", "remote address", "iters in"],
    ),
    row("RHEL8 3.2", Machine, "modprobe siw", &[]),
    row("RHEL8 3.2", Machine, "rdma link add siw0 type siw netdev eth0", &[]),
    row("RHEL8 3.2", Machine, "rdma link show", &["link siw0/1 state ACTIVE physical_state LINK_UP netdev eth0"]),
    row("RHEL8 3.2", Machine, "ibv_devices", &["device", "node GUID", "siw0"]),
    row(
        "RHEL8 3.2",
        Machine,
        "ibv_devinfo siw0",
        &["hca_id:", "siw0", "iWARP (1)", "0.0.0", "0x626d74", "PORT_ACTIVE (4)"],
    ),
    row("RHEL8 4.1", Node1, "ip link show ib0", &["link/infiniband", "fe:80:"]),
    row("RHEL8 4.1", Node1, "cat /sys/class/net/ib0/type", &["32"]),
    row(
        "RHEL8 5.2",
        Node1,
        "ibstat -d mlx4_0 2>/dev/null || ibstat mlx4_0",
        &["CA 'mlx4_0'", "State: Active", "LinkUp"],
    ),
    row("RHEL8 6.1", Node1, "ip link show ib0", &["mtu 2044"]),
    row("RHEL8 6.2", Node1, "ip -o link show ib0 | grep -o 'infiniband [0-9a-f:]*' | tr ':' '\\n' | wc -l", &["20"]),
    row("RHEL8 7.1", Node1, "ibv_devinfo -d mlx4_1", &["hca_id:", "mlx4_1"]),
    row("RHEL8 7.1", Node1, "ibstat mlx4_1", &["CA 'mlx4_1'", "Link layer: InfiniBand"]),
    row(
        "RHEL8 7.1",
        Node2,
        "ibping -S -C mlx4_0 -P 1 & n=0; until ibping -c 3 -C mlx4_1 -P 1 -L $(cat /sys/class/infiniband/mlx4_0/ports/1/lid) \
         | grep '3 received'; do n=$((n+1)); [ $n -lt 20 ] || break; done; kill $!",
        &["3 packets transmitted, 3 received, 0% packet loss"],
    ),
    row("RHEL8 7.2", Node2, "ping -c5 -i 0.2 node1", &["5 packets transmitted, 5 received, 0% packet loss"]),
    row(
        "RHEL8 7.3",
        Node2,
        "qperf & n=0; until qperf -v -t 1 -i mlx4_0:1 node2 conf rc_bw; do n=$((n+1)); [ $n -lt 50 ] || break; sleep 0.1; \
         done; kill $!",
        &["conf:", "rc_bw:", "bw"],
    ),
    row("RHEL7 13.1", Machine, "cat /sys/class/infiniband/siw0/node_type", &["4: RNIC"]),
    row("RHEL7 13.1", Machine, "rdma link delete siw0 && modprobe -r siw", &[]),
];
