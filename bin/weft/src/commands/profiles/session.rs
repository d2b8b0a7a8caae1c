//! A session with the daemon about the host that this command runs as: its interfaces, its profiles, and which of them
//! are active. The daemon keeps profiles as files of the host, so that they end with the fabric.

use std::collections::BTreeMap;
use std::env;
use std::fs;

use weft_ipc::{Client, ConnectError, ConnectOptions, HOST_VARIABLE, HostFile, IpoibInterface, Spawn};
use weft_tool::fabric::spell;

use super::kernel_state;
use super::nmconnection;
use super::plan::SeenInterface;
use super::profile::{Profile, Transport, random_uuid};
use crate::commands::run::interfaces::address_text;

/// Names of the files: of profiles, and of those that are active.
const CONNECTIONS: &str = "connections/";
const ACTIVE: &str = "active/";

/// Profiles of a host: each may have a second file while it is active.
const PROFILES_MAX: usize = weft_ipc::HOST_FILES_MAX / 2;

/// Separates the numbers of an active profile's file from the profile.
const SEPARATOR: char = '\n';

/// A profile of the host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stored {
    /// The profile.
    pub profile: Profile,
    /// Its activation, if it is active.
    pub active: Option<Active>,
}

/// An active profile.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Active {
    /// Number of the activation.
    pub number: u32,
    /// Index of its interface.
    pub ifindex: u32,
    /// Name of that now.
    pub interface: String,
    /// Whether the activation made the interface.
    pub made_child: bool,
    /// Numbers of the profile's address steps that were not needed, as in [`super::plan::Activation`].
    pub kept: Vec<usize>,
    /// The profile as it was activated.
    pub applied: Profile,
}

impl Active {
    /// Returns the D-Bus path that NetworkManager would give the activation.
    pub fn path(&self) -> String {
        format!("/org/freedesktop/NetworkManager/ActiveConnection/{}", self.number)
    }
}

/// The session.
#[derive(Debug)]
pub struct Session {
    client: Client,
}

impl Session {
    /// Opens a session for `program` on the host that it runs as.
    ///
    /// # Errors
    /// There is no host; the text says what to do.
    pub fn open(program: &str) -> Result<Session, String> {
        let host = env::var(HOST_VARIABLE).unwrap_or_default();
        if host.is_empty() {
            return Err(
                "the command does not run as a host of a fabric: start it with `weft run --host HOST --`".to_owned()
            );
        }
        let options =
            ConnectOptions { program: program.to_owned(), host, spawn: Spawn::Never, ..ConnectOptions::default() };
        let client = Client::connect(&options).map_err(|error| match error {
            ConnectError::NotRunning => "no fabric is up: bring one up with `weft up`".to_owned(),
            error => error.to_string(),
        })?;
        Ok(Session { client })
    }

    /// Returns the client.
    pub fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    /// Returns the host's IPoIB interfaces.
    ///
    /// # Errors
    /// The text is for the user.
    pub fn interfaces(&mut self) -> Result<Vec<IpoibInterface>, String> {
        self.client.ipoib_interfaces().map_err(spell)
    }

    /// Returns the same as plans need them.
    ///
    /// # Errors
    /// The text is for the user.
    pub fn seen(&mut self) -> Result<Vec<SeenInterface>, String> {
        let all = self.interfaces()?;
        let names: BTreeMap<u32, String> = all.iter().map(|one| (one.ifindex, one.name.clone())).collect();
        let mut kernel = kernel_state::read();
        let seen = all.into_iter().map(|one| SeenInterface {
            is_up: is_up(&one.name),
            mode: if one.is_connected() { Transport::Connected } else { Transport::Datagram },
            mtu: attribute(&one.name, "mtu").parse().unwrap_or_default(),
            kernel: kernel.remove(&one.name).unwrap_or_default(),
            address_text: address_text(&one.address),
            address: one.address,
            port: one.port.saturating_sub(1),
            p_key: one.pkey,
            parent: one.parent.and_then(|parent| names.get(&parent).cloned()),
            name: one.name,
        });
        Ok(seen.collect())
    }

    /// Returns all profiles in the order of their names. Forgets activations whose interfaces have gone.
    ///
    /// # Errors
    /// The text is for the user.
    pub fn profiles(&mut self) -> Result<Vec<Stored>, String> {
        let interfaces = self.interfaces()?;
        let files = self.client.host_files().map_err(spell)?;
        let mut active: BTreeMap<String, Active> = BTreeMap::new();
        for HostFile { name, content } in &files {
            let Some(uuid) = name.strip_prefix(ACTIVE) else { continue };
            match read_active(content, &interfaces) {
                Some(one) => drop(active.insert(uuid.to_owned(), one)),
                None => self.client.remove_host_file(name).map_err(spell)?,
            }
        }
        let of_file = |file: &HostFile| {
            let uuid = file.name.strip_prefix(CONNECTIONS)?;
            let profile = nmconnection::parse(&file.content, uuid).ok()?.profile;
            Some(Stored { active: active.remove(uuid), profile })
        };
        let mut all: Vec<Stored> = files.iter().filter_map(of_file).collect();
        all.sort_by(|a, b| a.profile.id.cmp(&b.profile.id));
        Ok(all)
    }

    /// Stores a profile, in place of one with the same UUID. One without a UUID takes the place of one with its name.
    ///
    /// # Errors
    /// The text is for the user.
    pub fn save(&mut self, profile: &mut Profile) -> Result<(), String> {
        let all = self.profiles()?;
        if profile.uuid.is_empty() {
            let old = all.iter().find(|one| one.profile.id == profile.id);
            profile.uuid = old.map_or_else(random_uuid, |old| old.profile.uuid.clone());
        }
        if all.len() >= PROFILES_MAX && all.iter().all(|one| one.profile.uuid != profile.uuid) {
            return Err(format!("the host has {PROFILES_MAX} profiles already: delete one first"));
        }
        let name = format!("{CONNECTIONS}{}", profile.uuid);
        self.client.write_host_file(&name, &nmconnection::format(profile)).map_err(spell)
    }

    /// Deletes a profile.
    ///
    /// # Errors
    /// The text is for the user.
    pub fn delete(&mut self, uuid: &str) -> Result<(), String> {
        self.client.remove_host_file(&format!("{CONNECTIONS}{uuid}")).map_err(spell)
    }

    /// Notes that a profile is active.
    ///
    /// # Errors
    /// The text is for the user.
    pub fn set_active(&mut self, active: &Active) -> Result<(), String> {
        let Active { number, ifindex, made_child, kept, applied, .. } = active;
        let kept: String = kept.iter().map(|number| format!(" {number}")).collect();
        let numbers = format!("{number} {ifindex} {}{kept}", u8::from(*made_child));
        let content = format!("{numbers}{SEPARATOR}{}", nmconnection::format(applied));
        self.client.write_host_file(&format!("{ACTIVE}{}", applied.uuid), &content).map_err(spell)
    }

    /// Notes that a profile is not active any more.
    ///
    /// # Errors
    /// The text is for the user.
    pub fn set_inactive(&mut self, uuid: &str) -> Result<(), String> {
        self.client.remove_host_file(&format!("{ACTIVE}{uuid}")).map_err(spell)
    }
}

/// Reads an active profile; `None` if its interface has gone.
fn read_active(content: &str, interfaces: &[IpoibInterface]) -> Option<Active> {
    let (numbers, profile) = content.split_once(SEPARATOR)?;
    let mut numbers = numbers.split(' ').map(|number| number.parse::<u32>().ok());
    let (number, ifindex, made_child) = (numbers.next()??, numbers.next()??, numbers.next()??);
    let kept = numbers.map(|number| Some(number? as usize)).collect::<Option<_>>()?;
    let interface = interfaces.iter().find(|one| one.ifindex == ifindex)?.name.clone();
    let applied = nmconnection::parse(profile, "").ok()?.profile;
    Some(Active { number, ifindex, interface, made_child: made_child != 0, kept, applied })
}

/// Whether an interface is switched on; `false` if that cannot be read.
fn is_up(name: &str) -> bool {
    let flags = attribute(name, "flags");
    let digits = flags.strip_prefix("0x").unwrap_or_default();
    u32::from_str_radix(digits, 16).is_ok_and(|flags| flags & 1 != 0)
}

/// Reads an interface's attribute in /sys; empty if that fails.
fn attribute(interface: &str, name: &str) -> String {
    fs::read_to_string(format!("/sys/class/net/{interface}/{name}")).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(ifindex: u32) -> IpoibInterface {
        IpoibInterface {
            name: format!("ib{ifindex}"),
            ifindex,
            device: "weft0".to_owned(),
            port: 1,
            pkey: 0xffff,
            parent: None,
            address: [0; 20],
            broadcast: [0; 20],
        }
    }

    #[test]
    fn an_activation_ends_with_its_interface() {
        let profile = nmconnection::format(&Profile::new("x", "u"));
        let content = format!("3 7 1 0 4\n{profile}");
        let active = read_active(&content, &[interface(2), interface(7)]).unwrap();
        assert_eq!(active.kept, [0, 4]);
        assert_eq!((active.number, active.interface.as_str(), active.made_child), (3, "ib7", true));
        assert_eq!(active.applied, Profile::new("x", "u"));
        assert_eq!(read_active(&content, &[interface(2)]), None);
        for bad in ["", "3 7\n", "x 7 1\n", "3 7 1", "3 7 1\nnonsense", "3 7 1 x\n"] {
            assert_eq!(read_active(bad, &[interface(7)]), None, "{bad}");
        }
    }
}
