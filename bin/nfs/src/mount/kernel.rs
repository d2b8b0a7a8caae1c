//! Mount by the kernel's own client: over TCP to a relay on this machine, which ends with the mount.

use std::ffi::CString;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use rustix::mount::MountFlags;
use weft_rdma_service::detached;
use weft_tool::errno;

use super::args::MountArgs;
use super::options::MountOptions;
use crate::client::mount_port;
use crate::server_name::ServerName;

/// Mounts a directory.
///
/// # Errors
/// The relay does not start, or the kernel refuses the mount.
pub fn mount(args: &MountArgs, options: &MountOptions, directory: &Path) -> Result<()> {
    let relay = start_relay(args, options, directory)?;
    let data = data(args, options, relay, mount_port)?;
    let mut flags = MountFlags::empty();
    for flag in &options.flags {
        flags |= match flag.as_str() {
            "ro" => MountFlags::RDONLY,
            "noexec" => MountFlags::NOEXEC,
            "nosuid" => MountFlags::NOSUID,
            "nodev" => MountFlags::NODEV,
            "noatime" => MountFlags::NOATIME,
            "dirsync" => MountFlags::DIRSYNC,
            _ => MountFlags::empty(),
        };
    }
    flags.set(MountFlags::SYNCHRONOUS, options.is_sync);
    let kind = if is_version_3(options) { "nfs" } else { "nfs4" };
    let source = args.source.to_string();
    rustix::mount::mount(source.as_str(), directory, kind, flags, Some(data.as_c_str()))
        .map_err(|error| anyhow!("{}: {}", directory.display(), errno::text(&error.into())))
}

/// Starts the relay, which waits for the mount and ends with it. Returns its address.
fn start_relay(args: &MountArgs, options: &MountOptions, directory: &Path) -> Result<SocketAddr> {
    let mut command = detached::again()?;
    let server = ServerName { host: args.source.host.clone(), port: options.port };
    command.args(["nfs", "relay", "--while-mounted"]).arg(directory).arg(server.to_string());
    if args.system {
        command.arg("--system");
    }
    let line = detached::first_line(command)?;
    let address = line.split_once("listening on ").and_then(|(_, rest)| rest.split(' ').next());
    match address.map(str::parse) {
        Some(Ok(address)) => Ok(address),
        _ => bail!("the relay did not start"),
    }
}

fn is_version_3(options: &MountOptions) -> bool {
    options.version.as_deref().unwrap_or("3").starts_with('3')
}

/// Returns the options for the kernel: the relay's address in place of the server's. The kernel itself would ask the port
/// mapper alone for MOUNT's port, which some servers do without; `mount_port` finds it.
fn data(
    args: &MountArgs,
    options: &MountOptions,
    relay: SocketAddr,
    mount_port: impl FnOnce(&str) -> u16,
) -> Result<CString> {
    let mut words = vec![format!("addr={},port={},proto=tcp", relay.ip(), relay.port())];
    if is_version_3(options) {
        let host = options.mount_host.as_deref().unwrap_or(&args.source.host);
        let address = (host, 0).to_socket_addrs()?.next().with_context(|| format!("{host}: unknown host"))?;
        words.push(format!("vers=3,nolock,mountproto=tcp,mountaddr={}", address.ip()));
        if options.mount_port.is_none() {
            words.push(format!("mountport={}", mount_port(host)));
        }
    }
    let is_mount_flag = |word: &&String| options.flags.contains(word);
    let is_given = |word: &&String| word.starts_with("mountaddr=") || word.starts_with("mountproto=");
    words.extend(options.for_kernel.iter().filter(|word| !is_mount_flag(word) && !is_given(word)).cloned());
    Ok(CString::new(words.join(","))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_told_the_relays_address() {
        let args = MountArgs {
            source: "127.0.0.1:/srv".parse().expect("a source"),
            directory: "/mnt".into(),
            options: Vec::new(),
            foreground: false,
            detached: false,
            system: false,
        };
        let told = |text: &str| {
            let options = MountOptions::parse(&[text.to_owned()]).expect("known");
            let relay = "127.0.0.1:4000".parse().expect("an address");
            data(&args, &options, relay, |_| 635).expect("options").into_string().expect("text")
        };
        assert_eq!(told("rdma,port=20049,vers=4.1,ro"), "addr=127.0.0.1,port=4000,proto=tcp,vers=4.1");
        let third = told("rdma,vers=3,soft,timeo=50,mountport=7");
        assert_eq!(
            third,
            "addr=127.0.0.1,port=4000,proto=tcp,vers=3,nolock,mountproto=tcp,mountaddr=127.0.0.1,vers=3,soft,timeo=50,mountport=7"
        );
        let asked = told("");
        assert!(asked.ends_with("mountaddr=127.0.0.1,mountport=635"), "{asked}");
    }
}
