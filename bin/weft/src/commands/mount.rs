//! Stand-in for mount(8) on a fabric's host. It mounts as the system's does, and lists mounts of NFS over RDMA as those of the
//! kernel's client look: `type nfs (...,proto=rdma)`. FUSE, which carries them, tells neither the type nor the transport.

use std::ffi::OsString;
use std::process::{Command, ExitCode, Output};

use weft_tool::output;

use super::stand_in::{become_original, original_command};

/// Name of the command.
pub const NAME: &str = "mount";

/// Type of our mounts in the kernel's list.
const FUSE_TYPE: &str = "fuse.nfs";
/// Options that FUSE shows of them.
const FUSE_OPTIONS: [&str; 4] = ["user_id=", "group_id=", "default_permissions", "allow_other"];
/// Options of the client.
const NFS_OPTIONS: [&str; 2] = ["vers=3", "proto=rdma"];

/// Runs the command.
pub fn run(args: &[OsString]) -> ExitCode {
    let list = listing(args);
    let Some(command) = original_command(NAME, list.as_deref().unwrap_or(args)) else {
        crate::errln!("mount: the system's command is not reachable here");
        return ExitCode::FAILURE;
    };
    if list.is_some() { print_list(command) } else { become_original(NAME, command) }
}

/// Returns the arguments for the system's command if these list mounts: none, or a type and labels. Our mounts are among those of
/// type `nfs`.
fn listing(args: &[OsString]) -> Option<Vec<OsString>> {
    let mut system = Vec::new();
    let mut words = args.iter().map(|word| word.to_str());
    while let Some(word) = words.next() {
        let word = word?;
        let types = match word {
            "-l" | "--show-labels" | "-v" | "--verbose" => None,
            "-t" | "--types" => Some(words.next()??),
            _ => Some(word.strip_prefix("--types=").or_else(|| word.strip_prefix("-t"))?),
        };
        match types {
            Some(types) => system.extend(["-t".to_owned(), with_ours(types)]),
            None => system.push(word.to_owned()),
        }
    }
    Some(system.into_iter().map(OsString::from).collect())
}

/// Adds our type to a list that has `nfs`, also to one of types that are not wanted.
fn with_ours(types: &str) -> String {
    let has_nfs = types.trim_start_matches("no").split(',').any(|name| name == "nfs");
    if has_nfs { format!("{types},{FUSE_TYPE}") } else { types.to_owned() }
}

fn print_list(mut command: Command) -> ExitCode {
    let Output { status, stdout, stderr } = match command.output() {
        Ok(output) => output,
        Err(error) => {
            crate::errln!("mount: the system's command does not start: {}", crate::errno::text(&error));
            return ExitCode::FAILURE;
        }
    };
    for line in stdout.split_inclusive(|byte| *byte == b'\n') {
        // Names of directories may be any bytes.
        match std::str::from_utf8(line) {
            Ok(text) => output::print(&shown(text)),
            Err(_) => output::print_bytes(line),
        }
    }
    output::complain_text(&String::from_utf8_lossy(&stderr));
    ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// Returns a line of the list as it is for the kernel's client, if it is a mount of ours.
fn shown(line: &str) -> String {
    let ours = format!(" type {FUSE_TYPE} (");
    let Some((place, rest)) = line.rsplit_once(&ours) else { return line.to_owned() };
    let Some((options, end)) = rest.split_once(')') else { return line.to_owned() };
    let is_fuse = |option: &&str| FUSE_OPTIONS.iter().any(|known| option.starts_with(known));
    let options: Vec<&str> = options.split(',').filter(|option| !is_fuse(option)).chain(NFS_OPTIONS).collect();
    format!("{place} type nfs ({}){end}", options.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(line: &str) -> Option<String> {
        let args: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let words = listing(&args)?;
        Some(words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn only_lists_are_changed() {
        assert_eq!(listed("").as_deref(), Some(""));
        assert_eq!(listed("-v").as_deref(), Some("-v"));
        assert_eq!(listed("-l -t nfs,ext4").as_deref(), Some("-l -t nfs,ext4,fuse.nfs"));
        assert_eq!(listed("--types=nonfs").as_deref(), Some("-t nonfs,fuse.nfs"));
        assert_eq!(listed("-tnfs").as_deref(), Some("-t nfs,fuse.nfs"));
        assert_eq!(listed("-t ext4").as_deref(), Some("-t ext4"));
        for other in [
            "-a",
            "-a -t nfs",
            "-t nfs server:/ /mnt",
            "/mnt",
            "-o rdma s:/ /mnt",
            "--bind a b",
            "-v -o rdma s:/ /mnt",
            "-V",
            "-t",
        ] {
            assert_eq!(listed(other), None, "{other}");
        }
    }

    #[test]
    fn our_mounts_look_like_those_of_the_kernels_client() {
        let line = "node1:/nfs/projects/ on /mnt type fuse.nfs (rw,nosuid,relatime,user_id=0,group_id=0,default_permissions,allow_other)\n";
        assert_eq!(shown(line), "node1:/nfs/projects/ on /mnt type nfs (rw,nosuid,relatime,vers=3,proto=rdma)\n");
        let labelled = "a:/ on /m type fuse.nfs (ro,user_id=7) [label]\n";
        assert_eq!(shown(labelled), "a:/ on /m type nfs (ro,vers=3,proto=rdma) [label]\n");
        for other in
            ["proc on /proc type proc (rw,nosuid)\n", "a on /b type fuse.nfs (cut", "tmpfs on /x type tmpfs (rw)"]
        {
            assert_eq!(shown(other), other);
        }
    }
}
