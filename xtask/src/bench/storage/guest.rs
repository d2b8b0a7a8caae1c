//! The guest of the storage cases: Linux's NFS and NVMe, in both roles and over RDMA and TCP, and ours beside them.
//!
//! Linux's rxe works in the first network namespace alone. There `va` and `vb` are the two ends of a cable for Linux's own
//! pairs; `xa` there and `xb` in namespace `c` are a cable from Linux's clients to our servers. All data is in memory.

use super::super::guest::{SIDES_OF_A_CABLE, boot, words_of};
use anyhow::{Context, Result, ensure};
use std::path::PathBuf;
use std::time::Duration;
use weft_interop::guest::{Driver, Guest, GuestProc};
use weft_interop::{Lab, skip};

/// Directory of our product in the guest.
pub const WEFT: &str = "/weft/weft";
/// Time limit of one step: emulation is slow.
const LIMIT: Duration = Duration::from_secs(120);
/// Size of each file and disk in mebibytes.
pub const MEBIBYTES: u32 = 48;

/// Modules of the kernel, with their dependencies.
const MODULES: &[&str] = &[
    "nvme_rdma",
    "nvme_tcp",
    "nvmet_rdma",
    "nvmet_tcp",
    "crc32c_generic",
    "sunrpc",
    "rpcrdma",
    "nfs",
    "nfsv3",
    "nfsd",
    "fuse",
];
/// Programs and files of the host that the guest gets, and their packages. Names of transports are in /etc/netconfig.
const FILES: &[(&str, &str)] = &[
    ("/usr/bin/fio", "fio"),
    ("/usr/sbin/nvme", "nvme-cli"),
    ("/usr/sbin/mount.nfs", "nfs-common"),
    ("/usr/sbin/exportfs", "nfs-kernel-server"),
    ("/usr/sbin/rpc.mountd", "nfs-kernel-server"),
    ("/usr/sbin/rpcbind", "rpcbind"),
    ("/etc/netconfig", "libtirpc-common"),
];

/// Name of every target's subsystem.
pub const DISK: &str = "nqn.2026-01.io.weft:disk";
/// Address of Linux's servers over the cable, and of the end that connects to them.
pub const LINUX: &str = "10.1.0.2";
/// Address of our servers.
pub const OURS: &str = "10.2.0.2";
/// Port of NVMe on a cable, and of Linux's target over TCP on the loopback.
pub const NVME_PORT: (u16, u16) = (4420, 4422);

/// Cables, data, and Linux's servers.
const SETUP: &str = "SIDES
ip rule add pref 40 iif lo to 10.1.0.2 lookup 101
ip netns add c
ip link add xa mtu 4200 type veth peer name xb netns c mtu 4200
ip addr add 10.2.0.1/24 dev xa
ip link set xa up
ip -n c link set lo up
ip -n c addr add 10.2.0.2/24 dev xb
ip -n c link set xb up
rdma link add rxe_x type rxe netdev xa
mkdir -p /data /srv /m /var/lib/nfs/v4recovery /run/rpcbind /etc/nvme /run/weft
mount -t tmpfs none /data
mount -t tmpfs none /srv
head -c MEBIBYTESm /dev/zero > /data/linux
cp /data/linux /data/ours
mkdir /data/export
cp /data/linux /data/export/file
cp /data/linux /srv/file
echo nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555 > /etc/nvme/hostnqn
echo 11111111-2222-3333-4444-555555555555 > /etc/nvme/hostid
mount -t configfs none /sys/kernel/config 2> /dev/null || true
cd /sys/kernel/config/nvmet
mkdir subsystems/DISK subsystems/DISK/namespaces/1
echo 1 > subsystems/DISK/attr_allow_any_host
echo /data/linux > subsystems/DISK/namespaces/1/device_path
echo 1 > subsystems/DISK/namespaces/1/buffered_io
echo 1 > subsystems/DISK/namespaces/1/enable
for port in '1 rdma 10.1.0.2 4420' '2 tcp 10.1.0.2 4420' '3 tcp 127.0.0.1 4422'; do
    set -- $port
    mkdir ports/$1
    echo $2 > ports/$1/addr_trtype
    echo ipv4 > ports/$1/addr_adrfam
    echo $3 > ports/$1/addr_traddr
    echo $4 > ports/$1/addr_trsvcid
    ln -s subsystems/DISK ports/$1/subsystems/DISK
done
mount -t nfsd nfsd /proc/fs/nfsd
echo '_rpc:x:106:65534::/run/rpcbind:/bin/false' >> /etc/passwd
rpcbind
: > /var/lib/nfs/etab
: > /var/lib/nfs/rmtab
echo '/srv *(rw,async,no_root_squash,insecure,fsid=7,no_subtree_check)' > /etc/exports
exportfs -ra
echo '+3 -4' > /proc/fs/nfsd/versions
echo 'tcp 2049' > /proc/fs/nfsd/portlist
echo 'rdma 20049' > /proc/fs/nfsd/portlist
echo 4 > /proc/fs/nfsd/threads
rpc.mountd -p 20048 > /tmp/mountd 2>&1
";

/// A guest with servers.
pub struct StorageRoom {
    // Ends before the guest.
    _servers: [GuestProc; 2],
    // Ends before the namespace that it runs in.
    guest: Guest,
    _lab: Lab,
}

/// Returns the first package that is missing.
pub fn missing() -> Option<&'static str> {
    FILES.iter().find(|(file, _)| skip::on_path(file).is_none() && !PathBuf::from(file).exists()).map(|(_, p)| *p)
}

impl StorageRoom {
    /// Boots the guest with the built product, and starts all servers.
    pub fn boot() -> Result<StorageRoom> {
        let files: Vec<_> = FILES.iter().map(|(file, _)| (PathBuf::from(file), (*file).to_owned())).collect();
        let (guest, lab) = boot(Driver::Rxe, &files, MODULES)?;
        let setup = SETUP.replace("SIDES", &SIDES_OF_A_CABLE.replace("CABLE_MTU", "4200").replace("KIND", "rxe"));
        let setup = setup.replace("MEBIBYTES", &MEBIBYTES.to_string()).replace("DISK", DISK);
        guest.start(&["sh", "-ec", &setup]).wait(LIMIT).success().context("servers in the guest")?;
        let servers = [
            serve(&guest, &["nvme", "target", "--namespace", "/data/ours", "--nqn", DISK])?,
            serve(&guest, &["nfs", "serve", "--export", "/data/export", "--no-root-squash"])?,
        ];
        Ok(StorageRoom { _servers: servers, guest, _lab: lab })
    }

    /// Returns the version of its kernel.
    pub fn kernel(&self) -> &str {
        &self.guest.package
    }

    /// Runs a shell script to success, in the namespace of our servers or in the first, and returns its output.
    pub fn script(&self, is_ours: bool, script: &str) -> Result<String> {
        let words: Vec<_> = if is_ours { in_namespace(&["sh", "-ec", script]) } else { own(&["sh", "-ec", script]) };
        let ended = self.guest.start(&words_of(&words)).wait(LIMIT);
        let text = ended.text.clone();
        let log = || self.guest.run(&["sh", "-c", "dmesg | tail -n 10"]).map(|ended| ended.text).unwrap_or_default();
        ended.success().with_context(log).map(|_| text)
    }
}

/// Starts `weft WORDS` in its namespace, and waits until it listens.
fn serve(guest: &Guest, words: &[&str]) -> Result<GuestProc> {
    let line = in_namespace(&[&[WEFT], words].concat());
    let server = guest.start(&words_of(&line));
    let listens = server.wait_text(LIMIT, |text| text.contains("listening on port"));
    ensure!(listens, "our server in the guest does not listen: {}", server.kill().report());
    Ok(server)
}

/// Returns a command in the namespace of our servers. Mounts of such a command are seen there alone.
fn in_namespace(words: &[&str]) -> Vec<String> {
    own(&[&["ip", "netns", "exec", "c", "env", "XDG_RUNTIME_DIR=/run/weft"], words].concat())
}

fn own(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
