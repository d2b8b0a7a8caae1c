//! Weft's three libraries export every symbol of the installed rdma-core's, at the same version, and programs linked
//! against those resolve all imports in Weft's. A lost version is silent until a program refuses to start.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names of the libraries.
const LIBRARIES: [&str; 3] = ["libibverbs.so.1", "librdmacm.so.1", "libibumad.so.3"];

/// Installed programs and libraries whose every import must resolve. `?`: may be missing.
const CONSUMERS: [&str; 40] = [
    "/usr/bin/ibv_devices",
    "/usr/bin/ibv_devinfo",
    "/usr/bin/ibv_asyncwatch",
    "/usr/bin/ibv_rc_pingpong",
    "/usr/bin/ibv_uc_pingpong",
    "/usr/bin/ibv_ud_pingpong",
    "/usr/bin/ibv_srq_pingpong",
    "/usr/bin/ibv_xsrq_pingpong",
    "/usr/bin/ib_send_bw",
    "/usr/bin/ib_send_lat",
    "/usr/bin/ib_write_bw",
    "/usr/bin/ib_write_lat",
    "/usr/bin/ib_read_bw",
    "/usr/bin/ib_read_lat",
    "/usr/bin/ib_atomic_bw",
    "/usr/bin/ib_atomic_lat",
    "/usr/bin/qperf",
    "?/usr/bin/rping",
    "?/usr/bin/ucmatose",
    "?/usr/bin/udaddy",
    "?/usr/bin/mckey",
    "?/usr/bin/rdma_client",
    "?/usr/bin/rdma_server",
    "?/usr/bin/rdma_xclient",
    "?/usr/bin/rdma_xserver",
    "?/usr/bin/riostream",
    "?/usr/bin/rstream",
    "?/usr/bin/rcopy",
    "?/usr/bin/cmtime",
    "?/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so.1.0.0",
    "?/usr/lib/x86_64-linux-gnu/libibmad.so.5",
    "?/usr/lib/x86_64-linux-gnu/libibnetdisc.so.5",
    "?/usr/lib/x86_64-linux-gnu/libosmvendor.so.5",
    "?/usr/lib/x86_64-linux-gnu/libmlx5.so.1",
    "?/usr/lib/x86_64-linux-gnu/libmlx4.so.1",
    "?/usr/lib/x86_64-linux-gnu/libefa.so.1",
    "?/usr/lib/x86_64-linux-gnu/libmana.so.1",
    "?/usr/sbin/ibstat",
    "?/usr/sbin/opensm",
    "?/usr/sbin/ibnetdiscover",
];

fn output(command: &mut Command) -> String {
    let out = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}; install binutils"));
    String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr)
}

/// Returns the defined dynamic symbols in nm's format: `name@@NODE`, `name@NODE` or a bare name.
fn symbols(library: &Path) -> BTreeSet<String> {
    let text = output(Command::new("nm").args(["-D", "--defined-only", "--with-symbol-versions"]).arg(library));
    text.lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace().skip(1);
            // nm lists version nodes as absolute symbols.
            (words.next()? != "A").then(|| words.next().map(str::to_owned))?
        })
        .collect()
}

fn installed(soname: &str) -> Option<PathBuf> {
    let text = output(Command::new("/sbin/ldconfig").arg("-p"));
    let line = text.lines().find(|l| l.trim_start().starts_with(&format!("{soname} ")))?;
    Some(PathBuf::from(line.rsplit("=> ").next()?.trim()))
}

/// Reports a missing prerequisite: no skip is silent, and in CI none is allowed.
fn missing(what: &str, remedy: &str) {
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{what} is not installed: {remedy}");
    eprintln!("SKIPPED: {what} is not installed: {remedy}");
}

#[test]
fn no_symbol_version_is_missing() {
    let dir = weft_interop::product::libraries().expect("the product");
    for soname in LIBRARIES {
        let ours = symbols(&dir.join(soname));
        assert!(ours.len() > 30, "{soname} exports {} symbols only", ours.len());
        let bare: Vec<_> = ours.iter().filter(|s| !s.contains('@')).collect();
        assert!(bare.is_empty(), "{soname} exports symbols without a version: {bare:?}");
        let dynamic = output(Command::new("readelf").arg("-d").arg(dir.join(soname)));
        assert!(dynamic.contains(&format!("[{soname}]")), "{soname} has another SONAME:\n{dynamic}");
        assert!(dynamic.contains("NODELETE"), "{soname} can be unloaded under its own threads");
        let Some(theirs) = installed(soname) else {
            missing(soname, "apt-get install ibverbs-utils rdmacm-utils");
            continue;
        };
        let theirs = symbols(&theirs);
        let lost: Vec<_> = theirs.difference(&ours).collect();
        assert!(lost.is_empty(), "{soname} lacks {} of {} symbols: {lost:?}", lost.len(), theirs.len());
    }
}

#[test]
fn installed_programs_resolve_every_symbol() {
    let dir = weft_interop::product::libraries().expect("the product");
    let mut complaints = Vec::new();
    for consumer in CONSUMERS {
        let path = consumer.trim_start_matches('?');
        if !Path::new(path).exists() {
            if path == consumer {
                missing(path, "apt-get install ibverbs-utils perftest qperf");
            }
            continue;
        }
        let text = output(Command::new("ldd").arg("-r").arg(path).env("LD_LIBRARY_PATH", &dir));
        let wrong = |l: &&str| {
            l.contains("undefined symbol") || l.contains("not found") || l.contains("no version information")
        };
        complaints.extend(text.lines().filter(wrong).map(|l| format!("{path}: {}", l.trim())));
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}
