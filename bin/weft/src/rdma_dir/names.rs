//! Names of Weft's libraries.

/// The libraries, by the names that programs request from the loader.
pub const SONAMES: [&str; 3] = ["libibverbs.so.1", "librdmacm.so.1", "libibumad.so.3"];

/// The library for LD_AUDIT, with which the loader finds those wherever it looks.
pub const AUDIT: &str = "libweft_audit.so";

/// The library for LD_PRELOAD, which shows the devices where nothing may be mounted.
pub const VIEW: &str = "libweft_view.so";

/// The library for LD_PRELOAD, which gives programs RDS sockets.
pub const RDS: &str = "libweft_rds_preload.so";

/// The library for LD_PRELOAD, which checks a program's use of verbs.
pub const CHECK: &str = "libweft_check.so";

/// Every library beside the command.
pub fn all_names() -> impl Iterator<Item = &'static str> {
    SONAMES.into_iter().chain([AUDIT, VIEW, RDS, CHECK])
}

/// Weft's name for an RDMA library with any version or hash in its name.
pub fn soname_of(name: &str) -> Option<&'static str> {
    let of = |soname: &&str| {
        let stem = soname.split_once('.').map_or(*soname, |(stem, _)| stem);
        name.strip_prefix(stem).is_some_and(|rest| rest.starts_with(['.', '-']) && name.contains(".so"))
    };
    SONAMES.into_iter().find(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_hashes_of_names_do_not_matter() {
        assert_eq!(soname_of("libibverbs.so.1"), Some("libibverbs.so.1"));
        assert_eq!(soname_of("libibverbs-1de1263b.so.1.14.48.0"), Some("libibverbs.so.1"));
        assert_eq!(soname_of("librdmacm.so"), Some("librdmacm.so.1"));
        assert_eq!(soname_of("libibverbsx.so.1"), None);
        assert_eq!(soname_of("libc.so.6"), None);
    }
}
