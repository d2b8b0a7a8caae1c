//! A cpio archive ("newc", Linux's Documentation/driver-api/early-userspace/buffer-format), which a kernel unpacks as
//! its initial file system. It is written straight from memory, without a staging directory or root.

use std::collections::BTreeSet;
use std::path::Path;

const DIRECTORY: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const SYMLINK: u32 = 0o120_000;

/// An archive under construction.
#[derive(Debug, Default)]
pub struct Cpio {
    bytes: Vec<u8>,
    names: BTreeSet<String>,
}

impl Cpio {
    /// Adds a directory and its parents.
    pub fn directory(&mut self, name: &str) {
        self.parents(name);
        self.entry(name, DIRECTORY | 0o755, &[]);
    }

    /// Adds a file executable by everyone; the first of a name stays.
    pub fn file(&mut self, name: &str, data: &[u8]) {
        self.parents(name);
        self.entry(name, FILE | 0o755, data);
    }

    /// Adds a symbolic link.
    pub fn link(&mut self, name: &str, to: &str) {
        self.parents(name);
        self.entry(name, SYMLINK | 0o777, to.as_bytes());
    }

    /// Completes the archive.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn parents(&mut self, name: &str) {
        let mut above: Vec<_> = Path::new(name).ancestors().skip(1).filter_map(Path::to_str).collect();
        above.retain(|dir| !dir.is_empty() && *dir != "/");
        for dir in above.into_iter().rev() {
            self.entry(dir, DIRECTORY | 0o755, &[]);
        }
    }

    fn entry(&mut self, name: &str, mode: u32, data: &[u8]) {
        let name = name.trim_matches('/');
        if !self.names.insert(name.to_owned()) {
            return;
        }
        let links = 1 + u32::from(mode & DIRECTORY != 0);
        let (inode, size, name_size) = (self.names.len() as u32, data.len() as u32, name.len() as u32 + 1);
        self.bytes.extend(b"070701");
        for field in [inode, mode, 0, 0, links, 0, size, 0, 0, 0, 0, name_size, 0] {
            self.bytes.extend(format!("{field:08X}").bytes());
        }
        self.bytes.extend(name.bytes().chain([0]));
        self.pad();
        self.bytes.extend(data);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_aligned_and_ends() {
        let mut cpio = Cpio::default();
        cpio.file("/usr/bin/tool", b"12345");
        cpio.file("/usr/bin/tool", b"another");
        cpio.link("/bin", "usr/bin");
        assert_eq!(
            cpio.names.iter().map(String::as_str).collect::<Vec<_>>(),
            ["bin", "usr", "usr/bin", "usr/bin/tool"]
        );
        let bytes = cpio.finish();
        assert_eq!(bytes.len() % 4, 0);
        let text = String::from_utf8_lossy(&bytes);
        assert_eq!(text.matches("070701").count(), 5);
        assert!(text.contains("12345") && !text.contains("another"));
        // The mode is two fields after the magic, the size seven.
        let at = text.find("usr/bin/tool").expect("the name") - 110;
        assert_eq!(&text[at + 14..at + 22], "000081ED");
        assert_eq!(&text[at + 54..at + 62], "00000005");
    }
}
