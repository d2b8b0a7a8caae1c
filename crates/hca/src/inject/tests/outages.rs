//! Ports and devices that are out of service for a while.

use super::*;

#[test]
fn a_port_flaps_by_the_clock_and_shows_it() {
    let mut bench = Bench::new(QpType::Rc, &["event=PORT_ERR,after=1s,for=200ms,every=500ms,count=2"]);
    let port = AsyncSubject::Port(1);
    let state = |bench: &Bench| bench.hca.device(DEVICE).unwrap().ports[0].state;
    assert_eq!(bench.at(999), []);
    assert_eq!(bench.hca.poll_timeout(), Some(BEGIN + Duration::from_millis(1000)));
    assert_eq!((bench.at(1000), state(&bench)), (vec![(AsyncEvent::PortErr, port)], PortState::Down));
    // A report of the daemon meanwhile does not end the outage.
    let mut wider = device("rxe0");
    wider.ports[0].active_mtu = Mtu::Mtu4096;
    bench.hca.set_device(DEVICE, wider);
    assert_eq!((bench.at(1100), state(&bench)), (vec![], PortState::Down));
    assert_eq!((bench.at(1200), state(&bench)), (vec![(AsyncEvent::PortActive, port)], PortState::Active));
    assert_eq!(bench.at(1500), [(AsyncEvent::PortErr, port)]);
    assert_eq!(bench.at(1800), [(AsyncEvent::PortActive, port)]);
    assert_eq!((bench.at(9000), bench.hca.strikes()), (vec![], vec![(1, 2)]));
    assert_eq!(bench.state(0), QpState::Rts);
}

#[test]
fn port_active_ends_an_outage_for_good() {
    let mut bench =
        Bench::new(QpType::Rc, &["event=PORT_ERR,for=1s", "event=PORT_ACTIVE,after=100ms,every=100ms,count=2"]);
    let state = |bench: &Bench| bench.hca.device(DEVICE).unwrap().ports[0].state;
    let active = (AsyncEvent::PortActive, AsyncSubject::Port(1));
    assert_eq!(bench.at(1).len(), 1);
    assert_eq!((bench.at(100), state(&bench)), (vec![active], PortState::Active));
    // A report of the daemon does not bring the outage back.
    bench.hca.set_device(DEVICE, device("rxe0"));
    assert_eq!(state(&bench), PortState::Active);
    // There is no outage left: the event alone.
    assert_eq!(bench.at(200), [active]);
    assert_eq!((bench.at(2000), bench.hca.strikes()), (vec![], vec![(1, 1), (2, 2)]));
}

#[test]
fn port_active_plugs_no_cable_in() {
    let mut bench = Bench::new(QpType::Rc, &["event=PORT_ACTIVE,after=100ms"]);
    let mut unplugged = device("rxe0");
    unplugged.ports[0].state = PortState::Down;
    bench.hca.set_device(DEVICE, unplugged);
    assert_eq!(bench.at(1), [(AsyncEvent::PortErr, AsyncSubject::Port(1))]);
    assert_eq!(bench.at(100), [(AsyncEvent::PortActive, AsyncSubject::Port(1))]);
    assert_eq!(bench.hca.device(DEVICE).unwrap().ports[0].state, PortState::Down);
}

#[test]
fn a_late_turn_makes_up_for_flaps_in_their_order() {
    let mut bench = Bench::new(
        QpType::Rc,
        &["event=PORT_ERR,after=50ms,for=50ms,every=100ms,count=3", "event=GID_CHANGE,after=160ms"],
    );
    let events: Vec<AsyncEvent> = bench.at(175).into_iter().map(|(event, _)| event).collect();
    assert_eq!(events, [AsyncEvent::PortErr, AsyncEvent::PortActive, AsyncEvent::PortErr, AsyncEvent::GidChange]);
    assert_eq!(bench.hca.device(DEVICE).unwrap().ports[0].state, PortState::Down);
    let port = AsyncSubject::Port(1);
    assert_eq!(bench.at(250), [(AsyncEvent::PortActive, port), (AsyncEvent::PortErr, port)]);
    assert_eq!(bench.at(400), [(AsyncEvent::PortActive, port)]);
    assert_eq!((bench.at(900), bench.hca.strikes()), (vec![], vec![(1, 3), (2, 1)]));
}

#[test]
fn the_end_of_a_failure_ends_its_outage() {
    let mut bench = Bench::new(QpType::Rc, &["event=PORT_ERR"]);
    assert_eq!(bench.at(1), [(AsyncEvent::PortErr, AsyncSubject::Port(1))]);
    bench.hca.take_injected();
    bench.hca.end_injection(bench.now, 1);
    assert_eq!(bench.at(2), [(AsyncEvent::PortActive, AsyncSubject::Port(1))]);
    assert!(!bench.hca.injects());
}

#[test]
fn an_outage_by_number_may_begin_at_any_time() {
    let mut bench = Bench::new(QpType::Rc, &["event=PORT_ERR,from=2,for=1ms"]);
    let port = AsyncSubject::Port(1);
    bench.post(0, 1).unwrap();
    assert_eq!(bench.at(5), []);
    bench.post(0, 2).unwrap();
    assert_eq!(bench.at(5), [(AsyncEvent::PortErr, port)]);
    assert_eq!(bench.at(6), [(AsyncEvent::PortActive, port)]);
}

#[test]
fn a_fatal_error_of_the_device_lasts_as_long_as_asked() {
    let mut bench = Bench::new(QpType::Rc, &["event=DEVICE_FATAL,after=1s,for=1s"]);
    assert_eq!(bench.at(1000), [(AsyncEvent::DeviceFatal, AsyncSubject::Device)]);
    assert_eq!((bench.state(0), bench.state(1)), (QpState::Err, QpState::Err));
    assert!(bench.hca.alloc_pd(DEVICE, 0).is_err());
    bench.hca.set_device(DEVICE, device("rxe0"));
    assert!(bench.hca.alloc_pd(DEVICE, 0).is_err(), "it is still out of service");
    assert_eq!(bench.at(2000), []);
    assert!(bench.hca.alloc_pd(DEVICE, 0).is_ok());
}

#[test]
fn a_port_is_up_again_after_an_outage_of_its_device() {
    let specs = ["event=PORT_ERR,for=200ms", "event=DEVICE_FATAL,after=100ms,for=50ms"];
    let mut bench = Bench::new(QpType::Rc, &specs);
    let state = |bench: &Bench| bench.hca.device(DEVICE).unwrap().ports[0].state;
    let port = AsyncSubject::Port(1);
    assert_eq!(bench.at(1), [(AsyncEvent::PortErr, port)]);
    assert_eq!(bench.at(100), [(AsyncEvent::DeviceFatal, AsyncSubject::Device)]);
    assert_eq!((bench.at(150), state(&bench)), (vec![], PortState::Down));
    assert_eq!((bench.at(250), state(&bench)), (vec![(AsyncEvent::PortActive, port)], PortState::Active));
}

#[test]
fn no_outage_brings_a_removed_device_back() {
    let mut bench = Bench::new(QpType::Rc, &["event=DEVICE_FATAL,for=1s"]);
    assert_eq!(bench.at(1), [(AsyncEvent::DeviceFatal, AsyncSubject::Device)]);
    bench.hca.remove_device(DEVICE);
    assert_eq!(bench.at(2000), []);
    assert!(bench.hca.alloc_pd(DEVICE, 0).is_err());
}

#[test]
fn reports_outlive_their_failure() {
    let mut bench = Bench::new(QpType::Rc, &["event=PORT_ERR"]);
    assert_eq!(bench.at(1).len(), 1);
    bench.hca.end_injection(bench.now, 1);
    assert!(bench.hca.injects() && bench.hca.has_injected());
    assert_eq!(bench.reports().len(), 1);
    // Calls test a null pointer again.
    assert!(!bench.hca.injects());
}
