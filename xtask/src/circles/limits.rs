//! How many files of a crate may stand in circles. The limits fall; each feature of the daemon's broker adds one, since the
//! broker has its state and its dispatcher knows its requests.

use super::crates::by_crate;
use anyhow::Result;

/// Crates that are not listed have no circles.
const LIMITS: &[(&str, usize)] = &[("crates/daemon", 15), ("crates/sm", 21)];

/// Crates with more files in circles than they may have.
pub fn breaches() -> Result<Vec<String>> {
    let counts = by_crate()?;
    let breach = |(name, files): (&String, &usize)| {
        let limit = limit(name);
        (*files > limit).then(|| format!("{name}: {files} files in circles of imports, at most {limit}"))
    };
    Ok(counts.iter().filter_map(breach).collect())
}

fn limit(name: &str) -> usize {
    LIMITS.iter().find(|(crate_name, _)| *crate_name == name).map_or(0, |(_, files)| *files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_crate_has_more_circles_than_it_may() {
        assert_eq!(breaches().expect("readable sources"), Vec::<String>::new());
    }
}
