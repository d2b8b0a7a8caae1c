//! The project's own chores: `cargo xtask test`, `ci`, `lint`, `bench`, `abi`, `vm`, `tidy`.
//!
//! Each chore is one file; what several need (running cargo, finding the repository) is in `cargo.rs`.

mod bench;
mod cargo;
mod layers;
mod lint;
mod packages;
mod purity;
mod rings;
mod summary;
mod vm;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::process::ExitCode;
use weft_interop::product;

#[derive(Parser)]
#[command(about = "The project's own chores")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Install what the tests need (as root on Debian), build, and run every ring of tests.
    Test(rings::Options),
    /// Everything that must hold before a change lands: lint, then test.
    Ci(rings::Options),
    /// Formatting, clippy with warnings denied, documentation, the dependency rule.
    Lint,
    /// The product beside its peers in the same run: memcpy, UCX, libfabric, TCP, bare UDP, Linux's rxe.
    Bench(bench::Options),
    /// The shared libraries export what rdma-core's do, with the same versions.
    Abi,
    /// Boot Debian's kernel with rdma_rxe in QEMU, and run a command or a shell in it.
    Vm(vm::Options),
    /// Format the sources.
    Tidy,
    /// One of the peers of `bench` that are loops of our own.
    #[command(subcommand, hide = true)]
    BenchPeer(bench::peers::Own),
}

fn main() -> ExitCode {
    match run(Cli::parse().chore) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nxtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(chore: Chore) -> Result<()> {
    match chore {
        Chore::Test(options) => rings::run(&options),
        Chore::Ci(options) => lint::run().and_then(|()| rings::run(&options)),
        Chore::Lint => lint::run(),
        Chore::Bench(options) => bench::run(&options),
        Chore::Abi => {
            cargo::run(&["build", "--profile", product::SHIPPED], &[])?;
            let profile = (product::PROFILE_VARIABLE, product::SHIPPED);
            cargo::run(&["test", "-p", "weft-interop", "--test", "symbols"], &[profile])
        }
        Chore::Vm(options) => vm::run(&options),
        Chore::Tidy => cargo::run(&["fmt", "--all"], &[]),
        Chore::BenchPeer(own) => bench::peers::run(&own),
    }
}
