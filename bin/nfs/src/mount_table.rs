//! The kernel's list of mounts.

use std::path::Path;

/// A mount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mount {
    /// Major and minor number of its file system, with a colon.
    pub device: String,
    /// Type.
    pub kind: String,
}

/// Returns the mount on a directory: the last one, which covers the others.
pub fn find(directory: &Path) -> Option<Mount> {
    parse(&std::fs::read_to_string("/proc/self/mountinfo").ok()?, directory)
}

fn parse(table: &str, directory: &Path) -> Option<Mount> {
    let mount = |line: &str| {
        let (head, tail) = line.split_once(" - ")?;
        let mut fields = head.split(' ');
        let (device, place) = (fields.nth(2)?, fields.nth(1)?);
        let kind = tail.split(' ').next()?;
        let is_there = Path::new(&unescape(place)) == directory;
        is_there.then(|| Mount { device: device.to_owned(), kind: kind.to_owned() })
    };
    table.lines().filter_map(mount).next_back()
}

/// Replaces the kernel's octal escapes of spaces and the like.
fn unescape(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                out.push(char::from(code));
                out.push_str(part.get(3..).unwrap_or_default());
            }
            None => {
                out.push('\\');
                out.push_str(part);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
44 21 0:52 / /mnt/a\\040b rw,nosuid - fuse.nfs server:/ rw,user_id=0
45 21 0:53 / /mnt/a\\040b rw shared:7 master:1 - tmpfs tmpfs rw
46 21 0:54 / /mnt/c rw - nfs server:/ rw
";

    #[test]
    fn the_last_mount_of_a_directory_counts() {
        let found = |dir: &str| parse(TABLE, Path::new(dir)).map(|mount| (mount.device, mount.kind));
        assert_eq!(found("/mnt/a b"), Some(("0:53".into(), "tmpfs".into())));
        assert_eq!(found("/mnt/c"), Some(("0:54".into(), "nfs".into())));
        assert_eq!(found("/mnt"), None);
        assert_eq!(unescape("a\\\\b\\134"), "a\\\\b\\");
    }
}
