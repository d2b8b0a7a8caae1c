//! `cargo xtask arm64`: builds the workspace for 64-bit ARM, and runs the unit and sim rings under QEMU's user emulation.

use crate::cargo;
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "aarch64-unknown-linux-gnu";

/// Debian's cross compiler.
const COMPILER: &str = "aarch64-linux-gnu-gcc";

/// The cross compiler's C library, where the emulator looks for the loader.
const C_LIBRARY: &str = "/usr/aarch64-linux-gnu";

/// Debian's names of the emulator: the second is in qemu-user-static.
const EMULATORS: [&str; 2] = ["qemu-aarch64", "qemu-aarch64-static"];

/// Packages of the headers that a test compares our layouts with, and the first of each.
const HEADERS: [(&str, &str); 3] = [
    ("libibverbs-dev", "/usr/include/infiniband/verbs.h"),
    ("librdmacm-dev", "/usr/include/rdma/rdma_cma.h"),
    ("libibumad-dev", "/usr/include/infiniband/umad.h"),
];

/// Variable by which tests of system calls that the emulator lacks know that they cannot run.
const EMULATED: &str = "WEFT_EMULATED";

/// Tests of system calls that QEMU's user emulation lacks or treats otherwise, by the call. All of them run on x86.
const LACKING: &[(&str, &[&str])] = &[
    (
        "process_vm_readv and process_vm_writev: no such calls",
        &[
            "probe::tests::calls_that_change_nothing_succeed_here",
            "vm::tests::the_kernel_copies_and_says_what_it_cannot",
            "shm::tests::arena::shared_pages_are_copied_to_plainly_and_others_by_the_kernel",
            "shm::tests::arena::what_was_registered_before_pages_were_shared_is_said_later",
            "shm::tests::direct::as_many_keys_as_there_can_be_are_found",
            "shm::tests::direct::bytes_go_both_ways_in_one_copy",
            "shm::tests::direct::elements_of_a_peers_list_are_fetched",
            "shm::tests::direct::whatever_the_target_would_refuse_is_not_done",
            "shm::tests::hostile::the_kernel_copies_only_into_the_process_whose_board_it_is",
            "shm::tests::race::no_byte_changes_once_a_key_is_revoked",
        ],
    ),
    (
        "SO_PEEK_OFF, SO_COOKIE, SO_MEMINFO and TCP_INFO: not translated",
        &[
            "stream::tests::small_messages_seldom_measure_the_send_buffer",
            "tcp::tests::pieces_are_sent_and_received_in_their_order",
            "anchor::tests::all_sockets_outlive_the_daemon_in_order",
            "unix::tests::descriptors_travel_and_stay_parked_after_the_sender_died",
        ],
    ),
    (
        "/proc/self/maps, pagemap, userfaultfd and the file of /proc/self/exe: the emulator's, not the program's",
        &[
            "own_file::tests::the_own_program_is_never_the_original",
            "mapping::tests::",
            "share::tests::",
            "share::hazard::tests::files_read_directly_are_noticed",
            "nobody_sees_pages_become_shared_and_private_again",
        ],
    ),
    (
        "a test that a shell starts once more: the machine's kernel does not run ARM's programs",
        &["terminal::tests::a_panic_restores_the_terminal"],
    ),
    (
        "signalfd, clone without a signal, sends and receives with a bad address: other results",
        &[
            "memory::a_source_that_is_gone_ends_the_stream",
            "memory::a_destination_that_is_gone_ends_the_stream",
            "signals::tests::a_waiting_signal_is_told_and_its_kind_is_known",
            "spawn::tests::a_program_runs_apart_and_leaves_no_child",
            "udp::tests::memory_that_is_not_mapped_is_an_error_and_no_crash",
        ],
    ),
];

/// Options of `arm64`.
#[derive(clap::Args)]
pub struct Options {
    /// Run only tests whose name contains this text.
    #[arg(long)]
    filter: Option<String>,
}

/// Builds everything, then runs both rings.
pub fn run(options: &Options) -> Result<()> {
    let runner = runner()?;
    let env = [
        ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", COMPILER),
        ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", runner.as_str()),
        (EMULATED, "1"),
        // Layouts are compared with the headers as the target's compiler reads them.
        ("CC", COMPILER),
    ];
    let filter: Vec<&str> = options.filter.as_deref().into_iter().collect();
    let mut skipped = vec!["--"];
    for (why, tests) in LACKING {
        println!("left out, {}: {why}", tests.join(" "));
        skipped.extend(tests.iter().flat_map(|test| ["--skip", *test]));
    }
    cargo::run(&["build", "--workspace", "--all-targets", "--target", TARGET], &env)?;
    let unit =
        ["test", "--workspace", "--exclude", "weft-interop", "--exclude", "weft-sim", "--tests", "--no-fail-fast"];
    cargo::run(&[&unit[..], &["--target", TARGET], &filter, &skipped].concat(), &env)?;
    let programs = cargo::test_targets("tests/sim/tests")?;
    let programs: Vec<&str> = programs.iter().flat_map(|program| ["--test", program.as_str()]).collect();
    let sim = ["test", "--workspace", "--exclude", "weft-interop", "--target", TARGET];
    cargo::run(&[&sim[..], &programs, &filter].concat(), &env)
}

/// The command that runs a program for the target; an error that names what is missing.
fn runner() -> Result<String> {
    let mut missing = Vec::new();
    if !has_standard_library() {
        missing.push(format!(
            "the standard library: `rustup target add {TARGET}`, or Debian's libstd-rust-dev:arm64 of rustc's version"
        ));
    }
    if find(COMPILER).is_none() {
        missing.push(format!("{COMPILER}: `apt install gcc-aarch64-linux-gnu`"));
    }
    if !Path::new(C_LIBRARY).join("include/stdio.h").exists() {
        missing.push(format!("{C_LIBRARY}: `apt install libc6-dev-arm64-cross`"));
    }
    if find("ld.lld").is_none() {
        missing.push("ld.lld, which gives Rust libraries symbol versions: `apt install lld`".to_owned());
    }
    if find("tshark").is_none() {
        missing.push("tshark, which reads what the tests capture: `apt install tshark`".to_owned());
    }
    for (package, header) in HEADERS {
        if !Path::new(header).exists() {
            missing.push(format!("{header}: `apt install {package}`"));
        }
    }
    let emulator = EMULATORS.iter().find(|name| find(name).is_some());
    if emulator.is_none() {
        missing.push(format!("{}: `apt install qemu-user`", EMULATORS[0]));
    }
    match emulator {
        Some(emulator) if missing.is_empty() => Ok(format!("{emulator} -L {C_LIBRARY}")),
        _ => bail!("arm64 needs\n  {}", missing.join("\n  ")),
    }
}

fn has_standard_library() -> bool {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let out = Command::new(rustc).args(["--print", "target-libdir", "--target", TARGET]).output();
    let dir = out.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned()).unwrap_or_default();
    !dir.is_empty() && Path::new(&dir).is_dir()
}

/// A program of the PATH.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}
