//! `weft srp connect` with its NBD exports against Linux's SRP target (ib_srpt), in a guest with rdma_rxe.
//!
//! The judges are Debian's NBD clients: nbdinfo, nbdcopy, qemu-img, qemu-io and fio. Data is compared with the file behind the
//! disk. `WEFT_ALL=1` makes the disk larger.

use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::time::{Duration, Instant};
use weft_interop::guest::{Additions, Driver};
use weft_interop::guest_peer::GUEST_V4;
use weft_interop::nbd_host::{LIMIT, NbdHost, TOOLS, qemu_check};
use weft_interop::srp_initiator::SrpInitiator;
use weft_interop::{Peer, Table, Who, guest, skip, table};

/// MTU of the cable.
const CABLE: u32 = 9000;
/// Modules of the guest, with their dependencies.
const MODULES: &[&str] = &["target_core_mod", "target_core_file", "ib_srpt", "crc32c_generic"];

/// Bytes of the disk in mebibytes: by default, and of all tests.
const MEBIBYTES: (u64, u64) = (32, 128);
/// Where the guest has its disk.
const GUEST_DISK: &str = "/mnt/disk";
/// Directory of the target's configuration, and of its port.
const TARGET: &str = "/sys/kernel/config/target";
const PORT: &str = "5555";

fn mebibytes() -> u64 {
    if table::all() { MEBIBYTES.1 } else { MEBIBYTES.0 }
}

#[test]
fn the_kernels_srp_target() {
    let name = "the_kernels_srp_target";
    if let Some(why) = guest::obstacle() {
        return skip::skip(name, &why);
    }
    if !skip::have(name, TOOLS) {
        return;
    }
    let sides = Linux::new().expect("a guest with a target");
    let host = sides.host();
    let mut table = Table::new("kernel peer, SRP initiator");
    table::note(&format!("kernel peer, SRP initiator: {}", sides.peer.guest().package));
    table.case("login, list and disconnect", || sides.with_disk(&[], || sides.list()));
    table.case("nbdinfo and nbdcopy", || sides.with_disk(&[], || sides.nbd()));
    table.case("qemu-img and qemu-io", || sides.with_disk(&[], || sides.qemu()));
    table.case("fio verifies what it wrote", || sides.with_disk(&[], || host.fio("16m")));
    table.case("the same bytes with 1% loss", || sides.loss());
    table.case("a target that goes away comes back under writes", || sides.target_comes_back());
    table.case("a target that stays away fails requests, then ends the login", || sides.target_stays_away());
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
    /// GUID by which initiators log in.
    guid: String,
}

impl Linux {
    fn new() -> Result<Linux> {
        let agent = Path::new(env!("CARGO_BIN_EXE_weft-guest"));
        let peer = Peer::boot_with(agent, Driver::Rxe, Additions { files: &[], modules: MODULES }, CABLE)?;
        let mut sides = Linux { peer, guid: String::new() };
        let guid = sides.guest(&format!(
            "mount -t tmpfs none /mnt; truncate -s {size}M {GUEST_DISK}
             test -d {TARGET} || mount -t configfs none /sys/kernel/config
             mkdir -p {TARGET}/core/fileio_0/disk; cd {TARGET}/core/fileio_0/disk
             echo 'fd_dev_name={GUEST_DISK},fd_dev_size={bytes},fd_buffered_io=1' > control; echo 1 > enable
             echo 1 > attrib/emulate_tpu; echo 1 > attrib/emulate_tpws; echo weft-1 > wwn/vpd_unit_serial
             mkdir -p {TARGET}/srpt; echo {PORT} > {TARGET}/srpt/discovery_auth/rdma_cm_port
             gid=$(cat /sys/class/infiniband/rxe0/ports/1/gids/0 | tr -d :); mkdir -p {TARGET}/srpt/0x$gid/0x$gid; cd {TARGET}/srpt/0x$gid/0x$gid
             mkdir lun/lun_0; ln -s {TARGET}/core/fileio_0/disk lun/lun_0/disk
             guid=$(cat /sys/module/ib_srpt/parameters/srpt_service_guid); echo ${{guid#0x}}",
            size = mebibytes(),
            bytes = mebibytes() << 20
        ))?;
        sides.guid = guid.trim().to_owned();
        sides.enable(true)?;
        sides.allow(&sides.initiator()?)?;
        Ok(sides)
    }

    /// Returns the login that the target has to be asked with.
    fn login(&self) -> String {
        format!("id_ext={0},ioc_guid={0},dest={GUEST_V4}:{PORT}", self.guid)
    }

    /// Enables or disables the target port: then Linux disconnects all initiators.
    fn enable(&self, is_on: bool) -> Result<()> {
        self.guest(&format!("echo {} > $(echo {TARGET}/srpt/0x*/0x*)/enable", u8::from(is_on))).map(drop)
    }

    /// Makes an access control list for an initiator.
    fn allow(&self, initiator: &str) -> Result<()> {
        self.guest(&format!(
            "cd {TARGET}/srpt/0x*/0x*; mkdir acls/{initiator}; mkdir acls/{initiator}/lun_0
             ln -s $PWD/lun/lun_0 acls/{initiator}/lun_0/disk"
        ))
        .map(drop)
    }

    /// Asks for this initiator's identifier: the target has no access control list for it.
    fn initiator(&self) -> Result<String> {
        let host = self.host();
        host.make_runtime()?;
        let ended = host.srp(&["connect", &self.login()], &[])?;
        let found = ended.text.split_once("as initiator ").and_then(|(_, rest)| rest.split_once(": "));
        let (initiator, reason) = found.with_context(|| format!("{}{}", ended.report(), self.kernel_log()))?;
        ensure!(reason.contains("no ACL for the initiator"), "{reason}");
        Ok(initiator.to_owned())
    }

    fn host(&self) -> SrpInitiator<'_> {
        let lab = self.peer.lab();
        SrpInitiator { lab, side: lab.client(), who: Who::Root }
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
        self.host().connect(&self.login(), options, env).with_context(|| self.kernel_log())
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
        let table = self.host().srp(&["list"], &[])?.success()?.text;
        let size = format!("{}.0 MiB", mebibytes());
        for word in ["srp0:0 ", "LIO-ORG", &size, "  512 B", "nbd+unix:///0?socket="] {
            ensure!(table.contains(word), "no `{word}` in {table}");
        }
        let disk = self.host().disk()?;
        ensure!(disk["bytes"] == mebibytes() << 20 && disk["state"] == "live", "{disk}");
        let twice = self.host().srp(&["connect", &self.login()], &[])?;
        ensure!(!twice.ok() && twice.text.contains("already connected as srp0"), "{}", twice.report());
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
            "block_size_minimum: 512",
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
        self.connect(&[], &[("WEFT_FAULT", "loss=1%,seed=7")])?;
        let copy = "head -c 1048576 /dev/urandom > data; nbdcopy --connections=4 data \"$U\"
             qemu-img dd if=\"$U\" of=back bs=1M count=1; cmp data back; rm back";
        let done = self.host().script(copy).and_then(|_| self.same("data"));
        done.and(self.host().disconnect())
    }

    /// Disables the target port under a copy, and enables it again.
    fn target_comes_back(&self) -> Result<()> {
        let host = self.host();
        self.connect(&["--reconnect-delay", "1", "--fast-io-fail-tmo", "100"], &[])?;
        host.script("head -c 16777216 /dev/urandom > data")?;
        let mut copy =
            host.start_script("for n in 1 2 3 4 5 6; do nbdcopy --connections=2 data \"$U\"; done; echo copied")?;
        std::thread::sleep(Duration::from_secs(1));
        ensure!(copy.running(), "the copy ended too soon: {}", copy.text());
        self.enable(false)?;
        host.wait_for("connecting")?;
        ensure!(copy.running(), "the copy ended: {}", copy.text());
        self.enable(true)?;
        let begun = Instant::now();
        copy.wait(LIMIT).success().with_context(|| self.kernel_log())?;
        let seconds = begun.elapsed().as_secs();
        table::note(&format!("kernel peer, SRP initiator: the copy ended {seconds} s after the return"));
        host.wait_for("live")?;
        self.same("data")?;
        host.disconnect()
    }

    /// A target that is away for longer than `--fast-io-fail-tmo`: requests fail; for longer than `--dev-loss-tmo`: the
    /// process ends.
    fn target_stays_away(&self) -> Result<()> {
        let host = self.host();
        self.connect(&["--reconnect-delay", "1", "--fast-io-fail-tmo", "1", "--dev-loss-tmo", "8"], &[])?;
        let process = host.process()?;
        host.script("head -c 8388608 /dev/urandom > data")?;
        let copy = host.start_script("for n in 1 2 3 4 5 6 7 8 9; do nbdcopy data \"$U\"; done")?;
        std::thread::sleep(Duration::from_secs(1));
        self.enable(false)?;
        let ended = copy.wait(LIMIT);
        let is_there = Path::new("/proc").join(&process).exists();
        let until = Instant::now() + LIMIT;
        while Path::new("/proc").join(&process).exists() {
            ensure!(Instant::now() < until, "process {process} does not end");
            std::thread::sleep(Duration::from_millis(100));
        }
        self.enable(true)?;
        ensure!(!ended.ok() && is_there, "{}", ended.report());
        let left = host.srp(&["list", "--json"], &[])?.success()?.text;
        ensure!(!left.contains("srp0"), "{left}");
        Ok(())
    }

    fn refusals(&self) -> Result<()> {
        let host = self.host();
        let refused = |login: &str, reason: &str| -> Result<()> {
            let ended = host.srp(&["connect", login], &[])?;
            ensure!(!ended.ok() && ended.text.contains(reason), "no `{reason}`: {}", ended.report());
            Ok(())
        };
        let login = self.login();
        refused(&login.replace(&format!("id_ext={}", self.guid), "id_ext=17"), "it is not the target")?;
        refused(&(login.clone() + ",initiator_ext=17"), "no ACL for the initiator")?;
        refused(&login.replace(":5555", ":5599"), "refused")?;
        self.enable(false)?;
        let done = refused(&login, "refused");
        self.enable(true)?;
        done
    }

    fn killed_process(&self) -> Result<()> {
        let host = self.host();
        self.connect(&[], &[])?;
        host.script(&format!("kill -9 {}", host.process()?))?;
        let until = Instant::now() + LIMIT;
        while host.disk().is_ok() {
            ensure!(Instant::now() < until, "the killed process is still listed");
            std::thread::sleep(Duration::from_millis(50));
        }
        self.with_disk(&[], || host.copies(1))
    }
}
