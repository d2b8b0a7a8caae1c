//! Reads files named on the command line, with a bound on the memory they take.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Default size limit in bytes; no fabric's files need more.
pub const LEN_MAX: usize = 64 << 20;

/// Reads a text file; invalid UTF-8 is replaced.
///
/// # Errors
/// The file cannot be read, or is longer than [`LEN_MAX`].
pub fn read(path: impl AsRef<Path>) -> io::Result<String> {
    read_up_to(path, LEN_MAX)
}

/// Reads a text file of up to `len_max` bytes.
///
/// # Errors
/// The file cannot be read, or is longer.
pub fn read_up_to(path: impl AsRef<Path>, len_max: usize) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(len_max as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > len_max {
        return Err(io::Error::other(format!("it is longer than {} MiB: is this the right file?", len_max >> 20)));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endless_file_is_refused() {
        let why = read_up_to("/dev/zero", 1 << 20).unwrap_err();
        assert_eq!(why.to_string(), "it is longer than 1 MiB: is this the right file?");
        assert_eq!(read("/dev/null").unwrap(), "");
        assert!(read("/").is_err());
    }
}
