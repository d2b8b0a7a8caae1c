//! Layout of a drawing: where each node stands. Trees are rows above their hosts, meshes and tori grids, dragonflies
//! groups; anything else is a spring layout of its switches. A fabric too large for a page is folded: several nodes
//! share one item.

mod grid;
mod groups;
mod rows;
mod scene;
mod springs;

pub use scene::{BOX, DOT, Frame, Item, Look, STEP, Scene};

use super::super::{NodeKind, Picture};

/// Lays out a fabric.
pub fn layout(picture: &Picture) -> Scene {
    grid::scene(picture).or_else(|| groups::scene(picture)).unwrap_or_else(|| {
        let rows = super::rows(picture);
        let is_tree = rows.len() > 2 || picture.topology.count(NodeKind::Switch) < 4;
        if is_tree { rows::scene(picture, &rows) } else { springs::scene(picture) }
    })
}
