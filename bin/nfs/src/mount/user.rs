//! Mount by this program's own client and FUSE.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use fuser::{Config, MountOption, Session, SessionACL};
use weft_rdma_service::detached;
use weft_sys::signals::SignalQueue;
use weft_tool::{errln, errno, outln};

use super::args::MountArgs;
use super::options::MountOptions;
use super::unmount;
use crate::client::{MountService, Nfs, Transport, TransportOptions, root_handle};
use crate::fs::{FileSystem, Mounted, MountedOptions};
use crate::limits::FUSE_THREADS;
use crate::mount_table;
use crate::protocol::credential::Credential;
use crate::server_name::ServerName;

/// Kibibytes that the kernel reads ahead, if this process may say so.
const READ_AHEAD_KIB: u32 = 4096;

/// Mounts a directory, and serves it until it is unmounted.
///
/// # Errors
/// The server does not answer, or the mount fails.
pub fn serve(args: &MountArgs, options: &MountOptions, directory: &Path) -> Result<()> {
    if args.detached {
        detached::begin()?;
    }
    if options.version.as_deref().is_some_and(|version| !matches!(version, "3" | "3.0")) {
        bail!("option `vers`: only 3 without the kernel's client");
    }
    // Before any thread starts, so that none of them takes the signals.
    let signals = weft_rdma_service::ending_signals()?;
    let mounted = connect(args, options)?;
    let session = Session::new(FileSystem(mounted.clone()), directory, &config(args, options))
        .map_err(|error| anyhow::anyhow!("{}: {}", directory.display(), reason(&error)))?;
    mounted.set_notifier(session.notifier());
    drop(mounted);
    let place = directory.to_path_buf();
    std::thread::Builder::new().name("nfs-signals".to_owned()).spawn(move || end_by(&signals, &place))?;
    read_ahead(directory);
    let (source, place, is_detached) = (args.source.to_string(), directory.to_path_buf(), args.detached);
    std::thread::Builder::new().name("nfs-ready".to_owned()).spawn(move || announce(&source, &place, is_detached))?;
    session.run().with_context(|| format!("{}", directory.display()))
}

fn connect(args: &MountArgs, options: &MountOptions) -> Result<Arc<Mounted>> {
    let server = ServerName { host: args.source.host.clone(), port: options.port };
    let transport = Transport::connect(TransportOptions {
        server,
        system: args.system,
        timeout: options.timeout,
        soft_retries: options.soft_retries(),
        credits: options.credits(),
    })?;
    let by = own_credential();
    let nfs = Arc::new(Nfs::new(transport));
    let service = MountService { host: options.mount_host.clone(), port: options.mount_port };
    let root = root_handle(&nfs, &args.source.host, &service, &args.source.path, &by)?;
    let failed = |error: rustix::io::Errno| anyhow::anyhow!("{}: {}", args.source, errno::text(&error.into()));
    let attributes = nfs.attributes(&by, &root).map_err(failed)?;
    let info = nfs.fs_info(&by, &root).map_err(failed)?;
    // A server that tells nothing takes all.
    let most = |of_server: u32, asked: u32| if of_server == 0 { asked } else { asked.min(of_server) };
    let mounted = MountedOptions {
        times: options.times,
        read_max: most(info.read_max, options.read_max),
        write_max: most(info.write_max, options.write_max),
        is_sync: options.is_sync,
    };
    Ok(Mounted::new(nfs, (root, attributes), mounted)?)
}

fn own_credential() -> Credential {
    let groups = rustix::process::getgroups().unwrap_or_default().into_iter().map(|gid| gid.as_raw()).collect();
    Credential { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw(), groups }
}

fn config(args: &MountArgs, options: &MountOptions) -> Config {
    let mut config = Config::default();
    config.n_threads = Some(FUSE_THREADS);
    config.mount_options =
        vec![MountOption::FSName(args.source.to_string()), MountOption::CUSTOM("subtype=nfs".to_owned())];
    for flag in &options.flags {
        config.mount_options.extend(match flag.as_str() {
            "ro" => Some(MountOption::RO),
            "noexec" => Some(MountOption::NoExec),
            "nosuid" => Some(MountOption::NoSuid),
            "nodev" => Some(MountOption::NoDev),
            "noatime" => Some(MountOption::NoAtime),
            "dirsync" => Some(MountOption::DirSync),
            _ => None,
        });
    }
    if options.allow_other {
        config.acl = SessionACL::All;
        // The kernel remembers names for all users, and checks who may see them.
        config.mount_options.push(MountOption::DefaultPermissions);
    }
    config
}

/// Tells that the directory is mounted, once the kernel knows its attributes. Before, it takes the directory to be user 0's. In a
/// user namespace without a user 0 it would refuse to create a file there (EACCES) without asking this process.
fn announce(source: &str, directory: &Path, is_detached: bool) {
    // A server that fails now fails the first program, too.
    let _ = std::fs::metadata(directory);
    outln!("weft nfs mount: {source} on {}", directory.display());
    if is_detached && let Err(error) = detached::ready() {
        errln!("weft nfs mount: {error:#}");
    }
}

/// Returns the reason of a failed mount. Errors of fusermount3 are its own lines.
fn reason(error: &std::io::Error) -> String {
    let text = errno::text(error);
    let hint = match error.kind() {
        std::io::ErrorKind::NotFound => "; FUSE is needed: the kernel's /dev/fuse, and fusermount3 (package fuse3)",
        _ => "",
    };
    format!("{}{hint}", text.trim_end())
}

/// Unmounts when a signal comes. Programs that use the directory keep it until they leave it.
fn end_by(signals: &SignalQueue, directory: &Path) {
    const LONG: std::time::Duration = std::time::Duration::from_secs(3600);
    loop {
        if weft_sys::epoll::wait_readable(signals, LONG).unwrap_or(true)
            && signals.take().is_some()
            && let Err(error) = unmount::lazily(directory)
        {
            errln!("weft nfs mount: {error:#}");
        }
    }
}

/// Lets the kernel read further ahead than it does by default; only root may.
fn read_ahead(directory: &Path) {
    if let Some(device) = mount_table::find(directory).map(|mount| mount.device) {
        let _ = std::fs::write(format!("/sys/class/bdi/{device}/read_ahead_kb"), READ_AHEAD_KIB.to_string());
    }
}
