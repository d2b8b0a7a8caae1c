//! One thing at a time: each refusal, each way to give up, each event, on a network that does nothing wrong unless a
//! test says so.

use weft_sim::end::{self, Parts};
use weft_sim::{End, Faults, QpOptions, World, pair};
use weft_verbs::{Access, AsyncEvent, Event, QpState, RemoteTarget, Sge, Wc, WcStatus};

mod big;
mod datagrams;
mod memory_ops;
mod naks;
mod queues;
mod retries;
mod states;
mod windows;
mod xrc;

/// Two hosts and two connected queue pairs.
fn setup(options: &QpOptions) -> (World, [End; 2]) {
    let mut world = World::new(7, 2, false, Faults::NONE);
    let ends = pair(&mut world, options);
    (world, ends)
}

/// Two hosts with a protection domain and a completion queue each.
fn setup_parts() -> (World, [Parts; 2]) {
    let mut world = World::new(7, 2, false, Faults::NONE);
    let parts = [end::parts(&mut world, 0), end::parts(&mut world, 1)];
    (world, parts)
}

/// Registered memory at an end: an element that covers it. Its key serves peers too.
fn memory(world: &mut World, end: &End, len: u32, access: Access) -> Sge {
    let (addr, lkey) = world.hosts[end.host].region(end.pd, len as usize, access);
    Sge { addr, length: len, lkey }
}

/// Everything that a peer may do.
fn open() -> Access {
    Access::all() - Access::ZERO_BASED
}

fn target(sge: &Sge) -> RemoteTarget {
    RemoteTarget { addr: sge.addr, rkey: sge.lkey }
}

/// Statuses of completions, with their numbers.
fn statuses(wcs: &[Wc]) -> Vec<(u64, WcStatus)> {
    wcs.iter().map(|wc| (wc.wr_id, wc.status)).collect()
}

/// Asynchronous events that a host was told, in order.
fn events(world: &World, host: usize) -> Vec<AsyncEvent> {
    let events = world.hosts[host].events.iter();
    events.filter_map(|e| if let Event::Async { event, .. } = e { Some(*event) } else { None }).collect()
}

fn fill(world: &mut World, end: &End, sge: &Sge, byte: u8) {
    let data = vec![byte; sge.length as usize];
    world.hosts[end.host].fill(sge.addr, &data);
}

fn look(world: &mut World, end: &End, sge: &Sge) -> Vec<u8> {
    world.hosts[end.host].look(sge.addr, sge.length as usize)
}

fn assert_states(world: &World, ends: &[End; 2], states: [QpState; 2]) {
    assert_eq!([ends[0].state(world), ends[1].state(world)], states);
}
