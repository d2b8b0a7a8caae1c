//! `weft nvme connect` with its NBD exports against `weft nvme target`, over RoCE, iWARP and a virtual fabric.
//!
//! The judges are Debian's NBD clients: nbdinfo, nbdcopy, qemu-io and fio. Data is compared with the target's file.

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use std::path::PathBuf;
use std::time::Duration;
use weft_interop::nbd_host::{LIMIT, NbdHost, STARTS_WITHIN, TOOLS};
use weft_interop::nvme_host::{DISK, NvmeHost};
use weft_interop::proc::Proc;
use weft_interop::{Fabric, Lab, Shape, Table, Who, product, skip};

/// MTU of the cable.
const CABLE: u32 = 9000;
/// Bytes of the disk.
const DISK_BYTES: u64 = 64 << 20;

#[test]
fn wefts_nvme_target() {
    let name = "wefts_nvme_target";
    if !skip::have(name, TOOLS) {
        return;
    }
    let mut table = Table::new("NVMe host and target");
    {
        let ends = Ends::new(Shape::Two { mtu: CABLE }).expect("two namespaces");
        table.case("blocks of 4096 bytes, read-only, Compare", || ends.options());
        table.case("fio verifies what it wrote", || ends.with_disk(&[], &[], |host| host.fio("32m")));
        table.case("an ordinary user connects", || ends.ordinary());
        table.case("a target that is killed comes back under writes", || ends.killed_target());
        table.case("1% loss on both sides", || {
            let loss = [("WEFT_FAULT", "loss=1%,seed=3")];
            ends.with_disk(&[], &loss, |host| host.copies(4))
        });
    }
    {
        let ends = Ends::new(Shape::One).expect("a namespace");
        table.case("one host: the same bytes", || ends.with_disk(&[], &[], |host| host.copies(8)));
        table.case("iWARP: the same bytes", || {
            ends.add_siw()?;
            ends.with_disk(&[], &[("WEFT_LOOPBACK", "wire")], |host| {
                // iWARP's connections are TCP's: one for each queue.
                let streams = host.script("ss -Htn state established '( sport = :4420 )' | wc -l")?;
                ensure!(streams.trim() == "3", "{streams} TCP connections");
                host.copies(4)
            })
        });
    }
    table.case("a virtual fabric, by host name", on_a_fabric);
    table.finish();
}

/// `weft nvme target` and `weft nvme connect`.
struct Ends {
    lab: Lab,
    disk: PathBuf,
}

impl Ends {
    fn new(shape: Shape) -> Result<Ends> {
        let lab = Lab::new(shape)?;
        let disk = lab.file("disk");
        std::fs::File::create(&disk)?.set_len(DISK_BYTES)?;
        Ok(Ends { lab, disk })
    }

    fn host(&self, who: Who) -> NvmeHost<'_> {
        NvmeHost { lab: &self.lab, side: self.lab.client(), who }
    }

    fn target(&self, options: &[&str], env: &[(&str, &str)]) -> Result<Proc> {
        let (weft, disk) = (product::weft()?.display().to_string(), self.disk.display().to_string());
        let words = [&[&weft[..], "nvme", "target", "--namespace", &disk, "--nqn", DISK], options].concat();
        let mut proc = self.lab.start_line(&self.lab.bare(self.lab.server(), Who::Root, &words), env)?;
        let listens = proc.wait_until(STARTS_WITHIN, |proc| proc.text().contains("listening on port"));
        ensure!(listens, "the target does not listen: {}", proc.text());
        Ok(proc)
    }

    fn with_disk(
        &self,
        options: &[&str],
        env: &[(&str, &str)],
        steps: impl FnOnce(&NvmeHost<'_>) -> Result<()>,
    ) -> Result<()> {
        let target = self.target(options, env)?;
        let host = self.host(Who::Root);
        host.connect(self.lab.server().v4, &["-i", "2"], env).with_context(|| target.text())?;
        let done = steps(&host).with_context(|| target.text());
        done.and(host.disconnect())?;
        target.signal(Signal::TERM);
        target.wait(STARTS_WITHIN).success().map(drop)
    }

    fn options(&self) -> Result<()> {
        self.with_disk(&["--block-size", "4096"], &[], |host| {
            let text = host.script(
                "nbdinfo \"$U\"; head -c 8192 /dev/urandom > data; $W nvme write nvme0n1 -s 3 -c 1 -z 8192 -d data
                 $W nvme compare nvme0n1 -s 3 -c 1 -z 8192 -d data; ! $W nvme compare nvme0n1 -s 4 -c 1 -z 8192 -d data 2>&1
                 qemu-io -f raw -c 'write -P 7 512 512' -c 'read -P 7 512 512' \"$U\"",
            )?;
            for word in ["block_size_minimum: 4096", "compare: Success", "Compare Failure"] {
                ensure!(text.contains(word), "no `{word}` in {text}");
            }
            ensure!(!text.contains("failed"), "{text}");
            Ok(())
        })?;
        self.with_disk(&["--read-only"], &[], |host| {
            let text = host.script(
                "nbdinfo \"$U\"; nbdcopy \"$U\" back; head -c 4096 back > data; ! $W nvme write nvme0n1 -z 4096 -d data 2>&1
                 ! qemu-io -f raw -c 'write 0 4k' \"$U\" 2>&1",
            )?;
            ensure!(text.contains("is_read_only: true") && text.contains("Write Protected"), "{text}");
            Ok(())
        })
    }

    fn ordinary(&self) -> Result<()> {
        let target = self.target(&[], &[])?;
        let host = self.host(Who::Ordinary);
        host.connect(self.lab.server().v4, &[], &[])?;
        let done = host.copies(2);
        let mode = host.script("S=${U#*socket=}; stat -c %a $(dirname $(dirname $S))")?;
        ensure!(mode.trim() == "700", "{mode}");
        done.and(host.disconnect())?;
        target.signal(Signal::TERM);
        target.wait(STARTS_WITHIN).success().map(drop)
    }

    fn killed_target(&self) -> Result<()> {
        let target = self.target(&[], &[])?;
        let host = self.host(Who::Root);
        host.connect(self.lab.server().v4, &["-c", "1", "-l", "120"], &[])?;
        host.script("head -c 33554432 /dev/urandom > data")?;
        let mut copy = host.start_script("for n in 1 2 3 4 5 6 7 8; do nbdcopy data \"$U\"; done; echo copied")?;
        std::thread::sleep(Duration::from_millis(300));
        ensure!(copy.running(), "the copy ended too soon: {}", copy.text());
        drop(target.kill());
        host.wait_for("connecting")?;
        let again = self.target(&[], &[])?;
        copy.wait(LIMIT).success().with_context(|| again.text())?;
        let same = host.script(&format!("cmp -n 33554432 data {} && echo same", self.disk.display()))?;
        ensure!(same.contains("same"), "{same}");
        host.disconnect()?;
        again.signal(Signal::TERM);
        again.wait(STARTS_WITHIN).success().map(drop)
    }

    /// Replaces the RoCE device of the side by a device of iWARP.
    fn add_siw(&self) -> Result<()> {
        let side = self.lab.server();
        let words = ["rdma", "link", "add", "siw0", "type", "siw", "netdev", side.interface];
        self.lab.run(side, Who::Root, &[], &words)?.success().map(drop)
    }
}

/// Target and host on two hosts of an InfiniBand fabric.
fn on_a_fabric() -> Result<()> {
    let lab = Lab::new(Shape::One)?;
    let disk = lab.file("disk");
    std::fs::File::create(&disk)?.set_len(8 << 20)?;
    let fabric = Fabric::managed(&lab, &["--star", "2"])?;
    let (weft, disk) = (product::weft()?.display().to_string(), disk.display().to_string());
    let runtime = lab.file("run-fabric");
    std::fs::create_dir_all(&runtime)?;
    let runtime = runtime.display().to_string();
    let words = fabric.words("node2", &[&weft, "nvme", "target", "--namespace", &disk, "--nqn", DISK])?;
    let mut target = lab.start_line(&words, &[])?;
    let listens = target.wait_until(STARTS_WITHIN, |proc| proc.text().contains("listening on port"));
    ensure!(listens, "the target does not listen: {}", target.text());
    let script = format!(
        "cd {runtime}; export XDG_RUNTIME_DIR={runtime}; W={weft}; $W nvme connect -a node2 -n {DISK}
         U=$($W nvme list -o json | sed -n 's/.*\"NbdUri\": \"\\(.*\\)\".*/\\1/p'); head -c 8388608 /dev/urandom > data
         nbdcopy data \"$U\"; nbdcopy \"$U\" back; cmp data back; cmp data {disk}; $W nvme disconnect -n {DISK}"
    );
    let ended = lab.start_line(&fabric.words("node1", &["bash", "-ec", &script])?, &[])?.wait(LIMIT).success();
    let text = ended.with_context(|| target.text())?.text;
    ensure!(text.contains("device: nvme0") && text.contains("disconnected 1 controller(s)"), "{text}");
    fabric.weft(&["down"]).map(drop)
}
