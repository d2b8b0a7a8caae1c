//! Plans for interfaces that were seen, as the commands that they print.

use super::host_plan::{follow, renames};
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
