//! Setup shared by the tests of every path.

use weft_sim::end::{self, Parts};
use weft_sim::{End, Path, QpOptions, World, pair};
use weft_verbs::{Access, AsyncEvent, Event, QpState, RemoteTarget, Sge, Wc, WcStatus};

use super::PATH;

/// Returns whether a test does not apply to this path, for a reason in the path's nature.
pub fn skips_off_the_wire(reason: &str) -> bool {
    if PATH != Path::Wire {
        eprintln!("not on the path {PATH:?}: {reason}");
    }
    PATH != Path::Wire
}

/// Creates this many processes on the path.
pub fn world(count: usize) -> World {
    World::on(PATH, 7, count)
}

/// Creates two hosts and two connected queue pairs.
pub fn setup(options: &QpOptions) -> (World, [End; 2]) {
    let mut world = self::world(2);
    let ends = pair(&mut world, options);
    (world, ends)
}

/// Creates two hosts with a protection domain and a completion queue each.
pub fn setup_parts() -> (World, [Parts; 2]) {
    let mut world = self::world(2);
    let parts = [end::parts(&mut world, 0), end::parts(&mut world, 1)];
    (world, parts)
}

/// Registers memory at an end and returns an element that covers it; its key serves peers too.
pub fn memory(world: &mut World, end: &End, len: u32, access: Access) -> Sge {
    let (addr, lkey) = world.hosts[end.host].region(end.pd, len as usize, access);
    Sge { addr, length: len, lkey }
}

/// All remote access rights, with on-demand paging: the owning process performs the accesses, because direct copies
/// never touch on-demand memory.
pub fn open_on_demand() -> Access {
    open() | Access::ON_DEMAND
}

/// All remote access rights.
pub fn open() -> Access {
    Access::all() - Access::ZERO_BASED - Access::ON_DEMAND
}

pub fn target(sge: &Sge) -> RemoteTarget {
    RemoteTarget { addr: sge.addr, rkey: sge.lkey }
}

/// Returns the statuses of completions, with their work request IDs.
pub fn statuses(wcs: &[Wc]) -> Vec<(u64, WcStatus)> {
    wcs.iter().map(|wc| (wc.wr_id, wc.status)).collect()
}

/// Returns a host's asynchronous events, in order.
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
