//! A mesh or a torus: the first two dimensions form a grid, each further step of the others another grid beside it. The
//! switches' names carry their coordinates, as the generators assign them: `sw2-0-1`.

use super::super::super::Picture;
use super::scene::{BOX, DOT, Frame, Look, Scene, WIDTH_MAX, hung, switches, trunks};

/// Distance between switches: preferred, and minimum.
const STEP: f64 = 100.0;
const STEP_MIN: f64 = 16.0;
/// Below this distance switches are small squares without names.
const NAMED_STEP: f64 = BOX.0 + 10.0;
/// Gap between grids.
const GAP: f64 = 40.0;
/// Largest height of a drawing.
const HEIGHT_MAX: f64 = 4.0 * WIDTH_MAX;

/// Lays out the drawing; `None` if this is no grid, or too large a one.
pub fn scene(picture: &Picture) -> Option<Scene> {
    let places = switches(picture);
    let coordinates: Vec<Vec<u32>> = places.iter().map(|place| coordinates(picture, *place)).collect::<Option<_>>()?;
    let sizes = sizes(&coordinates)?;
    let mut by_place = vec![usize::MAX; picture.topology.nodes.len()];
    places.iter().enumerate().for_each(|(at, place)| by_place[*place as usize] = at);
    let of = |place: u32| &coordinates[by_place[place as usize]];
    if places.len() < 2 || !trunks(picture).all(|(a, b)| are_neighbours(of(a), of(b), &sizes)) {
        return None;
    }
    let (hung, loose) = hung(picture);
    let (columns, lines) = (sizes[0] as f64, sizes.get(1).copied().unwrap_or(1) as f64);
    let step = ((WIDTH_MAX - GAP) / columns).min(STEP);
    let (width, height) = (columns * step + GAP, lines * step + GAP);
    let beside = ((WIDTH_MAX / width) as usize).max(1);
    let grids: usize = sizes.iter().skip(2).map(|size| *size as usize).product();
    if step < STEP_MIN || grids.div_ceil(beside) as f64 * height > HEIGHT_MAX || !loose.is_empty() {
        return None;
    }
    let mut scene = Scene { straight_max: Some(step * 1.5), ..Scene::default() };
    let look = if step < NAMED_STEP { Look::Chip } else { Look::Box };
    for (place, at) in places.iter().zip(&coordinates) {
        let grid = at.iter().zip(&sizes).skip(2).rev().fold(0, |grid, (at, size)| grid * *size as usize + *at as usize);
        let (left, top) = ((grid % beside) as f64 * width, (grid / beside) as f64 * height);
        let line = at.get(1).copied().unwrap_or(0);
        let (x, y) = (left + (f64::from(at[0]) + 0.5) * step, top + (f64::from(line) + 0.5) * step);
        if grids > 1 && at.iter().take(2).all(|at| *at == 0) {
            let name = at.iter().skip(2).map(|at| format!("-{at}")).collect::<String>();
            scene.frames.push(Frame {
                x: left - GAP / 4.0,
                y: top - GAP / 4.0,
                width: width - GAP / 2.0,
                height: height - GAP / 2.0,
                name: format!("*-*{name}"),
            });
        }
        scene.add(vec![*place], (x, y), look);
        if look == Look::Box {
            // Beside the cable to the switch below.
            scene.add_hosts(hung[*place as usize].clone(), (x + BOX.0 / 2.0 - 2.0 * DOT, y - DOT));
        } else {
            // There is no room for hosts beside their switch.
            let hosts = hung[*place as usize].iter().copied();
            scene.items.last_mut()?.nodes.extend(hosts);
        }
    }
    Some(scene)
}

/// Returns the numbers in a switch's name.
fn coordinates(picture: &Picture, place: u32) -> Option<Vec<u32>> {
    let name = &picture.topology.nodes.get(place as usize)?.name;
    let numbers = name.trim_start_matches(|c: char| !c.is_ascii_digit());
    numbers.split('-').map(|number| number.parse().ok()).collect()
}

/// Returns the number of switches along each dimension; `None` unless every position is taken.
fn sizes(coordinates: &[Vec<u32>]) -> Option<Vec<u32>> {
    let dimensions = coordinates.first()?.len();
    if coordinates.iter().any(|at| at.len() != dimensions) {
        return None;
    }
    let size = |dimension: usize| coordinates.iter().map(|at| at[dimension].saturating_add(1)).max().unwrap_or(1);
    let sizes: Vec<u32> = (0..dimensions).map(size).collect();
    let all = sizes.iter().fold(1u64, |all, size| all.saturating_mul(u64::from(*size)));
    (all == coordinates.len() as u64).then_some(sizes)
}

/// Returns whether two switches differ by one step in one dimension, or are its two ends.
fn are_neighbours(a: &[u32], b: &[u32], sizes: &[u32]) -> bool {
    let mut differ = a.iter().zip(b).zip(sizes).filter(|((a, b), _)| a != b);
    let Some(((a, b), size)) = differ.next() else { return false };
    differ.next().is_none() && (a.abs_diff(*b) == 1 || a.abs_diff(*b) + 1 == *size)
}
