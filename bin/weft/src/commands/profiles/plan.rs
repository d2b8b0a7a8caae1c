//! Plans: the steps that bring a host's interfaces into the state that profiles and rules describe. Pure functions from
//! what was parsed and the interfaces seen.

mod host_plan;
#[cfg(test)]
mod tests;

pub use host_plan::{Goal, HostPlan, Wanted, host};

use std::fmt;

use super::address::{Cidr, Family, Route};
use super::kernel_state::{KernelState, anywhere};
use super::profile::{Method, Profile, Transport};
use super::step::{METRIC, Step};

/// An IPoIB interface of the host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SeenInterface {
    /// Name.
    pub name: String,
    /// Link-layer address.
    pub address: [u8; 20],
    /// The same in sysfs's form.
    pub address_text: String,
    /// Port of its adapter, counted from 0.
    pub port: u8,
    /// P_Key with the full-member bit.
    pub p_key: u16,
    /// Name of the interface that it is a child of.
    pub parent: Option<String>,
    /// Whether it is switched on.
    pub is_up: bool,
    /// Its mode.
    pub mode: Transport,
    /// Its MTU.
    pub mtu: u32,
    /// Its addresses and routes.
    pub kernel: KernelState,
}

/// Why a profile cannot be activated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Obstacle {
    /// The host has no such interface.
    NoInterface {
        /// Its name, or its address.
        wanted: String,
        /// Names of the interfaces of the host's ports.
        present: Vec<String>,
    },
    /// The child's name is that of another interface.
    NameTaken {
        /// The name.
        name: String,
    },
    /// Another interface of the port has the P_Key.
    PartitionTaken {
        /// The child that has it.
        name: String,
        /// The name that the profile gives.
        wanted: String,
    },
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Obstacle::NoInterface { wanted, present } => {
                write!(f, "the host has no IPoIB interface {wanted}; it has {}", present.join(", "))
            }
            Obstacle::NameTaken { name } => {
                write!(f, "{name} is the name of another interface: delete or rename that one")
            }
            Obstacle::PartitionTaken { name, wanted } => {
                write!(f, "{name} has that P_Key already: delete it, or name it {wanted}")
            }
        }
    }
}

/// The activation of a profile.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Activation {
    /// Interface of the profile.
    pub interface: String,
    /// Interface that a child is made from.
    pub parent: Option<String>,
    /// Whether the activation makes the child.
    pub makes_child: bool,
    /// Its steps in their order.
    pub steps: Vec<Step>,
    /// Numbers of the profile's address steps that are not needed, since the interface has what they add.
    pub kept: Vec<usize>,
    /// Settings that do not have their effect, for the user.
    pub notes: Vec<String>,
}

/// Plans the activation of a profile.
///
/// # Errors
/// The host has no interface for it.
pub fn activation(profile: &Profile, seen: &[SeenInterface]) -> Result<Activation, Obstacle> {
    let mut steps = Vec::new();
    let (interface, parent, makes_child) = match profile.child() {
        Some((parent, p_key, name)) => {
            let port = find_port(Some(parent), profile, seen)?;
            let known = existing_child(&name, p_key, port, seen)?;
            if !port.is_up {
                steps.push(Step::SetUp { interface: port.name.clone() });
            }
            if !known {
                steps.push(Step::AddChild { parent: port.name.clone(), p_key, name: name.clone() });
            }
            (name, Some(port.name.clone()), !known)
        }
        None => (find_port(profile.interface_name.as_deref(), profile, seen)?.name.clone(), None, false),
    };
    steps.push(Step::SetMode { interface: interface.clone(), mode: profile.transport });
    let before = seen.iter().find(|one| one.name == interface);
    let mut notes = Vec::new();
    match profile.mtu.or_else(|| mtu_to_keep(before?, profile.transport)) {
        Some(mtu) if mtu > mtu_max(profile.transport) => notes.push(format!(
            "infiniband.mtu: {mtu} is too large for {} mode (at most {}): the interface keeps its MTU",
            profile.transport.name(),
            mtu_max(profile.transport)
        )),
        Some(mtu) => steps.push(Step::SetMtu { interface: interface.clone(), mtu }),
        None => {}
    }
    steps.push(Step::SetUp { interface: interface.clone() });
    let (done, needed): (Vec<_>, Vec<_>) =
        address_steps(profile, &interface).into_iter().enumerate().partition(|(_, step)| is_done(step, before));
    steps.extend(needed.into_iter().map(|(_, step)| step));
    let kept = done.into_iter().map(|(number, _)| number).collect();
    for family in [Family::V4, Family::V6] {
        notes.extend(notes_of(profile, family, parent.is_some()));
    }
    Ok(Activation { interface, parent, makes_child, steps, kept, notes })
}

/// Returns the MTU that a user gave an interface, if a change of the mode would set another one that the profile does not
/// ask for.
fn mtu_to_keep(before: &SeenInterface, mode: Transport) -> Option<u32> {
    /// Those of links, less the header of IPoIB; and that of connected mode.
    const USUAL: [u32; 6] = [252, 508, 1020, 2044, 4092, 65520];
    let is_users = before.mode != mode && !USUAL.contains(&before.mtu) && before.mtu <= mtu_max(mode);
    is_users.then_some(before.mtu)
}

/// Returns whether an interface has what a step adds.
fn is_done(step: &Step, before: Option<&SeenInterface>) -> bool {
    let Some(SeenInterface { kernel: KernelState { addresses, routes }, .. }) = before else { return false };
    // An IPv6 address is on an interface once, whatever its prefix.
    let has = |wanted: &Cidr| addresses.iter().any(|one| one == wanted || one.ip.is_ipv6() && one.ip == wanted.ip);
    match step {
        Step::AddAddress { address, .. } | Step::AddLinkRoute { address, .. } => has(address),
        Step::AddDefaultRoute { via, .. } => {
            routes.contains(&Route { to: anywhere(Family::of(*via)), via: Some(*via), metric: Some(METRIC) })
        }
        Step::AddRoute { route, .. } => {
            routes.contains(&Route { metric: Some(route.metric.unwrap_or(METRIC)), ..*route })
        }
        _ => false,
    }
}

/// Returns the largest MTU of a mode: in datagram mode, that of a link with an MTU of 4096.
fn mtu_max(transport: Transport) -> u32 {
    match transport {
        Transport::Datagram => 4092,
        Transport::Connected => 65520,
    }
}

/// Finds the interface of a port by its name, else by the address that the profile gives, else the first.
fn find_port<'a>(
    name: Option<&str>,
    profile: &Profile,
    seen: &'a [SeenInterface],
) -> Result<&'a SeenInterface, Obstacle> {
    let ports = || seen.iter().filter(|one| one.parent.is_none());
    // As on Linux, the first twelve bytes of an address may change.
    let has_guid = |one: &SeenInterface| profile.mac_address.is_none_or(|mac| mac[12..] == one.address[12..]);
    let found = ports().find(|one| name.is_none_or(|name| one.name == name) && has_guid(one));
    found.ok_or_else(|| Obstacle::NoInterface {
        wanted: match (name, profile.mac_address) {
            (Some(name), None) => name.to_owned(),
            (name, _) => format!("{} with the address of infiniband.mac-address", name.unwrap_or("(any)")),
        },
        present: ports().map(|one| one.name.clone()).collect(),
    })
}

/// Returns whether the child is there already.
fn existing_child(name: &str, p_key: u16, port: &SeenInterface, seen: &[SeenInterface]) -> Result<bool, Obstacle> {
    let is_it = |one: &SeenInterface| one.parent.as_ref() == Some(&port.name) && one.p_key == p_key;
    match (seen.iter().find(|one| one.name == name), seen.iter().find(|one| is_it(one))) {
        (None, None) => Ok(false),
        (Some(named), Some(_)) if is_it(named) => Ok(true),
        (Some(_), _) => Err(Obstacle::NameTaken { name: name.to_owned() }),
        (None, Some(other)) => Err(Obstacle::PartitionTaken { name: other.name.clone(), wanted: name.to_owned() }),
    }
}

/// Returns the steps that add the addresses and routes of a profile.
fn address_steps(profile: &Profile, interface: &str) -> Vec<Step> {
    [Family::V4, Family::V6].into_iter().flat_map(|family| steps_of_family(profile, family, interface)).collect()
}

fn steps_of_family(profile: &Profile, family: Family, interface: &str) -> Vec<Step> {
    let (ip, interface) = (profile.ip(family), || interface.to_owned());
    if matches!(ip.method, Method::Disabled | Method::Ignore | Method::Shared | Method::LinkLocal) {
        return Vec::new();
    }
    let mut steps = Vec::new();
    for address in &ip.addresses {
        steps.push(Step::AddAddress { interface: interface(), address: *address });
        if address.prefix < family.bits() {
            steps.push(Step::AddLinkRoute { interface: interface(), address: *address });
        }
    }
    let gateway = ip.gateway.filter(|_| !ip.never_default);
    steps.extend(gateway.map(|via| Step::AddDefaultRoute { interface: interface(), via }));
    steps.extend(ip.routes.iter().map(|route| Step::AddRoute { interface: interface(), route: *route }));
    steps
}

fn notes_of(profile: &Profile, family: Family, is_child: bool) -> Vec<String> {
    let (ip, setting) = (profile.ip(family), family.setting());
    let mut notes = Vec::new();
    let method = match ip.method {
        Method::Auto if family == Family::V4 && is_child && ip.addresses.is_empty() => {
            Some("a fabric has no DHCP server: the interface gets no IPv4 address")
        }
        Method::Dhcp | Method::Shared => Some("the method has no effect on a host of a fabric"),
        Method::Disabled if !is_child => Some("the interface keeps the addresses that it has"),
        _ => None,
    };
    notes.extend(method.map(|text| format!("{setting}.method: {}: {text}", ip.method.name())));
    if !ip.dns.is_empty() {
        notes.push(format!("{setting}.dns: programs of the host see no name server in /etc/resolv.conf"));
    }
    notes
}

/// Plans the end of an activation: the steps that undo those of a profile, except for those that were not needed (`kept`).
pub fn deactivation(
    profile: &Profile,
    interface: &str,
    parent: Option<&str>,
    made_child: bool,
    kept: &[usize],
) -> Vec<Step> {
    if let (true, Some(parent), Some((_, p_key, _))) = (made_child, parent, profile.child()) {
        return vec![Step::DeleteChild { parent: parent.to_owned(), p_key, name: interface.to_owned() }];
    }
    let numbered = address_steps(profile, interface).into_iter().enumerate();
    let added = numbered.filter(|(number, _)| !kept.contains(number)).map(|(_, step)| step);
    let mut steps: Vec<Step> = added.filter_map(undo).collect();
    steps.reverse();
    steps
}

/// Plans what follows the failure of a step: a link that was switched off for it goes on again, under its old name or, if
/// the failure came later, its new one.
pub fn restoration(steps: &[Step], failed: usize) -> Vec<Step> {
    match (failed.checked_sub(1).and_then(|before| steps.get(before)), steps.get(failed)) {
        (Some(Step::SetDown { interface }), Some(Step::Rename { from, to })) if interface == from => {
            [from, to].map(|interface| Step::SetUp { interface: interface.clone() }).to_vec()
        }
        _ => Vec::new(),
    }
}

/// Returns the opposite of a step; `None` if there is none, or the kernel takes it with another one.
fn undo(step: Step) -> Option<Step> {
    match step {
        Step::AddAddress { interface, address } => Some(Step::DeleteAddress { interface, address }),
        Step::AddDefaultRoute { interface, via } => Some(Step::DeleteDefaultRoute { interface, via }),
        Step::AddRoute { interface, route } => Some(Step::DeleteRoute { interface, route }),
        _ => None,
    }
}
