//! The project's own chores: `cargo xtask test`, `ci`, `lint`, `bench`, `abi`, `arm64`, `vm`, `counts`, `docs`, `dist`, `deny`, `tidy`.
//!
//! Each chore is one file; shared helpers (running cargo, finding the repository) are in `cargo.rs`.

mod arm64;
mod bench;
mod cargo;
mod circles;
mod counts;
mod dist;
mod docs;
mod lanes;
mod layers;
mod lint;
mod packages;
mod purity;
mod rings;
mod sources;
mod summary;
mod times;
mod tools;
mod vm;
mod words;

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
    /// Install the tests' dependencies (as root on Debian), build, and run every ring of tests.
    Test(rings::Options),
    /// Run every check that must pass before a change lands: lint, then test.
    Ci(rings::Options),
    /// Check formatting, clippy with warnings denied, documentation, and the dependency rule.
    Lint,
    /// Measure the product beside its peers in the same run: memcpy, UCX, libfabric, TCP, bare UDP, Linux's rxe.
    Bench(bench::Options),
    /// Check that the shared libraries export the same symbols and versions as rdma-core's.
    Abi,
    /// Build for 64-bit ARM, and run the unit and sim rings under QEMU's user emulation.
    Arm64(arm64::Options),
    /// Boot Debian's kernel with rdma_rxe or siw in QEMU, and run a command or a shell in it.
    Vm(vm::Options),
    /// Count sentences to rewrite, files in circles, and files that a change touches.
    Counts(counts::Options),
    /// Build the book (docs/) into target/book.
    Docs,
    /// Make the packages that users install, in target/dist: tarball, Debian package, wheel, container context.
    Dist(dist::Options),
    /// Check licences and origins of all dependencies (deny.toml).
    Deny,
    /// Format the sources.
    Tidy,
    /// Run one of `bench`'s own peers, which are bare loops.
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
        Chore::Arm64(options) => arm64::run(&options),
        Chore::Vm(options) => vm::run(&options),
        Chore::Counts(options) => counts::run(&options),
        Chore::Docs => docs::build(),
        Chore::Dist(options) => dist::run(&options),
        Chore::Deny => lint::deny(&lint::CARGO_DENY.install()?),
        Chore::Tidy => cargo::run(&["fmt", "--all"], &[]),
        Chore::BenchPeer(own) => bench::peers::run(&own),
    }
}
