//! Linux's NVMe host over RDMA (nvme-rdma), in a guest with rdma_rxe, against `weft nvme target` on the host, and
//! `weft nvme discover` against Linux's target (nvmet-rdma).
//!
//! The host's tool is Debian's nvme-cli. Data is compared with the file behind the namespace. `WEFT_ALL=1` adds a larger
//! file, and a host that is silent until its keep-alive timer expires.

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use weft_interop::guest::{Additions, Driver};
use weft_interop::guest_peer::GUEST_V4;
use weft_interop::proc::Proc;
use weft_interop::{Peer, Table, Who, guest, product, skip, table};

/// MTU of the cable.
const CABLE: u32 = 9000;
/// Modules of the family, with their dependencies.
const MODULES: &[&str] = &["nvme_rdma", "nvmet_rdma", "crc32c_generic"];
/// Programs of the host that the guest gets.
const FILES: &[&str] = &["/usr/sbin/nvme", "/usr/sbin/blkdiscard", "/usr/bin/fio", "/usr/bin/dd", "/usr/bin/cmp"];

const PORT: &str = "4420";
const DISK: &str = "nqn.2026-01.io.weft:disk";
const OTHER: &str = "nqn.2026-01.io.weft:other";
const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555";
/// Bytes of the file in mebibytes: by default, and of all tests.
const MEBIBYTES: (u64, u64) = (32, 256);
/// Time limit of one step in the guest.
const LIMIT: Duration = Duration::from_secs(300);
const STARTS_WITHIN: Duration = Duration::from_secs(30);

#[test]
fn the_kernels_nvme_host() {
    let name = "the_kernels_nvme_host";
    if let Some(why) = guest::obstacle() {
        return skip::skip(name, &why);
    }
    if !skip::have(name, FILES) {
        return;
    }
    let sides = Sides::new().expect("a guest with NVMe");
    let mut table = Table::new("kernel peer, NVMe");
    table::note(&format!("kernel peer, NVMe: {}", sides.peer.guest().package));
    table.case("nvme discover finds the subsystem", || sides.with_target(&[], |_| sides.discover()));
    table.case("weft nvme discover prints the same", || sides.with_target(&[], |_| sides.discover_ours()));
    table.case("weft nvme discover asks Linux's target", || sides.discover_linux());
    table.case("nvme connect, list and disconnect", || sides.with_disk(&[], |_| sides.list()));
    table.case("the guest writes, the file has the bytes, and back", || sides.with_disk(&[], |_| sides.bytes(4)));
    table.case("fio verifies what it wrote", || sides.with_disk(&[], |_| sides.fio()));
    table.case("discard and write zeroes", || sides.with_disk(&[], |_| sides.zeroes()));
    table.case("Compare, flush, logs and features", || sides.with_disk(&[], |_| sides.commands()));
    table.case("the same bytes with 1% loss", || {
        sides.with_disk(&[("WEFT_FAULT", "loss=1%,seed=5")], |_| sides.bytes(1))
    });
    table.case("a target that is killed comes back under writes", || sides.killed_target());
    table.case("a controller that is reset, and one that is deleted under writes", || sides.reset_and_deleted());
    table.case("--allow-host and --read-only refuse", || sides.refusals());
    table.case("nvmetcli's file: two subsystems, two ports", || sides.config_file());
    if table::all() {
        table.case("a silent host loses its controller and connects again", || sides.silent_host());
    }
    table.case("the kernel has nothing to complain of", || {
        let complaints = sides.peer.complaints()?;
        ensure!(complaints.is_empty(), "{}", complaints.join("\n"));
        Ok(())
    });
    table.finish();
}

/// The guest and the host.
struct Sides {
    peer: Peer,
    disk: PathBuf,
    bytes: u64,
}

/// A running `weft nvme target`.
struct Target(Proc);

impl Target {
    fn terminate(self) -> Result<()> {
        self.0.signal(Signal::TERM);
        self.0.wait(STARTS_WITHIN).success().map(drop)
    }
}

impl Sides {
    fn new() -> Result<Sides> {
        let agent = Path::new(env!("CARGO_BIN_EXE_weft-guest"));
        let files: Vec<_> = FILES.iter().map(|file| (PathBuf::from(file), (*file).to_owned())).collect();
        let peer = Peer::boot_with(agent, Driver::Rxe, Additions { files: &files, modules: MODULES }, CABLE)?;
        let disk = peer.lab().file("disk");
        let bytes = (if table::all() { MEBIBYTES.1 } else { MEBIBYTES.0 }) << 20;
        let sides = Sides { peer, disk, bytes };
        std::fs::File::create(&sides.disk)?.set_len(bytes)?;
        let id = HOST.rsplit(':').next().unwrap_or_default();
        sides.guest(&format!("mkdir -p /etc/nvme; echo {HOST} > /etc/nvme/hostnqn; echo {id} > /etc/nvme/hostid"))?;
        Ok(sides)
    }

    fn address(&self) -> &'static str {
        self.peer.lab().client().v4
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

    /// Starts a target with these options.
    fn target(&self, options: &[&str], env: &[(&str, &str)]) -> Result<Target> {
        let lab = self.peer.lab();
        let weft = product::weft()?.display().to_string();
        let line = lab.bare(lab.client(), Who::Root, &[&[&weft[..], "nvme", "target"], options].concat());
        let mut proc = lab.start_line(&line, env)?;
        let listens = proc.wait_until(STARTS_WITHIN, |proc| proc.text().contains("listening on port"));
        ensure!(listens, "the target does not listen: {}", proc.text());
        Ok(Target(proc))
    }

    fn disk_target(&self, further: &[&str], env: &[(&str, &str)]) -> Result<Target> {
        let disk = self.disk.display().to_string();
        self.target(&[&["--namespace", &disk, "--nqn", DISK], further].concat(), env)
    }

    fn with_target(&self, env: &[(&str, &str)], steps: impl FnOnce(&Target) -> Result<()>) -> Result<()> {
        let target = self.disk_target(&[], env)?;
        steps(&target).with_context(|| target.0.text())?;
        target.terminate()
    }

    fn with_disk(&self, env: &[(&str, &str)], steps: impl FnOnce(&Target) -> Result<()>) -> Result<()> {
        self.with_target(env, |target| {
            self.connect("")?;
            let done = steps(target);
            let gone = self.disconnect(DISK);
            done.and(gone)
        })
    }

    /// Returns the words for one of the target's ports.
    fn at(&self, port: &str) -> String {
        format!("-t rdma -a {} -s {port}", self.address())
    }

    /// Connects, and waits for the block device.
    fn connect(&self, options: &str) -> Result<()> {
        let at = self.at(PORT);
        self.guest(&format!(
            "nvme connect {at} -n {DISK} {options}; for n in $(seq 100); do test -b /dev/nvme0n1 && exit; sleep 0.1; done
             ls /dev/nvme*; exit 1"
        ))
        .map(drop)
    }

    fn disconnect(&self, nqn: &str) -> Result<()> {
        let text = self.guest(&format!("nvme disconnect -n {nqn}"))?;
        ensure!(text.contains("disconnected 1 controller(s)"), "{text}");
        Ok(())
    }

    fn discover(&self) -> Result<()> {
        let text = self.guest(&format!("nvme discover {}", self.at(PORT)))?;
        let address = format!("traddr:  {}", self.address());
        for line in
            ["trtype:  rdma", "subtype: nvme subsystem", "trsvcid: 4420", "rdma_cms:    rdma-cm", DISK, &address]
        {
            ensure!(text.contains(line), "no `{line}` in {text}");
        }
        Ok(())
    }

    /// Runs `weft nvme discover` on the host.
    fn weft_discover(&self, words: &[&str]) -> Result<String> {
        let lab = self.peer.lab();
        let weft = product::weft()?.display().to_string();
        let line = lab.bare(lab.client(), Who::Root, &[&[&weft[..], "nvme", "discover"], words].concat());
        Ok(lab.start_line(&line, &[])?.wait(STARTS_WITHIN).success()?.text)
    }

    /// The command prints what nvme-cli prints.
    fn discover_ours(&self) -> Result<()> {
        let theirs = self.guest(&format!("nvme discover {}", self.at(PORT)))?;
        let ours = self.weft_discover(&["-t", "rdma", "-a", self.address(), "-s", PORT])?;
        ensure!(ours == theirs, "{ours}{theirs}");
        let json = self.weft_discover(&["-a", self.address(), "-o", "json"])?;
        ensure!(json.contains(&format!("\"subnqn\": \"{DISK}\"")), "{json}");
        Ok(())
    }

    /// Linux's target, asked from both sides.
    fn discover_linux(&self) -> Result<()> {
        self.guest(&format!(
            "mount -t configfs none /sys/kernel/config 2>/dev/null || true; cd /sys/kernel/config/nvmet
             mkdir subsystems/{DISK}; echo 1 > subsystems/{DISK}/attr_allow_any_host; mkdir ports/1; cd ports/1
             echo rdma > addr_trtype; echo ipv4 > addr_adrfam; echo {GUEST_V4} > addr_traddr; echo 4420 > addr_trsvcid
             ln -s ../../subsystems/{DISK} subsystems/{DISK}"
        ))?;
        let ours = self.weft_discover(&["-a", GUEST_V4])?;
        for line in ["trtype:  rdma", "rdma_cms:    rdma-cm", DISK, &format!("traddr:  {GUEST_V4}")] {
            ensure!(ours.contains(line), "no `{line}` in {ours}");
        }
        let theirs = self.guest(&format!("nvme discover -t rdma -a {GUEST_V4} -s 4420"))?;
        ensure!(ours == theirs, "{ours}{theirs}");
        self.guest(&format!(
            "cd /sys/kernel/config/nvmet; rm ports/1/subsystems/{DISK}; rmdir ports/1 subsystems/{DISK}"
        ))
        .map(drop)
    }

    fn list(&self) -> Result<()> {
        let text = self.guest("nvme list; cat /sys/block/nvme0n1/size; nvme list-subsys; nvme id-ctrl /dev/nvme0")?;
        for word in ["/dev/nvme0n1", "Weft", &format!("\n{}\n", self.bytes / 512), DISK, "rdma traddr="] {
            ensure!(text.contains(word), "no `{word}` in {text}");
        }
        // Linux's host asks for a queue for each processor, each with its own connection.
        let queues = self.guest("cat /sys/class/nvme/nvme0/queue_count")?;
        ensure!(queues.trim().parse().is_ok_and(|queues: u32| queues >= 2), "{queues} queues");
        Ok(())
    }

    /// Writes in requests of many sizes, compares with the file, changes the file and reads in the guest.
    fn bytes(&self, mebibytes: u64) -> Result<()> {
        let count = mebibytes << 20;
        self.guest(&format!(
            "head -c {count} /dev/urandom > /tmp/data
             dd if=/tmp/data of=/dev/nvme0n1 bs=1M oflag=direct
             dd if=/tmp/data of=/dev/nvme0n1 bs=4096 count=100 seek=1 skip=1 conv=notrunc oflag=direct
             dd if=/tmp/data of=/dev/nvme0n1 bs=20480 count=9 seek=7 skip=7 conv=notrunc oflag=direct; sync"
        ))?;
        let sent = self.guest("sha256sum < /tmp/data")?;
        let here = format!("head -c {count} {} | sha256sum", self.disk.display());
        let here = String::from_utf8(Command::new("sh").args(["-c", &here]).output()?.stdout)?;
        ensure!(sent == here, "the file differs: {sent}{here}");
        let file = std::fs::File::options().write(true).open(&self.disk)?;
        file.write_all_at(&[0x5a; 5000], 1000)?;
        let back = self.guest(
            "dd if=/dev/nvme0n1 of=/tmp/back bs=64k count=1 iflag=direct; tail -c +1001 /tmp/back | head -c 5000 | tr -d Z | wc -c
             cmp -n 1000 /tmp/data /tmp/back; tail -c +6001 /tmp/back > /tmp/b; tail -c +6001 /tmp/data | head -c 59536 | cmp - /tmp/b",
        )?;
        ensure!(back.lines().any(|line| line.trim() == "0"), "the guest does not see the file's bytes: {back}");
        Ok(())
    }

    fn fio(&self) -> Result<()> {
        let text = self.guest(
            "fio --name=verify --filename=/dev/nvme0n1 --rw=randwrite --bsrange=4k-256k --size=8m --io_size=16m --direct=1 \
             --ioengine=psync --numjobs=1 --verify=crc32c --do_verify=1 --verify_fatal=1 --group_reporting \
             --thread --allow_mounted_write=0",
        )?;
        ensure!(text.contains("err= 0"), "{text}");
        Ok(())
    }

    fn zeroes(&self) -> Result<()> {
        self.guest("head -c 4194304 /dev/zero | tr '\\0' x | dd of=/dev/nvme0n1 bs=1M oflag=direct; sync")?;
        let before = std::fs::metadata(&self.disk)?.blocks();
        self.guest("/usr/sbin/blkdiscard -o 0 -l 1048576 /dev/nvme0n1; /usr/sbin/blkdiscard -z -o 2097152 -l 1048576 /dev/nvme0n1")?;
        let file = std::fs::File::open(&self.disk)?;
        let mut bytes = vec![0; 4 << 20];
        file.read_exact_at(&mut bytes, 0)?;
        let runs: Vec<u8> =
            bytes.chunks(1 << 20).map(|run| if run.iter().all(|byte| *byte == run[0]) { run[0] } else { 1 }).collect();
        ensure!(runs == [0, b'x', 0, b'x'], "{runs:?}");
        let after = std::fs::metadata(&self.disk)?.blocks();
        ensure!(after + 2000 <= before, "the discarded space is not free: {before} blocks, then {after}");
        Ok(())
    }

    fn commands(&self) -> Result<()> {
        let text = self.guest(
            "head -c 4096 /dev/urandom > /tmp/block; nvme write /dev/nvme0n1 -s 5 -c 0 -z 4096 -d /tmp/block
             nvme compare /dev/nvme0n1 -s 5 -c 0 -z 4096 -d /tmp/block; ! nvme compare /dev/nvme0n1 -s 6 -c 0 -z 4096 -d /tmp/block
             rm -f /tmp/back; nvme read /dev/nvme0n1 -s 5 -c 0 -z 4096 -d /tmp/back; cmp /tmp/block /tmp/back; nvme flush /dev/nvme0n1 -n 1
             nvme smart-log /dev/nvme0; nvme fw-log /dev/nvme0; nvme get-log /dev/nvme0 --log-id=5 --log-len=4096; nvme error-log /dev/nvme0
             nvme get-feature /dev/nvme0 -f 7; nvme list-ns /dev/nvme0; nvme ns-descs /dev/nvme0n1; nvme show-regs /dev/nvme0 || true
             ! nvme read /dev/nvme0n1 -s 99999999 -c 0 -z 4096 -d /tmp/none 2>&1; ! nvme id-ns /dev/nvme0 -n 5000 2>&1",
        )?;
        for word in
            ["Compare: Success", "LBA Out of Range", "Invalid Namespace", "[   0]:0x1", "uuid", "critical_warning"]
        {
            ensure!(text.to_lowercase().contains(&word.to_lowercase()), "no `{word}` in {text}");
        }
        Ok(())
    }

    /// Kills the target under a copy, and starts it again: the host connects again, and the copy ends.
    fn killed_target(&self) -> Result<()> {
        let target = self.disk_target(&[], &[])?;
        self.connect("--reconnect-delay=1 --ctrl-loss-tmo=120 --keep-alive-tmo=5")?;
        self.guest("head -c 16777216 /dev/urandom > /tmp/data")?;
        let copy = self.peer.guest().start(&[
            "sh",
            "-ec",
            "for n in 1 2 3 4 5 6; do dd if=/tmp/data of=/dev/nvme0n1 bs=256k oflag=direct conv=nocreat,notrunc; done; echo copied",
        ]);
        std::thread::sleep(Duration::from_secs(1));
        ensure!(copy.running(), "the copy ended too soon: {}", copy.text());
        drop(target.0.kill());
        let again = self.disk_target(&[], &[])?;
        let begun = Instant::now();
        copy.wait(LIMIT).success().with_context(|| format!("{}{}", again.0.text(), self.kernel_log()))?;
        table::note(&format!("kernel peer, NVMe: the copy ended {} s after the restart", begun.elapsed().as_secs()));
        let (sent, here) =
            (self.guest("sha256sum < /tmp/data")?, self.guest("head -c 16777216 /dev/nvme0n1 | sha256sum")?);
        ensure!(sent == here, "{sent}{here}");
        self.disconnect(DISK)?;
        again.terminate()
    }

    fn reset_and_deleted(&self) -> Result<()> {
        let mut target = self.disk_target(&[], &[])?;
        self.connect("--reconnect-delay=1")?;
        self.guest("head -c 8388608 /dev/urandom > /tmp/data")?;
        let write =
            "for n in 1 2 3 4; do dd if=/tmp/data of=/dev/nvme0n1 bs=128k oflag=direct conv=nocreat,notrunc; done";
        let copy = self.peer.guest().start(&["sh", "-ec", write]);
        self.guest("sleep 0.5; nvme reset /dev/nvme0")?;
        copy.wait(LIMIT).success().context("a copy over a reset")?;
        let same = self.guest("head -c 8388608 /dev/nvme0n1 | cmp - /tmp/data && echo same")?;
        ensure!(same.contains("same"), "{same}");
        let copy = self.peer.guest().start(&["sh", "-c", &format!("{write}; true")]);
        self.guest("sleep 0.3")?;
        self.disconnect(DISK)?;
        drop(copy.wait(LIMIT));
        let ended =
            |proc: &Proc| proc.text().contains("controller 2 of") && proc.text().matches(" queue ").count() >= 4;
        ensure!(target.0.wait_until(LIMIT, ended), "{}", target.0.text());
        ensure!(target.0.running(), "the target died: {}", target.0.text());
        target.terminate()
    }

    fn refusals(&self) -> Result<()> {
        let target = self.disk_target(&["--allow-host", "nqn.2014-08.org.nvmexpress:uuid:other"], &[])?;
        let at = self.at(PORT);
        let text = self.guest(&format!(
            "! nvme connect {at} -n {DISK} 2>&1; nvme discover {at}; ! nvme connect {at} -n {OTHER} 2>&1"
        ))?;
        ensure!(text.contains("Number of Records 0") && !text.contains("trtype"), "{text}");
        let log = target.0.text();
        ensure!(log.contains("the host is not allowed") && log.contains("this port has no such subsystem"), "{log}");
        target.terminate()?;
        let target = self.disk_target(&["--allow-host", HOST, "--read-only"], &[])?;
        self.connect("")?;
        let text = self.guest(
            "cat /sys/block/nvme0n1/ro; ! dd if=/dev/zero of=/dev/nvme0n1 bs=4096 count=1 oflag=direct 2>&1
             head -c 4096 /dev/zero > /tmp/z; ! nvme write /dev/nvme0n1 -s 0 -c 0 -z 4096 -d /tmp/z 2>&1; head -c 9 /dev/nvme0n1 | wc -c",
        )?;
        ensure!(text.starts_with('1') && text.contains("Write Protected") && text.contains("9\n"), "{text}");
        self.disconnect(DISK)?;
        target.terminate()
    }

    fn config_file(&self) -> Result<()> {
        let other = self.peer.lab().file("other");
        std::fs::write(&other, vec![7; 1 << 20])?;
        let namespace = |id: u32, path: &Path| {
            format!(r#"{{"device": {{"path": "{}"}}, "enable": 1, "nsid": {id}}}"#, path.display())
        };
        let port = |id: u16, service: u16, nqn: &str| {
            format!(
                r#"{{"addr": {{"adrfam": "ipv4", "traddr": "{}", "treq": "not specified", "trsvcid": "{service}", "trtype": "rdma"}},
                    "param": {{"inline_data_size": "16384"}}, "portid": {id}, "referrals": [], "subsystems": [{nqn}]}}"#,
                self.address()
            )
        };
        let subsystem = |nqn: &str, attributes: &str, hosts: &str, namespaces: &str| {
            format!(
                r#"{{"nqn": "{nqn}", "attr": {{{attributes}}}, "allowed_hosts": [{hosts}], "namespaces": [{namespaces}]}}"#
            )
        };
        let json = format!(
            r#"{{"hosts": [{{"nqn": "{HOST}"}}], "ports": [{}, {}], "subsystems": [{}, {}]}}"#,
            port(1, 4420, &format!(r#""{DISK}", "{OTHER}""#)),
            port(2, 4421, &format!(r#""{OTHER}""#)),
            subsystem(DISK, r#""allow_any_host": "1", "serial": "abc""#, "", &namespace(1, &self.disk)),
            subsystem(
                OTHER,
                r#""allow_any_host": "0""#,
                &format!(r#""{HOST}""#),
                &format!("{}, {}", namespace(7, &other), namespace(3, &self.disk))
            ),
        );
        let config = self.peer.lab().file("config.json");
        std::fs::write(&config, json)?;
        let target = self.target(&["--config", &config.display().to_string()], &[])?;
        let steps = || -> Result<()> {
            let text =
                self.guest(&format!("nvme discover {}; echo; nvme discover {}", self.at("4420"), self.at("4421")))?;
            ensure!(text.matches("subnqn:").count() == 3 && text.contains("trsvcid: 4421"), "{text}");
            let text = self.guest(&format!(
                "nvme connect {} -n {OTHER}; for n in $(seq 100); do test -b /dev/nvme0n2 && break; sleep 0.1; done
                 nvme list-ns /dev/nvme0; cat /sys/block/nvme0n1/size /sys/block/nvme0n2/size; head -c 5 /dev/nvme0n2 | od -An -tx1",
                self.at("4421")
            ))?;
            let sizes = [self.bytes / 512, 2048].map(|size| format!("\n{size}\n"));
            let has_sizes = sizes.iter().all(|size| text.contains(size));
            ensure!(
                text.contains("0x3") && text.contains("0x7") && has_sizes && text.contains("07 07 07 07 07"),
                "{text}"
            );
            self.disconnect(OTHER)
        };
        steps().with_context(|| target.0.text())?;
        target.terminate()
    }

    /// Takes the guest's link away for longer than the keep-alive timeout.
    fn silent_host(&self) -> Result<()> {
        let mut target = self.disk_target(&[], &[])?;
        self.connect("--reconnect-delay=1 --keep-alive-tmo=3")?;
        let device = self.guest("ls /sys/class/net | grep -v lo | head -1")?;
        let device = device.trim();
        self.guest(&format!("ip link set {device} down; sleep 15; ip link set {device} up"))?;
        let expired =
            target.0.wait_until(LIMIT, |proc| proc.text().contains("the keep-alive timer of its controller expired"));
        ensure!(expired, "{}", target.0.text());
        let again = target.0.wait_until(LIMIT, |proc| proc.text().contains("controller 2 of"));
        ensure!(again, "{}{}", target.0.text(), self.kernel_log());
        self.disconnect(DISK)?;
        target.terminate()
    }
}
