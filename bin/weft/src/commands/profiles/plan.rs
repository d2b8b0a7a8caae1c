//! Plans: the steps that bring a host's interfaces into the state that profiles and rules describe. Pure functions from
//! what was parsed and the interfaces seen.

use std::fmt;

use super::address::{Cidr, Family, Route};
use super::kernel_state::{KernelState, anywhere};
use super::profile::{Method, Profile, Transport};
use super::step::{METRIC, Step};
use super::udev::{Attributes, NameRule};

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

/// Plans new names by rules: of those that match an interface, the last one counts, as with udev. Changes `seen` to the
/// state afterwards.
///
/// # Errors
/// Two interfaces would have one name.
fn renames(rules: &[NameRule], seen: &mut [SeenInterface]) -> Result<Vec<Step>, String> {
    let mut pending: Vec<(usize, String)> = Vec::new();
    for (place, interface) in seen.iter().enumerate().filter(|(_, one)| one.parent.is_none()) {
        let attributes = Attributes { name: &interface.name, address: &interface.address_text, port: interface.port };
        let named = rules.iter().rfind(|rule| rule.matches(&attributes)).map(|rule| rule.name.clone());
        pending.extend(named.filter(|name| *name != interface.name).map(|name| (place, name)));
    }
    let mut steps = Vec::new();
    while !pending.is_empty() {
        // One whose new name is free; a chain of names resolves from its end.
        let free = pending.iter().position(|(_, name)| seen.iter().all(|one| one.name != *name));
        let Some(free) = free else {
            let (place, name) = &pending[0];
            let from = &seen[*place].name;
            return Err(format!(
                "{from} cannot be named {name}: another interface has the name; rename that one first"
            ));
        };
        let (place, to) = pending.remove(free);
        let from = std::mem::replace(&mut seen[place].name, to.clone());
        let was_up = seen[place].is_up;
        for one in seen.iter_mut().filter(|one| one.parent.as_ref() == Some(&from)) {
            one.parent = Some(to.clone());
        }
        // Kernels before 6.2 rename no interface that is on.
        steps.extend(was_up.then(|| Step::SetDown { interface: from.clone() }));
        steps.push(Step::Rename { from, to: to.clone() });
        steps.extend(was_up.then_some(Step::SetUp { interface: to }));
    }
    Ok(steps)
}

/// Changes `seen` to the state after an activation, for the plans of further ones.
fn follow(activation: &Activation, profile: &Profile, seen: &mut Vec<SeenInterface>) {
    for step in &activation.steps {
        if let Step::SetUp { interface } = step {
            seen.iter_mut().filter(|one| one.name == *interface).for_each(|one| one.is_up = true);
        }
    }
    let port = seen.iter().find(|one| Some(&one.name) == activation.parent.as_ref());
    if let (true, Some(port), Some((_, p_key, name))) = (activation.makes_child, port, profile.child()) {
        let child = SeenInterface {
            parent: Some(port.name.clone()),
            p_key,
            name,
            is_up: true,
            kernel: KernelState::default(),
            ..port.clone()
        };
        seen.push(child);
    }
}

/// A profile to store, and whether to activate it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// The profile.
    pub profile: Profile,
    /// Whether it is to be active; `None`: as it is.
    pub is_up: Option<bool>,
}

/// The wanted state of a profile.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Goal {
    /// It is activated.
    Up(Activation),
    /// An activation ends.
    Down,
    /// An activation stays, and none begins.
    AsItIs,
}

/// The plan for a host: rules, then profiles.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HostPlan {
    /// New names of interfaces.
    pub renames: Vec<Step>,
    /// Profiles in the order in which they are stored.
    pub profiles: Vec<(Profile, Goal)>,
}

/// Plans what rules and profiles change on a host. Interfaces of ports come before their children.
///
/// # Errors
/// The text names the profile or the interface, and the reason.
pub fn host(rules: &[NameRule], wanted: &[Wanted], seen: &[SeenInterface]) -> Result<HostPlan, String> {
    let mut seen = seen.to_vec();
    let renames = renames(rules, &mut seen)?;
    let mut ordered: Vec<&Wanted> = wanted.iter().collect();
    ordered.sort_by_key(|one| one.profile.child().is_some());
    let mut profiles = Vec::new();
    for Wanted { profile, is_up } in ordered {
        let goal = match is_up {
            None => Some(Goal::AsItIs),
            Some(false) => Some(Goal::Down),
            Some(true) => None,
        };
        if let Some(goal) = goal {
            profiles.push((profile.clone(), goal));
            continue;
        }
        let planned = activation(profile, &seen).map_err(|obstacle| format!("profile {}: {obstacle}", profile.id))?;
        follow(&planned, profile, &mut seen);
        profiles.push((profile.clone(), Goal::Up(planned)));
    }
    Ok(HostPlan { renames, profiles })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::profiles::{nmconnection, role, udev};

    fn ib(number: u8) -> SeenInterface {
        let mut address = [0; 20];
        (address[0], address[19]) = (0x80, number);
        SeenInterface {
            name: format!("ib{number}"),
            address,
            address_text: format!("80:00:00:48:fe:80:00:00:00:00:00:00:00:02:c9:03:00:31:78:{number:02x}"),
            port: number,
            p_key: 0xffff,
            parent: None,
            is_up: true,
            mode: Transport::Datagram,
            mtu: 2044,
            kernel: KernelState::default(),
        }
    }

    fn lines(steps: &[Step]) -> Vec<String> {
        steps.iter().map(Step::to_string).collect()
    }

    fn profile(text: &str) -> Profile {
        nmconnection::parse(&format!("[connection]\ntype=infiniband\n{text}"), "x").unwrap().profile
    }

    #[test]
    fn the_guide_s_profile_becomes_steps() {
        let guide = profile(
            "interface-name=ib0\n[infiniband]\nmtu=65520\ntransport-mode=connected\np-key=32770\n[ipv4]\n\
             address1=192.0.2.1/24,192.0.2.254\ndns=192.0.2.253;\nmethod=manual\n[ipv6]\naddress1=2001:db8:1::1/32\n\
             method=manual\n",
        );
        let planned = activation(&guide, &[ib(0)]).unwrap();
        let expected = [
            "ip link add link ib0 name ib0.8002 type ipoib pkey 0x8002",
            "ip link set dev ib0.8002 type ipoib mode connected",
            "ip link set dev ib0.8002 mtu 65520",
            "ip link set dev ib0.8002 up",
            "ip address replace 192.0.2.1/24 broadcast + dev ib0.8002 noprefixroute",
            "ip -4 route replace 192.0.2.0/24 dev ib0.8002 proto kernel scope link src 192.0.2.1 metric 150",
            "ip -4 route replace default via 192.0.2.254 dev ib0.8002 proto static metric 150",
            "ip address replace 2001:db8:1::1/32 dev ib0.8002 noprefixroute",
            "ip -6 route replace 2001:db8::/32 dev ib0.8002 proto kernel metric 150",
        ];
        assert_eq!(lines(&planned.steps), expected);
        assert_eq!(planned.notes, ["ipv4.dns: programs of the host see no name server in /etc/resolv.conf"]);
        let mut seen = vec![ib(0)];
        follow(&planned, &guide, &mut seen);
        let again = activation(&guide, &seen).unwrap();
        assert!(!again.makes_child && lines(&again.steps) == expected[1..]);
        let undone = deactivation(&guide, "ib0.8002", Some("ib0"), true, &[]);
        assert_eq!(lines(&undone), ["ip link delete dev ib0.8002"]);
        let undone = deactivation(&guide, "ib0.8002", Some("ib0"), false, &[]);
        let expected = [
            "ip address delete 2001:db8:1::1/32 dev ib0.8002",
            "ip -4 route delete default via 192.0.2.254 dev ib0.8002 proto static metric 150",
            "ip address delete 192.0.2.1/24 dev ib0.8002",
        ];
        assert_eq!(lines(&undone), expected);
    }

    #[test]
    fn what_an_interface_had_before_outlives_an_activation() {
        let text = "[ipv4]\nmethod=manual\naddress1=192.0.2.1/24,192.0.2.254\naddress2=192.0.2.2/24\n\
                    route1=198.51.100.0/24,192.0.2.3\nroute2=203.0.113.0/24,192.0.2.3,7\n[ipv6]\nmethod=manual\n\
                    address1=2001:db8::1/64\n";
        let (profile, mut before) = (profile(text), ib(0));
        let cidr = |text: &str| Family::of(text.split('/').next().unwrap().parse().unwrap()).cidr(text).unwrap();
        before.kernel.addresses = vec![cidr("10.0.0.1/8"), cidr("192.0.2.1/24"), cidr("2001:db8::1/128")];
        before.kernel.routes = vec![
            Route { to: anywhere(Family::V4), via: Some("192.0.2.254".parse().unwrap()), metric: Some(150) },
            Route { to: cidr("198.51.100.0/24"), via: Some("192.0.2.3".parse().unwrap()), metric: Some(0) },
            Route { to: cidr("203.0.113.0/24"), via: Some("192.0.2.3".parse().unwrap()), metric: Some(7) },
        ];
        let planned = activation(&profile, &[before]).unwrap();
        let added = [
            "ip address replace 192.0.2.2/24 broadcast + dev ib0 noprefixroute",
            "ip -4 route replace 192.0.2.0/24 dev ib0 proto kernel scope link src 192.0.2.2 metric 150",
            "ip -4 route replace 198.51.100.0/24 via 192.0.2.3 dev ib0 proto static metric 150",
        ];
        assert_eq!(lines(&planned.steps)[2..], added);
        let undone = deactivation(&profile, "ib0", None, false, &planned.kept);
        let expected = [
            "ip -4 route delete 198.51.100.0/24 via 192.0.2.3 dev ib0 proto static metric 150",
            "ip address delete 192.0.2.2/24 dev ib0",
        ];
        assert_eq!(lines(&undone), expected);
    }

    #[test]
    fn a_user_s_mtu_outlives_a_change_of_the_mode() {
        let connected = profile("[infiniband]\ntransport-mode=connected\n");
        let datagram = profile("[infiniband]\ntransport-mode=datagram\n");
        let set = |profile: &Profile, mode, mtu| {
            let steps = activation(profile, &[SeenInterface { mode, mtu, ..ib(0) }]).unwrap().steps;
            steps.into_iter().find_map(|step| if let Step::SetMtu { mtu, .. } = step { Some(mtu) } else { None })
        };
        assert_eq!(set(&connected, Transport::Datagram, 1500), Some(1500));
        assert_eq!(set(&connected, Transport::Datagram, 2044), None, "the mode's own");
        assert_eq!(set(&connected, Transport::Connected, 9000), None, "nothing changes it");
        assert_eq!(set(&datagram, Transport::Connected, 1500), Some(1500));
        assert_eq!(set(&datagram, Transport::Connected, 9000), None, "too large");
    }

    #[test]
    fn a_link_that_was_switched_off_for_a_failed_rename_goes_on_again() {
        let rules = udev::parse("KERNEL==\"ib0\", NAME=\"lo\"\n").unwrap().0;
        let steps = renames(&rules, &mut [ib(0)]).unwrap();
        assert_eq!(lines(&restoration(&steps, 1)), ["ip link set dev ib0 up", "ip link set dev lo up"]);
        assert_eq!((restoration(&steps, 0), restoration(&steps, 2)), (Vec::new(), Vec::new()));
        let steps = renames(&rules, &mut [SeenInterface { is_up: false, ..ib(0) }]).unwrap();
        assert_eq!((steps.len(), restoration(&steps, 0)), (1, Vec::new()), "it was off before");
    }

    #[test]
    fn only_a_state_of_down_ends_an_activation() {
        let wanted = |is_up| Wanted { profile: profile("interface-name=ib0\n"), is_up };
        let goals = [None, Some(false), Some(true)].map(wanted);
        let planned = host(&[], &goals, &[ib(0)]).unwrap();
        let goals: Vec<_> = planned.profiles.into_iter().map(|(_, goal)| goal).collect();
        assert!(matches!(&goals[..], [Goal::AsItIs, Goal::Down, Goal::Up(_)]), "{goals:?}");
    }

    #[test]
    fn a_profile_finds_its_interface_or_says_which_there_are() {
        let seen = [ib(0), ib(1)];
        let interface = |text: &str| activation(&profile(text), &seen).map(|planned| planned.interface);
        assert_eq!(interface("interface-name=ib1"), Ok("ib1".to_owned()));
        assert_eq!(interface(""), Ok("ib0".to_owned()));
        let mac = "[infiniband]\nmac-address=00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:01\n";
        assert_eq!(interface(mac), Ok("ib1".to_owned()));
        let missing = interface("interface-name=mlx4_ib0").unwrap_err().to_string();
        assert_eq!(missing, "the host has no IPoIB interface mlx4_ib0; it has ib0, ib1");
        let child = SeenInterface { name: "blue".to_owned(), p_key: 0x8002, parent: Some("ib0".to_owned()), ..ib(0) };
        let taken = activation(&profile("[infiniband]\np-key=2\nparent=ib0\n"), &[ib(0), child]).unwrap_err();
        assert_eq!(taken.to_string(), "blue has that P_Key already: delete it, or name it ib0.8002");
    }

    #[test]
    fn rules_rename_chains_and_refuse_clashes() {
        let rule = |guid: u8, name: &str| format!("ATTR{{address}}==\"?*78:{guid:02x}\", NAME=\"{name}\"\n");
        let plan = |text: &str| {
            let mut seen = vec![ib(0), ib(1)];
            renames(&udev::parse(text).unwrap().0, &mut seen).map(|steps| lines(&steps))
        };
        let expected = [
            "ip link set dev ib1 down",
            "ip link set dev ib1 name ib2",
            "ip link set dev ib2 up",
            "ip link set dev ib0 down",
            "ip link set dev ib0 name ib1",
            "ip link set dev ib1 up",
        ];
        assert_eq!(plan(&(rule(0, "ib1") + &rule(1, "ib2"))).unwrap(), expected);
        assert!(plan(&(rule(0, "ib1") + &rule(1, "ib0"))).is_err());
        assert!(plan(&rule(0, "ib1")).is_err());
        assert_eq!(plan(&(rule(0, "a") + &rule(0, "ib0"))).unwrap(), [""; 0]);
        assert_eq!(plan(&rule(9, "a")).unwrap(), [""; 0]);
    }

    #[test]
    fn methods_without_effect_are_noted() {
        let text = "network_connections:\n- {name: ib0.8002, parent: ib0, type: infiniband, infiniband: {p_key: 2}}\n";
        let child = &role::parse(text).unwrap()[0].read.profile;
        let notes = activation(child, &[ib(0)]).unwrap().notes;
        let expected = "ipv4.method: auto: a fabric has no DHCP server: the interface gets no IPv4 address";
        assert_eq!(notes, [expected]);
        assert_eq!(activation(&profile(""), &[ib(0)]).unwrap().notes, [""; 0]);
        let planned = activation(&profile("[infiniband]\nmtu=65520\n"), &[ib(0)]).unwrap();
        assert!(planned.notes[0].starts_with("infiniband.mtu: 65520 is too large for datagram mode"));
        assert!(!planned.steps.iter().any(|step| matches!(step, Step::SetMtu { .. })));
    }
}
