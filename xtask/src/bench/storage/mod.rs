//! Storage over RDMA: NFS and NVMe, ours beside Linux's own and beside the same protocols over TCP, all in one guest; and disks of
//! one host without a guest.

pub mod cases;
pub mod guest;
mod local;

use super::program::Program;
use super::room::Room;
use super::unit::Unit;
use anyhow::{Context, Result, ensure};
use guest::{DISK, LINUX, MEBIBYTES, NVME_PORT, OURS, StorageRoom, WEFT};

/// Requests under way.
const DEPTH: u32 = 8;
/// Where NFS is mounted.
const MOUNTED: &str = "/m";

/// The order and size of fio's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    Read,
    Write,
    RandomRead,
    RandomWrite,
}

impl Pattern {
    /// Returns fio's words for it.
    fn words(self) -> &'static str {
        match self {
            Pattern::Read => "--rw=read --bs=1M",
            Pattern::Write => "--rw=write --bs=1M",
            Pattern::RandomRead => "--rw=randread --bs=4k",
            Pattern::RandomWrite => "--rw=randwrite --bs=4k",
        }
    }

    /// Returns the member of fio's report that has its figures.
    fn member(self) -> &'static str {
        match self {
            Pattern::Read | Pattern::RandomRead => "read",
            Pattern::Write | Pattern::RandomWrite => "write",
        }
    }
}

/// A client and a server. On a cable the client is Linux's; on one host both are of one make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pair {
    /// Linux's client on a cable to our server.
    OursAcross,
    /// Linux's client and server over RDMA.
    LinuxAcross,
    /// The same over TCP.
    TcpAcross,
    /// Our client and server on one host; for NFS the client mounts by FUSE.
    OursHere,
    /// Our NFS server, and Linux's client through our relay on the same host.
    RelayHere,
    /// Linux's client and server over TCP on the loopback.
    TcpHere,
}

/// The protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Nfs,
    Nvme,
}

/// fio on a disk or file of a server.
#[derive(Clone, Copy, Debug)]
pub struct Storage {
    pub protocol: Protocol,
    pub pair: Pair,
    pub pattern: Pattern,
}

impl Storage {
    /// Returns the script that connects, the options of fio for the disk or file, and the script that disconnects.
    fn steps(&self) -> (String, String, String) {
        match self.protocol {
            Protocol::Nfs => self.nfs(),
            Protocol::Nvme => self.nvme(),
        }
    }

    fn nvme(&self) -> (String, String, String) {
        let connect = |transport: &str, address: &str, port: u16| {
            let up = format!(
                "nvme connect -t {transport} -a {address} -s {port} -n {DISK} -i 1 > /dev/null
                 for n in $(seq 100); do test -b /dev/nvme0n1 && break; sleep 0.1; done"
            );
            (
                up,
                "--ioengine=libaio --direct=1 --filename=/dev/nvme0n1".to_owned(),
                format!("nvme disconnect -n {DISK} > /dev/null"),
            )
        };
        let (port, loopback) = NVME_PORT;
        match self.pair {
            Pair::OursAcross => connect("rdma", OURS, port),
            Pair::LinuxAcross => connect("rdma", LINUX, port),
            Pair::TcpAcross => connect("tcp", LINUX, port),
            Pair::TcpHere => connect("tcp", "127.0.0.1", loopback),
            Pair::OursHere | Pair::RelayHere => {
                let up = format!("{WEFT} nvme connect -a {OURS} -n {DISK} > /dev/null");
                let uri = nbd_uri(WEFT);
                let down = format!("{WEFT} nvme disconnect -n {DISK} > /dev/null");
                (up, format!("--ioengine=nbd --uri=\"{uri}\""), down)
            }
        }
    }

    fn nfs(&self) -> (String, String, String) {
        let linux = |server: &str, options: &str| {
            format!("mount.nfs {server} {MOUNTED} -o vers=3,mountport=20048,mountproto=tcp,nolock,{options}")
        };
        let ours = |client: &str| format!("{WEFT} nfs mount {OURS}:/ {MOUNTED} -o client={client}");
        let up = match self.pair {
            Pair::OursAcross => linux(&format!("{OURS}:/"), "rdma,port=20049"),
            Pair::LinuxAcross => linux(&format!("{LINUX}:/srv"), "rdma,port=20049"),
            Pair::TcpAcross => linux(&format!("{LINUX}:/srv"), "proto=tcp,port=2049"),
            Pair::TcpHere => linux("127.0.0.1:/srv", "proto=tcp,port=2049"),
            Pair::OursHere => ours("fuse"),
            Pair::RelayHere => ours("kernel"),
        };
        let file = format!("--ioengine=libaio --direct=1 --filename={MOUNTED}/file");
        (up, file, format!("umount {MOUNTED}"))
    }

    fn fio(&self, seconds: u32) -> String {
        format!(
            "fio --name=storage {} --size={MEBIBYTES}M --iodepth={DEPTH} --time_based --runtime={seconds}",
            self.pattern.words()
        )
    }

    fn play(&self, room: &StorageRoom, seconds: u32) -> Result<f64> {
        let (up, disk, down) = self.steps();
        let fio = self.fio(seconds);
        let is_ours = matches!(self.pair, Pair::OursHere | Pair::RelayHere);
        let script = format!(
            "{up}\n{fio} {disk} --output-format=json --output=/tmp/report && ok=true || ok=false\n{down}
             cat /tmp/report; $ok"
        );
        let text = room.script(is_ours, &script)?;
        read_figure(&text, self.pattern)
    }
}

/// Returns the shell's words for the URI of the first disk of `weft nvme connect`.
fn nbd_uri(weft: &str) -> String {
    format!("$({weft} nvme list -o json | sed -n 's/.*\"NbdUri\": *\"\\([^\"]*\\)\".*/\\1/p')")
}

/// Returns the bandwidth of fio's report.
fn read_figure(text: &str, pattern: Pattern) -> Result<f64> {
    let json = text.find('{').map(|at| &text[at..]).with_context(|| format!("no report: {text}"))?;
    let report: serde_json::Value = serde_json::from_str(json).with_context(|| format!("no report: {text}"))?;
    let job = &report["jobs"][0];
    ensure!(job["error"] == 0, "fio failed: {text}");
    job[pattern.member()]["bw_bytes"]
        .as_f64()
        .filter(|bytes| *bytes > 0.0)
        .with_context(|| format!("no figure: {text}"))
}

impl Program for Storage {
    fn name(&self) -> String {
        match (self.pair, self.protocol) {
            (Pair::OursAcross, _) => "Linux's client, our server",
            (Pair::LinuxAcross, _) => "Linux over RDMA",
            (Pair::TcpAcross | Pair::TcpHere, _) => "Linux over TCP",
            (Pair::OursHere, Protocol::Nfs) => "our server and mount by FUSE",
            (Pair::OursHere, Protocol::Nvme) => "our target and host",
            (Pair::RelayHere, _) => "our server and relay, Linux's client",
        }
        .to_owned()
    }

    fn command(&self, seconds: u32) -> String {
        self.fio(seconds)
    }

    fn unit(&self) -> Unit {
        Unit::BytesPerSecond
    }

    fn missing(&self) -> Option<&'static str> {
        guest::missing()
    }

    fn measure(&self, room: &Room) -> Result<f64> {
        self.play(room.storage()?, room.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_that_of_its_direction() {
        let text = "a warning\n{\"jobs\": [{\"error\": 0, \"read\": {\"bw_bytes\": 5}, \"write\": {\"bw_bytes\": 7}}]}";
        assert_eq!(read_figure(text, Pattern::RandomRead).ok(), Some(5.0));
        assert_eq!(read_figure(text, Pattern::Write).ok(), Some(7.0));
        let failed = "{\"jobs\": [{\"error\": 5, \"read\": {\"bw_bytes\": 5}}]}";
        assert!(read_figure(failed, Pattern::Read).is_err());
        assert!(read_figure("fio: not found", Pattern::Read).is_err());
    }
}
