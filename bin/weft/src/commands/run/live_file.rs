//! A file in the view of /sys whose content changes.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use weft_sys::lease;

use super::view::Shown;

/// A file with changing content.
#[derive(Debug)]
pub struct LiveFile {
    pub file: File,
    /// Its path below /sys.
    pub path: PathBuf,
    pub from: Shown,
    pub shown: String,
    pub leased: bool,
}

impl LiveFile {
    /// A file that now contains `text`.
    pub fn new(file: File, path: PathBuf, from: Shown, text: &str) -> LiveFile {
        LiveFile { file, path, from, shown: text.to_owned(), leased: false }
    }

    /// Writes the new text if it differs. A reader sees the old text or the new, which is never shorter unless the
    /// counter restarted.
    pub fn show(&mut self, text: String) {
        if text != self.shown && self.file.write_all_at(text.as_bytes(), 0).is_ok() {
            let _ = self.file.set_len(text.len() as u64);
            self.shown = text;
        }
    }

    /// Whether the file can be leased at all.
    ///
    /// # Errors
    /// The system's reason if it cannot.
    pub fn try_lease(&self) -> io::Result<()> {
        lease::lease(&self.file).and_then(|()| lease::release(&self.file))
    }

    pub fn lease(&mut self) {
        self.leased = self.leased || lease::lease(&self.file).is_ok();
    }

    pub fn release(&mut self) {
        if std::mem::take(&mut self.leased) {
            let _ = lease::release(&self.file);
        }
    }
}
