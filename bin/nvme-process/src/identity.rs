//! Identity of this host: options, nvme-cli's files, or what the machine gives.

use anyhow::{Context, Result, bail};
use weft_nvme::HostName;
use weft_nvme::wire::nqn_error;

use crate::identifier::{identifier, parse_identifier, uuid_text};

/// Returns name and identifier of this host.
///
/// # Errors
/// A given name or identifier is malformed.
pub fn host(nqn: Option<&str>, id: Option<&str>) -> Result<HostName> {
    let file = |name: &str| std::fs::read_to_string(name).ok().map(|text| text.trim().to_owned());
    let of_machine = identifier(std::path::Path::new("/"), "host");
    let id = match id.map(str::to_owned).or_else(|| file("/etc/nvme/hostid")) {
        Some(text) => parse_identifier(&text).with_context(|| format!("host identifier `{text}`: not a UUID"))?,
        None => of_machine,
    };
    let made = || format!("nqn.2014-08.org.nvmexpress:uuid:{}", uuid_text(&of_machine));
    let nqn = nqn.map(str::to_owned).or_else(|| file("/etc/nvme/hostnqn")).unwrap_or_else(made);
    if let Some(error) = nqn_error(&nqn) {
        bail!("host name `{nqn}`: not an NQN: {error}");
    }
    Ok(HostName { nqn, id })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_come_first_and_are_checked() {
        let given = host(Some("nqn.2014-08.org.nvmexpress:x"), Some("00000000-0000-0000-0000-000000000001"));
        let given = given.expect("a host");
        assert_eq!((given.nqn.as_str(), given.id[15]), ("nqn.2014-08.org.nvmexpress:x", 1));
        assert!(host(Some("me"), None).is_err() && host(None, Some("1")).is_err());
    }
}
