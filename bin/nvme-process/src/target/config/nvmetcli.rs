//! nvmetcli's format: the JSON that `nvmetcli save` writes, which mirrors the kernel's configfs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::Value;

/// Names and values that are not read otherwise.
type Rest = BTreeMap<String, Value>;

/// File.
#[derive(Deserialize, Debug)]
pub struct ConfigFile {
    /// Hosts that subsystems may allow.
    #[serde(default)]
    pub hosts: Vec<HostEntry>,
    /// Ports.
    #[serde(default)]
    pub ports: Vec<PortEntry>,
    /// Subsystems.
    #[serde(default)]
    pub subsystems: Vec<SubsystemEntry>,
}

/// Host.
#[derive(Deserialize, Debug)]
pub struct HostEntry {
    /// Name.
    pub nqn: String,
    /// Other names, such as keys of authentication.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Port.
#[derive(Deserialize, Debug)]
pub struct PortEntry {
    /// Number.
    #[serde(rename = "portid")]
    pub id: u16,
    /// Address.
    #[serde(rename = "addr")]
    pub address: AddressEntry,
    /// Names of subsystems.
    #[serde(default)]
    pub subsystems: Vec<String>,
    /// Other discovery services.
    #[serde(default)]
    pub referrals: Vec<ReferralEntry>,
    /// Parameters.
    #[serde(default, rename = "param")]
    pub parameters: Rest,
}

/// Address.
#[derive(Deserialize, Debug)]
pub struct AddressEntry {
    /// Transport: `rdma` is served.
    #[serde(rename = "trtype")]
    pub transport: String,
    /// Family: `ipv4` or `ipv6`.
    #[serde(default, rename = "adrfam")]
    pub family: String,
    /// Address.
    #[serde(rename = "traddr")]
    pub address: String,
    /// Port.
    #[serde(rename = "trsvcid")]
    pub service: String,
}

/// Other discovery service.
#[derive(Deserialize, Debug)]
pub struct ReferralEntry {
    /// Address.
    #[serde(rename = "addr")]
    pub address: AddressEntry,
    /// Number of its port.
    #[serde(default, rename = "portid")]
    pub port_id: u16,
    /// Whether the log mentions it.
    #[serde(default)]
    pub enable: Switch,
}

/// Subsystem.
#[derive(Deserialize, Debug)]
pub struct SubsystemEntry {
    /// Name.
    pub nqn: String,
    /// Attributes.
    #[serde(default, rename = "attr")]
    pub attributes: Rest,
    /// Hosts that may connect, unless all may.
    #[serde(default)]
    pub allowed_hosts: Vec<String>,
    /// Namespaces.
    #[serde(default)]
    pub namespaces: Vec<NamespaceEntry>,
}

/// Namespace.
#[derive(Deserialize, Debug)]
pub struct NamespaceEntry {
    /// Identifier.
    pub nsid: u32,
    /// Whether hosts see it.
    #[serde(default)]
    pub enable: Switch,
    /// File or block device.
    pub device: DeviceEntry,
}

/// File or block device of a namespace.
#[derive(Deserialize, Debug)]
pub struct DeviceEntry {
    /// Path.
    pub path: PathBuf,
    /// NGUID.
    #[serde(default)]
    pub nguid: Option<String>,
    /// UUID.
    #[serde(default)]
    pub uuid: Option<String>,
}

/// On or off: a number, a text or a boolean.
#[derive(Deserialize, Clone, PartialEq, Eq, Debug, Default)]
#[serde(transparent)]
pub struct Switch(Value);

impl Switch {
    /// Whether it is on.
    pub fn is_on(&self) -> bool {
        is_on(&self.0)
    }
}

/// Whether a value means yes.
fn is_on(value: &Value) -> bool {
    match value {
        Value::Bool(on) => *on,
        Value::Number(number) => number.as_i64() != Some(0),
        Value::String(text) => text.trim() == "1",
        _ => false,
    }
}

/// Returns a value's text.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), |text| text.trim().to_owned())
}

impl ConfigFile {
    /// Reads a file's text.
    ///
    /// # Errors
    /// It is not of this format, or asks for what the target does not have and must not ignore.
    pub fn parse(json: &str) -> Result<ConfigFile> {
        let file: ConfigFile = serde_json::from_str(json).context("not the JSON of `nvmetcli save`")?;
        for host in &file.hosts {
            if let Some((name, _)) = host.rest.iter().find(|(_, value)| !text(value).is_empty()) {
                bail!("host {}: {name}: authentication is not supported", host.nqn);
            }
        }
        for subsystem in &file.subsystems {
            if subsystem.attributes.get("attr_pi_enable").or(subsystem.attributes.get("pi_enable")).is_some_and(is_on) {
                bail!("subsystem {}: pi_enable: metadata is not supported", subsystem.nqn);
            }
        }
        Ok(file)
    }
}

impl PortEntry {
    /// Returns the data that a capsule has room for; `None` unless the port says so.
    pub fn in_capsule_bytes(&self) -> Option<u32> {
        self.parameters.get("inline_data_size").and_then(|value| text(value).parse().ok())
    }
}

impl SubsystemEntry {
    /// Whether every host may connect.
    pub fn allows_any_host(&self) -> bool {
        self.attribute("allow_any_host").is_some_and(|text| text == "1" || text == "true")
    }

    /// Returns an attribute, which newer files name with a prefix.
    pub fn attribute(&self, name: &str) -> Option<String> {
        let value = self.attributes.get(name).or_else(|| self.attributes.get(&format!("attr_{name}")));
        value.map(text).filter(|text| !text.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As nvmetcli 0.7 saves it.
    const SAVED: &str = r#"{
      "hosts": [{"nqn": "nqn.2014-08.org.nvmexpress:uuid:1"}],
      "ports": [{
        "addr": {"adrfam": "ipv4", "traddr": "192.0.2.1", "treq": "not specified", "trsvcid": "4420", "trtype": "rdma"},
        "ana_groups": [{"ana": {"state": "optimized"}, "grpid": 1}],
        "param": {"inline_data_size": "16384", "pi_enable": "0"},
        "portid": 1, "referrals": [], "subsystems": ["nqn.2026-01.io.weft:disk"]
      }],
      "subsystems": [{
        "allowed_hosts": ["nqn.2014-08.org.nvmexpress:uuid:1"],
        "attr": {"allow_any_host": "0", "cntlid_max": "65519", "model": "Linux", "serial": "0123456789abcdef", "version": "1.3"},
        "namespaces": [{
          "ana": {"grpid": "1"}, "ana_grpid": 1,
          "device": {"nguid": "00000000-0000-0000-0000-000000000000", "path": "/dev/loop0", "uuid": "b91d0f5c-63a7-4f0c-8b8a-6d9d5b0f4f02"},
          "enable": 1, "nsid": 1
        }],
        "nqn": "nqn.2026-01.io.weft:disk"
      }]
    }"#;

    #[test]
    fn a_saved_file_is_read() {
        let file = ConfigFile::parse(SAVED).expect("a configuration");
        let (port, subsystem) = (&file.ports[0], &file.subsystems[0]);
        assert_eq!((port.address.transport.as_str(), port.in_capsule_bytes()), ("rdma", Some(16384)));
        assert_eq!((subsystem.attribute("model").as_deref(), subsystem.allows_any_host()), (Some("Linux"), false));
        let namespace = &subsystem.namespaces[0];
        assert_eq!((namespace.nsid, namespace.enable.is_on()), (1, true));
        assert_eq!(namespace.device.path, PathBuf::from("/dev/loop0"));
    }

    #[test]
    fn authentication_and_metadata_are_refused() {
        let with_key =
            SAVED.replace(r#""nqn": "nqn.2014-08.org.nvmexpress:uuid:1"}"#, r#""nqn": "x", "dhchap_key": "DHHC-1:"}"#);
        let error = ConfigFile::parse(&with_key).expect_err("a key").to_string();
        assert_eq!(error, "host x: dhchap_key: authentication is not supported");
        let with_pi = SAVED.replace(r#""allow_any_host": "0""#, r#""attr_pi_enable": "1""#);
        assert!(ConfigFile::parse(&with_pi).is_err());
        let error = format!("{:#}", ConfigFile::parse("[1]").expect_err("no object"));
        assert!(error.starts_with("not the JSON of `nvmetcli save`: "), "{error}");
    }
}
