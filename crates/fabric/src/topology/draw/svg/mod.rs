//! A fabric as an SVG that any browser shows. Where several nodes are one box, their cables are one line. Details of a
//! node or a link appear under the pointer.

mod paint;
mod style;

use super::super::Picture;

/// Draws the fabric.
pub fn svg(picture: &Picture) -> String {
    paint::paint(picture, super::layout::layout(picture))
}
