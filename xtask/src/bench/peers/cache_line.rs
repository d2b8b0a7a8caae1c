//! The limit of a short message between two cores: a word that two threads pass to each other through one cache line,
//! without any protocol. The time depends on the machine, and on the cores that the hypervisor assigned.

use super::super::program::{Program, figure_of, number_before};
use super::super::room::{Room, own_words};
use super::super::unit::Unit;
use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Round trips before the clock starts.
const WARM_UP: u64 = 10_000;

/// Options of the ping-pong.
#[derive(clap::Args)]
pub struct Options {
    /// Core of the answering thread.
    #[arg(long)]
    answers: Option<usize>,
    /// Round trips.
    #[arg(long, default_value_t = 2_000_000)]
    round_trips: u64,
}

/// A word in a cache line of its own.
#[repr(align(128))]
#[derive(Default)]
struct Line(AtomicU64);

/// Plays and prints half a round trip.
pub fn run(options: &Options) -> Result<()> {
    println!("{:.4} us", half_round_trip(options.answers, options.round_trips)?);
    Ok(())
}

fn half_round_trip(answers: Option<usize>, round_trips: u64) -> Result<f64> {
    let (ping, pong) = (Line::default(), Line::default());
    std::thread::scope(|scope| {
        let player = scope.spawn(|| {
            let pinned = answers.map_or(Ok(()), pin);
            for number in 1..=WARM_UP + round_trips {
                wait_for(&ping, number);
                pong.0.store(number, Ordering::Release);
            }
            pinned
        });
        let mut started = Instant::now();
        for number in 1..=WARM_UP + round_trips {
            ping.0.store(number, Ordering::Release);
            wait_for(&pong, number);
            if number == WARM_UP {
                started = Instant::now();
            }
        }
        let time = started.elapsed();
        player.join().ok().context("the thread that answers has died")??;
        Ok(time.as_secs_f64() * 1e6 / round_trips as f64 / 2.0)
    })
}

fn pin(core: usize) -> Result<()> {
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(None, &cores).with_context(|| format!("core {core} is not ours"))
}

fn wait_for(line: &Line, number: u64) {
    while line.0.load(Ordering::Acquire) != number {
        std::hint::spin_loop();
    }
}

/// The cache line ping-pong as a peer.
#[derive(Clone, Copy, Debug)]
pub struct CacheLine;

impl Program for CacheLine {
    fn name(&self) -> String {
        "bare cache line".to_owned()
    }

    fn command(&self, _seconds: u32) -> String {
        "xtask bench-peer cache-line --answers CORE".to_owned()
    }

    fn unit(&self) -> Unit {
        Unit::Microseconds
    }

    fn measure(&self, room: &Room) -> Result<f64> {
        let answers = room.cores().map(|cores| format!(" --answers {}", cores.server)).unwrap_or_default();
        let words = own_words(&format!("cache-line{answers}"))?;
        figure_of(room.connect(&words, &[])?, room.seconds, |text| number_before(text, "us"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_trip_is_played() {
        assert!(half_round_trip(None, 100).expect("two threads") > 0.0);
    }
}
