//! Spring layout of a network without a regular structure: springs pull cabled switches together, all switches repel
//! each other (Fruchterman, Reingold, 1991). The same network always gets the same drawing.

use std::collections::BTreeMap;
use std::f64::consts::TAU;

use super::super::super::Picture;
use super::scene::{Look, STEP, Scene, WIDTH_MAX, folded, hung, switches, trunks};

/// Largest number of boxes: more switches share boxes.
const BOXES_MAX: usize = 120;
/// Number of rounds.
const ROUNDS: usize = 200;
/// Hosts are below their switch, so boxes keep a larger vertical distance.
const FLAT: f64 = 0.8;

/// Lays out the drawing.
pub fn scene(picture: &Picture) -> Scene {
    let mut scene = Scene::default();
    let parts = folded(&switches(picture), BOXES_MAX);
    let mut part_of = BTreeMap::new();
    for (number, part) in parts.iter().enumerate() {
        part_of.extend(part.iter().map(|place| (*place, number)));
    }
    let pairs: Vec<(usize, usize)> = trunks(picture)
        .filter_map(|(a, b)| Some((*part_of.get(&a)?, *part_of.get(&b)?)))
        .filter(|(a, b)| a != b)
        .collect();
    let size = ((parts.len() as f64).sqrt() * STEP * 1.6).clamp(300.0, WIDTH_MAX - 2.0 * STEP);
    let (hung, loose) = hung(picture);
    for (part, (x, y)) in parts.into_iter().zip(settled(part_of.values().max().map_or(0, |max| max + 1), &pairs, size))
    {
        let hosts: Vec<u32> = part.iter().flat_map(|switch| hung[*switch as usize].clone()).collect();
        scene.add(part, (x, y * FLAT), Look::Box);
        scene.add_hosts(hosts, (x, y * FLAT));
    }
    for (number, host) in loose.into_iter().enumerate() {
        scene.add(vec![host], (number as f64 * 16.0, size + STEP), Look::Dot);
    }
    scene
}

/// Computes positions within a square.
fn settled(count: usize, pairs: &[(usize, usize)], size: f64) -> Vec<(f64, f64)> {
    let start = |number: usize| {
        let angle = TAU * number as f64 / count as f64;
        (size / 2.0 * (1.0 + angle.cos()), size / 2.0 * (1.0 + angle.sin()))
    };
    let mut at: Vec<(f64, f64)> = (0..count).map(start).collect();
    let rest = size / (count as f64).sqrt().max(1.0);
    for round in 0..ROUNDS {
        let mut push = vec![(0.0, 0.0); count];
        for a in 0..count {
            for b in a + 1..count {
                let (dx, dy, distance) = between(at[a], at[b]);
                let force = rest * rest / distance / distance;
                push[a] = (push[a].0 - dx * force, push[a].1 - dy * force);
                push[b] = (push[b].0 + dx * force, push[b].1 + dy * force);
            }
        }
        for &(a, b) in pairs {
            let (dx, dy, distance) = between(at[a], at[b]);
            let force = distance / rest / 2.0;
            push[a] = (push[a].0 + dx * force, push[a].1 + dy * force);
            push[b] = (push[b].0 - dx * force, push[b].1 - dy * force);
        }
        let step = size / 10.0 * (1.0 - round as f64 / ROUNDS as f64);
        for (at, push) in at.iter_mut().zip(push) {
            let length = push.0.hypot(push.1).max(1e-9);
            let moved = length.min(step) / length;
            (at.0, at.1) = (at.0 + push.0 * moved, at.1 + push.1 * moved);
        }
    }
    fitted(at, size)
}

/// Moves and stretches the positions to fill a square.
fn fitted(mut at: Vec<(f64, f64)>, size: f64) -> Vec<(f64, f64)> {
    let bounds = |of: &dyn Fn(&(f64, f64)) -> f64| {
        let values = at.iter().map(of);
        values.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)))
    };
    let (left, right) = bounds(&|at| at.0);
    let (top, bottom) = bounds(&|at| at.1);
    let (wide, tall) = (size / (right - left).max(1.0), size / (bottom - top).max(1.0));
    at.iter_mut().for_each(|at| *at = ((at.0 - left) * wide, (at.1 - top) * tall));
    at
}

/// Returns the vector from one position to another, and its length.
fn between(a: (f64, f64), b: (f64, f64)) -> (f64, f64, f64) {
    let (dx, dy) = (b.0 - a.0, b.1 - a.1);
    (dx, dy, dx.hypot(dy).max(1.0))
}
