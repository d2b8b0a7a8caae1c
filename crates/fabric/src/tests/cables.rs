//! Links that go down and up: training, widths and speeds, faults, port counters, and events for hosts.

use super::*;
use crate::limits::TRAINING;
use crate::{Changes, Counter, FaultError};
use weft_wire::mad::subn::{FecMode, FecModes, LinkSpeedExt, LinkWidth, PortInfoExtended};

const DOWN: (PortState, PhysState) = (PortState::DOWN, PhysState::POLLING);
const TRAINS: (PortState, PhysState) = (PortState::DOWN, PhysState::TRAINING);
const INIT: (PortState, PhysState) = (PortState::INIT, PhysState::LINK_UP);
const ACTIVE: (PortState, PhysState) = (PortState::ACTIVE, PhysState::LINK_UP);

#[test]
fn a_fabric_comes_up_trained() {
    let mut lab = Lab::new();
    assert_eq!([lab.states(S0, 3), lab.states(H0, 1), lab.states(H0, 2), lab.states(S0, 4)], [INIT, INIT, DOWN, DOWN]);
    assert_eq!(lab.states(S0, 0), ACTIVE);
    assert_eq!((lab.fabric.poll_timeout(), lab.fabric.poll_event()), (None, None));
    assert_eq!(lab.fabric.speed(PortRef::new(H0, 1)), Some(Speed::Ndr));
    assert_eq!(lab.fabric.speed(PortRef::new(H0, 2)), None);
}

#[test]
fn a_cable_is_cut_and_joined() {
    let mut lab = Lab::up();
    let (host, switch) = (PortRef::new(H1, 1), PortRef::new(S0, 2));
    let generation = lab.fabric.generation();
    lab.fabric.cut(lab.now, switch).expect("a cable");
    assert_eq!([lab.states(H1, 1), lab.states(S0, 2)], [DOWN, DOWN]);
    assert!(lab.fabric.generation() > generation && lab.fabric.peer(host).is_none());
    assert_eq!([host, switch].map(|port| lab.fabric.counter(port, Counter::LinkDowned)), [1, 1]);
    assert_eq!(lab.fabric.cut(lab.now, host), Err(FaultError::NoCable(host)));
    assert!(lab.ask(H1, Method::GET, AttrId::NODE_INFO, 0, &[0; 64]).is_none());
    let events: Vec<_> = std::iter::from_fn(|| lab.fabric.poll_event()).collect();
    assert!(events.iter().any(|event| event.port == host && event.changes.contains(Changes::STATE)), "{events:?}");

    lab.fabric.join(lab.now, host, switch).expect("free ports");
    assert_eq!([lab.states(H1, 1), lab.states(S0, 2)], [TRAINS, TRAINS]);
    lab.pass(TRAINING);
    assert_eq!([lab.states(H1, 1), lab.states(S0, 2)], [INIT, INIT]);
    assert_eq!(lab.info(H1, 1).lid, LIDS[H1 as usize], "a host keeps its LID");
    let taken = lab.fabric.join(lab.now, host, PortRef::new(S0, 4));
    assert_eq!(taken, Err(FaultError::Occupied(host, switch)));
    assert_eq!(lab.fabric.join(lab.now, host, PortRef::new(S0, 0)), Err(FaultError::NoSuchPort(PortRef::new(S0, 0))));
}

#[test]
fn cables_go_to_other_ports_and_do_not_pile_up() {
    let mut lab = Lab::up();
    let (host, ports) = (PortRef::new(H1, 1), [PortRef::new(S0, 2), PortRef::new(S0, 4)]);
    for turn in 0..20 {
        lab.fabric.cut(lab.now, host).expect("a cable");
        lab.fabric.join(lab.now, host, ports[(turn + 1) % 2]).expect("free ports");
        lab.pass(TRAINING);
        assert_eq!(lab.states(H1, 1), INIT);
    }
    assert_eq!(lab.fabric.cables().count(), 5);
    assert_eq!(lab.fabric.join(lab.now, ports[1], ports[1]), Err(FaultError::SamePort(ports[1])));
}

#[test]
fn a_cable_that_flaps_comes_back_by_itself() {
    let mut lab = Lab::up();
    let port = PortRef::new(S0, 3);
    lab.fabric.flap(lab.now, port, Duration::from_millis(50)).expect("a cable");
    lab.pass(Duration::from_millis(49));
    assert_eq!(lab.states(S1, 3), DOWN);
    lab.pass(Duration::from_millis(1));
    assert_eq!(lab.states(S1, 3), TRAINS);
    lab.pass(TRAINING);
    assert_eq!(lab.states(S1, 3), INIT);

    // A cable that is cut meanwhile stays cut.
    lab.fabric.flap(lab.now, port, Duration::from_millis(50)).expect("a cable");
    lab.fabric.join(lab.now, port, PortRef::new(S1, 3)).expect("free ports");
    lab.fabric.cut(lab.now, port).expect("a cable");
    lab.pass(Duration::from_secs(1));
    assert_eq!(lab.states(S1, 3), DOWN);
}

#[test]
fn a_worse_cable_trains_to_what_it_can() {
    let mut lab = Lab::up();
    let port = PortRef::new(S0, 3);
    for (width, speed, active, ext) in [
        (Some(Width::X1), None, LinkWidth::X1, LinkSpeedExt::NDR),
        (None, Some(Speed::Hdr), LinkWidth::X4, LinkSpeedExt::HDR),
        (None, Some(Speed::Ddr), LinkWidth::X4, LinkSpeedExt::empty()),
        (None, None, LinkWidth::X4, LinkSpeedExt::NDR),
    ] {
        lab.fabric.degrade(lab.now, port, width, speed).expect("a cable");
        lab.pass(TRAINING);
        let info = lab.info(S1, 3);
        assert_eq!((info.port_state, info.link_width_active), (PortState::INIT, active));
        assert_eq!((info.link_speed_ext_active, lab.fabric.speed(port)), (ext, Some(speed.unwrap_or(Speed::Ndr))));
    }
    assert_eq!(lab.fabric.counter(port, Counter::LinkDowned), 4);
}

#[test]
fn error_correction_is_agreed_on_when_a_link_trains() {
    let mut lab = Lab::up();
    let of = |lab: &mut Lab, place, port| -> PortInfoExtended { lab.get(place, AttrId::PORT_INFO_EXTENDED, port) };
    let set = |lab: &mut Lab, place, edr: FecModes| {
        let asked = PortInfoExtended { edr_fec_mode_enabled: edr, ..PortInfoExtended::default() };
        lab.ask(place, Method::SET, AttrId::PORT_INFO_EXTENDED, 3, &asked.encode()).expect("an answer").status()
    };
    let train = |lab: &mut Lab, speed| {
        lab.fabric.degrade(lab.now, PortRef::new(S0, 3), None, Some(speed)).expect("a cable");
        lab.pass(TRAINING);
        lab.fabric.speed(PortRef::new(S0, 3))
    };
    let info = of(&mut lab, S0, 3);
    assert_eq!((info.capability_mask, info.fec_mode_active), (PortInfoExtended::FEC_MODES, FecMode::RS_544));
    assert_eq!(
        (info.edr_fec_mode_supported, info.edr_fec_mode_supported),
        (info.edr_fec_mode_enabled, FecModes::NONE | FecModes::RS_528)
    );
    assert_eq!(of(&mut lab, S0, 0), PortInfoExtended::default(), "no link is behind it");
    assert_eq!(train(&mut lab, Speed::Edr), Some(Speed::Edr));
    assert_eq!(of(&mut lab, S1, 3).fec_mode_active, FecMode::NONE);

    assert_eq!(set(&mut lab, S0, FecModes::RS_528), Status::SUCCESS);
    assert_eq!(of(&mut lab, S0, 3).fec_mode_active, FecMode::NONE, "not before it trains");
    train(&mut lab, Speed::Edr);
    assert_eq!([S0, S1].map(|place| of(&mut lab, place, 3).fec_mode_active), [FecMode::RS_528; 2]);
    assert_eq!(set(&mut lab, S0, FecModes::RS_271), Status::INVALID_FIELD);
    assert_eq!(of(&mut lab, S0, 3).edr_fec_mode_enabled, FecModes::RS_528);
    assert_eq!(set(&mut lab, S1, FecModes::NONE), Status::SUCCESS);
    assert_eq!(train(&mut lab, Speed::Edr), Some(Speed::Fdr), "nothing in common at the faster speed");

    lab.fabric.cut(lab.now, PortRef::new(S0, 3)).expect("a cable");
    assert_eq!(of(&mut lab, S0, 3).fec_mode_active, FecMode::NONE);
}

#[test]
fn a_manager_disables_enables_and_resets_a_port() {
    let mut lab = Lab::up();
    lab.set_port(S0, 2, |info| info.port_physical_state = PhysState::DISABLED);
    assert_eq!(lab.states(S0, 2), (PortState::DOWN, PhysState::DISABLED));
    assert_eq!(lab.states(H1, 1), DOWN);
    lab.pass(Duration::from_secs(1));
    assert_eq!(lab.states(H1, 1), DOWN, "a disabled port does not train");
    lab.set_port(S0, 2, |info| info.port_physical_state = PhysState::POLLING);
    lab.pass(TRAINING);
    assert_eq!([lab.states(S0, 2), lab.states(H1, 1)], [INIT, INIT]);
    assert_eq!(lab.fabric.counter(PortRef::new(S0, 2), Counter::LinkDowned), 0, "it asked for it");
    assert_eq!(lab.fabric.counter(PortRef::new(H1, 1), Counter::LinkDowned), 1);

    lab.set_port(S0, 2, |info| info.port_state = PortState::DOWN);
    assert_eq!([lab.states(S0, 2), lab.states(H1, 1)], [TRAINS, TRAINS]);
    lab.pass(TRAINING);
    assert_eq!([lab.states(S0, 2), lab.states(H1, 1)], [INIT, INIT]);
}

#[test]
fn who_takes_its_own_link_down_answers_first() {
    let mut lab = Lab::up();
    for (physical, state) in [(PhysState::NO_CHANGE, PortState::DOWN), (PhysState::POLLING, PortState::NO_CHANGE)] {
        lab.set_port(H1, 1, |info| (info.port_state, info.port_physical_state) = (state, physical));
        assert_eq!([lab.states(S0, 2), lab.states(H1, 1)], [TRAINS, TRAINS]);
        lab.pass(TRAINING);
        assert_eq!([lab.states(S0, 2), lab.states(H1, 1)], [INIT, INIT]);
    }
}

#[test]
fn ports_with_nothing_in_common_poll() {
    let mut lab = Lab::up();
    lab.set_port(S0, 2, |info| info.link_width_enabled = LinkWidth::X1);
    lab.set_port(H1, 1, |info| info.link_width_enabled = LinkWidth::X4);
    assert_eq!(lab.states(S0, 2), ACTIVE, "what is enabled counts at the next training");
    lab.set_port(S0, 2, |info| info.port_state = PortState::DOWN);
    lab.pass(Duration::from_secs(1));
    assert_eq!([lab.states(S0, 2), lab.states(H1, 1)], [DOWN, DOWN]);
    lab.set_port(S0, 2, |info| {
        info.link_width_enabled = LinkWidth::ALL_SUPPORTED;
        info.port_physical_state = PhysState::POLLING;
    });
    lab.pass(TRAINING);
    assert_eq!(lab.info(H1, 1).link_width_active, LinkWidth::X4);
}

#[test]
fn sleepers_are_woken_by_who_polls() {
    let mut lab = Lab::up();
    lab.set_port(S0, 2, |info| info.link_down_default_state = PhysState::SLEEP);
    lab.set_port(S0, 2, |info| info.port_state = PortState::DOWN);
    lab.pass(TRAINING);
    assert_eq!(lab.states(S0, 2), INIT, "the host polls");
    lab.set_port(H1, 1, |info| info.link_down_default_state = PhysState::SLEEP);
    lab.set_port(S0, 2, |info| info.port_state = PortState::DOWN);
    lab.pass(Duration::from_secs(1));
    assert_eq!(lab.states(S0, 2), (PortState::DOWN, PhysState::SLEEP), "both sleep");
    lab.set_port(S0, 2, |info| info.port_physical_state = PhysState::POLLING);
    lab.pass(TRAINING);
    assert_eq!([lab.states(S0, 2), lab.states(H1, 1)], [INIT, INIT]);
}

#[test]
fn a_node_that_reboots_has_forgotten_everything() {
    let mut lab = Lab::up();
    lab.set_pkeys(S1, 1, &[0xffff, 0x8001]);
    lab.fabric.reboot(lab.now, S1, Duration::from_millis(100)).expect("a node");
    assert_eq!([lab.states(S0, 3), lab.states(H2, 1)], [DOWN, DOWN]);
    assert!(!lab.fabric.powered(S1) && lab.ask(S1, Method::GET, AttrId::NODE_INFO, 0, &[0; 64]).is_none());
    lab.pass(Duration::from_millis(100));
    assert!(lab.fabric.powered(S1));
    lab.pass(TRAINING);
    assert_eq!([lab.states(S0, 3), lab.states(S1, 3), lab.states(H2, 1)], [INIT, INIT, INIT]);
    assert_eq!((lab.info(S1, 0).lid, lab.fabric.forwarding(S1, 4)), (0, None));
    assert_eq!(lab.fabric.pkeys(PortRef::new(S1, 1)), [0xffff]);
    assert_eq!(lab.info(H2, 1).lid, LIDS[H2 as usize], "others remember");
}

#[test]
fn a_host_without_power_neither_sends_nor_hears() {
    let mut lab = Lab::up();
    lab.fabric.power_off(lab.now, H2).expect("a node");
    lab.fabric.power_off(lab.now, H2).expect("it is off");
    let out = MadOut { to: MadAddress::smi(1), mad: Smp::lid_routed(Method::GET, 1, AttrId::NODE_INFO, 0, 0).to_mad() };
    let port = PortRef::new(H2, 1);
    assert_eq!(lab.fabric.send(lab.now, port, &out), Err(crate::SendError::PoweredOff(port)));
    lab.fabric.power_on(lab.now, H2).expect("a node");
    lab.pass(TRAINING);
    assert_eq!(lab.states(H2, 1), INIT);
    assert_eq!(lab.fabric.reboot(lab.now, 77, Duration::ZERO), Err(FaultError::NoSuchNode(77)));
}

#[test]
fn what_takes_time_arrives_later() {
    let mut lab = Lab::up();
    lab.fabric.set_latency(PortRef::new(S0, 3), 1_000_000).expect("a cable");
    let mut smp = Smp::directed(Method::GET, 1, AttrId::NODE_INFO, 0, 0, WAYS[S1 as usize]).expect("two hops");
    assert!(lab.smp(S1, smp).is_none());
    lab.pass(Duration::from_millis(1));
    assert!(lab.fabric.poll_delivery().is_none(), "there, not back");
    lab.pass(Duration::from_millis(1));
    assert!(lab.fabric.poll_delivery().is_some());
    assert_eq!(lab.fabric.poll_timeout(), None);

    // A node powered off before the datagram arrives receives nothing.
    smp.header.set_tid(99);
    lab.smp(S1, smp);
    lab.fabric.power_off(lab.now, S1).expect("a node");
    lab.pass(Duration::from_secs(1));
    let heard = std::iter::from_fn(|| lab.fabric.poll_delivery()).map(|delivery| delivery.mad.header.method());
    assert!(heard.collect::<Vec<_>>().iter().all(|method| *method == Method::TRAP));
    assert_eq!(lab.verdict(H0, H2).map_err(|refusal| refusal.why), Err(crate::Why::NoLink));
}

#[test]
fn bad_cables_are_counted_where_packets_arrive() {
    // Without LIDs, no trap reaches the manager over the same cable.
    let mut lab = Lab::new();
    let (near, far) = (PortRef::new(S0, 3), PortRef::new(S1, 3));
    lab.fabric.set_errors(near, 1_000_000).expect("a cable");
    for _ in 0..20 {
        assert!(lab.ask(S1, Method::GET, AttrId::NODE_INFO, 0, &[0; 64]).is_none());
    }
    for counter in [Counter::SymbolErrors, Counter::RcvErrors, Counter::LocalPhysicalErrors] {
        assert_eq!((lab.fabric.counter(near, counter), lab.fabric.counter(far, counter)), (0, 20));
    }
    assert_eq!(lab.fabric.counter(far, Counter::LocalLinkIntegrityErrors), 2, "one in nine");
    lab.fabric.set_errors(near, 0).expect("a cable");
    lab.fabric.set_drop(Some(far), 1_000_000).expect("a cable");
    assert!(lab.ask(S1, Method::GET, AttrId::NODE_INFO, 0, &[0; 64]).is_none());
    assert_eq!(lab.fabric.counter(far, Counter::Vl15Dropped), 1);
    lab.fabric.set_drop(Some(far), 0).expect("a cable");
    lab.fabric.set_drop(None, 1_000_000).expect("every cable");
    assert!(lab.ask(S0, Method::GET, AttrId::NODE_INFO, 0, &[0; 64]).is_none());
    lab.fabric.set_drop(None, 0).expect("every cable");
    assert!(lab.ask(S1, Method::GET, AttrId::NODE_INFO, 0, &[0; 64]).is_some());
}
