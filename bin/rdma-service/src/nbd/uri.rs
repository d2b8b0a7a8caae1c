//! URI of an export.

use std::path::Path;

/// Returns the URI by which NBD clients reach an export.
pub fn nbd_uri(socket: &Path, export: &str) -> String {
    let escaped: String = socket.to_string_lossy().bytes().map(escape).collect();
    format!("nbd+unix:///{export}?socket={escaped}")
}

fn escape(byte: u8) -> String {
    if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
        char::from(byte).to_string()
    } else {
        format!("%{byte:02X}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_names_export_and_socket() {
        assert_eq!(nbd_uri(Path::new("/run/a b/s"), "2"), "nbd+unix:///2?socket=/run/a%20b/s");
    }
}
