//! Linux's iSER, iSCSI over RDMA, in a guest with rdma_rxe: its initiator (ib_iser) against Debian's tgtd on Weft, and its
//! target (ib_isert) against libiscsi's tools and QEMU on Weft.
//!
//! The initiator's tools are Debian's open-iscsi. Data is compared with the file behind the disk, on the other side.

use anyhow::{Context, Result, ensure};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use weft_interop::guest::{Additions, Driver};
use weft_interop::guest_peer::GUEST_V4;
use weft_interop::tgt::{self, INITIATOR, PORT, TARGET};
use weft_interop::{Peer, Table, Who, guest, skip, table};

/// MTU of the cable.
const CABLE: u32 = 9000;
/// Modules of the family, with their dependencies.
const MODULES: &[&str] = &["sd_mod", "ib_iser", "target_core_file", "iscsi_target_mod", "ib_isert", "crc32c_generic"];
/// Programs of the host that the guest gets.
const FILES: &[&str] = &["/usr/sbin/iscsid", "/usr/sbin/iscsiadm", "/usr/bin/fio", "/usr/bin/dd", "/usr/bin/cmp"];
/// Programs that run on Weft.
const TOOLS: &[&str] = &["tgtd", "tgtadm", "iscsi-inq", "iscsi-readcapacity16", "iscsi-perf", "qemu-img"];
/// QEMU's driver of iSCSI, of package qemu-block-extra.
const QEMU_DRIVER: &str = "/usr/lib/x86_64-linux-gnu/qemu/block-iscsi.so";

/// Bytes of the disks in mebibytes: by default, and of all tests.
const DISK: (u64, u64) = (32, 256);
/// Time limit of one step.
const LIMIT: Duration = Duration::from_secs(300);
/// Initiator's options that let a session survive a target that is away for some seconds.
const PATIENT: &str = "node.session.timeo.replacement_timeout=120";

#[test]
fn the_kernels_iser() {
    let name = "the_kernels_iser";
    if let Some(why) = guest::obstacle() {
        return skip::skip(name, &why);
    }
    if !skip::have(name, &[FILES, TOOLS, &[QEMU_DRIVER]].concat()) {
        return;
    }
    let sides = Sides::new().expect("a guest with iSER");
    let mut table = Table::new("kernel peer, iSER");
    table::note(&format!("kernel peer, iSER: {}", sides.peer.guest().package));
    table.case("ib_iser logs in to tgtd and finds the disk", || sides.with_disk(&[], |_| sides.size()));
    table.case("ib_iser writes, tgtd's file has the bytes, and back", || {
        sides.with_disk(&[], |disk| sides.bytes(disk, 4))
    });
    table.case("fio verifies what it wrote through ib_iser", || sides.with_disk(&[], |_| sides.fio()));
    table.case("the same with 1% loss", || {
        sides.with_disk(&[("WEFT_FAULT", "loss=1%,seed=5")], |disk| sides.bytes(disk, 1))
    });
    table.case("tgtd is killed under ib_iser's writes and comes back", || sides.killed_target());
    table.case("libiscsi asks ib_isert", || sides.asks_isert());
    table.case("qemu-img writes to ib_isert and reads", || sides.qemu_img());
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
    disk_bytes: u64,
}

impl Sides {
    fn new() -> Result<Sides> {
        let agent = Path::new(env!("CARGO_BIN_EXE_weft-guest"));
        let files: Vec<_> = FILES.iter().map(|file| (PathBuf::from(file), (*file).to_owned())).collect();
        let peer = Peer::boot_with(agent, Driver::Rxe, Additions { files: &files, modules: MODULES }, CABLE)?;
        let sides = Sides { peer, disk_bytes: (if table::all() { DISK.1 } else { DISK.0 }) << 20 };
        sides.guest(&format!(
            "mkdir -p /etc/iscsi /run/lock/iscsi /var/lib/iscsi/nodes; echo InitiatorName={INITIATOR} > /etc/iscsi/initiatorname.iscsi
             echo {PATIENT} > /etc/iscsi/iscsid.conf; iscsid"
        ))?;
        sides.make_isert()?;
        Ok(sides)
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

    /// Starts tgtd on the host, has the guest log in, runs the steps, and logs out.
    fn with_disk(&self, env: &[(&str, &str)], steps: impl FnOnce(&tgt::Target<'_>) -> Result<()>) -> Result<()> {
        let lab = self.peer.lab();
        let disk = lab.file("disk");
        std::fs::File::create(&disk)?.set_len(self.disk_bytes)?;
        let target = tgt::Target::serve(lab, lab.client(), Who::Root, disk, env)?;
        let done = self.log_in().and_then(|()| steps(&target)).with_context(|| format!("tgtd: {}", target.text()));
        let out = self.log_out();
        target.kill()?;
        done.and(out)
    }

    fn node(&self, words: &str) -> String {
        format!("iscsiadm -m node -T {TARGET} -p {}:{PORT} {words}", self.peer.lab().client().v4)
    }

    /// Logs in over iSER, and waits for the disk.
    fn log_in(&self) -> Result<()> {
        self.guest(&format!(
            "{}; {}; {}; {}
             for n in $(seq 100); do test -b /dev/sda && exit; sleep 0.1; done; echo no disk; exit 1",
            self.node("-o new"),
            self.node("-o update -n iface.transport_name -v iser"),
            self.node(&format!("-o update -n {}", PATIENT.replace('=', " -v "))),
            self.node("--login"),
        ))
        .map(drop)
    }

    fn log_out(&self) -> Result<()> {
        self.guest(&format!("{}; {}", self.node("--logout"), self.node("-o delete"))).map(drop)
    }

    fn size(&self) -> Result<()> {
        let text = self.guest("cat /sys/block/sda/size; iscsiadm -m session")?;
        let sectors = format!("{}\niser: [", self.disk_bytes / 512);
        ensure!(text.starts_with(&sectors) && text.contains(TARGET), "{text}");
        Ok(())
    }

    /// Writes pieces of many sizes, `mebibytes` of each, reads them, and compares with the file behind the disk.
    fn bytes(&self, target: &tgt::Target<'_>, mebibytes: u64) -> Result<()> {
        let mut script = format!("head -c {} /dev/urandom > /tmp/data\n", (3 * mebibytes) << 20);
        for (at, kibibytes) in [1024, 64, 4].into_iter().enumerate() {
            let (count, skip) = (mebibytes * 1024 / kibibytes, at as u64 * mebibytes * 1024 / kibibytes);
            script += &format!(
                "dd if=/tmp/data of=/dev/sda bs={kibibytes}k count={count} skip={skip} seek={skip} oflag=direct\n"
            );
        }
        script += "dd if=/dev/sda of=/tmp/back bs=1M iflag=direct count=";
        self.guest(&format!("{script}{}; cmp /tmp/data /tmp/back", 3 * mebibytes))?;
        let sent = self.guest("sha256sum < /tmp/data")?;
        let disk = std::fs::File::open(target.disk())?;
        let mut bytes = vec![0; (3 * mebibytes as usize) << 20];
        disk.read_exact_at(&mut bytes, 0)?;
        let there = self.peer.lab().file("there");
        std::fs::write(&there, &bytes)?;
        ensure!(sha256(&there)? == sent, "the file behind the disk has other bytes");
        Ok(())
    }

    fn fio(&self) -> Result<()> {
        let (size, loops) = if table::all() { ("192m", 3) } else { ("12m", 1) };
        let text = self.guest(&format!(
            "fio --name=verify --filename=/dev/sda --rw=randwrite --bsrange=4k-256k --size={size} --loops={loops} \
             --ioengine=psync --direct=1 --numjobs=1 --verify=crc32c --verify_fatal=1 --thread"
        ))?;
        ensure!(text.contains("err= 0"), "{text}");
        Ok(())
    }

    /// Kills tgtd while the guest writes, and starts it again: Linux's initiator logs in anew and repeats its commands.
    fn killed_target(&self) -> Result<()> {
        let lab = self.peer.lab();
        let target = tgt::Target::start(lab, lab.client(), Who::Root, self.disk_bytes)?;
        self.log_in()?;
        self.guest("head -c 8388608 /dev/urandom > /tmp/data; rm -f /tmp/stop")?;
        let copies = "until test -e /tmp/stop; do dd if=/tmp/data of=/dev/sda bs=64k oflag=direct; done";
        let copies = self.peer.guest().start(&["sh", "-ec", copies]);
        let disk = std::fs::File::open(target.disk())?;
        let begun = || {
            let mut bytes = [0; 4096];
            disk.read_exact_at(&mut bytes, 2 << 20).is_ok() && bytes.iter().any(|byte| *byte != 0)
        };
        let until = Instant::now() + LIMIT;
        while !begun() {
            ensure!(Instant::now() < until, "nothing was written");
            std::thread::sleep(Duration::from_millis(5));
        }
        let disk = target.kill()?;
        let again = tgt::Target::serve(lab, lab.client(), Who::Root, disk, &[])?;
        self.guest(": > /tmp/stop")?;
        copies.wait(LIMIT).success().with_context(|| format!("tgtd: {}\n{}", again.text(), self.kernel_log()))?;
        let text =
            self.guest("echo 3 > /proc/sys/vm/drop_caches; cmp -n 8388608 /tmp/data /dev/sda && echo the same")?;
        ensure!(text == "the same\n", "{text}");
        self.log_out()?;
        again.kill().map(drop)
    }

    /// Configures Linux's target: a file as a disk, open to everybody, on iSER. libiscsi 1.19 declares immediate data over
    /// iSER and sends none of it, so the target takes none.
    fn make_isert(&self) -> Result<()> {
        self.guest(&format!(
            "test -d /sys/kernel/config/target || mount -t configfs configfs /sys/kernel/config
             head -c {bytes} /dev/zero > /tmp/served
             cd /sys/kernel/config/target; mkdir -p core/fileio_0/disk
             echo 'fd_dev_name=/tmp/served,fd_dev_size={bytes}' > core/fileio_0/disk/control
             echo 1 > core/fileio_0/disk/enable
             mkdir -p iscsi/{TARGET}/tpgt_1/np/{GUEST_V4}:{PORT} iscsi/{TARGET}/tpgt_1/lun/lun_1
             ln -s $PWD/core/fileio_0/disk iscsi/{TARGET}/tpgt_1/lun/lun_1/disk
             cd iscsi/{TARGET}/tpgt_1; echo 1 > np/{GUEST_V4}:{PORT}/iser
             echo No > param/ImmediateData
             echo 0 > attrib/authentication; echo 1 > attrib/generate_node_acls; echo 0 > attrib/demo_mode_write_protect
             echo 1 > enable",
            bytes = self.disk_bytes
        ))
        .map(drop)
    }

    /// Runs an initiator on the host to success.
    fn asked(&self, words: &[&str]) -> Result<String> {
        let lab = self.peer.lab();
        let ended = lab.start(lab.client(), Who::Root, &[], words)?.wait(LIMIT);
        Ok(ended.success().with_context(|| self.kernel_log())?.text)
    }

    fn asks_isert(&self) -> Result<()> {
        let url = format!("iser://{GUEST_V4}:{PORT}/{TARGET}/1");
        let text = self.asked(&["iscsi-inq", "-i", INITIATOR, &url])?;
        ensure!(text.contains("Peripheral Device Type:DIRECT_ACCESS") && text.contains("LIO-ORG"), "{text}");
        let text = self.asked(&["iscsi-readcapacity16", "-i", INITIATOR, &url])?;
        ensure!(text.contains(&format!("RETURNED LOGICAL BLOCK ADDRESS:{}", self.disk_bytes / 512 - 1)), "{text}");
        let text = self.asked(&["iscsi-perf", "-i", INITIATOR, "-m", "8", "-b", "32", "-t", "1", "-r", &url])?;
        ensure!(text.contains("finished."), "{text}");
        Ok(())
    }

    fn qemu_img(&self) -> Result<()> {
        let pattern = self.peer.lab().file("pattern");
        let words = (0..(8u64 << 20) / 8).flat_map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
        std::fs::write(&pattern, words.collect::<Vec<u8>>())?;
        let name = pattern.display().to_string();
        // Over iSER libiscsi carries less than 512 KiB at once, and QEMU's tools do not know the limit.
        let disk = format!(
            "driver=blkdebug,max-transfer=262144,image.driver=iscsi,image.transport=iser,image.portal={GUEST_V4}:{PORT},\
             image.target={TARGET},image.lun=1,image.initiator-name={INITIATOR}"
        );
        self.asked(&["qemu-img", "convert", "-n", "-f", "raw", "--target-image-opts", &name, &disk])?;
        let there = self.guest("head -c 8388608 /tmp/served | sha256sum")?;
        ensure!(there == sha256(&pattern)?, "the file behind the disk has other bytes");
        std::fs::File::options().write(true).open(&pattern)?.set_len(self.disk_bytes)?;
        let file = format!("driver=raw,file.driver=file,file.filename={name}");
        let text = self.asked(&["qemu-img", "compare", "--image-opts", &disk, &file])?;
        ensure!(text.contains("Images are identical."), "{text}");
        Ok(())
    }
}

/// Returns the digest of a file of the host, as the guest's sha256sum prints that of its input.
fn sha256(file: &Path) -> Result<String> {
    let out = std::process::Command::new("sha256sum").stdin(std::fs::File::open(file)?).output()?;
    ensure!(out.status.success(), "sha256sum: {}", String::from_utf8_lossy(&out.stderr));
    Ok(String::from_utf8(out.stdout)?)
}
