//! Checks that must pass before a change's tests count: format, clippy, documentation, the dependency rule, circles.

use crate::cargo;
use crate::tools::Tool;
use anyhow::{Result, bail};
use std::path::Path;
use std::process::Command;

/// Runs all checks, quickest first.
pub fn run() -> Result<()> {
    rules()?;
    cargo::run(&["fmt", "--all", "--check"], &[])?;
    cargo::run(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"], &[])?;
    cargo::run(&["doc", "--workspace", "--no-deps"], &[("RUSTDOCFLAGS", "-Dwarnings")])?;
    match CARGO_DENY.find() {
        Some(program) => deny(&program),
        None => {
            eprintln!("\nlicences and origins of dependencies: not checked; `cargo xtask deny` installs cargo-deny");
            Ok(())
        }
    }
}

/// The judge of deny.toml.
pub const CARGO_DENY: Tool = Tool { name: "cargo-deny", version: "^0.18" };

/// Checks licences and origins of all dependencies.
pub fn deny(program: &Path) -> Result<()> {
    eprintln!("\n== cargo deny check bans licenses sources");
    let mut command = Command::new(program);
    let status = command.current_dir(cargo::root()).args(["check", "bans", "licenses", "sources"]).status()?;
    if !status.success() {
        bail!("cargo deny check failed");
    }
    Ok(())
}

/// Checks the dependency rule and the purity of the crates above the I/O line.
pub fn rules() -> Result<()> {
    let openings = crate::words::breaches()?;
    if !openings.is_empty() {
        bail!("{} sentences must be rewritten:\n  {}", openings.len(), openings.join("\n  "));
    }
    let broken = crate::docs::broken_links()?;
    if !broken.is_empty() {
        bail!("{} links lead nowhere:\n  {}", broken.len(), broken.join("\n  "));
    }
    let circles = crate::circles::breaches()?;
    if !circles.is_empty() {
        bail!("new circles of imports (`cargo xtask counts --circles` lists them):\n  {}", circles.join("\n  "));
    }
    let mut breaches = crate::layers::breaches()?;
    breaches.extend(crate::purity::breaches()?);
    if !breaches.is_empty() {
        bail!("the dependency rule (ARCHITECTURE.md, \"Layout\") is broken:\n  {}", breaches.join("\n  "));
    }
    Ok(())
}
