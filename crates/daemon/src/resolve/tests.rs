//! The resolver on a simulated kernel.

use super::*;

#[derive(Debug, Default)]
struct Fake {
    routes: BTreeMap<IpAddr, Route>,
    states: BTreeMap<IpAddr, u16>,
    probes: Vec<(u32, IpAddr)>,
}

impl Kernel for Fake {
    fn route(&mut self, dst: IpAddr, _: Option<IpAddr>, _: u32, _: u8) -> Result<Route, i32> {
        self.routes.get(&dst).copied().ok_or(ENETUNREACH)
    }

    fn neighbour(&mut self, _: u32, neighbour: IpAddr) -> Result<u16, i32> {
        Ok(self.states.get(&neighbour).copied().unwrap_or(0))
    }

    fn probe(&mut self, ifindex: u32, neighbour: IpAddr, _: IpAddr) {
        self.probes.push((ifindex, neighbour));
        self.states.insert(neighbour, NUD_INCOMPLETE);
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn resolver() -> Resolver<Fake> {
    let mut fake = Fake::default();
    let route = |kind, gateway: Option<&str>| Route {
        kind,
        ifindex: 3,
        src: Some(ip("10.0.0.1")),
        gateway: gateway.map(ip),
        hop_limit: 0,
    };
    fake.routes.insert(ip("10.0.0.2"), route(RouteKind::Unicast, None));
    fake.routes.insert(ip("192.0.2.1"), route(RouteKind::Unicast, Some("10.0.0.254")));
    fake.routes.insert(ip("192.0.2.2"), route(RouteKind::Nowhere(7), None));
    fake.routes.insert(ip("10.0.0.1"), route(RouteKind::Local, None));
    fake.routes.insert(ip("239.1.1.1"), route(RouteKind::Group, None));
    Resolver::new(fake)
}

fn ask(resolver: &mut Resolver<Fake>, now: Instant, number: u64, dst: &str) -> Option<Result<(bool, bool), i32>> {
    let asked = ResolveQuestion { question: QuestionId(number), dst: ip(dst), src: None, ifindex: 0, tos: 0 };
    let answer = resolver.ask(now, &asked, &Netdevs::default())?;
    Some(answer.map(|resolved| (resolved.local, resolved.gateway)))
}

#[test]
fn what_needs_no_neighbour_is_answered_at_once() {
    let (mut resolver, now) = (resolver(), Instant::now());
    assert_eq!(ask(&mut resolver, now, 1, "10.0.0.1"), Some(Ok((true, false))));
    assert_eq!(ask(&mut resolver, now, 2, "239.1.1.1"), Some(Ok((false, false))));
    assert_eq!(ask(&mut resolver, now, 3, "192.0.2.2"), Some(Err(EHOSTUNREACH)));
    assert_eq!(ask(&mut resolver, now, 4, "198.51.100.1"), Some(Err(ENETUNREACH)));
    resolver.kernel.states.insert(ip("10.0.0.2"), 0x04);
    assert_eq!(ask(&mut resolver, now, 5, "10.0.0.2"), Some(Ok((false, false))));
    assert_eq!(resolver.poll_timeout(), None);
}

#[test]
fn a_neighbour_is_looked_for_once_and_answers_all_who_wait() {
    let (mut resolver, start) = (resolver(), Instant::now());
    for number in 1..=3 {
        assert_eq!(ask(&mut resolver, start, number, "192.0.2.1"), None);
    }
    assert_eq!(resolver.kernel.probes, [(3, ip("10.0.0.254"))]);
    let now = resolver.poll_timeout().unwrap();
    assert!(now > start && resolver.handle_timeout(now).is_empty());
    resolver.forget(QuestionId(2));
    resolver.kernel.states.insert(ip("10.0.0.254"), 0x02);
    let now = resolver.poll_timeout().unwrap();
    let answered: Vec<u64> = resolver.handle_timeout(now).into_iter().map(|(question, _)| question.0).collect();
    assert_eq!((answered, resolver.poll_timeout()), (vec![1, 3], None));
}

#[test]
fn a_dead_neighbour_is_looked_for_until_nobody_waits() {
    let (mut resolver, start) = (resolver(), Instant::now());
    assert_eq!(ask(&mut resolver, start, 1, "10.0.0.2"), None);
    let mut looks = 0;
    while let Some(now) = resolver.poll_timeout().filter(|at| *at < start + Duration::from_secs(5)) {
        assert!(resolver.handle_timeout(now).is_empty());
        // NUD_FAILED: the kernel gave up.
        resolver.kernel.states.insert(ip("10.0.0.2"), 0x20);
        looks += 1;
    }
    assert!((40..80).contains(&looks), "{looks}");
    assert!(resolver.kernel.probes.len() > 1);
    resolver.forget(QuestionId(1));
    assert_eq!(resolver.poll_timeout(), None);
}
