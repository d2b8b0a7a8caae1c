//! A dragonfly: each group of switches in a frame of its own, the groups on a circle. The switches' names carry their
//! group, as the generator assigns it: `g3-s1`. If there are many groups, each is one box.

use std::collections::BTreeMap;
use std::f64::consts::{FRAC_PI_2, TAU};

use super::super::super::Picture;
use super::scene::{BOX, Frame, Look, STEP, Scene, WIDTH_MAX, folded, hung, switches};

/// Largest number of groups drawn switch by switch, and of switches in such a group.
const OPEN_MAX: usize = 12;
const OPEN_SWITCHES_MAX: usize = 16;
/// Largest number of boxes on the circle.
const BOXES_MAX: usize = 48;
/// Distance between lines of switches.
const LINE: f64 = 60.0;

/// Lays out the drawing; `None` if this is no dragonfly.
pub fn scene(picture: &Picture) -> Option<Scene> {
    let mut groups: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for place in switches(picture) {
        groups.entry(group(&picture.topology.nodes.get(place as usize)?.name)?).or_default().push(place);
    }
    let (hung, loose) = hung(picture);
    let largest = groups.values().map(Vec::len).max()?;
    if groups.len() < 2 || !loose.is_empty() {
        return None;
    }
    let is_open = groups.len() <= OPEN_MAX && largest <= OPEN_SWITCHES_MAX;
    Some(if is_open { open(&groups, largest, &hung) } else { closed(&groups, &hung) })
}

fn on_circle(number: usize, count: usize, radius: f64) -> (f64, f64) {
    let angle = TAU * number as f64 / count as f64 - FRAC_PI_2;
    (radius * angle.cos(), radius * angle.sin())
}

/// Lays out every switch with its hosts.
fn open(groups: &BTreeMap<u32, Vec<u32>>, largest: usize, hung: &[Vec<u32>]) -> Scene {
    let mut scene = Scene::default();
    let columns = (largest as f64).sqrt().ceil();
    let lines = (largest as f64 / columns).ceil();
    let (width, height) = (columns * STEP + 8.0, lines * LINE + 16.0);
    let room = (width.hypot(height) + 20.0) * groups.len() as f64 / TAU;
    let radius = room.max(width).min((WIDTH_MAX - width) / 2.0);
    for (number, (group, switches)) in groups.iter().enumerate() {
        let (x, y) = on_circle(number, groups.len(), radius);
        let (left, top) = (x - width / 2.0, y - height / 2.0);
        scene.frames.push(Frame { x: left, y: top, width, height, name: format!("g{group}") });
        for (at, switch) in switches.iter().enumerate() {
            let (column, line) = (at % columns as usize, at / columns as usize);
            let place = (left + 4.0 + (column as f64 + 0.5) * STEP, top + 12.0 + line as f64 * LINE + BOX.1 / 2.0);
            scene.add(vec![*switch], place, Look::Box);
            scene.add_hosts(hung[*switch as usize].clone(), place);
        }
    }
    scene
}

/// Lays out a box for each group, or for several.
fn closed(groups: &BTreeMap<u32, Vec<u32>>, hung: &[Vec<u32>]) -> Scene {
    let mut scene = Scene::default();
    let numbers: Vec<u32> = groups.keys().copied().collect();
    let parts = folded(&numbers, BOXES_MAX);
    let radius = (parts.len() as f64 * STEP * 1.2 / TAU).clamp(200.0, (WIDTH_MAX - 200.0) / 2.0 - BOX.0);
    for (number, part) in parts.iter().enumerate() {
        let switches: Vec<u32> = part.iter().flat_map(|group| groups[group].clone()).collect();
        let hosts = switches.iter().flat_map(|switch| hung[*switch as usize].clone()).collect();
        scene.add(switches, on_circle(number, parts.len(), radius), Look::Box);
        let (x, y) = on_circle(number, parts.len(), radius + 80.0);
        scene.add(hosts, (x, y), Look::Box);
    }
    scene.items.retain(|item| !item.nodes.is_empty());
    scene
}

/// Returns the group number in a switch's name.
fn group(name: &str) -> Option<u32> {
    let (group, switch) = name.rsplit_once("-s")?;
    switch.parse::<u32>().ok()?;
    let digits = group.trim_end_matches(|c: char| c.is_ascii_digit());
    digits.ends_with('g').then(|| group[digits.len()..].parse().ok())?
}
