//! Text files of bounded length.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// Reads a file of bounded length.
///
/// # Errors
/// The reason why it cannot be read.
pub fn read_text(path: &Path, bytes_max: usize) -> Result<String, String> {
    let file = File::open(path).map_err(|error| crate::errno::text(&error))?;
    let mut text = String::new();
    let read = file.take(bytes_max as u64 + 1).read_to_string(&mut text);
    read.map_err(|error| crate::errno::text(&error))?;
    if text.len() > bytes_max { Err(format!("longer than {bytes_max} bytes")) } else { Ok(text) }
}
