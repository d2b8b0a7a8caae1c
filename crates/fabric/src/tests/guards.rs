//! M_Keys: protection of reads and writes, and the lease period (IBA 14.2.4).

use super::*;

const KEY: u64 = 0x1234_5678;
const OTHER: u64 = 0x666;

/// Creates a lab whose host port has a key, with these protection bits and a lease of 10 seconds.
fn guarded(protect: u8) -> Lab {
    let mut lab = Lab::up();
    lab.set_port(H1, 1, |info| {
        info.mkey = KEY;
        info.mkey_protect_bits = protect;
        info.mkey_lease_period = 10;
    });
    lab
}

/// Returns the M_Key that Get(PortInfo) shows to a manager with this one; `None` if there is no answer.
fn shown(lab: &mut Lab, mkey: u64) -> Option<u64> {
    let smp = lab.ask_as(mkey, H1, Method::GET, AttrId::PORT_INFO, 1, &[0; 64])?;
    smp.attribute::<PortInfo>().map(|info| info.mkey)
}

fn sets(lab: &mut Lab, mkey: u64) -> bool {
    lab.ask_as(mkey, H1, Method::SET, AttrId::LED_INFO, 0, &[0; 64]).is_some()
}

#[test]
fn protection_bits_say_what_a_key_guards() {
    for (protect, without, with) in
        [(0, Some(KEY), Some(KEY)), (1, Some(0), Some(KEY)), (2, None, Some(KEY)), (3, None, Some(KEY))]
    {
        let mut lab = guarded(protect);
        assert_eq!((shown(&mut lab, OTHER), shown(&mut lab, KEY)), (without, with), "{protect}");
        assert_eq!((sets(&mut lab, OTHER), sets(&mut lab, KEY)), (false, true), "{protect}");
    }
}

#[test]
fn wrong_keys_are_counted_until_they_are_cleared() {
    let mut lab = guarded(1);
    sets(&mut lab, OTHER);
    sets(&mut lab, OTHER);
    shown(&mut lab, OTHER);
    assert_eq!(lab.info(H1, 1).mkey_violations, 2, "what may be read is no violation");
    let mut info = lab.info(H1, 1);
    info.mkey_violations = 5;
    (info.port_state, info.port_physical_state) = (PortState::NO_CHANGE, PhysState::NO_CHANGE);
    lab.ask_as(KEY, H1, Method::SET, AttrId::PORT_INFO, 1, &info.encode());
    assert_eq!(lab.info(H1, 1).mkey_violations, 2, "only 0 is taken");
    info.mkey_violations = 0;
    lab.ask_as(KEY, H1, Method::SET, AttrId::PORT_INFO, 1, &info.encode());
    assert_eq!(lab.info(H1, 1).mkey_violations, 0);
}

#[test]
fn a_lease_runs_out_once_it_was_violated() {
    let mut lab = guarded(2);
    lab.pass(Duration::from_secs(60));
    assert_eq!(shown(&mut lab, OTHER), None, "nobody violated it yet");
    lab.pass(Duration::from_secs(9));
    assert_eq!(shown(&mut lab, OTHER), None);
    lab.pass(Duration::from_secs(1));
    assert_eq!(shown(&mut lab, OTHER), Some(KEY), "it guards nothing from being read now");
    assert!(!sets(&mut lab, OTHER), "but from being set");
}

#[test]
fn the_right_key_renews_the_lease() {
    let mut lab = guarded(2);
    assert_eq!(shown(&mut lab, OTHER), None);
    lab.pass(Duration::from_secs(9));
    assert_eq!(shown(&mut lab, KEY), Some(KEY));
    lab.pass(Duration::from_secs(9));
    assert_eq!(shown(&mut lab, OTHER), None, "this begins it anew");
    lab.pass(Duration::from_secs(9));
    assert_eq!(shown(&mut lab, OTHER), None);
}

#[test]
fn a_lease_of_0_never_ends() {
    let mut lab = guarded(2);
    let mut info = lab.info(H1, 1);
    info.mkey_lease_period = 0;
    (info.port_state, info.port_physical_state) = (PortState::NO_CHANGE, PhysState::NO_CHANGE);
    lab.ask_as(KEY, H1, Method::SET, AttrId::PORT_INFO, 1, &info.encode());
    shown(&mut lab, OTHER);
    lab.pass(Duration::from_secs(1_000_000));
    assert_eq!(shown(&mut lab, OTHER), None);
}

#[test]
fn a_key_of_a_switch_guards_all_its_ports() {
    let mut lab = Lab::up();
    lab.set_port(S0, 0, |info| (info.mkey, info.mkey_protect_bits) = (KEY, 2));
    assert!(lab.ask_as(OTHER, S0, Method::GET, AttrId::PORT_INFO, 2, &[0; 64]).is_none());
    assert!(lab.ask_as(KEY, S0, Method::GET, AttrId::PORT_INFO, 2, &[0; 64]).is_some());
    assert_eq!(lab.info(S0, 0).mkey_violations, 1);
    assert!(lab.ask(S1, Method::GET, AttrId::NODE_INFO, 0, &[0; 64]).is_some(), "who only passes needs no key");
}

#[test]
fn another_port_of_an_adapter_is_guarded_by_its_own_key() {
    let mut lab = Lab::up();
    // Only the port's own agent sets it, and its cable is missing.
    let second = lab.fabric.place(PortRef::new(H1, 2)).expect("a port");
    lab.fabric.ports[second as usize].info.mkey = KEY;
    assert!(lab.ask_as(0, H1, Method::SET, AttrId::PORT_INFO, 2, &lab.info(H1, 2).encode()).is_none());
    assert!(lab.ask_as(KEY, H1, Method::SET, AttrId::PORT_INFO, 2, &lab.info(H1, 2).encode()).is_some());
    assert!(sets(&mut lab, 0), "the port that was asked has none");
}
