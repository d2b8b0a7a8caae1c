//! Options of mounts, as nfs(5) and mount(8) have them.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use weft_rpcrdma::limits::NFS_PORT;

use crate::fs::CacheTimes;
use crate::limits::{CREDITS, TRANSFER_MAX};

/// Smallest transfer, in bytes.
const TRANSFER_MIN: u32 = 4096;

/// Options of a mount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MountOptions {
    /// Port of NFS over RDMA.
    pub port: u16,
    /// Version that was asked for.
    pub version: Option<String>,
    /// TCP port and host of MOUNT.
    pub mount_port: Option<u16>,
    /// Host of MOUNT.
    pub mount_host: Option<String>,
    /// Most bytes of one READ.
    pub read_max: u32,
    /// Most bytes of one WRITE.
    pub write_max: u32,
    /// Time until a call is repeated.
    pub timeout: Duration,
    /// Repetitions until a call of a `soft` mount fails.
    pub retries: u32,
    /// Calls fail if the server does not answer.
    pub is_soft: bool,
    /// Validity of attributes.
    pub times: CacheTimes,
    /// Programs wait for each write.
    pub is_sync: bool,
    /// Other users may use the mount; root's mounts are for all.
    pub allow_other: bool,
    /// Flags for mount(2): `ro`, `noexec` ...
    pub flags: Vec<String>,
    /// Client: `client=kernel` or `client=fuse`; `None`: the best one.
    pub client: Option<Client>,
    /// Options for the kernel's client, as they were given.
    pub for_kernel: Vec<String>,
}

/// Implementation of the client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Client {
    /// The kernel's, through a relay.
    Kernel,
    /// This program's, by FUSE.
    Fuse,
}

impl Default for MountOptions {
    fn default() -> MountOptions {
        MountOptions {
            port: NFS_PORT,
            version: None,
            mount_port: None,
            mount_host: None,
            read_max: TRANSFER_MAX,
            write_max: TRANSFER_MAX,
            timeout: Duration::from_secs(60),
            retries: 2,
            is_soft: false,
            times: CacheTimes::default(),
            is_sync: false,
            allow_other: weft_sys::process::euid() == 0,
            flags: Vec::new(),
            client: None,
            for_kernel: Vec::new(),
        }
    }
}

impl MountOptions {
    /// Reads options: lists that are separated by commas.
    ///
    /// # Errors
    /// An option is unknown, or its value is wrong.
    pub fn parse(lists: &[String]) -> Result<MountOptions> {
        let mut options = MountOptions::default();
        for word in lists.iter().flat_map(|list| list.split(',')).filter(|word| !word.is_empty()) {
            options.take(word).with_context(|| format!("option `{word}`"))?;
        }
        Ok(options)
    }

    /// Returns how many calls the server is sent at a time.
    pub fn credits(&self) -> u32 {
        CREDITS
    }

    /// Returns the repetitions until a call fails; `None`: never.
    pub fn soft_retries(&self) -> Option<u32> {
        self.is_soft.then_some(self.retries)
    }

    /// Whether the kernel's own client mounts: it must have one, and only root may ask it.
    pub fn uses_kernel(&self) -> bool {
        match self.client {
            Some(client) => client == Client::Kernel,
            // In a user namespace, the kernel refuses to mount NFS.
            None => weft_sys::process::euid() == 0 && weft_sys::process::tells_users_apart() && kernel_has_nfs(),
        }
    }

    fn take(&mut self, word: &str) -> Result<()> {
        let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
        if name != "client" && !matches!(name, "port" | "rdma" | "proto") {
            self.for_kernel.push(word.to_owned());
        }
        match value {
            None => self.take_flag(name),
            Some(value) => self.take_value(name, value),
        }
    }

    fn take_flag(&mut self, name: &str) -> Result<()> {
        match name {
            "rdma" | "nolock" | "hard" | "fg" | "intr" | "nointr" | "async" | "rw" | "suid" | "dev" | "exec"
            | "atime" | "defaults" | "auto" | "noauto" | "user" | "users" | "nouser" | "owner" | "group"
            | "_netdev" | "nofail" | "noacl" | "nordirplus" | "rdirplus" | "cto" | "nocto" | "sharecache"
            | "nosharecache" | "ac" | "resvport" | "noresvport" | "relatime" | "norelatime" | "strictatime"
            | "diratime" | "nodiratime" => {}
            "soft" | "softerr" => self.is_soft = true,
            "sync" => self.is_sync = true,
            "noac" => {
                self.set_all(Duration::ZERO);
                self.times.no_names = true;
                self.is_sync = true;
            }
            "allow_other" => self.allow_other = true,
            "ro" | "noexec" | "nosuid" | "nodev" | "noatime" | "dirsync" => self.flags.push(name.to_owned()),
            "bg" | "lock" => bail!("not supported"),
            _ if name.starts_with("x-") || name.starts_with("comment") => {}
            _ => bail!("unknown option"),
        }
        Ok(())
    }

    fn take_value(&mut self, name: &str, value: &str) -> Result<()> {
        let number = || value.parse::<u32>().with_context(|| format!("`{value}` is no number"));
        let seconds = || number().map(|seconds| Duration::from_secs(seconds.into()));
        match name {
            "port" => self.port = value.parse().context("not a port")?,
            "mountport" => self.mount_port = Some(value.parse().context("not a port")?),
            "mountaddr" | "mounthost" => self.mount_host = Some(value.to_owned()),
            "proto" => ensure!(matches!(value, "rdma" | "rdma6"), "this command mounts over RDMA only"),
            "vers" | "nfsvers" => self.version = Some(value.to_owned()),
            "rsize" => self.read_max = transfer(number()?),
            "wsize" => self.write_max = transfer(number()?),
            "timeo" => {
                let tenths = number()?;
                ensure!(tenths > 0, "at least one tenth of a second");
                self.timeout = Duration::from_millis(u64::from(tenths) * 100);
            }
            "retrans" => self.retries = number()?,
            "acregmin" => self.times.files.0 = seconds()?,
            "acregmax" => self.times.files.1 = seconds()?,
            "acdirmin" => self.times.directories.0 = seconds()?,
            "acdirmax" => self.times.directories.1 = seconds()?,
            "actimeo" => self.set_all(seconds()?),
            "lookupcache" => self.times.no_names = value == "none",
            "client" => {
                self.client = Some(match value {
                    "kernel" => Client::Kernel,
                    "fuse" => Client::Fuse,
                    _ => bail!("`kernel` or `fuse`"),
                });
            }
            "sec" => ensure!(matches!(value, "sys" | "none"), "only sec=sys is supported"),
            "mountproto" | "mountvers" | "local_lock" | "retry" | "namlen" | "nconnect" | "minorversion" | "addr"
            | "clientaddr" | "comment" => {}
            _ if name.starts_with("x-") => {}
            _ => bail!("unknown option"),
        }
        let ordered = |(shortest, longest): &mut (Duration, Duration)| *longest = (*longest).max(*shortest);
        ordered(&mut self.times.files);
        ordered(&mut self.times.directories);
        Ok(())
    }

    fn set_all(&mut self, time: Duration) {
        self.times.files = (time, time);
        self.times.directories = (time, time);
    }
}

/// Returns the nearest size of a transfer: a multiple of a page, as the kernel rounds.
fn transfer(bytes: u32) -> u32 {
    let bytes = bytes.clamp(TRANSFER_MIN, TRANSFER_MAX);
    bytes - bytes % TRANSFER_MIN
}

/// Whether the kernel has an NFS client. A module that is not loaded does not count: loading it is the administrator's.
fn kernel_has_nfs() -> bool {
    let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    known.lines().any(|line| matches!(line.split_whitespace().next_back(), Some("nfs" | "nfs4")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<MountOptions> {
        MountOptions::parse(&[text.to_owned()])
    }

    #[test]
    fn options_of_the_manual_are_known() {
        let options = parsed("rdma,port=20050,vers=3,soft,timeo=50,retrans=4,rsize=70000,ro,nolock").expect("known");
        assert_eq!((options.port, options.version.as_deref()), (20050, Some("3")));
        assert_eq!((options.soft_retries(), options.timeout), (Some(4), Duration::from_secs(5)));
        assert_eq!((options.read_max, options.write_max), (69632, TRANSFER_MAX));
        assert_eq!(options.flags, ["ro"]);
        // The relay's port takes the place of the server's.
        assert!(!options.for_kernel.iter().any(|word| word == "rdma" || word.starts_with("port=")));
    }

    #[test]
    fn the_longest_time_is_not_below_the_shortest() {
        let times = parsed("acregmin=100,acdirmax=7").expect("known").times;
        let seconds = |(one, other): (Duration, Duration)| (one.as_secs(), other.as_secs());
        assert_eq!((seconds(times.files), seconds(times.directories)), ((100, 100), (30, 30)));
        let times = parsed("noac").expect("known").times;
        assert_eq!((seconds(times.files), times.no_names), ((0, 0), true));
    }

    #[test]
    fn unknown_options_are_named() {
        for wrong in ["rsize=x", "proto=tcp", "timeo=0", "flavour=sweet", "sweet", "sec=krb5", "port=70000", "lock"] {
            let error = format!("{:#}", parsed(wrong).expect_err(wrong));
            assert!(error.starts_with(&format!("option `{wrong}`")), "{error}");
        }
    }
}
