//! Hop selection: dimension by dimension, the short way around a ring; the long way if the ring is interrupted; and
//! around a missing switch by turning into a later dimension just before it.

use super::config::DIMENSIONS;
use super::grid::{Grid, Place};

/// A hop: its dimension, and whether it goes up.
pub type Step = (usize, bool);

impl Grid {
    /// The next hop from a switch to another; `None` if these rules allow no path.
    pub fn step(&self, from: u32, to: u32) -> Option<Step> {
        let (place, target) = (self.places[from as usize], self.places[to as usize]);
        let dimension = (0..DIMENSIONS).find(|dimension| place[*dimension] != target[*dimension])?;
        let turn = Place::from(std::array::from_fn(|at| if at == dimension { target[at] } else { place[at] }));
        if self.switch(turn).is_some() {
            return Some((dimension, self.direction(from, to, dimension)?));
        }
        // The switch where the path would turn is missing: continue to the switch before it, and turn there.
        let up = self.toward(from, to, dimension)?;
        if self.hops(dimension, place[dimension], target[dimension], up)? > 1 {
            return Some((dimension, up));
        }
        let later = (dimension + 1..DIMENSIONS).find(|later| place[*later] != target[*later])?;
        Some((later, self.direction(from, to, later)?))
    }

    /// Whether the path on the intact grid crosses the dateline of a dimension, which lies between the last coordinate
    /// and the first.
    pub fn crosses(&self, from: u32, to: u32, dimension: usize) -> bool {
        let (at, target) = (self.places[from as usize][dimension], self.places[to as usize][dimension]);
        match self.short(at, target, dimension, self.is_even(to)) {
            Some(true) => target < at,
            Some(false) => target > at,
            None => false,
        }
    }

    /// The usable direction to the target's coordinate in a dimension, preferably the short one.
    fn direction(&self, from: u32, to: u32, dimension: usize) -> Option<bool> {
        let (at, target) = (self.places[from as usize][dimension], self.places[to as usize][dimension]);
        let short = self.short(at, target, dimension, self.is_even(to))?;
        let leads = |up: &bool| {
            self.hops(dimension, at, target, *up).is_some_and(|hops| hops <= self.run(from, dimension, *up))
        };
        [short, !short].into_iter().find(leads)
    }

    /// The usable direction to just before the target's coordinate, where the switch is missing.
    fn toward(&self, from: u32, to: u32, dimension: usize) -> Option<bool> {
        let (at, target) = (self.places[from as usize][dimension], self.places[to as usize][dimension]);
        let short = self.short(at, target, dimension, self.is_even(to))?;
        let leads = |up: &bool| {
            self.hops(dimension, at, target, *up).is_some_and(|hops| hops <= self.run(from, dimension, *up) + 1)
        };
        [short, !short].into_iter().find(leads)
    }

    /// The short direction. If both are equally short, it alternates between target switches to balance the load.
    fn short(&self, at: u32, target: u32, dimension: usize, even: bool) -> Option<bool> {
        match (self.hops(dimension, at, target, true), self.hops(dimension, at, target, false)) {
            (Some(up), Some(down)) if up == down => Some(even),
            (Some(up), Some(down)) => Some(up < down),
            (up, down) => up.map(|_| true).or(down.map(|_| false)),
        }
    }

    fn is_even(&self, switch: u32) -> bool {
        self.places[switch as usize].iter().sum::<u32>() % 2 == 0
    }
}
