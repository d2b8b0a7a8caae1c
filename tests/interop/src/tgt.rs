//! tgt's iSCSI target over iSER, with one disk: the target of Debian that runs in user space.

use crate::{Ended, Lab, Proc, Side, Who};
use anyhow::{Context, Result, ensure};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Name of the disk's target.
pub const TARGET: &str = "iqn.2026-11.org.example:disk";
/// Name of the initiator: over iSER, tgt 1.0.85 serves only initiators whose address and name are both permitted.
pub const INITIATOR: &str = "iqn.2026-11.org.example:asks";
/// iSCSI's port.
pub const PORT: u16 = 3260;
/// Time limit of any of the programs.
pub const LIMIT: Duration = Duration::from_secs(60);

/// A target that serves a file of its lab; its control socket belongs to one user.
#[derive(Debug)]
pub struct Target<'a> {
    lab: &'a Lab,
    side: &'a Side,
    who: Who,
    disk: PathBuf,
    proc: Proc,
}

impl<'a> Target<'a> {
    /// Starts tgtd on Weft, and has it serve a new disk of `bytes`.
    pub fn start(lab: &'a Lab, side: &'a Side, who: Who, bytes: u64) -> Result<Target<'a>> {
        let disk = lab.file("disk");
        std::fs::File::create(&disk)?.set_len(bytes)?;
        std::fs::set_permissions(&disk, PermissionsExt::from_mode(0o666))?;
        Target::serve(lab, side, who, disk, &[])
    }

    /// Starts tgtd on Weft for a disk that exists.
    pub fn serve(lab: &'a Lab, side: &'a Side, who: Who, disk: PathBuf, env: &[(&str, &str)]) -> Result<Target<'a>> {
        let line = lab.wefted(side, who, &["tgtd", "-f", "-C", "7", "--iser", &format!("port={PORT}")])?;
        let control = control(lab, who);
        let proc = lab.start_line(&line, &[&[("TGT_IPC_SOCKET", &control[..])], env].concat())?;
        let mut target = Target { lab, side, who, disk, proc };
        // It answers as soon as its socket exists.
        let socket = PathBuf::from(format!("{control}.7"));
        let there = target.proc.wait_until(LIMIT, |_| socket.exists());
        ensure!(there, "tgtd is not there: {}", target.text());
        let until = Instant::now() + LIMIT;
        while !target.admin("--mode target --op show")?.ok() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(50));
        }
        for words in [
            format!("--mode target --op new --tid 1 -T {TARGET}"),
            format!("--mode logicalunit --op new --tid 1 --lun 1 -b {}", target.disk.display()),
            "--mode target --op bind --tid 1 -I ALL".to_owned(),
            format!("--mode target --op bind --tid 1 -Q {INITIATOR}"),
        ] {
            let ended = target.admin(&words)?;
            ensure!(ended.ok(), "{}\n      tgtd: {}", ended.report(), target.text());
        }
        Ok(target)
    }

    fn admin(&self, words: &str) -> Result<Ended> {
        let words: Vec<_> = "tgtadm -C 7 --lld iser".split(' ').chain(words.split(' ')).collect();
        let line = self.lab.bare(self.side, self.who, &words);
        Ok(self.lab.start_line(&line, &[("TGT_IPC_SOCKET", &control(self.lab, self.who))])?.wait(LIMIT))
    }

    /// Returns the file behind the disk.
    pub fn disk(&self) -> &Path {
        &self.disk
    }

    /// Returns what tgtd has written.
    pub fn text(&self) -> String {
        self.proc.text()
    }

    /// Kills tgtd, and removes its control socket, which would be in the way of the next one.
    pub fn kill(self) -> Result<PathBuf> {
        let control = control(self.lab, self.who);
        drop(self.proc.kill());
        std::fs::remove_file(format!("{control}.7")).context("tgtd's control socket")?;
        let _ = std::fs::remove_file(format!("{control}.7.lock"));
        Ok(self.disk)
    }
}

/// Returns the path of the control socket between the target and its administrator.
fn control(lab: &Lab, who: Who) -> String {
    lab.file(&format!("tgtd-{who:?}")).display().to_string()
}
