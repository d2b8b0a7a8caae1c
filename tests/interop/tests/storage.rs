//! Storage over RDMA. iSER, iSCSI over RDMA, in user space at both ends: tgt's target serves a disk to libiscsi's tools
//! and QEMU. The test compares written data with the file behind the disk, and read data with both. Also librpma, for
//! persistent memory, with Weft's own program that compares the data.

use anyhow::{Context, Result, ensure};
use weft_interop::ends::Ends;
use weft_interop::tgt::{INITIATOR, LIMIT, PORT, TARGET, Target};
use weft_interop::{Lab, Shape, Table, Who, skip};

const RPMA_SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/storage_calls/rpma.c");
/// Bytes written and read; the disk is twice as large.
const BYTES: usize = 8 << 20;
/// Over iSER libiscsi carries less than 512 KiB at once, and QEMU's tools do not know the limit.
const TRANSFER_MAX: &str = "262144";

/// A disk that tgtd serves to programs of the same user.
struct Disk<'a> {
    lab: &'a Lab,
    who: Who,
    target: Target<'a>,
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
        let disk = match Target::start(&lab, lab.server(), who, 2 * BYTES as u64) {
            Ok(target) => Disk { lab: &lab, who, target },
            Err(error) => {
                table.case(&format!("{shape:?} {who:?}: tgtd serves"), || Err(error));
                continue;
            }
        };
        table.case(&format!("{shape:?} {who:?}: iscsi-inq"), || {
            disk.told(&["iscsi-inq", "-i", INITIATOR, &disk.url()], "Peripheral Device Type:DIRECT_ACCESS")
        });
        table.case(&format!("{shape:?} {who:?}: iscsi-readcapacity16"), || {
            let blocks = format!("RETURNED LOGICAL BLOCK ADDRESS:{}", 2 * BYTES / 512 - 1);
            disk.told(&["iscsi-readcapacity16", "-i", INITIATOR, &disk.url()], &blocks)
        });
        table.case(&format!("{shape:?} {who:?}: qemu-img writes and reads"), || disk.written_and_read());
        table.case(&format!("{shape:?} {who:?}: iscsi-perf"), || {
            // 8 outstanding commands of 32 blocks each, for a second.
            let words = ["iscsi-perf", "-i", INITIATOR, "-m", "8", "-b", "32", "-t", "1", "-r", &disk.url()];
            disk.told(&words, "finished.")
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

impl Disk<'_> {
    fn url(&self) -> String {
        format!("iser://{}:{PORT}/{TARGET}/1", self.lab.server().v4)
    }

    /// Runs an initiator to success.
    fn asked(&self, words: &[&str]) -> Result<String> {
        let ended = self.lab.start(self.lab.client(), self.who, &[], words)?.wait(LIMIT);
        let report = || format!("tgtd: {}", self.target.text());
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
        let portal = format!("image.transport=iser,image.portal={}:{PORT}", self.lab.server().v4);
        let disk = format!(
            "driver=blkdebug,max-transfer={TRANSFER_MAX},image.driver=iscsi,{portal},image.target={TARGET},image.lun=1,\
             image.initiator-name={INITIATOR}"
        );
        self.asked(&["qemu-img", "convert", "-n", "-f", "raw", "--target-image-opts", &pattern, &disk])?;
        let on_disk = std::fs::read(self.target.disk())?;
        ensure!(on_disk.get(..BYTES) == Some(&bytes[..]), "what was written is not what the disk's file holds");
        let file = format!("driver=raw,file.driver=file,file.filename={}", self.target.disk().display());
        let text = self.asked(&["qemu-img", "compare", "--image-opts", &disk, &file])?;
        ensure!(text.contains("Images are identical."), "{text}");
        Ok(())
    }
}
