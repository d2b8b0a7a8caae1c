//! The managers that a host runs. `/etc/sysconfig/opensm` (`/etc/default/opensm` on Debian) names ports and a priority;
//! each of the files `opensm.conf.1`, `opensm.conf.2` ... is one manager. The caller lists the files.

use super::{Diagnostic, Diagnostics, clip, number};

/// Ports that one file may name: no host has more.
pub const INSTANCES_MAX: usize = 256;

/// Contents of `/etc/sysconfig/opensm`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sysconfig {
    /// PortGUIDs of ports with a manager of their own each (`GUIDS`).
    pub guids: Vec<u64>,
    /// Every port of the host gets one (`PORTS=ALL`); the caller knows the ports and fills in `guids`.
    pub all_ports: bool,
    /// No port gets one (`PORTS=NONE`).
    pub no_ports: bool,
    /// Priority of the managers (`PRIORITY`).
    pub priority: Option<u8>,
    /// Further options of a command line (`OPTIONS`).
    pub options: Vec<String>,
}

/// A manager to run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Instance {
    /// Its name among the instances: the number of its file, or of its port from 0.
    pub name: String,
    /// Its options file; `None`: defaults.
    pub config: Option<String>,
    /// Its port, unless its file names one.
    pub guid: Option<u64>,
    /// Its priority, unless its file sets it.
    pub priority: Option<u8>,
    /// Its subnet prefix, unless its file sets it: two subnets of one host need different ones.
    pub subnet_prefix: Option<u64>,
    /// Further options of a command line.
    pub options: Vec<String>,
}

/// Parses assignments as a shell does, without expanding anything.
pub fn sysconfig(text: &str, file: &str) -> (Sysconfig, Vec<Diagnostic>) {
    let mut diagnostics = Diagnostics::of(file);
    let mut said = Sysconfig::default();
    for (at, line) in (1u32..).zip(super::bounded(text).lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix("export ").unwrap_or(line);
        let Some((name, value)) = line.split_once('=') else {
            diagnostics.error(
                (at, 1),
                format!("{} is no assignment; the line is passed over", clip(line)),
                "write NAME=\"value\"",
            );
            continue;
        };
        let Some(value) = shell_word(value) else {
            diagnostics.error(
                (at, 1),
                format!("{name}: a quotation mark has no end; the line is passed over"),
                "write NAME=\"value\"",
            );
            continue;
        };
        match name.trim() {
            "PORTS" if value == "ALL" => said.all_ports = true,
            "PORTS" if value == "NONE" => said.no_ports = true,
            "GUIDS" | "PORTS" => said.guids = guids(&value, at, &mut diagnostics),
            "PRIORITY" if value.is_empty() => said.priority = None,
            "PRIORITY" => {
                match number(&value).ok().and_then(|value| u8::try_from(value).ok()).filter(|value| *value <= 15) {
                    Some(priority) => said.priority = Some(priority),
                    None => diagnostics.error(
                        (at, 1),
                        format!("PRIORITY cannot be {}; it is not set", clip(&value)),
                        "write 0 to 15",
                    ),
                }
            }
            "OPTIONS" => said.options = value.split_whitespace().map(str::to_owned).collect(),
            other => {
                let what = format!("{} is not known; the line is passed over", clip(other));
                diagnostics.warning((at, 1), what, "GUIDS, PORTS, PRIORITY and OPTIONS are");
            }
        }
    }
    (said, diagnostics.into_list())
}

fn guids(value: &str, at: u32, diagnostics: &mut Diagnostics) -> Vec<u64> {
    let mut guids = Vec::new();
    for word in value.split_whitespace() {
        match number(word) {
            Ok(0) | Err(_) => {
                let what = format!("GUIDS: {} is no PortGUID; it is passed over", clip(word));
                diagnostics.error((at, 1), what, "write one as ibstat -p prints it: 0x...");
            }
            Ok(guid) if guids.contains(&guid) => {
                diagnostics.warning((at, 1), format!("GUIDS: {word} stands twice"), "leave one of them out");
            }
            Ok(_) if guids.len() == INSTANCES_MAX => {
                diagnostics.error((at, 1), format!("GUIDS: there are more than {INSTANCES_MAX}"), "");
                break;
            }
            Ok(guid) => guids.push(guid),
        }
    }
    guids
}

/// Returns the first word of a shell line, without quotation marks; `None` if a quotation has no end.
fn shell_word(text: &str) -> Option<String> {
    let mut word = String::new();
    let mut quote = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), close) if open == close => quote = None,
            (Some('\''), letter) => word.push(letter),
            (_, '\\') => word.extend(letters.next()),
            (None, '"' | '\'') => quote = Some(letter),
            (None, ' ' | '\t' | ';') => break,
            (_, letter) => word.push(letter),
        }
    }
    quote.is_none().then_some(word)
}

/// Returns the managers that a host runs, from the sysconfig file and the files in the directory: one for each
/// `opensm.conf.N`, else one for each of `GUIDS`, else a single one.
pub fn instances(said: &Sysconfig, directory: &str, files: &[String]) -> Vec<Instance> {
    if said.no_ports {
        return Vec::new();
    }
    let mut numbered: Vec<(u64, &String)> = files.iter().filter_map(|file| Some((numbered(file)?, file))).collect();
    numbered.sort_unstable();
    numbered.truncate(INSTANCES_MAX);
    let path = |file: &str| format!("{}/{file}", directory.trim_end_matches('/'));
    if !numbered.is_empty() {
        let one = |(number, file): (u64, &String)| Instance {
            name: number.to_string(),
            config: Some(path(file)),
            ..Instance::default()
        };
        return numbered.into_iter().map(one).collect();
    }
    let config = files.iter().any(|file| file == "opensm.conf").then(|| path("opensm.conf"));
    let base = Instance { config, priority: said.priority, options: said.options.clone(), ..Instance::default() };
    if said.guids.is_empty() {
        return vec![Instance { name: "0".to_owned(), ..base }];
    }
    let many = said.guids.len() > 1;
    let one = |(place, guid): (u64, &u64)| Instance {
        name: place.to_string(),
        guid: Some(*guid),
        subnet_prefix: many.then_some(0xfe80_0000_0000_0000 + place),
        ..base.clone()
    };
    (0u64..).zip(&said.guids).map(one).collect()
}

/// Returns the number of a file `opensm.conf.N`; copies (`opensm.conf.orig`, `opensm.conf.rpmnew`) have none.
fn numbered(file: &str) -> Option<u64> {
    let number = file.strip_prefix("opensm.conf.")?;
    (number.bytes().all(|digit| digit.is_ascii_digit())).then(|| number.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guides_file_is_read() {
        let text =
            "# Problem #1\nGUIDS=\"0xf4521403007be131 0xf65214fffe7be132\" # ports\nexport PRIORITY=15\nX=1\nGUIDS2\n";
        let (said, diagnostics) = sysconfig(text, "opensm");
        assert_eq!(said.guids, [0xf452_1403_007b_e131, 0xf652_14ff_fe7b_e132]);
        assert_eq!((said.priority, diagnostics.len()), (Some(15), 2));
        let (said, _) = sysconfig("PORTS=NONE\n", "opensm");
        assert_eq!(instances(&said, "/etc/opensm", &["opensm.conf.1".to_owned()]), []);
        let (said, diagnostics) = sysconfig("PRIORITY=16\nGUIDS='0x1 mlx4_0 0x1'\nGUIDS=\"0x1\n", "opensm");
        assert_eq!((said.guids, said.priority, diagnostics.len()), (vec![1], None, 4));
    }

    #[test]
    fn there_is_a_manager_for_each_file_or_port() {
        let said = Sysconfig { guids: vec![0x11, 0x12], priority: Some(7), ..Sysconfig::default() };
        let files: Vec<String> = ["opensm.conf", "opensm.conf.orig", "opensm.conf.10", "opensm.conf.2", "opensm.conf."]
            .map(str::to_owned)
            .to_vec();
        let by_file = instances(&said, "/etc/rdma", &files);
        let found: Vec<_> = by_file.iter().map(|one| (one.config.as_deref(), one.guid, one.priority)).collect();
        let path = |name| Some(name);
        assert_eq!(
            found,
            [(path("/etc/rdma/opensm.conf.2"), None, None), (path("/etc/rdma/opensm.conf.10"), None, None)]
        );
        let by_guid = instances(&said, "/etc/rdma/", &files[..2]);
        let found: Vec<_> = by_guid.iter().map(|one| (one.guid, one.priority, one.subnet_prefix)).collect();
        let prefix = 0xfe80_0000_0000_0000u64;
        assert_eq!(found, [(Some(0x11), Some(7), Some(prefix)), (Some(0x12), Some(7), Some(prefix + 1))]);
        assert_eq!(by_guid[0].config.as_deref(), Some("/etc/rdma/opensm.conf"));
        assert_eq!(
            instances(&Sysconfig::default(), "/etc/rdma", &[]),
            [Instance { name: "0".to_owned(), ..Instance::default() }]
        );
    }
}
