//! Checks our layouts with the C compiler against the installed headers.
//!
//! The sizes and offsets of the Rust structures become a C file of `_Static_assert`s, which is compiled against
//! `<infiniband/verbs.h>`, `<rdma/rdma_cma.h>` and `<infiniband/umad.h>`. Structures and fields that older installed
//! headers lack are left out: the structures only ever grow, so the fields that an older header knows must agree.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// One structure: kind, C name, size, and its fields as (C name, offset).
struct Layout {
    kind: &'static str,
    name: &'static str,
    size: usize,
    fields: Vec<(&'static str, usize)>,
}

macro_rules! c_name {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $c:ident) => {
        stringify!($c)
    };
}

macro_rules! layouts {
    ($($kind:ident $name:ident { $($field:ident $(as $c:ident)?),* })*) => {
        vec![$(Layout {
            kind: stringify!($kind),
            name: stringify!($name),
            size: size_of::<weft_abi_types::$name>(),
            fields: vec![$((c_name!($field $($c)?), std::mem::offset_of!(weft_abi_types::$name, $field))),*],
        }),*]
    };
}

mod table;

const HEADERS: [&str; 5] = [
    "/usr/include/infiniband/verbs.h",
    "/usr/include/infiniband/ib_user_ioctl_verbs.h",
    "/usr/include/infiniband/sa.h",
    "/usr/include/rdma/rdma_cma.h",
    "/usr/include/infiniband/umad.h",
];

/// Fewer assertions than this mean that the test no longer matches the headers. rdma-core 44 yields about 800.
const ASSERTIONS_MIN: usize = 760;

fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        !text[..at].ends_with(is_name) && !text[at + word.len()..].starts_with(is_name)
    })
}

fn assertions(headers: &str) -> (String, usize) {
    let mut c = String::from("#include <stddef.h>\n");
    for header in ["infiniband/verbs.h", "rdma/rdma_cma.h", "infiniband/umad.h"] {
        writeln!(c, "#include <{header}>").unwrap();
    }
    let mut count = 0;
    let mut assert = |condition: String, what: String| {
        writeln!(c, "_Static_assert({condition}, \"{what}\");").unwrap();
        count += 1;
    };
    for Layout { kind, name, size, fields } in table::layouts() {
        if !headers.contains(&format!("{kind} {name} {{")) {
            continue;
        }
        let c_type = format!("{kind} {name}");
        // verbs_context grows at its front: its fields keep their distance from its end.
        let front = name == "verbs_context";
        let mut missing = false;
        for (field, offset) in fields {
            if !has_word(headers, field) {
                missing = true;
                continue;
            }
            let condition = if front {
                let distance = size as isize - offset as isize;
                format!("sizeof({c_type}) - offsetof({c_type}, {field}) == {distance}")
            } else {
                format!("offsetof({c_type}, {field}) == {offset}")
            };
            assert(condition, format!("{name}.{field} at {offset}"));
        }
        let relation = if missing { "<=" } else { "==" };
        assert(format!("sizeof({c_type}) {relation} {size}"), format!("{name} has {size} bytes"));
    }
    (c, count)
}

fn compile(source: &str) -> Result<(), String> {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = dir.join("layout.c");
    std::fs::write(&file, source).unwrap();
    let out = Command::new(std::env::var("CC").unwrap_or("cc".into()))
        .args(["-std=gnu11", "-fsyntax-only", "-w"])
        .arg(&file)
        .output()
        .map_err(|e| format!("no C compiler: {e}; install gcc"))?;
    if out.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&out.stderr).into_owned()) }
}

#[test]
fn layouts_agree_with_the_installed_headers() {
    let texts: Result<Vec<_>, _> = HEADERS.iter().map(std::fs::read_to_string).collect();
    let headers = match texts {
        Ok(t) => t.concat(),
        Err(e) => {
            assert!(
                std::env::var("CI").as_deref() != Ok("true"),
                "{e}; install libibverbs-dev, librdmacm-dev and libibumad-dev"
            );
            eprintln!("SKIPPED: {}: {e}; install libibverbs-dev, librdmacm-dev and libibumad-dev", HEADERS[0]);
            return;
        }
    };
    let (source, count) = assertions(&headers);
    assert!(count >= ASSERTIONS_MIN, "only {count} assertions: has the headers' text changed?");
    if let Err(e) = compile(&source) {
        panic!("our layout differs from the installed headers:\n{e}");
    }
    // The test must be able to fail.
    let broken = source.replace("offsetof(struct ibv_wc, wr_id) == 0", "offsetof(struct ibv_wc, wr_id) == 1");
    assert_ne!(broken, source);
    assert!(compile(&broken).is_err(), "a shifted field went unnoticed");
}

#[test]
fn sizes_that_other_libraries_rely_on() {
    use weft_abi_types::*;
    // 40 bytes on x86-64, 48 on 64-bit ARM.
    const MUTEX: usize = size_of::<libc::pthread_mutex_t>();
    assert_eq!(size_of::<ibv_context>(), 288 + MUTEX);
    assert_eq!(size_of::<ibv_context_ops>(), 256);
    assert_eq!(size_of::<verbs_context>(), 656 + MUTEX);
    assert_eq!(size_of::<ibv_qp_ex>(), 320 + MUTEX);
    assert_eq!(size_of::<ibv_cq_ex>(), 248 + MUTEX);
    assert_eq!(size_of::<ibv_port_attr>(), 56);
    assert_eq!(size_of::<ibv_device>(), 664);
    assert_eq!(std::mem::offset_of!(verbs_device, ops), 664);
    assert!(size_of::<verbs_device>() >= 664 + 48);
}
