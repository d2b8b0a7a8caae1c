//! Checks that must pass before a change's tests count: format, clippy, documentation, the dependency rule.

use crate::cargo;
use anyhow::{Result, bail};

/// Runs all checks, quickest first.
pub fn run() -> Result<()> {
    rules()?;
    cargo::run(&["fmt", "--all", "--check"], &[])?;
    cargo::run(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"], &[])?;
    cargo::run(&["doc", "--workspace", "--no-deps"], &[("RUSTDOCFLAGS", "-Dwarnings")])
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
    let mut breaches = crate::layers::breaches()?;
    breaches.extend(crate::purity::breaches()?);
    if !breaches.is_empty() {
        bail!("the dependency rule (ARCHITECTURE.md, \"Layout\") is broken:\n  {}", breaches.join("\n  "));
    }
    Ok(())
}
