//! The book below `docs/`: its links, and `cargo xtask docs`, which builds it with mdBook.

use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::tools::Tool;

/// mdBook, in the release series that `book.toml` is written for.
const MDBOOK: Tool = Tool { name: "mdbook", version: "^0.4" };

/// Builds the book into `target/book`. Installs mdBook below `target` if it is not on the PATH.
pub fn build() -> Result<()> {
    let broken = broken_links()?;
    if !broken.is_empty() {
        bail!("{} links lead nowhere:\n  {}", broken.len(), broken.join("\n  "));
    }
    let status =
        Command::new(MDBOOK.install()?).arg("build").arg(crate::cargo::root()).status().context("cannot run mdbook")?;
    if !status.success() {
        bail!("mdbook build failed");
    }
    eprintln!("target/book/index.html");
    Ok(())
}

/// Relative links of all pages that lead to no file or heading, and pages that the book's summary leaves out.
pub fn broken_links() -> Result<Vec<String>> {
    let root = crate::cargo::root();
    let mut broken = Vec::new();
    let mut linked_by_summary = BTreeSet::new();
    let pages = crate::sources::tracked(&["*.md"])?;
    for page in &pages {
        let text = std::fs::read_to_string(root.join(page))?;
        for (line, target) in links(&text) {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let to = if file.is_empty() { page.clone() } else { page.parent().unwrap_or(page).join(file) };
            if page.ends_with("docs/SUMMARY.md") {
                linked_by_summary.insert(to.clone());
            }
            if !leads_somewhere(&root.join(&to), anchor) {
                broken.push(format!("{}:{line}: {target}", page.display()));
            }
        }
    }
    let left_out = pages.iter().filter(|page| page.starts_with("docs") && !page.ends_with("SUMMARY.md"));
    let left_out = left_out.filter(|page| !linked_by_summary.contains(*page));
    broken.extend(left_out.map(|page| format!("docs/SUMMARY.md: {} is not in it", page.display())));
    Ok(broken)
}

/// Relative targets of links outside code, each with its line.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut fenced = false;
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        fenced ^= line.trim_start().starts_with("```");
        let starts = line.match_indices("](").filter(|_| !fenced);
        let targets = starts.filter_map(|(at, start)| line.get(at + start.len()..)?.split(')').next());
        found.extend(targets.filter(|target| !target.contains("://")).map(|target| (number + 1, target)));
    }
    found
}

fn leads_somewhere(file: &Path, anchor: &str) -> bool {
    if anchor.is_empty() {
        return file.exists();
    }
    std::fs::read_to_string(file).is_ok_and(|text| {
        text.lines().filter(|line| line.starts_with('#')).any(|heading| slug(heading.trim_start_matches('#')) == anchor)
    })
}

/// A heading's anchor, as mdBook and code hosts make it.
fn slug(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_leads_somewhere() {
        assert_eq!(broken_links().expect("readable pages"), Vec::<String>::new());
    }

    #[test]
    fn links_in_code_and_to_other_sites_are_left_alone() {
        let text = "[a](b.md#c) and [d](https://e)\n```\n[f](g.md)\n```\n[h](i.md)";
        assert_eq!(links(text), [(1, "b.md#c"), (5, "i.md")]);
    }

    #[test]
    fn headings_have_the_anchors_of_code_hosts() {
        assert_eq!(slug(" Queue pairs, and `weft qp`"), "queue-pairs-and-weft-qp");
    }
}
