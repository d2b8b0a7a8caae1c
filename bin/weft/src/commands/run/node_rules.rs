//! udev's rules about management nodes (`KERNEL=="umad*", MODE="0666"`), which an administrator writes so that users may
//! send management datagrams. No udev runs in a view: the views that root starts give their nodes the permissions and
//! groups that the machine's rules say.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use crate::commands::drop_in;
use crate::commands::profiles::udev::{self, NodeRule};

/// Directories of rules (udev(7)): a file of an earlier one covers those of its name in later ones.
const DIRECTORIES: [&str; 4] =
    ["/etc/udev/rules.d", "/run/udev/rules.d", "/usr/local/lib/udev/rules.d", "/usr/lib/udev/rules.d"];

/// Applies the machine's rules to the nodes of a directory.
///
/// # Errors
/// A node's permissions cannot be changed.
pub fn apply(nodes: &Path) -> io::Result<()> {
    let rules = read(&DIRECTORIES);
    if rules.is_empty() {
        return Ok(());
    }
    let groups = fs::read_to_string("/etc/group").unwrap_or_default();
    for entry in fs::read_dir(nodes)?.flatten() {
        let Some(name) = entry.file_name().to_str().filter(|name| udev::is_management_node(name)).map(str::to_owned)
        else {
            continue;
        };
        let (mode, group) = udev::rights(&rules, &name);
        let path = entry.path();
        if let Some(gid) = group.and_then(|group| gid(&groups, group)) {
            chown(&path, None, Some(gid))?;
        }
        if let Some(mode) = mode {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        }
    }
    Ok(())
}

/// Reads the rules of all files in the order of the files' names. Files that cannot be read have none.
fn read(directories: &[&str]) -> Vec<NodeRule> {
    let small = |path: &Path| fs::metadata(path).is_ok_and(|found| found.len() <= udev::BYTES_MAX as u64);
    let texts = drop_in::files(directories, "rules")
        .into_iter()
        .filter(|path| small(path))
        .filter_map(|path| fs::read_to_string(path).ok());
    texts.flat_map(|text| udev::node_rules(&text)).collect()
}

/// Finds a group in the text of group(5); a number stands for itself.
fn gid(groups: &str, name: &str) -> Option<u32> {
    let listed = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok()).flatten()
    });
    listed.or_else(|| name.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_names_or_numbers() {
        let text = "root:x:0:\nrdma:x:117:ann,bob\n";
        assert_eq!([gid(text, "rdma"), gid(text, "7"), gid(text, "none")], [Some(117), Some(7), None]);
    }

    #[test]
    fn files_are_read_in_the_order_of_their_names() {
        let dir = std::env::temp_dir().join(format!("weft-node-rules-{}", std::process::id()));
        let [etc, lib] = ["etc", "lib"].map(|name| dir.join(name));
        [&etc, &lib].into_iter().for_each(|one| fs::create_dir_all(one).unwrap());
        let rule = |mode: &str| format!("KERNEL==\"umad*\", NAME=\"infiniband/%k\", MODE=\"{mode}\"\n");
        fs::write(lib.join("90-rdma-umad.rules"), rule("0600")).unwrap();
        fs::write(lib.join("50-first.rules"), rule("0644")).unwrap();
        let rights = || {
            let rules = read(&[etc.to_str().unwrap(), lib.to_str().unwrap()]);
            udev::rights(&rules, "umad0").0
        };
        assert_eq!(rights(), Some(0o600));
        fs::write(etc.join("90-rdma-umad.rules"), rule("0666")).unwrap();
        assert_eq!(rights(), Some(0o666));
        fs::remove_dir_all(dir).unwrap();
    }
}
