//! Source of a mount: `HOST:/EXPORT`.

use std::fmt;
use std::str::FromStr;

/// Server and directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Source {
    /// Name or address of the server, without brackets.
    pub host: String,
    /// Directory.
    pub path: String,
}

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Source, String> {
        let parts = match text.strip_prefix('[') {
            Some(rest) => rest.split_once("]:"),
            None => text.split_once(":/"),
        };
        let (host, path) = parts.ok_or("not HOST:/EXPORT, such as server:/srv")?;
        if host.is_empty() || host.contains('/') {
            return Err("the host is missing".to_owned());
        }
        Ok(Source { host: host.to_owned(), path: format!("/{}", path.trim_start_matches('/')) })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.path),
            false => write!(f, "{}:{}", self.host, self.path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_a_host_and_an_absolute_path() {
        let parsed = |text: &str| text.parse::<Source>().map(|source| (source.host.clone(), source.to_string()));
        assert_eq!(parsed("server:/"), Ok(("server".into(), "server:/".into())));
        assert_eq!(parsed("10.0.0.1:/srv/a b"), Ok(("10.0.0.1".into(), "10.0.0.1:/srv/a b".into())));
        assert_eq!(parsed("[fd00::1]:/srv"), Ok(("fd00::1".into(), "[fd00::1]:/srv".into())));
        assert_eq!(parsed("fd00::1:/srv"), Ok(("fd00::1".into(), "[fd00::1]:/srv".into())));
        for wrong in ["server", ":/srv", "/srv", "server:srv", "[::1]/srv"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}
