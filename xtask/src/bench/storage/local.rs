//! A disk on one host, without a guest: our NVMe target and host, beside plain exports of the same file by qemu-nbd.
//!
//! All three serve fio by NBD. The export over a Unix socket shows the cost of NBD alone, which ours has, too; the one over TCP
//! is a network disk without RDMA.

use super::super::program::{Program, figure_of, unless_installed};
use super::super::room::Room;
use super::super::unit::Unit;
use super::{DEPTH, Pattern, nbd_uri, read_figure};
use anyhow::Result;
use weft_interop::{Who, product};

/// Size of the file in mebibytes.
const MEBIBYTES: u32 = 256;
/// Name of our target's subsystem.
const DISK: &str = "nqn.2026-01.io.weft:bench";

/// The way from fio to the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// `weft nvme connect` to `weft nvme target`.
    Ours,
    /// qemu-nbd over TCP.
    Tcp,
    /// qemu-nbd over a Unix socket.
    Unix,
}

/// fio on a disk of this host.
#[derive(Clone, Copy, Debug)]
pub struct LocalDisk {
    pub way: Way,
    pub pattern: Pattern,
}

impl LocalDisk {
    /// Returns the shell commands that serve `$D/disk`, and the URI of the export.
    fn serve(&self) -> (String, String) {
        match self.way {
            Way::Ours => (
                format!(
                    "$W nvme target --namespace $D/disk --nqn {DISK} --bind 127.0.0.1 > $D/log 2>&1 & server=$!
                     for n in $(seq 100); do grep -q 'listening on port' $D/log && break; sleep 0.1; done
                     $W nvme connect -a 127.0.0.1 -n {DISK} >&2"
                ),
                nbd_uri("$W"),
            ),
            Way::Tcp => (qemu("-b 127.0.0.1"), "nbd://127.0.0.1".to_owned()),
            Way::Unix => (qemu("-k $D/sock"), "nbd+unix:///?socket=$D/sock".to_owned()),
        }
    }

    fn fio(&self, seconds: u32) -> String {
        let rw = self.pattern.words();
        format!(
            "fio --name=storage {rw} --size={MEBIBYTES}M --iodepth={DEPTH} --time_based --runtime={seconds} --ioengine=nbd"
        )
    }
}

/// Returns the commands of an export by qemu-nbd, which goes to the background when it listens.
fn qemu(place: &str) -> String {
    format!("qemu-nbd -f raw -t --fork --pid-file=$D/pid {place} $D/disk; server=$(cat $D/pid)")
}

impl Program for LocalDisk {
    fn name(&self) -> String {
        match self.way {
            Way::Ours => "our target and host",
            Way::Tcp => "NBD over TCP (qemu-nbd)",
            Way::Unix => "NBD over a Unix socket (qemu-nbd)",
        }
        .to_owned()
    }

    fn command(&self, seconds: u32) -> String {
        self.fio(seconds) + " --uri=URI"
    }

    fn unit(&self) -> Unit {
        Unit::BytesPerSecond
    }

    fn missing(&self) -> Option<&'static str> {
        unless_installed("fio", "fio").or_else(|| unless_installed("qemu-nbd", "qemu-utils"))
    }

    fn measure(&self, room: &Room) -> Result<f64> {
        let lab = room.lab()?;
        let dir = lab.file("storage");
        let (serve, uri) = self.serve();
        let (dir, weft, fio) = (dir.display(), product::weft()?, self.fio(room.seconds));
        let script = format!(
            "D={dir}; W={}; export XDG_RUNTIME_DIR=$D; mkdir -p $D
             end() {{ $W nvme disconnect -n {DISK} > $D/end 2>&1; kill $server; rm -rf $D; }}; trap end EXIT
             head -c {MEBIBYTES}M /dev/zero > $D/disk; {serve}
             {fio} --uri=\"{uri}\" --output-format=json --output=$D/report >&2; cat $D/report",
            weft.display()
        );
        let words = lab.bare(lab.server(), Who::Root, &["bash", "-ec", &script]);
        let pattern = self.pattern;
        figure_of(lab.start_line(&words, &[])?, room.seconds, |text| read_figure(text, pattern).ok())
    }
}
