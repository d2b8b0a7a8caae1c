//! What a change must hold before its tests count: format, clippy, documentation, the dependency rule.

use crate::cargo;
use anyhow::{Result, bail};

/// Runs all, quickest first.
pub fn run() -> Result<()> {
    rules()?;
    cargo::run(&["fmt", "--all", "--check"], &[])?;
    cargo::run(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"], &[])?;
    cargo::run(&["doc", "--workspace", "--no-deps"], &[("RUSTDOCFLAGS", "-Dwarnings")])
}

/// The dependency rule and the purity of what stands above the I/O line.
pub fn rules() -> Result<()> {
    let mut breaches = crate::layers::breaches()?;
    breaches.extend(crate::purity::breaches()?);
    if !breaches.is_empty() {
        bail!("the dependency rule (ARCHITECTURE.md, \"Layout\") is broken:\n  {}", breaches.join("\n  "));
    }
    Ok(())
}
