//! `weft nvme connect` with its NBD exports against Linux's NVMe target over RDMA (nvmet-rdma), in a guest with rdma_rxe.
//!
//! The judges are Debian's NBD clients: nbdinfo, nbdcopy, qemu-img, qemu-io and fio. Data is compared with what lies behind the
//! namespace. `WEFT_ALL=1` makes the disk larger.

use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::time::{Duration, Instant};
use weft_interop::guest::{Additions, Driver};
use weft_interop::guest_peer::GUEST_V4;
use weft_interop::nbd_host::{LIMIT, NbdHost, TOOLS, qemu_check};
use weft_interop::nvme_host::{DISK, HOST, NvmeHost};
use weft_interop::{Peer, Table, Who, guest, skip, table};

/// MTU of the cable.
const CABLE: u32 = 9000;
/// Module of the guest, with its dependencies.
const MODULES: &[&str] = &["nvmet_rdma", "crc32c_generic"];

/// Bytes of the disk in mebibytes: by default, and of all tests.
const MEBIBYTES: (u64, u64) = (32, 128);
/// Where the guest has its disk.
const GUEST_DISK: &str = "/mnt/disk";

fn mebibytes() -> u64 {
    if table::all() { MEBIBYTES.1 } else { MEBIBYTES.0 }
}

#[test]
fn the_kernels_nvme_target() {
    let name = "the_kernels_nvme_target";
    if let Some(why) = guest::obstacle() {
        return skip::skip(name, &why);
    }
    if !skip::have(name, TOOLS) {
        return;
    }
    let sides = Linux::new().expect("a guest with a target");
    let host = sides.host();
    let mut table = Table::new("kernel peer, NVMe host");
    table::note(&format!("kernel peer, NVMe host: {}", sides.peer.guest().package));
    table.case("connect, list and disconnect", || sides.with_disk(&["-i", "2"], || sides.list()));
    table.case("read, write and compare blocks", || sides.with_disk(&[], || sides.blocks()));
    table.case("nbdinfo and nbdcopy", || sides.with_disk(&["-i", "3"], || sides.nbd()));
    table.case("qemu-img and qemu-io", || sides.with_disk(&[], || sides.qemu()));
    table.case("fio verifies what it wrote", || sides.with_disk(&["-i", "2"], || host.fio("16m")));
    table.case("the same bytes with 1% loss", || sides.loss());
    table.case("a target that goes away comes back under writes", || sides.target_comes_back());
    table.case("a target that stays away ends the controller", || sides.target_stays_away());
    table.case("refusals have a reason", || sides.refusals());
    table.case("a killed process leaves nothing in the way", || sides.killed_process());
    table.case("the kernel has nothing to complain of", || {
        let complaints = sides.peer.complaints()?;
        ensure!(complaints.is_empty(), "{}", complaints.join("\n"));
        Ok(())
    });
    table.finish();
}

/// The guest and this host.
struct Linux {
    peer: Peer,
}

impl Linux {
    fn new() -> Result<Linux> {
        let agent = Path::new(env!("CARGO_BIN_EXE_weft-guest"));
        let peer = Peer::boot_with(agent, Driver::Rxe, Additions { files: &[], modules: MODULES }, CABLE)?;
        let sides = Linux { peer };
        sides.guest(&format!(
            "mount -t tmpfs none /mnt; truncate -s {}M {GUEST_DISK}
             mount -t configfs none /sys/kernel/config 2>/dev/null || true; cd /sys/kernel/config/nvmet
             mkdir subsystems/{DISK}; echo 1 > subsystems/{DISK}/attr_allow_any_host
             mkdir subsystems/{DISK}/namespaces/1; cd subsystems/{DISK}/namespaces/1
             echo {GUEST_DISK} > device_path; echo 1 > buffered_io; echo 1 > enable
             mkdir ../../../../ports/1; cd ../../../../ports/1; echo rdma > addr_trtype; echo ipv4 > addr_adrfam
             echo {GUEST_V4} > addr_traddr; echo 4420 > addr_trsvcid",
            mebibytes()
        ))?;
        sides.offer()?;
        Ok(sides)
    }

    /// Lets the port lead to the subsystem.
    fn offer(&self) -> Result<()> {
        self.guest(&format!("cd /sys/kernel/config/nvmet; ln -s subsystems/{DISK} ports/1/subsystems/{DISK}")).map(drop)
    }

    /// Takes the port away: Linux disconnects all hosts.
    fn withdraw(&self) -> Result<()> {
        self.guest(&format!("rm /sys/kernel/config/nvmet/ports/1/subsystems/{DISK}")).map(drop)
    }

    fn host(&self) -> NvmeHost<'_> {
        let lab = self.peer.lab();
        NvmeHost { lab, side: lab.client(), who: Who::Root }
    }

    /// Runs a shell script in the guest to success, and returns its output.
    fn guest(&self, script: &str) -> Result<String> {
        let ended = self.peer.guest().start(&["sh", "-ec", script]).wait(LIMIT);
        let text = ended.text.clone();
        ended.success().with_context(|| self.kernel_log()).map(|_| text)
    }

    /// Returns the last lines of the guest's kernel, for failures.
    fn kernel_log(&self) -> String {
        self.peer.guest().run(&["sh", "-c", "dmesg | tail -n 15"]).map(|ended| ended.text).unwrap_or_default()
    }

    fn connect(&self, options: &[&str], env: &[(&str, &str)]) -> Result<()> {
        self.host().connect(GUEST_V4, options, env).with_context(|| self.kernel_log())
    }

    fn with_disk(&self, options: &[&str], steps: impl FnOnce() -> Result<()>) -> Result<()> {
        self.connect(options, &[])?;
        let done = steps().with_context(|| self.kernel_log());
        let gone = self.host().disconnect();
        done.and(gone)
    }

    /// The guest's disk begins with the bytes of a file of this host.
    fn same(&self, file: &str) -> Result<()> {
        let path = self.host().runtime().join(file);
        let bytes = std::fs::metadata(&path)?.len();
        let here = self.host().script(&format!("sha256sum < {file}"))?;
        let there = self.guest(&format!("head -c {bytes} {GUEST_DISK} | sha256sum"))?;
        ensure!(here == there, "the disk differs: {here}{there}");
        Ok(())
    }

    fn list(&self) -> Result<()> {
        let table = self.host().nvme(&["list"], &[])?.success()?.text;
        let size = format!("{:.2}  MB", (mebibytes() << 20) as f64 / 1e6);
        for word in ["nvme0n1 ", "Linux", &size, "  4 KiB +  0 B", "nbd+unix:///1?socket="] {
            ensure!(table.contains(word), "no `{word}` in {table}");
        }
        let namespace = self.host().namespace()?;
        ensure!(namespace["PhysicalSize"] == mebibytes() << 20 && namespace["State"] == "live", "{namespace}");
        let twice = self.host().nvme(&["connect", "-a", GUEST_V4, "-n", DISK, "-q", HOST], &[])?;
        ensure!(!twice.ok() && twice.text.contains("already connected as nvme0"), "{}", twice.report());
        let second = self.host().nvme(&["connect", "-a", GUEST_V4, "-n", DISK, "-q", HOST, "-D"], &[])?.success()?.text;
        ensure!(second == "device: nvme1\n", "{second}");
        let text = self.host().nvme(&["disconnect", "-d", "nvme1"], &[])?.success()?.text;
        ensure!(text.contains("disconnected 1 controller(s)"), "{text}");
        Ok(())
    }

    /// nvme-cli's words: blocks of this host's files and of the guest's disk.
    fn blocks(&self) -> Result<()> {
        let text = self.host().script(
            "head -c 131072 /dev/urandom > data; $W nvme write nvme0n1 -s 8 -c 31 -z 131072 -d data
             $W nvme read nvme0n1 -s 8 -c 31 -z 131072 -d back; cmp data back
             $W nvme write /dev/nvme0n1 --start-block=0 --block-count=0 --data-size=3 --data data -f
             $W nvme read nvme0n1 -z 4096 | head -c 3 | cmp -n 3 - data
             ! $W nvme read nvme0n1 -s 99999999 -z 4096 2>&1; ! $W nvme compare nvme0n1 -z 4096 -d data 2>&1
             ! $W nvme read nvme7n1 -z 4096 2>&1; sha256sum < data",
        )?;
        for word in
            ["write: Success", "read: Success", "LBA Out of Range", "Invalid Command Opcode", "no namespace `nvme7n1`"]
        {
            ensure!(text.contains(word), "no `{word}` in {text}");
        }
        let there = self.guest(&format!("dd if={GUEST_DISK} bs=4096 skip=8 count=32 2>/dev/null | sha256sum"))?;
        ensure!(text.ends_with(&there), "{text}{there}");
        Ok(())
    }

    fn nbd(&self) -> Result<()> {
        let bytes = mebibytes() << 20;
        let text = self.host().script(
            "nbdinfo \"$U\"; nbdinfo --list \"$U\" | head -3; nbdinfo --can multi-conn \"$U\"; nbdinfo --size \"$U\"",
        )?;
        for word in [
            &bytes.to_string()[..],
            "is_read_only: false",
            "can_trim: true",
            "can_zero: true",
            "can_fua: true",
            "block_size_minimum: 4096",
        ] {
            ensure!(text.contains(word), "no `{word}` in {text}");
        }
        self.host().copies(8)?;
        self.same("data")
    }

    fn qemu(&self) -> Result<()> {
        self.host().qemu(mebibytes())?;
        let bytes = self.guest(&qemu_check(GUEST_DISK))?;
        ensure!(bytes.split_whitespace().eq(["0"; 5]), "{bytes}");
        Ok(())
    }

    fn loss(&self) -> Result<()> {
        self.connect(&["-i", "2", "-k", "30"], &[("WEFT_FAULT", "loss=1%,seed=7")])?;
        let done = self.host().copies(4).and_then(|()| self.same("data"));
        done.and(self.host().disconnect())
    }

    /// Removes the port under a copy, and adds it again.
    fn target_comes_back(&self) -> Result<()> {
        let host = self.host();
        self.connect(&["-i", "2", "-c", "1", "-l", "120"], &[])?;
        host.script("head -c 16777216 /dev/urandom > data")?;
        let mut copy =
            host.start_script("for n in 1 2 3 4 5 6; do nbdcopy --connections=2 data \"$U\"; done; echo copied")?;
        std::thread::sleep(Duration::from_secs(1));
        ensure!(copy.running(), "the copy ended too soon: {}", copy.text());
        self.withdraw()?;
        host.wait_for("connecting")?;
        ensure!(copy.running(), "the copy ended: {}", copy.text());
        self.offer()?;
        let begun = Instant::now();
        copy.wait(LIMIT).success().with_context(|| self.kernel_log())?;
        table::note(&format!(
            "kernel peer, NVMe host: the copy ended {} s after the return",
            begun.elapsed().as_secs()
        ));
        host.wait_for("live")?;
        self.same("data")?;
        host.disconnect()
    }

    /// A target that is away for longer than `--ctrl-loss-tmo`: requests fail, and the process ends.
    fn target_stays_away(&self) -> Result<()> {
        let host = self.host();
        self.connect(&["-c", "1", "-l", "3"], &[])?;
        let process = host.process()?;
        host.script("head -c 8388608 /dev/urandom > data")?;
        let copy = host.start_script("for n in 1 2 3 4 5 6 7 8 9; do nbdcopy data \"$U\"; done")?;
        std::thread::sleep(Duration::from_secs(1));
        self.withdraw()?;
        let ended = copy.wait(LIMIT);
        self.offer()?;
        ensure!(!ended.ok(), "{}", ended.report());
        let until = Instant::now() + LIMIT;
        while Path::new("/proc").join(&process).exists() {
            ensure!(Instant::now() < until, "process {process} does not end");
            std::thread::sleep(Duration::from_millis(100));
        }
        let left = host.nvme(&["list", "-o", "json"], &[])?.success()?.text;
        ensure!(!left.contains("nvme0"), "{left}");
        Ok(())
    }

    fn refusals(&self) -> Result<()> {
        let host = self.host();
        let refused = |words: &[&str], reason: &str| -> Result<()> {
            let ended = host.nvme(&[&["connect", "-a", GUEST_V4, "-q", HOST], words].concat(), &[])?;
            ensure!(!ended.ok() && ended.text.contains(reason), "no `{reason}`: {}", ended.report());
            Ok(())
        };
        refused(&["-n", "nqn.2026-01.io.weft:other"], "no such subsystem at this port")?;
        refused(&["-n", "disk"], "not an NQN")?;
        refused(&["-n", DISK, "-s", "4499"], "refused")?;
        refused(&["-n", "nqn.2014-08.org.nvmexpress.discovery"], "discovery controller")?;
        self.guest(&format!("echo 0 > /sys/kernel/config/nvmet/subsystems/{DISK}/attr_allow_any_host"))?;
        let done = refused(&["-n", DISK], "this host is not allowed");
        self.guest(&format!("echo 1 > /sys/kernel/config/nvmet/subsystems/{DISK}/attr_allow_any_host"))?;
        done
    }

    fn killed_process(&self) -> Result<()> {
        let host = self.host();
        self.connect(&[], &[])?;
        host.script(&format!("kill -9 {}", host.process()?))?;
        let until = Instant::now() + LIMIT;
        while host.namespace().is_ok() {
            ensure!(Instant::now() < until, "the killed process is still listed");
            std::thread::sleep(Duration::from_millis(50));
        }
        self.with_disk(&[], || host.copies(1))
    }
}
