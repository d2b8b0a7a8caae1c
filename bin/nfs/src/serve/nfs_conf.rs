//! nfs.conf(5), as far as it concerns RDMA: `rdma` and `rdma-port` of section `[nfsd]`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use weft_rpcrdma::limits::NFS_PORT;

/// The system's file, and the directory of further ones.
const FILE: &str = "/etc/nfs.conf";
const DIRECTORY: &str = "/etc/nfs.conf.d";

/// Returns the port for NFS over RDMA that a configuration chooses: a file, or the system's.
///
/// # Errors
/// The file cannot be read, or its port is none.
pub fn port(file: Option<&Path>) -> Result<u16> {
    let texts = match file {
        Some(file) => {
            vec![std::fs::read_to_string(file).with_context(|| format!("--config {}", file.display()))?]
        }
        None => system_files().iter().filter_map(|file| std::fs::read_to_string(file).ok()).collect(),
    };
    let chosen = texts.iter().rev().find_map(|text| port_in(text));
    let Some(value) = chosen else { return Ok(NFS_PORT) };
    value.parse().with_context(|| format!("nfs.conf: rdma-port: `{value}` is no port"))
}

/// Returns the files that the system's server reads, in their order: later ones win.
fn system_files() -> Vec<PathBuf> {
    let mut more: Vec<PathBuf> = std::fs::read_dir(DIRECTORY)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    more.retain(|file| file.extension().is_some_and(|extension| extension == "conf"));
    more.sort();
    std::iter::once(PathBuf::from(FILE)).chain(more).collect()
}

/// Returns the port: `rdma-port`, or `rdma`, which may be a port, too.
fn port_in(text: &str) -> Option<String> {
    let (mut in_section, mut port, mut of_rdma) = (false, None, None);
    for line in text.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            in_section = section.trim().eq_ignore_ascii_case("nfsd");
        } else if in_section
            && !line.starts_with(['#', ';'])
            && let Some((name, value)) = line.split_once('=')
        {
            let value = value.split('#').next().unwrap_or_default().trim().trim_matches('"').to_owned();
            match name.trim().to_ascii_lowercase().as_str() {
                "rdma-port" => port = Some(value),
                "rdma" => of_rdma = Some(value),
                _ => {}
            }
        }
    }
    // `y` chooses the usual port, as does the service's name.
    port.or(of_rdma.filter(|value| value.starts_with(|first: char| first.is_ascii_digit()) && value.len() > 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_that_of_nfsd() {
        let port = |text: &str| port_in(text);
        assert_eq!(port("[nfsd]\nrdma=y\nrdma-port = 20050 # here\n"), Some("20050".into()));
        assert_eq!(port("[nfsd]\nRDMA = 20051\n"), Some("20051".into()));
        assert_eq!(port("# rdma-port=1\n[nfsd]\nvers3=y\nrdma=y\n"), None);
        assert_eq!(port("[mountd]\nrdma-port=20050\n[nfsd]\n;rdma-port=7\nrdma=nfsrdma\n"), None);
        assert_eq!(port("[nfsd]\nrdma=n\nrdma-port=\"20052\"\n"), Some("20052".into()));
        assert_eq!((port("[nfsd]\nrdma=1\n"), port("")), (None, None));
    }
}
