//! Storage over RDMA. iSER, iSCSI over RDMA, in user space at both ends: tgt's target serves a disk to libiscsi's tools
//! and QEMU. The test compares written data with the file behind the disk, and read data with both. Also librpma, for
//! persistent memory, with Weft's own program that compares the data.

use anyhow::{Context, Result, ensure};
use std::path::PathBuf;
use std::time::Duration;
use weft_interop::ends::Ends;
use weft_interop::{Ended, Lab, Proc, Shape, Table, Who, skip};

const RPMA_SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/storage_calls/rpma.c");
/// Name of the disk.
const TARGET: &str = "iqn.2026-11.org.example:disk";
/// Name of the initiator: over iSER, tgt 1.0.85 serves only initiators whose address and name are both permitted.
const INITIATOR: &str = "iqn.2026-11.org.example:asks";
/// Bytes written and read; the disk is twice as large.
const BYTES: usize = 8 << 20;
/// Over iSER libiscsi carries less than 512 KiB at once, and QEMU's tools do not know the limit.
const TRANSFER_MAX: &str = "262144";
/// Time limit of any of the programs.
const LIMIT: Duration = Duration::from_secs(60);

/// A target that serves the disk of a lab; its control socket belongs to one user.
struct Target<'a> {
    lab: &'a Lab,
    who: Who,
    disk: PathBuf,
    proc: Proc,
}

#[test]
fn iser() {
    if !skip::have("iSER", &["ip", "tgtd", "tgtadm", "iscsi-inq", "iscsi-readcapacity16", "iscsi-perf", "qemu-img"]) {
        return;
    }
    if !std::path::Path::new("/usr/lib/x86_64-linux-gnu/qemu/block-iscsi.so").exists() {
        return skip::skip("iSER", "not installed: QEMU's driver of iSCSI (package qemu-block-extra)");
    }
    let mut table = Table::new("iSER");
    for (shape, who) in [(Shape::Two { mtu: 1500 }, Who::Root), (Shape::One, Who::Root), (Shape::One, Who::Ordinary)] {
        let lab = Lab::new(shape).expect("a lab");
        let target = match Target::start(&lab, who) {
            Ok(target) => target,
            Err(error) => {
                table.case(&format!("{shape:?} {who:?}: tgtd serves"), || Err(error));
                continue;
            }
        };
        table.case(&format!("{shape:?} {who:?}: iscsi-inq"), || {
            target.told(&["iscsi-inq", "-i", INITIATOR, &target.url()], "Peripheral Device Type:DIRECT_ACCESS")
        });
        table.case(&format!("{shape:?} {who:?}: iscsi-readcapacity16"), || {
            let blocks = format!("RETURNED LOGICAL BLOCK ADDRESS:{}", 2 * BYTES / 512 - 1);
            target.told(&["iscsi-readcapacity16", "-i", INITIATOR, &target.url()], &blocks)
        });
        table.case(&format!("{shape:?} {who:?}: qemu-img writes and reads"), || target.written_and_read());
        table.case(&format!("{shape:?} {who:?}: iscsi-perf"), || {
            // 8 outstanding commands of 32 blocks each, for a second.
            let words = ["iscsi-perf", "-i", INITIATOR, "-m", "8", "-b", "32", "-t", "1", "-r", &target.url()];
            target.told(&words, "finished.")
        });
    }
    table.finish();
}

#[test]
fn rpma() {
    if !skip::have("librpma", &["ip", "cc", "/usr/include/librpma.h"]) {
        return;
    }
    let mut table = Table::new("librpma");
    for shape in [Shape::Two { mtu: 1500 }, Shape::One] {
        let lab = Lab::new(shape).expect("a lab");
        let program = lab.file("rpma").display().to_string();
        let built = std::process::Command::new("cc")
            .args(["-O1", "-Wall", "-Werror", "-o", &program, RPMA_SOURCE, "-lrpma", "-libverbs"])
            .status();
        assert!(built.is_ok_and(|status| status.success()), "rpma.c does not compile");
        for who in Who::BOTH {
            for address in [lab.server().v4, lab.server().v6] {
                table.case(&format!("{shape:?} {who:?}: {address}"), || {
                    let end = |end: &str| format!("{program} {end} {address}");
                    Ends::two(&end("server"), &end("client")).named("rpma").who(who).judged(&lab, |client, server| {
                        ensure!(client.contains("right") && server.contains("right"), "their words");
                        Ok(())
                    })
                });
            }
        }
    }
    table.finish();
}

impl<'a> Target<'a> {
    fn start(lab: &'a Lab, who: Who) -> Result<Target<'a>> {
        let disk = lab.file("disk");
        std::fs::File::create(&disk)?.set_len(2 * BYTES as u64)?;
        let disk_path = disk.display().to_string();
        let open = std::process::Command::new("chmod").args(["a+rw", &disk_path]).status()?;
        ensure!(open.success(), "the disk cannot be opened to everybody");
        let line = lab.wefted(lab.server(), who, &["tgtd", "-f", "-C", "7", "--iser", "port=3260"])?;
        let proc = lab.start_line(&line, &[("TGT_IPC_SOCKET", &ipc(lab, who))])?;
        let mut target = Target { lab, who, disk, proc };
        // It answers as soon as its socket exists.
        let socket = PathBuf::from(format!("{}.7", ipc(lab, who)));
        let there = target.proc.wait_until(LIMIT, |_| socket.exists());
        ensure!(there, "tgtd is not there: {}", target.proc.text());
        let until = std::time::Instant::now() + LIMIT;
        while !target.admin("--mode target --op show")?.ok() && std::time::Instant::now() < until {
            std::thread::sleep(Duration::from_millis(50));
        }
        for words in [
            format!("--mode target --op new --tid 1 -T {TARGET}"),
            format!("--mode logicalunit --op new --tid 1 --lun 1 -b {disk_path}"),
            "--mode target --op bind --tid 1 -I ALL".to_owned(),
            format!("--mode target --op bind --tid 1 -Q {INITIATOR}"),
        ] {
            let ended = target.admin(&words)?;
            ensure!(ended.ok(), "{}\n      tgtd: {}", ended.report(), target.proc.text());
        }
        Ok(target)
    }

    fn admin(&self, words: &str) -> Result<Ended> {
        let words: Vec<_> = "tgtadm -C 7 --lld iser".split(' ').chain(words.split(' ')).collect();
        let line = self.lab.bare(self.lab.server(), self.who, &words);
        Ok(self.lab.start_line(&line, &[("TGT_IPC_SOCKET", &ipc(self.lab, self.who))])?.wait(LIMIT))
    }

    fn url(&self) -> String {
        format!("iser://{}:3260/{TARGET}/1", self.lab.server().v4)
    }

    /// Runs an initiator to success.
    fn asked(&self, words: &[&str]) -> Result<String> {
        let ended = self.lab.start(self.lab.client(), self.who, &[], words)?.wait(LIMIT);
        let report = || format!("tgtd: {}", self.proc.text());
        Ok(ended.success().with_context(report)?.text)
    }

    fn told(&self, words: &[&str], what: &str) -> Result<()> {
        let text = self.asked(words)?;
        ensure!(text.contains(what), "no {what:?}: {text}");
        Ok(())
    }

    fn written_and_read(&self) -> Result<()> {
        let words = (0..BYTES as u64 / 8).flat_map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
        let bytes: Vec<u8> = words.collect();
        let pattern = self.lab.file("pattern");
        std::fs::write(&pattern, &bytes)?;
        let pattern = pattern.display().to_string();
        let portal = format!("image.transport=iser,image.portal={}:3260", self.lab.server().v4);
        let disk = format!(
            "driver=blkdebug,max-transfer={TRANSFER_MAX},image.driver=iscsi,{portal},image.target={TARGET},image.lun=1,\
             image.initiator-name={INITIATOR}"
        );
        self.asked(&["qemu-img", "convert", "-n", "-f", "raw", "--target-image-opts", &pattern, &disk])?;
        let on_disk = std::fs::read(&self.disk)?;
        ensure!(on_disk.get(..BYTES) == Some(&bytes[..]), "what was written is not what the disk's file holds");
        let file = format!("driver=raw,file.driver=file,file.filename={}", self.disk.display());
        let text = self.asked(&["qemu-img", "compare", "--image-opts", &disk, &file])?;
        ensure!(text.contains("Images are identical."), "{text}");
        Ok(())
    }
}

/// Returns the path of the control socket between the target and its administrator.
fn ipc(lab: &Lab, who: Who) -> String {
    lab.file(&format!("tgtd-{who:?}")).display().to_string()
}
