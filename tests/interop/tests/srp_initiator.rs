//! `weft srp connect` with its NBD exports against `weft srp target`, over RoCE, iWARP and a virtual fabric.
//!
//! The judges are Debian's NBD clients: nbdinfo, nbdcopy, qemu-io and fio. Data is compared with the target's file.

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use weft_interop::nbd_host::{LIMIT, NbdHost, STARTS_WITHIN, TOOLS};
use weft_interop::proc::Proc;
use weft_interop::srp_initiator::SrpInitiator;
use weft_interop::{Fabric, Lab, Shape, Table, Who, product, skip};

/// MTU of the cable.
const CABLE: u32 = 9000;
/// Bytes of the disk.
const DISK_BYTES: u64 = 64 << 20;
const GUID: &str = "feedfacecafe0001";

#[test]
fn wefts_srp_target() {
    let name = "wefts_srp_target";
    if !skip::have(name, TOOLS) {
        return;
    }
    let mut table = Table::new("SRP initiator and target");
    {
        let ends = Ends::new(Shape::Two { mtu: CABLE }).expect("two namespaces");
        table.case("an ordinary user logs in, lists, copies and disconnects", || ends.ordinary());
        table.case("zeros, discards, flushes and durable writes reach the file", || ends.operations());
        table.case("two disks, blocks of 4096 bytes, read-only", || ends.options());
        table.case("fio verifies what it wrote", || ends.with_disk(&[], &[], |host| host.fio("32m")));
        table.case("a target that is killed comes back under writes", || ends.killed_target());
        table.case("another disk at the same place takes no writes", || ends.other_disk());
        table.case("a target that does not answer: abort, reset, a new login", || ends.stopped_target());
        table.case("refusals have a reason", || ends.refusals());
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
                // iWARP's connections are TCP's.
                let streams = host.script("ss -Htn state established '( sport = :5555 )' | wc -l")?;
                ensure!(streams.trim() == "1", "{streams} TCP connections");
                host.copies(4)
            })
        });
    }
    table.case("a virtual fabric, by host name", on_a_fabric);
    table.finish();
}

/// `weft srp target` and `weft srp connect`.
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

    fn host(&self, who: Who) -> SrpInitiator<'_> {
        SrpInitiator { lab: &self.lab, side: self.lab.client(), who }
    }

    fn login(&self) -> String {
        format!("id_ext={GUID},ioc_guid={GUID},dest={}:5555", self.lab.server().v4)
    }

    fn target(&self, options: &[&str], env: &[(&str, &str)]) -> Result<Proc> {
        let disk = self.disk.display().to_string();
        self.target_of(&[&["--lun", &disk], options].concat(), env)
    }

    fn target_of(&self, options: &[&str], env: &[(&str, &str)]) -> Result<Proc> {
        let weft = product::weft()?.display().to_string();
        let words = [&[&weft[..], "srp", "target", "--guid", GUID], options].concat();
        let mut proc = self.lab.start_line(&self.lab.bare(self.lab.server(), Who::Root, &words), env)?;
        let listens = proc.wait_until(STARTS_WITHIN, |proc| proc.text().contains("listening on port"));
        ensure!(listens, "the target does not listen: {}", proc.text());
        Ok(proc)
    }

    fn terminate(target: Proc) -> Result<()> {
        target.signal(Signal::TERM);
        target.wait(STARTS_WITHIN).success().map(drop)
    }

    fn with_disk(
        &self,
        options: &[&str],
        env: &[(&str, &str)],
        steps: impl FnOnce(&SrpInitiator<'_>) -> Result<()>,
    ) -> Result<()> {
        let target = self.target(options, env)?;
        let host = self.host(Who::Root);
        host.connect(&self.login(), &[], env).with_context(|| target.text())?;
        let done = steps(&host).with_context(|| target.text());
        done.and(host.disconnect())?;
        Ends::terminate(target)
    }

    /// The line that the target prints is the login.
    fn ordinary(&self) -> Result<()> {
        let target = self.target(&["--bind", self.lab.server().v4], &[])?;
        let text = target.text();
        let login = text.split_once("log in with ").and_then(|(_, rest)| rest.lines().next());
        let login = login.with_context(|| text.clone())?.trim().to_owned();
        ensure!(login == self.login(), "{login}");
        let host = self.host(Who::Ordinary);
        host.connect(&login, &[], &[]).with_context(|| target.text())?;
        let disk = host.disk()?;
        ensure!(disk["vendor"] == "Weft" && disk["bytes"] == DISK_BYTES && disk["state"] == "live", "{disk}");
        let table = host.srp(&["list"], &[])?.success()?.text;
        for word in ["srp0:0 ", "Virtual disk", "64.0 MiB", "4096 B", "nbd+unix:///0?socket="] {
            ensure!(table.contains(word), "no `{word}` in {table}");
        }
        let twice = host.srp(&["connect", &login], &[])?;
        ensure!(!twice.ok() && twice.text.contains("already connected as srp0"), "{}", twice.report());
        let done = host.copies(2);
        let same = host.script(&format!("cmp -n 2097152 data {} && echo same", self.disk.display()));
        let mode = host.script("S=${U#*socket=}; stat -c %a $(dirname $(dirname $S))")?;
        ensure!(mode.trim() == "700", "{mode}");
        done.and(host.disconnect())?;
        ensure!(same?.contains("same"));
        Ends::terminate(target)
    }

    fn operations(&self) -> Result<()> {
        self.with_disk(&[], &[], |host| {
            let text = host.script(
                "nbdinfo \"$U\"; qemu-io -f raw -c 'write -P 0x5a 1M 2M' -c 'write -f -P 0x5b 1088k 64k' -c 'flush' \
                 -c 'read -P 0x5a 1M 64k' -c 'read -P 0x5b 1088k 64k' -c 'write -z 2M 128k' -c 'write -z -u 2304k 128k' \
                 -c 'discard 2560k 128k' -c 'read -P 0 2M 128k' -c 'read -P 0 2304k 128k' -c 'read -P 0 2560k 128k' \
                 -c 'read -P 0x5a 2816k 128k' \"$U\"",
            )?;
            for word in ["is_read_only: false", "can_trim: true", "can_zero: true", "can_fua: true", "block_size_minimum: 4096"] {
                ensure!(text.contains(word), "no `{word}` in {text}");
            }
            ensure!(!text.contains("failed"), "{text}");
            let bytes = std::fs::read(&self.disk)?;
            let all = |at: usize, byte: u8| bytes[at << 10..][..128 << 10].iter().all(|found| *found == byte);
            ensure!([2048, 2304, 2560].iter().all(|at| all(*at, 0)) && all(2816, 0x5a), "the file differs");
            Ok(())
        })
    }

    fn options(&self) -> Result<()> {
        let other = self.lab.file("other");
        std::fs::write(&other, vec![7; (1 << 20) + 512])?;
        self.with_disk(&["--lun", &other.display().to_string(), "--read-only"], &[], |host| {
            let disks = host.disks()?;
            ensure!(
                disks.len() == 2 && disks[1]["bytes"] == (1 << 20) + 512 && disks[1]["block_bytes"] == 512,
                "{disks:?}"
            );
            ensure!(disks[0]["block_bytes"] == 4096 && disks[0]["read_only"] == true, "{disks:?}");
            let text = host.script(&format!(
                "nbdinfo --list \"$U\"; nbdcopy \"{}\" back; cmp back {} && echo same
                 ! qemu-io -f raw -c 'write 0 4k' \"$U\" 2>&1",
                disks[1]["nbd_uri"].as_str().context("no URI")?,
                other.display()
            ))?;
            ensure!(text.contains("same") && text.contains("export=\"1\""), "{text}");
            Ok(())
        })
    }

    fn killed_target(&self) -> Result<()> {
        let target = self.target(&[], &[])?;
        let host = self.host(Who::Root);
        host.connect(&self.login(), &["--reconnect-delay", "1", "--fast-io-fail-tmo", "100"], &[])?;
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
        Ends::terminate(again)
    }

    /// The target comes back with a disk of another identifier: writes fail, and reach neither file.
    fn other_disk(&self) -> Result<()> {
        let target = self.target(&[], &[])?;
        let host = self.host(Who::Root);
        host.connect(&self.login(), &["--reconnect-delay", "1"], &[])?;
        drop(target.kill());
        host.wait_for("connecting")?;
        let other = self.lab.file("another");
        std::fs::File::create(&other)?.set_len(DISK_BYTES)?;
        let again = self.target_of(&["--lun", &other.display().to_string()], &[])?;
        host.wait_for("live")?;
        let text = host.script("! qemu-io -f raw -c 'write -P 9 0 4k' \"$U\" 2>&1")?;
        ensure!(text.contains("Input/output error"), "{text}");
        ensure!(std::fs::read(&other)?.iter().all(|byte| *byte == 0), "the other disk was written");
        host.disconnect()?;
        Ends::terminate(again)
    }

    /// The target's process stops: its adapter still acknowledges, but no command is answered.
    fn stopped_target(&self) -> Result<()> {
        let target = self.target(&[], &[])?;
        let host = self.host(Who::Root);
        host.connect(
            &self.login(),
            &["--command-timeout", "2", "--reconnect-delay", "1", "--fast-io-fail-tmo", "100"],
            &[],
        )?;
        host.script("head -c 1048576 /dev/urandom > data")?;
        target.signal(Signal::STOP);
        let copy = host.start_script("nbdcopy data \"$U\"; echo copied")?;
        host.wait_for("connecting")?;
        let lost = host.disk()?["lost_by"].clone();
        target.signal(Signal::CONT);
        copy.wait(LIMIT).success().with_context(|| target.text())?;
        ensure!(lost == "a command took longer than 2 s", "{lost}");
        let same = host.script(&format!("cmp -n 1048576 data {} && echo same", self.disk.display()))?;
        ensure!(same.contains("same"), "{same}");
        host.disconnect()?;
        Ends::terminate(target)
    }

    fn refusals(&self) -> Result<()> {
        let target = self.target(&["--allow-initiator", "0x17"], &[])?;
        let host = self.host(Who::Root);
        host.make_runtime()?;
        let refused = |words: &[&str], reason: &str| -> Result<String> {
            let ended = host.srp(&[&["connect"], words].concat(), &[])?;
            ensure!(!ended.ok() && ended.text.contains(reason), "no `{reason}`: {}", ended.report());
            Ok(ended.text)
        };
        let login = self.login();
        let text = refused(&[&login], "does not allow this initiator")?;
        refused(&[&login.replace("id_ext=feed", "id_ext=dead")], "it is not the target that id_ext and ioc_guid name")?;
        refused(&[&login.replace(":5555", ":5599")], "does an SRP target listen there?")?;
        refused(&[&login, "--fast-io-fail-tmo", "600"], "fast_io_fail_tmo must be less than dev_loss_tmo")?;
        refused(&["id_ext=1,ioc_guid=2"], "dest or dgid is missing")?;
        refused(&["id_ext=1,dgid=fe80"], "dgid: not 32 hexadecimal digits")?;
        Ends::terminate(target)?;
        // The identifier in the message is the one to allow.
        let initiator = text.split_once("as initiator ").and_then(|(_, rest)| rest.split_once(':'));
        let initiator = initiator.with_context(|| text.clone())?.0.to_owned();
        self.with_disk(&["--allow-initiator", &initiator], &[], |host| host.copies(1))
    }

    /// Replaces the RoCE device of the side by a device of iWARP.
    fn add_siw(&self) -> Result<()> {
        let side = self.lab.server();
        let words = ["rdma", "link", "add", "siw0", "type", "siw", "netdev", side.interface];
        self.lab.run(side, Who::Root, &[], &words)?.success().map(drop)
    }
}

/// Target and initiator on two hosts of an InfiniBand fabric.
fn on_a_fabric() -> Result<()> {
    let lab = Lab::new(Shape::One)?;
    let disk = lab.file("disk");
    std::fs::File::create(&disk)?.set_len(8 << 20)?;
    let fabric = Fabric::managed(&lab, &["--star", "2"])?;
    let (weft, disk) = (product::weft()?.display().to_string(), disk.display().to_string());
    let runtime = lab.file("run-fabric");
    std::fs::create_dir_all(&runtime)?;
    let runtime = runtime.display().to_string();
    let words = fabric.words("node2", &[&weft, "srp", "target", "--lun", &disk, "--guid", GUID])?;
    let mut target = lab.start_line(&words, &[])?;
    let listens = target.wait_until(STARTS_WITHIN, |proc| proc.text().contains("listening on port"));
    ensure!(listens, "the target does not listen: {}", target.text());
    let script = format!(
        "cd {runtime}; export XDG_RUNTIME_DIR={runtime}; W={weft}
         $W srp connect --id-ext {GUID} --ioc-guid {GUID} --dest node2:5555
         U=$($W srp list --json | sed -n 's/.*\"nbd_uri\": \"\\(.*\\)\".*/\\1/p'); head -c 8388608 /dev/urandom > data
         nbdcopy data \"$U\"; nbdcopy \"$U\" back; cmp data back; cmp data {disk}; $W srp disconnect --all"
    );
    let begun = Instant::now();
    let ended = lab.start_line(&fabric.words("node1", &["bash", "-ec", &script])?, &[])?.wait(LIMIT).success();
    let text = ended.with_context(|| format!("{} s: {}", begun.elapsed().as_secs(), target.text()))?.text;
    ensure!(text.contains("device: srp0") && text.contains("srp0 disconnected"), "{text}");
    fabric.weft(&["down"]).map(drop)
}
