//! Changes of IPoIB interfaces by `ip link`: children that come and go, and modes.

use std::process::{Command, ExitCode};

use rustix::io::Errno;
use weft_ipc::{Client, IpoibInterface, RequestError};

use super::original::{code_of, original};
use crate::commands::run::interfaces::{number, set_mode};

/// Applies a command that concerns IPoIB interfaces; `None` if it does not, and the system's does it.
pub fn apply(client: &mut Client, interfaces: &[IpoibInterface], words: &[String]) -> Option<Result<ExitCode, String>> {
    let (command, rest) = words.split_first()?;
    let is = |names: &[&str]| names.iter().any(|name| !command.is_empty() && name.starts_with(command.as_str()));
    let find = |name: &str| interfaces.iter().find(|one| one.name == name);
    if is(&["add"]) {
        return Addition::parse(rest).map(|addition| addition?.make(client));
    }
    let named = || match rest {
        [dev, name, ..] if dev == "dev" => find(name),
        [name, ..] => find(name),
        [] => None,
    };
    if is(&["delete"]) {
        return Some(delete(client, interfaces, named()?));
    }
    // ip link set NAME type ipoib mode MODE
    if is(&["set"]) {
        let interface = named()?;
        let place = rest.windows(2).position(|pair| pair[0] == "type" && pair[1] == "ipoib")?;
        return Some(set(client, interface, rest.get(place + 2..).unwrap_or_default()));
    }
    None
}

fn set(client: &mut Client, interface: &IpoibInterface, options: &[String]) -> Result<ExitCode, String> {
    match options {
        [mode, value] if mode == "mode" => {
            set_mode(client, interface, value).map_err(|error| answer(&error))?;
            Ok(ExitCode::SUCCESS)
        }
        _ => Err("ipoib: of an interface that exists, only the mode can be set".to_owned()),
    }
}

fn delete(client: &mut Client, all: &[IpoibInterface], interface: &IpoibInterface) -> Result<ExitCode, String> {
    let parent = interface.parent.and_then(|parent| all.iter().find(|other| other.ifindex == parent));
    // As on Linux, the interface of a port goes with its adapter only.
    let parent = parent.ok_or_else(|| format!("RTNETLINK answers: {}", text(Errno::OPNOTSUPP.raw_os_error())))?;
    client.delete_ipoib_child(&parent.name, interface.pkey).map_err(|error| answer(&error))?;
    Ok(ExitCode::SUCCESS)
}

/// A child to make.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Addition {
    parent: String,
    name: String,
    pkey: u16,
    mode: Option<String>,
    /// Options for `ip link set`.
    rest: Vec<String>,
}

impl Addition {
    /// Reads the words after `add`; `None` if they make no IPoIB interface.
    fn parse(words: &[String]) -> Option<Result<Addition, String>> {
        let place = words.windows(2).position(|pair| pair[0] == "type" && pair[1] == "ipoib")?;
        let (of_link, options) = (&words[..place], &words[place + 2..]);
        Some(Addition::of(of_link, options))
    }

    fn of(of_link: &[String], options: &[String]) -> Result<Addition, String> {
        let (mut parent, mut name, mut rest) = (None, None, Vec::new());
        let mut words = of_link.iter();
        let missing = || "Command line is not complete. Try option \"help\"".to_owned();
        while let Some(word) = words.next() {
            match word.as_str() {
                "link" => parent = Some(words.next().ok_or_else(missing)?.clone()),
                "name" | "dev" => name = Some(words.next().ok_or_else(missing)?.clone()),
                "up" | "down" => rest.push(word.clone()),
                "mtu" | "txqueuelen" | "txqlen" | "alias" | "group" => {
                    rest.extend([word.clone(), words.next().ok_or_else(missing)?.clone()]);
                }
                other if name.is_none() => name = Some(other.to_owned()),
                other => return Err(format!("Error: either \"dev\" is duplicate, or \"{other}\" is a garbage.")),
            }
        }
        let (mut pkey, mut mode) = (None, None);
        let mut words = options.iter();
        while let Some(word) = words.next() {
            let value = words.next().ok_or_else(missing)?;
            let invalid = || format!("Error: argument \"{value}\" is wrong: {word} value is invalid");
            match word.as_str() {
                "pkey" => pkey = Some(number(value).and_then(|key| u16::try_from(key).ok()).ok_or_else(invalid)?),
                "mode" if matches!(value.as_str(), "datagram" | "connected") => mode = Some(value.clone()),
                "umcast" if number(value) == Some(0) => {}
                "mode" | "umcast" => return Err(invalid()),
                other => return Err(format!("ipoib: unknown option \"{other}\"?")),
            }
        }
        let parent = parent.ok_or_else(|| format!("RTNETLINK answers: {}", text(Errno::INVAL.raw_os_error())))?;
        let pkey = pkey.ok_or_else(|| format!("RTNETLINK answers: {}", text(Errno::INVAL.raw_os_error())))?;
        let name = name.unwrap_or_else(|| format!("{parent}.{:04x}", pkey | 0x8000));
        Ok(Addition { parent, name, pkey, mode, rest })
    }

    fn make(self, client: &mut Client) -> Result<ExitCode, String> {
        client.add_ipoib_child(&self.parent, self.pkey, Some(&self.name)).map_err(|error| answer(&error))?;
        if let Some(mode) = &self.mode {
            let all = client.ipoib_interfaces().map_err(|error| answer(&error))?;
            let child = all.iter().find(|one| one.name == self.name).ok_or("the interface went at once")?;
            if let Err(error) = set_mode(client, child, mode) {
                let _ = client.delete_ipoib_child(&self.parent, self.pkey);
                return Err(answer(&error));
            }
        }
        if self.rest.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        let mut set: Command = original(&["link".into(), "set".into(), (&self.name).into()]);
        let status = set.args(&self.rest).status().map_err(|error| crate::errno::text(&error))?;
        Ok(code_of(status, true))
    }
}

/// The kernel's answer, as `ip` prints it.
fn answer(error: &RequestError) -> String {
    match error {
        RequestError::Refused(refusal) => format!("RTNETLINK answers: {}\n{}", text(refusal.errno), refusal.text),
        other => format!("RTNETLINK answers: {other}"),
    }
}

fn text(errno: i32) -> String {
    crate::errno::text(&std::io::Error::from_raw_os_error(errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Option<Result<Addition, String>> {
        Addition::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn children_are_described_in_the_ways_of_ip() {
        let plain = Addition {
            parent: "ib0".to_owned(),
            name: "ib0.8002".to_owned(),
            pkey: 0x8002,
            mode: None,
            rest: Vec::new(),
        };
        for line in [
            "link ib0 name ib0.8002 type ipoib pkey 0x8002",
            "ib0.8002 link ib0 type ipoib pkey 32770",
            "link ib0 type ipoib pkey 0x8002",
        ] {
            assert_eq!(parse(line), Some(Ok(plain.clone())), "{line}");
        }
        let more = parse("link ib0 name x mtu 1500 up type ipoib pkey 2 mode connected umcast 0").unwrap().unwrap();
        assert_eq!(
            (more.mode.as_deref(), more.rest.join(" ").as_str(), more.pkey),
            (Some("connected"), "mtu 1500 up", 2)
        );
        assert_eq!(parse("link eth0 name eth0.5 type vlan id 5"), None);
        for bad in
            ["link ib0 type ipoib", "type ipoib pkey 2", "link ib0 type ipoib pkey x", "link ib0 type ipoib mode ud"]
        {
            assert!(parse(bad).unwrap().is_err(), "{bad}");
        }
    }
}
