//! The directory of Weft's libraries: the one that LD_AUDIT names this library in.

use core::ffi::CStr;

use crate::names;

/// Maximum length of a path (PATH_MAX), with its terminating zero.
const PATH_BYTES_MAX: usize = 4096;

/// This library's file name.
const OWN_NAME: &[u8] = b"libweft_audit.so";

/// A directory's path with a slash at its end, and room for a file name.
pub struct Directory {
    path: [u8; PATH_BYTES_MAX],
    length: usize,
}

impl Directory {
    /// No directory.
    pub const NONE: Directory = Directory { path: [0; PATH_BYTES_MAX], length: 0 };

    /// Finds the entry of this library in LD_AUDIT's list. An entry without a slash names no directory: the loader
    /// found this library by LD_LIBRARY_PATH.
    pub fn learn(&mut self, list: &[u8]) {
        let mut entries = list.split(|&byte| byte == b':');
        let Some(entry) = entries.find(|entry| names::file_name(entry) == OWN_NAME) else { return };
        let parent = entry.get(..entry.len() - OWN_NAME.len()).unwrap_or_default();
        if let Some(room) = self.path.get_mut(..parent.len()) {
            room.copy_from_slice(parent);
            self.length = parent.len();
        }
    }

    /// Returns the path of a file in the directory, until the next call.
    pub fn file(&mut self, name: &[u8]) -> Option<&CStr> {
        if self.length == 0 {
            return None;
        }
        let end = self.length.checked_add(name.len())?;
        self.path.get_mut(self.length..end)?.copy_from_slice(name);
        *self.path.get_mut(end)? = 0;
        CStr::from_bytes_with_nul(self.path.get(..=end)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_entry_names_the_directory() {
        let file = |list: &str| {
            let mut directory = Directory::NONE;
            directory.learn(list.as_bytes());
            directory.file(b"libibverbs.so.1").map(|file| file.to_str().unwrap().to_owned())
        };
        assert_eq!(file("/w/libweft_audit.so").as_deref(), Some("/w/libibverbs.so.1"));
        assert_eq!(file("/u/other.so:/w x/libweft_audit.so").as_deref(), Some("/w x/libibverbs.so.1"));
        for list in ["", "/u/other.so", "libweft_audit.so"] {
            assert_eq!(file(list), None, "{list}");
        }
        assert_eq!(file(&format!("/{}/libweft_audit.so", "x".repeat(PATH_BYTES_MAX))), None);
        assert_eq!(file(&format!("/{}/libweft_audit.so", "x".repeat(PATH_BYTES_MAX - 10))), None);
    }
}
