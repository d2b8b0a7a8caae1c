//! The names of the RDMA libraries, as programs and wheels write them.

/// Weft's libraries by file name, with the beginning that all names of one share.
const LIBRARIES: [(&[u8], &[u8]); 3] =
    [(b"libibverbs", b"libibverbs.so.1"), (b"librdmacm", b"librdmacm.so.1"), (b"libibumad", b"libibumad.so.3")];

/// Returns the last part of a path.
pub fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
}

/// Returns Weft's file for a library's file name with any version or hash.
pub fn library(name: &[u8]) -> Option<&'static [u8]> {
    let is_it = |(stem, _): &&(&[u8], &[u8])| name.strip_prefix(*stem).is_some_and(is_suffix);
    LIBRARIES.iter().find(is_it).map(|(_, file)| *file)
}

/// `.so`, a version after it, and a hash before it.
fn is_suffix(rest: &[u8]) -> bool {
    let rest = match rest.strip_prefix(b"-") {
        Some(hash) => hash.iter().position(|&byte| byte == b'.').and_then(|dot| hash.get(dot..)).unwrap_or_default(),
        None => rest,
    };
    rest.strip_prefix(b".so").is_some_and(|version| version.is_empty() || version.starts_with(b"."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_hashes_do_not_matter() {
        for (name, file) in [
            ("libibverbs.so", Some("libibverbs.so.1")),
            ("libibverbs.so.1", Some("libibverbs.so.1")),
            ("libibverbs.so.1.14.39.0", Some("libibverbs.so.1")),
            ("libibverbs-1a2b3c4d.so.1.14.39", Some("libibverbs.so.1")),
            ("librdmacm-1a2b3c4d.so", Some("librdmacm.so.1")),
            ("libibumad.so.3", Some("libibumad.so.3")),
            ("libibverbsx.so.1", None),
            ("libibverbs.sol", None),
            ("libibverbs.a", None),
            ("libibverbs-", None),
            ("libibverbs", None),
            ("libibverbs-utils.conf", None),
            ("libibverbs-1a2b.py.so", None),
            ("libc.so.6", None),
            ("", None),
        ] {
            assert_eq!(library(name.as_bytes()), file.map(str::as_bytes), "{name}");
        }
    }

    #[test]
    fn a_path_ends_with_the_file_name() {
        assert_eq!(file_name(b"/a/libibverbs.so.1"), b"libibverbs.so.1");
        assert_eq!(file_name(b"libibverbs.so.1"), b"libibverbs.so.1");
        assert_eq!(file_name(b"/a/"), b"");
    }
}
