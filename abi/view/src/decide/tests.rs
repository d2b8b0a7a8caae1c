use super::*;

const ENOENT: c_int = 2;
/// A machine whose links and missing directories have telling names.
struct Fake {
    base: &'static str,
}

impl Surroundings for Fake {
    fn view(&self) -> &[u8] {
        b"/v"
    }

    fn base(&self, into: &mut Text) -> bool {
        into.truncate(0);
        into.push(self.base.as_bytes()).is_ok() && !self.base.is_empty()
    }

    fn enter(&self, path: &Text) -> Result<(), c_int> {
        let name = path.as_bytes().rsplit(|&byte| byte == b'/').next().unwrap();
        match name {
            b"link" | b"eth0" | b"file" | b"mlx5_0" | b"outwards" => Err(ENOTDIR),
            b"missing" => Err(ENOENT),
            _ => Ok(()),
        }
    }

    fn follow(&self, path: &mut Text) -> Result<(), c_int> {
        let to: &[u8] = match path.as_bytes() {
            b"/v/sys/class/infiniband/mlx5_0" => b"/v/sys/devices/pcifab0:00/fab0:00:01.0/infiniband/mlx5_0",
            b"/v/sys/class/infiniband/outwards" => b"/v/sys/bus/pci",
            b"/sys/class/net/eth0" => b"/sys/devices/virtual/net/eth0",
            _ => return Err(ENOTDIR),
        };
        path.truncate(0);
        path.push(to).map_err(|TooLong| ENAMETOOLONG)
    }
}

/// The path that the call gets, or the errno.
fn of(base: &'static str, path: &str) -> Result<String, c_int> {
    let mut out = Text::new();
    match decide(path.as_bytes(), &Fake { base }, &mut out) {
        Decision::Keep => Ok(path.to_owned()),
        Decision::Replace => Ok(String::from_utf8(out.as_bytes().to_vec()).unwrap()),
        Decision::Fail(errno) => Err(errno),
    }
}

#[test]
fn hidden_places_are_the_view_s() {
    for path in [
        "/sys/class/infiniband",
        "/sys/class/infiniband/",
        "/sys/class/infiniband/rxe0/ports/1/state",
        "/sys/class/infiniband_verbs/abi_version",
        "/sys/class/infiniband_mad/umad0/ibdev",
        "/sys/class/infiniband_cm",
        "/sys/class/misc/rdma_cm/abi_version",
        "/sys/class/net/ens1/device/infiniband",
        "/sys/class/net/eth0/device/infiniband_verbs/uverbs0",
        "/dev/infiniband/uverbs0",
        "/sys/devices/pcifab0:00",
        "/sys/devices/pcifab0:00/fab0:00:01.0/numa_node",
        "/sys/bus/pci/devices/fab0:00:01.0/config",
        "/sys/class/pci_bus/fab0:00",
    ] {
        assert_eq!(of("", path), Ok(format!("/v{path}")), "{path}");
        assert!(may_concern(path.as_bytes()), "{path}");
    }
}

#[test]
fn other_places_stay() {
    for path in [
        "",
        "/",
        "infiniband",
        "/sys/class",
        "/sys/class/infinibandx",
        "/sys/class/net/infiniband",
        "/sys/class/net/eth0/device",
        "/sys/class/net/eth0/infiniband",
        "/sys/class/misc/rdma_cm2",
        "/sys/infiniband",
        "/dev/infiniband2/uverbs0",
        "/usr/include/infiniband/verbs.h",
        "/x/sys/class/infiniband",
        "/v/sys/class/infiniband",
        "/sys/devices/fab0:00:01.0",
        "/sys/devices/pci0000:00/fab0:00:01.0",
        "/sys/bus/pci/drivers/fab0:00:01.0",
        "/sys/bus/pci/devices/0000:00:01.0",
        "/sys/class/pci_bus",
        "/dev/null",
    ] {
        assert_eq!(of("/home/user", path), Ok(path.to_owned()), "{path}");
    }
    assert!(!may_concern(b"/sys/class/net/../net") && !may_concern(b"a/b..c") && may_concern(b"a/.."));
}

#[test]
fn slashes_and_dots_change_nothing() {
    for (path, wanted) in [
        ("//sys///class//infiniband", "/v/sys/class/infiniband"),
        ("/sys/./class/./infiniband/.", "/v/sys/class/infiniband/"),
        ("/sys/class/infiniband//", "/v/sys/class/infiniband/"),
        ("/sys/class/infiniband/rxe0/..", "/v/sys/class/infiniband"),
        ("/sys/class/infiniband/../infiniband_verbs", "/v/sys/class/infiniband_verbs"),
        ("/sys/class/net/../infiniband/rxe0", "/v/sys/class/infiniband/rxe0"),
        ("/../sys/class/infiniband", "/v/sys/class/infiniband"),
        ("/dev/infiniband/../null", "/dev/infiniband/../null"),
    ] {
        assert_eq!(of("", path), Ok(wanted.to_owned()), "{path}");
    }
}

#[test]
fn a_link_s_parent_is_the_kernel_s_to_find() {
    // eth0 is a link to /sys/devices/virtual/net/eth0, so that two levels up is /sys/devices/virtual.
    let path = "/sys/class/net/eth0/../../infiniband";
    assert_eq!(of("", path), Ok(path.to_owned()));
    assert_eq!(of("", "/missing/../sys/class/infiniband"), Ok("/missing/../sys/class/infiniband".to_owned()));
}

#[test]
fn links_of_the_view_are_followed() {
    for (base, path, wanted) in [
        ("", "/sys/class/infiniband/mlx5_0/../..", "/v/sys/devices/pcifab0:00/fab0:00:01.0"),
        ("", "/sys/class/infiniband/mlx5_0/../../../..", "/sys/devices"),
        ("", "/sys/class/infiniband/mlx5_0/ports/../node_guid", "/v/sys/class/infiniband/mlx5_0/node_guid"),
        ("", "/sys/class/infiniband/outwards/../x", "/sys/bus/x"),
        ("/v/sys/class/infiniband", "mlx5_0/../../vendor", "/v/sys/devices/pcifab0:00/fab0:00:01.0/vendor"),
        ("/v/sys/devices/pcifab0:00/fab0:00:01.0", "../../system/cpu", "/sys/devices/system/cpu"),
        ("/v/sys/class/infiniband", "../net/eth0/../../infiniband", "/sys/devices/virtual/infiniband"),
    ] {
        assert_eq!(of(base, path), Ok(wanted.to_owned()), "{path} in {base}");
    }
}

#[test]
fn errors_within_the_view_are_the_kernel_s() {
    assert_eq!(of("", "/sys/class/infiniband/missing/../rxe0"), Err(ENOENT));
    assert_eq!(of("", "/sys/class/infiniband/file/../rxe0"), Err(ENOTDIR));
    assert_eq!(of("", &format!("/dev/infiniband/{}", "x".repeat(4090))), Err(ENAMETOOLONG));
}

#[test]
fn relative_paths_start_at_their_directory() {
    for (base, path, wanted) in [
        ("/", "sys/class/infiniband", "/v/sys/class/infiniband"),
        ("/sys/class", "infiniband/rxe0", "/v/sys/class/infiniband/rxe0"),
        ("/sys/class/net", "../infiniband", "/v/sys/class/infiniband"),
        ("/dev", "infiniband/uverbs0", "/v/dev/infiniband/uverbs0"),
        ("/usr/include", "infiniband/verbs.h", "infiniband/verbs.h"),
        ("/home", "../x", "../x"),
        ("pipe:[12]", "infiniband", "infiniband"),
        // In the view already.
        ("/v/sys/class/infiniband", "rxe0/ports", "rxe0/ports"),
        ("/v/sys/class/infiniband", "infiniband", "infiniband"),
        ("/v/sys/class/infiniband/rxe0", "../../infiniband_verbs", "/v/sys/class/infiniband_verbs"),
        ("/v/sys/class/infiniband/rxe0", "..", "/v/sys/class/infiniband"),
        // Out of it.
        ("/v/sys/class/infiniband", "..", "/sys/class"),
        ("/v/sys/class/infiniband", "../net/eth0", "/sys/class/net/eth0"),
        ("/v/dev/infiniband", "../../../..", "/"),
        // A directory that only begins like the view's.
        ("/vx/sys/class/infiniband", "..", ".."),
    ] {
        assert_eq!(of(base, path), Ok(wanted.to_owned()), "{path} in {base}");
    }
}

#[test]
fn patterns_match_or_cannot() {
    for (pattern, may) in [
        ("/sys/class/in*/*", true),
        ("infini[b]and/infiniband*", true),
        ("../*", true),
        ("/etc/*", false),
        ("*.c", false),
    ] {
        assert_eq!(may_match(pattern.as_bytes()), may, "{pattern}");
    }
}

#[test]
fn reported_paths_lose_the_directory() {
    for (path, count) in [
        ("/v/sys/class/infiniband/rxe0", 2),
        ("/v/dev/infiniband", 2),
        ("/v/sys/devices/pcifab0:00/fab0:00:01.0", 2),
        ("/v/sys/bus/pci", 2),
        ("/v/sys/bus", 0),
        ("/v", 0),
        ("/v/sys", 0),
        ("/vx/dev/infiniband", 0),
        ("/sys/class/infiniband", 0),
    ] {
        assert_eq!(surplus(path.as_bytes(), b"/v"), count, "{path}");
    }
    assert_eq!(surplus(b"/dev/infiniband", b""), 0);
}
