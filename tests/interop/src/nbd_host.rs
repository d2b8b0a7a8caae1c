//! Debian's NBD clients on the disk of a process in the background, such as that of `weft nvme connect`.

use anyhow::{Result, ensure};
use std::path::PathBuf;
use std::time::Duration;

use crate::proc::{Ended, Proc};
use crate::{Lab, Side, Who, product};

/// Programs that the steps use.
pub const TOOLS: &[&str] = &["nbdinfo", "nbdcopy", "qemu-img", "qemu-io", "fio", "ip"];
/// Time limit of one step.
pub const LIMIT: Duration = Duration::from_secs(300);
/// Time limit of a command.
pub const STARTS_WITHIN: Duration = Duration::from_secs(60);

/// One side of a lab, with a user, a directory of connections, and a disk.
pub trait NbdHost {
    /// The lab, the side, and the user of the commands.
    fn place(&self) -> (&Lab, &Side, Who);

    /// Returns the URI of the first disk.
    ///
    /// # Errors
    /// There is none.
    fn uri(&self) -> Result<String>;

    /// Directory of connections: each user has one.
    fn runtime(&self) -> PathBuf {
        let (lab, _, who) = self.place();
        lab.file(&format!("run-{who:?}"))
    }

    /// Starts a command.
    ///
    /// # Errors
    /// It cannot be started.
    fn start(&self, words: &[&str], env: &[(&str, &str)]) -> Result<Proc> {
        let (lab, side, who) = self.place();
        let runtime = self.runtime().display().to_string();
        lab.start_line(&lab.bare(side, who, words), &[&[("XDG_RUNTIME_DIR", &runtime[..])], env].concat())
    }

    /// Makes the directory of connections.
    ///
    /// # Errors
    /// It cannot be made.
    fn make_runtime(&self) -> Result<()> {
        self.start(&["mkdir", "-p", &self.runtime().display().to_string()], &[])?
            .wait(STARTS_WITHIN)
            .success()
            .map(drop)
    }

    /// Runs `weft WORDS` to its end.
    ///
    /// # Errors
    /// It cannot be started.
    fn weft(&self, words: &[&str], env: &[(&str, &str)]) -> Result<Ended> {
        let weft = product::weft()?.display().to_string();
        Ok(self.start(&[&[&weft[..]], words].concat(), env)?.wait(STARTS_WITHIN))
    }

    /// Runs a shell script to success; `$U` is the URI of the first disk, `$W` is `weft`.
    ///
    /// # Errors
    /// It failed.
    fn script(&self, script: &str) -> Result<String> {
        Ok(self.start_script(script)?.wait(LIMIT).success()?.text)
    }

    /// Starts such a script.
    ///
    /// # Errors
    /// It cannot be started.
    fn start_script(&self, script: &str) -> Result<Proc> {
        let (weft, uri) = (product::weft()?.display().to_string(), self.uri()?);
        let directory = self.runtime();
        let whole = format!("W='{weft}'; U='{uri}'; cd {}; {script}", directory.display());
        self.start(&["bash", "-ec", &whole], &[])
    }

    /// qemu-img copies and compares a disk of some mebibytes, qemu-io writes, zeroes and discards ([`qemu_check`]).
    ///
    /// # Errors
    /// The bytes differ.
    fn qemu(&self, mebibytes: u64) -> Result<()> {
        let text = self.script(&format!(
            "head -c 6000000 /dev/urandom > data; truncate -s {mebibytes}M data
             qemu-img convert -n -f raw -O raw data \"$U\"; qemu-img compare -f raw -F raw data \"$U\"
             qemu-img info \"$U\"; qemu-img convert -f raw -O qcow2 \"$U\" copy; qemu-img compare -f qcow2 -F raw copy data
             qemu-io -f raw -c 'write -P 0x5a 1M 64k' -c 'write -f -P 0x5b 1088k 64k' -c 'flush' -c 'read -P 0x5a 1M 64k' \
              -c 'write -z 2M 128k' -c 'write -z -u 3M 128k' -c 'discard 4M 128k' -c 'read -P 0 2M 128k' -c 'read -P 0 3M 128k' \"$U\"",
        ))?;
        ensure!(text.matches("Images are identical.").count() == 2, "{text}");
        ensure!(text.contains("file format: raw") && !text.contains("failed"), "{text}");
        Ok(())
    }

    /// fio writes, reads and verifies in the first bytes of the disk.
    ///
    /// # Errors
    /// The bytes differ.
    fn fio(&self, size: &str) -> Result<()> {
        let text = self.script(&format!(
            "fio --name=verify --ioengine=nbd --uri=\"$U\" --rw=randrw --bsrange=4k-256k --size={size} --iodepth=16 \
             --verify=crc32c --do_verify=1 --verify_fatal=1 --group_reporting"
        ))?;
        ensure!(text.contains("err= 0"), "{text}");
        Ok(())
    }

    /// Copies some mebibytes to the disk and back, by several connections, and compares.
    ///
    /// # Errors
    /// The bytes differ.
    fn copies(&self, mebibytes: u64) -> Result<()> {
        self.script(&format!(
            "head -c {} /dev/urandom > data; nbdcopy --connections=4 --requests=16 data \"$U\" 
             nbdcopy \"$U\" back; cmp -n {0} data back; nbdcopy --connections=2 --flush \"$U\" back; cmp -n {0} data back; rm back",
            mebibytes << 20
        ))
        .map(drop)
    }
}

/// Returns a shell script that counts the bytes in a file which are not those of [`NbdHost::qemu`]: five zeros are right.
pub fn qemu_check(file: &str) -> String {
    format!(
        "z() {{ dd if={file} bs=64k skip=$1 count=$2 2>/dev/null | tr -d \"$3\" | wc -c; }}
         z 16 1 Z; z 17 1 '['; z 32 2 '\\0'; z 48 2 '\\0'; z 64 2 '\\0'"
    )
}
