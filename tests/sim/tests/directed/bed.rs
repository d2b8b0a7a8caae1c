//! What the tests of every path begin with.

use weft_sim::end::{self, Parts};
use weft_sim::{End, Path, QpOptions, World, pair};
use weft_verbs::{Access, AsyncEvent, Event, QpState, RemoteTarget, Sge, Wc, WcStatus};

use super::PATH;

/// Whether a test says nothing on this path, for a reason that lies in the path's nature.
pub fn skips_off_the_wire(reason: &str) -> bool {
    if PATH != Path::Wire {
        eprintln!("not on the path {PATH:?}: {reason}");
    }
    PATH != Path::Wire
}

/// So many processes on the path.
pub fn world(count: usize) -> World {
    World::on(PATH, 7, count)
}

/// Two hosts and two connected queue pairs.
pub fn setup(options: &QpOptions) -> (World, [End; 2]) {
    let mut world = self::world(2);
    let ends = pair(&mut world, options);
    (world, ends)
}

/// Two hosts with a protection domain and a completion queue each.
pub fn setup_parts() -> (World, [Parts; 2]) {
    let mut world = self::world(2);
    let parts = [end::parts(&mut world, 0), end::parts(&mut world, 1)];
    (world, parts)
}

/// Registered memory at an end: an element that covers it. Its key serves peers too.
pub fn memory(world: &mut World, end: &End, len: u32, access: Access) -> Sge {
    let (addr, lkey) = world.hosts[end.host].region(end.pd, len as usize, access);
    Sge { addr, length: len, lkey }
}

/// Everything that a peer may do, but its process carries it out: nobody copies into on-demand memory directly.
pub fn open_on_demand() -> Access {
    open() | Access::ON_DEMAND
}

/// Everything that a peer may do.
pub fn open() -> Access {
    Access::all() - Access::ZERO_BASED - Access::ON_DEMAND
}

pub fn target(sge: &Sge) -> RemoteTarget {
    RemoteTarget { addr: sge.addr, rkey: sge.lkey }
}

/// Statuses of completions, with their numbers.
pub fn statuses(wcs: &[Wc]) -> Vec<(u64, WcStatus)> {
    wcs.iter().map(|wc| (wc.wr_id, wc.status)).collect()
}

/// Asynchronous events that a host was told, in order.
pub fn events(world: &World, host: usize) -> Vec<AsyncEvent> {
    let events = world.hosts[host].events.iter();
    events.filter_map(|e| if let Event::Async { event, .. } = e { Some(*event) } else { None }).collect()
}

pub fn fill(world: &mut World, end: &End, sge: &Sge, byte: u8) {
    let data = vec![byte; sge.length as usize];
    world.hosts[end.host].fill(sge.addr, &data);
}

pub fn look(world: &mut World, end: &End, sge: &Sge) -> Vec<u8> {
    world.hosts[end.host].look(sge.addr, sge.length as usize)
}

pub fn assert_states(world: &World, ends: &[End; 2], states: [QpState; 2]) {
    assert_eq!([ends[0].state(world), ends[1].state(world)], states);
}
