//! A tree: rows of switches, the top of the tree on top, hosts below the leaf that they are cabled to.

use super::super::super::Picture;
use super::scene::{BOX, DOT, Look, STEP, Scene, WIDTH_MAX, folded, hung};

/// Distance between rows.
const ROW: f64 = 120.0;
/// Smallest width of a host's dot.
const HOST_STEP: f64 = DOT * 2.6;

/// Lays out the drawing.
pub fn scene(picture: &Picture, rows: &[Vec<u32>]) -> Scene {
    let mut scene = Scene::default();
    let (hung, loose) = hung(picture);
    let boxes_max = (WIDTH_MAX / STEP) as usize;
    let parts: Vec<Vec<Vec<u32>>> = rows.iter().skip(1).map(|row| folded(row, boxes_max)).collect();
    let below = |part: &Vec<u32>| part.iter().flat_map(|switch| hung[*switch as usize].clone()).collect::<Vec<u32>>();
    let hosts_max = parts.iter().flatten().map(|part| below(part).len()).max().unwrap_or(0);
    let most = parts.iter().map(Vec::len).max().unwrap_or(1).max(1);
    // Hosts are drawn one by one if they fit below their leaf.
    let slot = STEP.max(hosts_max as f64 * HOST_STEP + HOST_STEP);
    let dots = slot * most as f64 <= WIDTH_MAX;
    let width = (if dots { slot } else { STEP }) * most as f64;
    for (number, row) in parts.iter().enumerate() {
        let y = ROW * (parts.len() - number) as f64;
        let slot = width / row.len().max(1) as f64;
        for (at, part) in row.iter().enumerate() {
            let x = slot * (at as f64 + 0.5);
            let hosts = below(part);
            scene.add(part.clone(), (x, y), Look::Box);
            add_hosts(&mut scene, hosts, (x, ROW * (parts.len() as f64 + if number == 0 { 0.9 } else { 0.6 })), dots);
        }
    }
    let y = ROW * (parts.len() as f64 + if scene.items.is_empty() { 0.0 } else { 1.5 });
    let count = loose.len();
    for (at, host) in loose.into_iter().enumerate() {
        let x = if count > 2 { (at as f64 + 0.5) * width.max(400.0) / count as f64 } else { at as f64 * 4.0 * BOX.0 };
        scene.add(vec![host], (x, y), Look::NamedDot);
    }
    scene
}

fn add_hosts(scene: &mut Scene, hosts: Vec<u32>, (x, y): (f64, f64), dots: bool) {
    if !dots && hosts.len() > 1 {
        scene.add(hosts, (x, y), Look::Box);
        return;
    }
    let first = x - (hosts.len() as f64 - 1.0) * HOST_STEP / 2.0;
    for (number, host) in hosts.into_iter().enumerate() {
        scene.add(vec![host], (first + number as f64 * HOST_STEP, y), Look::NamedDot);
    }
}
