//! Runs the plan of a seed until nothing happens any more.

use super::app::{Apps, Told};
use super::hostile::Stranger;
use super::judge::{judge, leftovers};
use super::plan::Plan;
use super::world::{CmWorld, Step};
use crate::workload::Tally;

/// Steps within which a run must come to rest.
const STEPS_MAX: u32 = 400_000;

/// Result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Every event that the owners got.
    pub trace: Vec<Told>,
    /// Counts of the situations that the run met.
    pub tally: Tally,
}

/// Runs a plan, with or without a stranger that sends in between.
pub fn run(plan: &Plan, mut stranger: Option<Stranger>) -> Result<Outcome, String> {
    let mut world = CmWorld::new(plan.seed, 2, plan.v6, plan.faults);
    let mut apps = Apps::new(plan.clone(), &mut world);
    to_rest(&mut world, &mut apps, stranger.as_mut())?;
    judge(&apps)?;
    apps.destroy_all(&mut world);
    to_rest(&mut world, &mut apps, None)?;
    leftovers(&apps, &world)?;
    let tally = tally(&world, &apps);
    Ok(Outcome { trace: apps.trace, tally })
}

fn to_rest(world: &mut CmWorld, apps: &mut Apps, mut stranger: Option<&mut Stranger>) -> Result<(), String> {
    for _ in 0..STEPS_MAX {
        match world.step() {
            Step::Idle => return world.complaint.take().map_or(Ok(()), Err),
            Step::Wake(number) => apps.wake(world, number)?,
            Step::Other => {}
        }
        if let Some(stranger) = &mut stranger {
            stranger.shout(world);
        }
        for host in 0..world.hosts.len() {
            while let Some(event) = world.hosts[host].cm.poll_event() {
                apps.on_event(world, host, event)?;
            }
        }
        if let Some(complaint) = world.complaint.take() {
            return Err(complaint);
        }
    }
    Err(format!("no rest after {STEPS_MAX} steps, at {:?}", world.now))
}

fn tally(world: &CmWorld, apps: &Apps) -> Tally {
    let mut tally = Tally::default();
    let net = &world.net.stats;
    for (name, count) in [
        ("packets", net.sent),
        ("lost", net.lost),
        ("reordered", net.reordered),
        ("duplicated", net.duplicated),
        ("corrupted", net.corrupted),
        ("to strangers", world.to_strangers),
    ] {
        tally.add(name, count);
    }
    for (_, _, _, _, told) in &apps.trace {
        tally.add(told, 1);
    }
    for side in &apps.sides {
        tally.add(if side.stood() { "stood" } else { "did not stand" }, 1);
        tally.add("crashed", side.crashed.into());
        if let Some(reason) = side.reason {
            tally.add(&format!("Rej: {reason}"), 1);
        }
    }
    for stats in world.hosts.iter().map(|h| h.cm.stats()) {
        tally.add("repeats", stats.tx_retries.iter().sum());
        tally.add("rx_duplicates", stats.rx_duplicates.iter().sum());
        tally.add("rx_malformed", stats.rx_malformed);
        tally.add("rx_spoofed", stats.rx_spoofed);
        tally.add("rx_unexpected", stats.rx_unexpected);
    }
    tally
}
