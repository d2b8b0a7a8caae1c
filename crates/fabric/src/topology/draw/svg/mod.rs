//! A fabric as an SVG that any browser shows. Trees are drawn as rows above their hosts, meshes and tori as grids,
//! dragonflies as groups, anything else by a spring layout of its switches. A drawing too wide for a page is folded:
//! several nodes become one box, their cables one line. Details of a node or a link appear under the pointer.

mod grid;
mod groups;
mod paint;
mod rows;
mod scene;
mod springs;
mod style;

use super::super::{NodeKind, Picture};

/// Draws the fabric.
pub fn svg(picture: &Picture) -> String {
    let scene = grid::scene(picture).or_else(|| groups::scene(picture)).unwrap_or_else(|| {
        let rows = super::rows(picture);
        let is_tree = rows.len() > 2 || picture.topology.count(NodeKind::Switch) < 4;
        if is_tree { rows::scene(picture, &rows) } else { springs::scene(picture) }
    });
    paint::paint(picture, scene)
}
