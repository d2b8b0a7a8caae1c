//! The subnet manager that `weft up` starts on one of the fabric's hosts.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use weft_fabric::topology::{Node, NodeKind, Topology};
use weft_ipc::HOST_VARIABLE;

use super::sm;

/// Maximum number of host names in an error message.
const NAMED_MAX: usize = 8;

/// A subnet manager that `weft up` will start.
pub struct FabricManager {
    host: String,
    /// PortGUID of its port.
    guid: u64,
    /// Its opensm.conf.
    config: Option<PathBuf>,
}

impl FabricManager {
    /// Chooses the manager's host and reads its configuration. Returns `None` if the user named no host and no host has
    /// a port.
    pub fn choose(
        host: Option<&str>,
        config: Option<&Path>,
        topology: &Topology,
    ) -> Result<Option<FabricManager>, String> {
        let config = match config {
            Some(file) => Some(sm::check_config(file).map_err(|error| format!("{error:#}"))?),
            None => None,
        };
        let Some(node) = choose_node(host, topology)? else { return Ok(None) };
        let guid = node.ports.first().map_or(0, |port| port.guid);
        Ok(Some(FabricManager { host: node.host.clone(), guid, config }))
    }

    /// The host that the manager runs on.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Starts the manager, and waits until the subnet is up unless `no_wait` is set.
    pub fn start(&self, no_wait: bool) -> Result<(), String> {
        let error = |error| format!("{error:#}");
        // The previous fabric's manager may have had the same port, and takes a moment to exit.
        sm::wait_until_free(self.guid).map_err(error)?;
        let guid = format!("0x{:016x}", self.guid);
        let mut words: Vec<OsString> = ["sm", "--yields", "--guid", &guid].map(OsString::from).into();
        match &self.config {
            Some(file) => words.extend([OsString::from("--config"), file.into()]),
            None => words.push("--no-config".into()),
        }
        sm::spawn(&words, &[(OsStr::new(HOST_VARIABLE), OsStr::new(&self.host))]).map_err(error)?;
        if no_wait { Ok(()) } else { sm::wait_until_up(self.guid).map_err(error) }
    }
}

/// The adapter for the manager: on the host with this name, or on the first host.
fn choose_node<'a>(name: Option<&str>, topology: &'a Topology) -> Result<Option<&'a Node>, String> {
    let mut adapters = topology.nodes.iter().filter(|node| node.kind == NodeKind::Ca && !node.ports.is_empty());
    let Some(name) = name else { return Ok(adapters.find(|node| !node.host.is_empty())) };
    let host = topology.host_called(name);
    let node = host.and_then(|host| adapters.find(|node| node.host == host));
    node.map(Some).ok_or_else(|| format!("unknown host `{name}`; {}", hosts_of(topology)))
}

/// Lists the names of all hosts: `hosts are node1..node16`.
pub(super) fn hosts_of(topology: &Topology) -> String {
    let names = topology.host_names();
    let numbered = |(place, name): (usize, &&str)| name.strip_prefix("node") == Some((place + 1).to_string().as_str());
    match names.as_slice() {
        [] => "the fabric has no hosts".to_owned(),
        [one] => format!("the only host is {one}"),
        [first, .., last] if names.iter().enumerate().all(numbered) => format!("hosts are {first}..{last}"),
        names if names.len() <= NAMED_MAX => format!("hosts are {}", names.join(", ")),
        names => format!("hosts are {} and {} others", names[..NAMED_MAX].join(", "), names.len() - NAMED_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_fabric::topology::file;

    #[test]
    fn an_unknown_host_is_told_beside_those_that_there_are() {
        let text = |hosts: &str| format!("[[switch]]\nname = \"leaf\"\nports = 4\n[[host]]\n{hosts}\n");
        let told = |hosts: &str| {
            let topology = file::read("lab", &text(hosts)).expect("a topology");
            choose_node(Some("leaf"), &topology).map(drop)
        };
        let error = |text: &str| Err(format!("unknown host `leaf`; {text}"));
        assert_eq!(told("name = \"node\"\ncount = 16"), error("hosts are node1..node16"));
        assert_eq!(told("name = \"a\""), error("the only host is a"));
        assert_eq!(told("name = \"a\"\n[[host]]\nname = \"b\""), error("hosts are a, b"));
        assert_eq!(told("name = \"a\"\ncount = 9"), error("hosts are a1, a2, a3, a4, a5, a6, a7, a8 and 1 others"));
        let topology = file::read("lab", &text("name = \"node\"\ncount = 3")).expect("a topology");
        let chosen = |name| choose_node(name, &topology).expect("a host").map(|node| node.host.as_str());
        assert_eq!(
            [chosen(None), chosen(Some("node3")), chosen(Some("h0002"))].map(Option::unwrap),
            ["node1", "node3", "node2"]
        );
    }
}
