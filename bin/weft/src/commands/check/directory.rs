//! A directory of this command's own for the reports and the output of one run.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// Bytes of a program's output that are printed; longer output is cut at its beginning.
const OUTPUT_BYTES_MAX: u64 = 256 << 10;

/// The directory. Dropping it removes it.
#[derive(Debug)]
pub struct RunDirectory(PathBuf);

impl RunDirectory {
    /// Makes a directory that only this user may enter.
    pub fn new() -> Result<RunDirectory> {
        let name = format!("weft-check-{}-{:x}", std::process::id(), weft_sys::random::u64());
        let path = std::env::temp_dir().join(name);
        DirBuilder::new().mode(0o700).create(&path).with_context(|| path.display().to_string())?;
        let own = RunDirectory(path);
        fs::create_dir(own.reports()).with_context(|| own.0.display().to_string())?;
        Ok(own)
    }

    /// The directory that the checked processes write their reports into.
    pub fn reports(&self) -> PathBuf {
        self.0.join("reports")
    }

    /// A file for the output of a program.
    pub fn create(&self, name: &str) -> Result<File> {
        let path = self.0.join(name);
        File::create(&path).with_context(|| path.display().to_string())
    }

    /// The end of what a program wrote.
    pub fn tail(&self, name: &str) -> Vec<u8> {
        tail(&self.0.join(name)).unwrap_or_default()
    }
}

fn tail(path: &Path) -> std::io::Result<Vec<u8>> {
    use std::io::{Read, Seek, SeekFrom};
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(OUTPUT_BYTES_MAX)))?;
    let mut bytes = Vec::new();
    file.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn long_output_loses_its_beginning() {
        let dir = RunDirectory::new().unwrap();
        let mut file = dir.create("out").unwrap();
        file.write_all(&vec![b'a'; OUTPUT_BYTES_MAX as usize]).unwrap();
        file.write_all(b"end").unwrap();
        let tail = dir.tail("out");
        assert!(tail.len() as u64 == OUTPUT_BYTES_MAX && tail.ends_with(b"aend"));
        let path = dir.0.clone();
        drop(dir);
        assert!(!path.exists());
    }
}
