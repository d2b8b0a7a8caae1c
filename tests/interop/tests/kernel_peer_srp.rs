//! Linux's SRP initiator (ib_srp), in a guest with rdma_rxe, against `weft srp target` on the host.
//!
//! The initiator logs in by the RDMA connection manager. Its disks are judged by Debian's sg3-utils, fio and lsblk, and data
//! is compared with the file behind the disk. `WEFT_ALL=1` takes a larger file.

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use weft_interop::guest::{Additions, Driver};
use weft_interop::proc::Proc;
use weft_interop::{Peer, Table, Who, guest, product, skip, table};

/// MTU of the cable.
const CABLE: u32 = 9000;
/// Modules of the family, with their dependencies.
const MODULES: &[&str] = &["sd_mod", "ib_srp", "crc32c_generic"];
/// Programs of the host that the guest gets.
const FILES: &[&str] = &[
    "/usr/bin/sg_inq",
    "/usr/bin/sg_vpd",
    "/usr/bin/sg_luns",
    "/usr/bin/sg_readcap",
    "/usr/bin/sg_modes",
    "/usr/bin/sg_opcodes",
    "/usr/bin/sg_turs",
    "/usr/bin/sg_requests",
    "/usr/bin/sg_persist",
    "/usr/bin/sg_verify",
    "/usr/bin/sg_sync",
    "/usr/bin/sg_start",
    "/usr/bin/sg_unmap",
    "/usr/bin/sg_write_same",
    "/usr/bin/sg_reset",
    "/usr/bin/sg_raw",
    "/usr/bin/lsblk",
    "/usr/sbin/blkdiscard",
    "/usr/bin/fio",
    "/usr/bin/dd",
    "/usr/bin/cmp",
];

const PORT: &str = "5555";
const GUID: &str = "feedfacecafe0001";
/// Directories of the initiator: its port on the guest's device, and the targets that it is logged in to.
const ADD_TARGET: &str = "/sys/class/infiniband_srp/srp-rxe0-1/add_target";
const REMOTE: &str = "/sys/class/srp_remote_ports";
/// SCSI hosts of the guest: it has none but the initiator's.
const HOSTS: &str = "/sys/class/scsi_host/host*";
/// Bytes of the file in mebibytes: by default, and of all tests.
const MEBIBYTES: (u64, u64) = (32, 256);
/// Time limit of one step in the guest.
const LIMIT: Duration = Duration::from_secs(300);
const STARTS_WITHIN: Duration = Duration::from_secs(30);
const PRINTS_WITHIN: Duration = Duration::from_secs(30);

#[test]
fn the_kernels_srp_initiator() {
    let name = "the_kernels_srp_initiator";
    if let Some(why) = guest::obstacle() {
        return skip::skip(name, &why);
    }
    if !skip::have(name, FILES) {
        return;
    }
    let sides = Sides::new().expect("a guest with SRP");
    let mut table = Table::new("kernel peer, SRP");
    table::note(&format!("kernel peer, SRP: {}", sides.peer.guest().package));
    table.case("login, and the disk with its names", || sides.with_disk(&[], |_| sides.names()));
    table.case("pages, modes, capacities and refused commands", || sides.with_disk(&[], |_| sides.commands()));
    table.case("the guest writes, the file has the bytes, and back", || sides.with_disk(&[], |_| sides.bytes(4)));
    table.case("fio verifies what it wrote", || sides.with_disk(&[], |_| sides.fio("/dev/sda")));
    table.case("discard, write zeroes, UNMAP and WRITE SAME", || sides.with_disk(&[], |_| sides.zeroes()));
    table.case("VERIFY, SYNCHRONIZE CACHE, START STOP UNIT and resets", || {
        sides.with_disk(&[], |target| sides.states(target))
    });
    table.case("the same bytes with 1% loss", || {
        sides.with_disk(&[("WEFT_FAULT", "loss=1%,seed=5")], |_| sides.bytes(1))
    });
    table.case("several channels and several disks", || sides.channels());
    table.case("indirect descriptors, and tables in the initiator's memory", || sides.indirect());
    table.case("a target that is killed comes back under writes", || sides.killed_target());
    table.case("a target that stays away fails I/O, then loses its disk", || sides.lost_target());
    table.case("logout under writes", || sides.logout_under_writes());
    table.case("--read-only, --allow-initiator and other targets refuse", || sides.refusals());
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

/// A running `weft srp target`.
struct Target(Proc);

impl Target {
    /// Waits until it has printed `word` at least so many times: the guest may see an event before the target prints it.
    fn printed(&mut self, word: &str, times: usize) -> Result<()> {
        let printed = self.0.wait_until(PRINTS_WITHIN, |proc| proc.text().matches(word).count() >= times);
        ensure!(printed, "`{word}` less than {times} times: {}", self.0.text());
        Ok(())
    }

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
        std::fs::File::create(&disk)?.set_len(bytes)?;
        Ok(Sides { peer, disk, bytes })
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
        let line = lab.bare(lab.client(), Who::Root, &[&[&weft[..], "srp", "target"], options].concat());
        let mut proc = lab.start_line(&line, env)?;
        let listens = proc.wait_until(STARTS_WITHIN, |proc| proc.text().contains("listening on port"));
        ensure!(listens, "the target does not listen: {}", proc.text());
        Ok(Target(proc))
    }

    fn disk_target(&self, further: &[&str], env: &[(&str, &str)]) -> Result<Target> {
        let disk = self.disk.display().to_string();
        self.target(&[&["--lun", &disk, "--guid", GUID], further].concat(), env)
    }

    fn with_disk(&self, env: &[(&str, &str)], steps: impl FnOnce(&mut Target) -> Result<()>) -> Result<()> {
        let mut target = self.disk_target(&[], env)?;
        let done = self.log_in("").and_then(|()| steps(&mut target));
        let gone = self.log_out();
        done.and(gone).with_context(|| target.0.text())?;
        target.terminate()
    }

    /// Returns the words of a login.
    fn login(&self, options: &str) -> String {
        let address = self.peer.lab().client().v4;
        format!("id_ext={GUID},ioc_guid={GUID},dest={address}:{PORT}{options}")
    }

    /// Returns the script of a login, which fails with the initiator's words. An old login still exists for a moment after
    /// its disk is gone.
    fn add(login: &str) -> String {
        format!(
            "for n in $(seq 100); do
               sh -c \"echo '{login}' > {ADD_TARGET}\" 2> /tmp/refused && break
               grep -q 'File exists' /tmp/refused && sleep 0.1 || {{ cat /tmp/refused; exit 1; }}
             done\n"
        )
    }

    /// Logs in, and waits for the disk.
    fn log_in(&self, options: &str) -> Result<()> {
        let disk = "for n in $(seq 100); do test -b /dev/sda && exit; sleep 0.1; done; echo no disk; exit 1";
        self.guest(&(Self::add(&self.login(options)) + disk)).map(drop)
    }

    /// Ends all logins, and waits until the hosts are gone. The disk goes first, and then the initiator still has it write its
    /// cache: a target that ends before that leaves a login that reconnects for as long as `dev_loss_tmo` says.
    fn log_out(&self) -> Result<()> {
        self.guest(&format!(
            "for port in {REMOTE}/port-*; do test -e $port/delete && echo 1 > $port/delete; done
             for n in $(seq 300); do test -e /sys/block/sda || ls -d {HOSTS} 2> /tmp/none || exit 0; sleep 0.1; done
             ls /sys/block; ls -d {HOSTS}; exit 1"
        ))
        .map(drop)
    }

    fn names(&self) -> Result<()> {
        let text = self.guest(
            "lsblk -r -b -d -n -o NAME,SIZE,RO,VENDOR,MODEL /dev/sda; cat /proc/partitions; cat /sys/block/sda/device/vendor
             sg_inq /dev/sda; sg_luns /dev/sda; cat /sys/class/scsi_host/host*/ch_count",
        )?;
        let (bytes, kibibytes) = (format!("sda {}", self.bytes), format!("{} sda", self.bytes / 1024));
        for word in [&bytes, &kibibytes, "Weft", "Virtual disk", "SPC-4", "1 lun entry"] {
            let has = text.to_lowercase().contains(&word.to_lowercase());
            ensure!(has, "no `{word}` in {text}");
        }
        Ok(())
    }

    /// Asks for everything that describes the disk.
    fn commands(&self) -> Result<()> {
        let text = self.guest(
            "for page in sv sn di ei bl bdc lbpv; do sg_vpd -p $page /dev/sda; done; sg_readcap /dev/sda; sg_readcap -l /dev/sda
             sg_modes -a /dev/sda; sg_modes -6 -a /dev/sda; sg_opcodes /dev/sda; sg_opcodes -o 0x93 /dev/sda; sg_turs -v /dev/sda
             sg_requests /dev/sda; ! sg_persist -k /dev/sda 2>&1; ! sg_raw /dev/sda 5f 00 00 00 00 00 00 00 00 00 2>&1
             ! sg_raw -r 512 /dev/sda 28 00 7f ff ff ff 00 00 01 00 2>&1; ! sg_raw -r 512 /dev/sda 28 00 00 00 00 00 00 08 00 00 2>&1",
        )?;
        for word in [
            "Maximum transfer length: 256 blocks",
            "Maximum unmap LBA count: 262144",
            "Unmap command supported (LBPU): 1",
            "Non-rotating medium",
            "Thin provisioned",
            "NAA",
            "lbpme=1, lbprz=1",
            "Logical block length=4096",
            "Caching",
            "Control",
            "not supported",
            "Write same(16)",
            "Invalid command operation code",
            "Logical block address out of range",
            "Invalid field in cdb",
        ] {
            ensure!(text.to_lowercase().contains(&word.to_lowercase()), "no `{word}` in {text}");
        }
        Ok(())
    }

    /// Writes in requests of many sizes, compares with the file, changes the file and reads in the guest.
    fn bytes(&self, mebibytes: u64) -> Result<()> {
        let count = mebibytes << 20;
        self.guest(&format!(
            "head -c {count} /dev/urandom > /tmp/data
             dd if=/tmp/data of=/dev/sda bs=1M oflag=direct
             dd if=/tmp/data of=/dev/sda bs=4096 count=100 seek=1 skip=1 conv=notrunc oflag=direct
             dd if=/tmp/data of=/dev/sda bs=20480 count=9 seek=7 skip=7 conv=notrunc oflag=direct; sync"
        ))?;
        let (sent, here) = (self.guest("sha256sum < /tmp/data")?, sum(&self.disk, count)?);
        ensure!(sent == here, "the file differs: {sent}{here}");
        let file = std::fs::File::options().write(true).open(&self.disk)?;
        file.write_all_at(&[0x5a; 5000], 1000)?;
        let back = self.guest(
            "dd if=/dev/sda of=/tmp/back bs=64k count=1 iflag=direct; tail -c +1001 /tmp/back | head -c 5000 | tr -d Z | wc -c
             cmp -n 1000 /tmp/data /tmp/back; tail -c +6001 /tmp/back > /tmp/b; tail -c +6001 /tmp/data | head -c 59536 | cmp - /tmp/b
             dd if=/dev/sda of=/tmp/back bs=1M count=1 iflag=direct; tail -c +6001 /tmp/back > /tmp/b
             tail -c +6001 /tmp/data | head -c 1042576 | cmp - /tmp/b",
        )?;
        ensure!(back.lines().any(|line| line.trim() == "0"), "the guest does not see the file's bytes: {back}");
        Ok(())
    }

    fn fio(&self, disk: &str) -> Result<()> {
        let text = self.guest(&format!(
            "fio --name=verify --filename={disk} --rw=randwrite --bsrange=4k-256k --size=8m --io_size=16m --direct=1 \
             --ioengine=psync --numjobs=1 --verify=crc32c --do_verify=1 --verify_fatal=1 --group_reporting \
             --thread --allow_mounted_write=0"
        ))?;
        ensure!(text.contains("err= 0"), "{text}");
        Ok(())
    }

    /// Returns each mebibyte's byte, or 1 if it has several.
    fn runs(&self, mebibytes: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; mebibytes << 20];
        std::fs::File::open(&self.disk)?.read_exact_at(&mut bytes, 0)?;
        let run = |run: &[u8]| if run.iter().all(|byte| *byte == run[0]) { run[0] } else { 1 };
        Ok(bytes.chunks(1 << 20).map(run).collect())
    }

    fn zeroes(&self) -> Result<()> {
        self.guest("head -c 8388608 /dev/zero | tr '\\0' x | dd of=/dev/sda bs=1M oflag=direct; sync")?;
        let before = std::fs::metadata(&self.disk)?.blocks();
        // Blocks of 4 KiB: a mebibyte has 256.
        self.guest(
            "/usr/sbin/blkdiscard -o 0 -l 1048576 /dev/sda; /usr/sbin/blkdiscard -z -o 2097152 -l 1048576 /dev/sda
             sg_unmap --lba=1024 --num=256 --force /dev/sda; sg_write_same --16 --lba=1536 --num=256 --unmap --xferlen=4096 /dev/sda
             head -c 4096 /dev/zero | tr '\\0' y > /tmp/y; sg_write_same --10 --lba=1280 --num=256 --xferlen=4096 --in=/tmp/y /dev/sda
             cat /sys/block/sda/device/scsi_disk/*/provisioning_mode /sys/block/sda/queue/discard_max_bytes",
        )?;
        let runs = self.runs(8)?;
        ensure!(runs == [0, b'x', 0, b'x', 0, b'y', 0, b'x'], "{runs:?}");
        let after = std::fs::metadata(&self.disk)?.blocks();
        ensure!(after + 6000 <= before, "the discarded space is not free: {before} blocks, then {after}");
        Ok(())
    }

    /// Commands that change the disk's state, and resets of the unit and of the whole connection.
    fn states(&self, target: &mut Target) -> Result<()> {
        let text = self.guest(
            "head -c 4096 /dev/urandom > /tmp/block; dd if=/tmp/block of=/dev/sda bs=4096 count=1 oflag=direct
             sg_verify --lba=0 --count=16 /dev/sda; sg_verify --lba=0 --count=1 --ndo=4096 --in=/tmp/block /dev/sda
             head -c 4096 /dev/zero > /tmp/z; ! sg_verify --lba=0 --count=1 --ndo=4096 --in=/tmp/z /dev/sda 2>&1
             sg_sync /dev/sda; sg_sync --16 --lba=1 --count=1 /dev/sda
             sg_start --stop /dev/sda; ! sg_turs -v /dev/sda 2>&1; sg_start --start /dev/sda; sg_turs /dev/sda
             sg_reset -d /dev/sda; sg_turs /dev/sda || sg_turs /dev/sda; dmesg | tail -n 5",
        )?;
        for word in ["Miscompare", "initializing command required", "SRP reset_device called"] {
            ensure!(text.to_lowercase().contains(&word.to_lowercase()), "no `{word}` in {text}");
        }
        target.printed("task management function 0x08", 1)?;
        self.guest(
            "sg_reset -h /dev/sda; dd if=/dev/sda of=/tmp/back bs=4096 count=1 iflag=direct; cmp /tmp/back /tmp/block",
        )?;
        // The initiator logs in anew.
        target.printed("login of initiator", 2)
    }

    /// Three channels, two disks of other geometries.
    fn channels(&self) -> Result<()> {
        let other = self.peer.lab().file("other");
        std::fs::write(&other, vec![7; (1 << 20) + 512])?;
        let mut target = self.disk_target(&["--lun", &other.display().to_string()], &[])?;
        let mut steps = || -> Result<()> {
            self.log_in(",ch_count=3,queue_size=32")?;
            let text = self.guest(
                "for n in $(seq 100); do test -b /dev/sdb && break; sleep 0.1; done; cat /sys/class/scsi_host/host*/ch_count
                 cat /sys/block/sdb/size /sys/block/sdb/queue/logical_block_size; tail -c 5 /dev/sdb | od -An -tx1",
            )?;
            ensure!(text.starts_with("3\n2049\n512\n") && text.contains("07 07 07 07 07"), "{text}");
            target.printed("login of initiator", 3)?;
            self.guest(
                "for n in 0 1 2 3; do head -c 4194304 /dev/urandom > /tmp/$n
                 (dd if=/tmp/$n of=/dev/sda bs=64k seek=$((n * 64)) oflag=direct conv=notrunc || echo failed > /tmp/failed) & done
                 wait; test ! -e /tmp/failed; cat /tmp/0 /tmp/1 /tmp/2 /tmp/3 > /tmp/data; rm /tmp/[0-3]",
            )?;
            let (sent, here) = (self.guest("sha256sum < /tmp/data")?, sum(&self.disk, 16 << 20)?);
            ensure!(sent == here, "the file differs: {sent}{here}");
            Ok(())
        };
        let done = steps();
        let gone = self.log_out();
        done.and(gone).with_context(|| target.0.text())?;
        target.printed(": disconnected;", 3)?;
        target.terminate()
    }

    /// Without registration each page has a descriptor: two in the command, and with `allow_ext_sg` the others in a table that
    /// the target fetches.
    fn indirect(&self) -> Result<()> {
        let target = self.disk_target(&[], &[])?;
        let steps = || -> Result<()> {
            self.guest("rmmod ib_srp; insmod /modules/ib_srp.ko never_register=Y use_imm_data=N")?;
            self.log_in(",cmd_sg_entries=64")?;
            self.bytes(2)?;
            self.log_out()?;
            self.log_in(",cmd_sg_entries=2,allow_ext_sg=1,sg_tablesize=256")?;
            self.bytes(4)
        };
        let done = steps();
        let gone = self.log_out().and(self.guest("rmmod ib_srp; insmod /modules/ib_srp.ko").map(drop));
        done.and(gone).with_context(|| target.0.text())?;
        target.terminate()
    }

    /// Sets the time limits of the login's transport, and waits until they are there.
    fn set_limits(&self, reconnect: &str, fast_fail: &str, lost: &str) -> Result<()> {
        self.guest(&format!(
            "cd {REMOTE}/port-*; echo {fast_fail} > fast_io_fail_tmo; echo {lost} > dev_loss_tmo; echo {reconnect} > reconnect_delay"
        ))
        .map(drop)
    }

    /// Kills the target under a copy, and starts it again: the initiator logs in again, and the copy ends.
    fn killed_target(&self) -> Result<()> {
        let target = self.disk_target(&[], &[])?;
        self.log_in("")?;
        self.set_limits("2", "off", "600")?;
        self.guest("head -c 16777216 /dev/urandom > /tmp/data")?;
        let copy = self.peer.guest().start(&[
            "sh",
            "-ec",
            "for n in 1 2 3 4 5 6; do dd if=/tmp/data of=/dev/sda bs=256k oflag=direct conv=nocreat,notrunc; done; echo copied",
        ]);
        std::thread::sleep(Duration::from_secs(1));
        ensure!(copy.running(), "the copy ended too soon: {}", copy.text());
        drop(target.0.kill());
        let again = self.disk_target(&[], &[])?;
        let begun = Instant::now();
        copy.wait(LIMIT).success().with_context(|| format!("{}{}", again.0.text(), self.kernel_log()))?;
        table::note(&format!("kernel peer, SRP: the copy ended {} s after the restart", begun.elapsed().as_secs()));
        let (sent, here) = (self.guest("sha256sum < /tmp/data")?, sum(&self.disk, 16 << 20)?);
        ensure!(sent == here, "{sent}{here}");
        self.log_out()?;
        again.terminate()
    }

    /// Ends the target for good: I/O fails after `fast_io_fail_tmo`, the disk is gone after `dev_loss_tmo`.
    fn lost_target(&self) -> Result<()> {
        let target = self.disk_target(&[], &[])?;
        self.log_in("")?;
        self.set_limits("off", "2", "8")?;
        target.terminate()?;
        let text = self.guest(&format!(
            "! dd if=/dev/sda of=/dev/null bs=4096 count=1 iflag=direct 2>&1; cat {REMOTE}/port-*/state || true
             for n in $(seq 300); do test -e /sys/block/sda || break; sleep 0.1; done; test ! -e /sys/block/sda; dmesg | tail -n 20"
        ))?;
        ensure!(text.contains("Input/output error") && text.contains("fast_io_fail_tmo expired"), "{text}");
        ensure!(text.contains("Got target logout request"), "no T_LOGOUT in {text}");
        Ok(())
    }

    fn logout_under_writes(&self) -> Result<()> {
        let mut target = self.disk_target(&[], &[])?;
        self.log_in("")?;
        self.guest("head -c 8388608 /dev/urandom > /tmp/data")?;
        let write =
            "for n in 1 2 3 4; do dd if=/tmp/data of=/dev/sda bs=128k oflag=direct conv=nocreat,notrunc; done; true";
        let copy = self.peer.guest().start(&["sh", "-c", write]);
        self.guest("sleep 0.3")?;
        self.log_out()?;
        drop(copy.wait(LIMIT));
        target.printed(": disconnected;", 1)?;
        ensure!(target.0.running(), "the target died: {}", target.0.text());
        // Another login finds the disk.
        self.log_in("")?;
        self.guest("head -c 9 /dev/sda | wc -c")?;
        self.log_out()?;
        target.terminate()
    }

    fn refusals(&self) -> Result<()> {
        let (login, other) = (self.login(""), self.login("").replace(GUID, "feedfacecafe0002"));
        let target = self.disk_target(&["--allow-initiator", "0x17"], &[])?;
        let text = self.guest(&format!("! ({}); ! ({}); dmesg | tail -n 8", Self::add(&login), Self::add(&other)))?;
        ensure!(text.matches("REJECTED, reason 0x00010003").count() == 2, "{text}");
        let log = target.0.text();
        let refused = log.split_once(" is not allowed; --allow-initiator ").and_then(|(_, rest)| rest.split_once(' '));
        let initiator = refused.with_context(|| log.clone())?.0.to_owned();
        ensure!(log.contains("it asks for target port 0xfeedfacecafe0002feedfacecafe0002"), "{log}");
        target.terminate()?;
        let target = self.disk_target(&["--allow-initiator", &initiator, "--read-only"], &[])?;
        self.log_in("")?;
        let text = self.guest(
            "cat /sys/block/sda/ro; ! dd if=/dev/zero of=/dev/sda bs=4096 count=1 oflag=direct 2>&1
             head -c 4096 /dev/zero > /tmp/z; ! sg_raw -s 4096 -i /tmp/z /dev/bsg/*:0 2a 00 00 00 00 00 00 00 01 00 2>&1
             head -c 9 /dev/sda | wc -c",
        )?;
        ensure!(text.starts_with('1') && text.contains("Write protected") && text.contains("9\n"), "{text}");
        self.log_out()?;
        target.terminate()?;
        let mut target = self.disk_target(&["--connections", "1"], &[])?;
        self.log_in(",ch_count=2")?;
        let channels = self.guest("cat /sys/class/scsi_host/host*/ch_count")?;
        ensure!(channels == "1\n", "{channels}{}", target.0.text());
        target.printed("raise --connections", 1)?;
        self.log_out()?;
        target.terminate()
    }
}

/// Returns `sha256sum`'s line about a file's first bytes.
fn sum(file: &Path, bytes: u64) -> Result<String> {
    let line = format!("head -c {bytes} {} | sha256sum", file.display());
    Ok(String::from_utf8(Command::new("sh").args(["-c", &line]).output()?.stdout)?)
}
