//! Plots of a figure by message size, as SVG 1.1: `weft perf --plot` and the benchmarks draw with it.
//!
//! A [`Plot`] has a [`Panel`] for each metric. Both axes of a panel are logarithmic: sizes and figures go over many orders
//! of magnitude. The picture needs no script, no font and no network.

mod axis;
mod svg;

use axis::Axis;
use svg::{Anchor, Svg};

const COLUMNS: usize = 2;
const PANEL: [f64; 2] = [620.0, 400.0];
const HEAD: f64 = 50.0;
/// Margins around the axes of a panel: left, top, right (the names of the curves), bottom.
const MARGIN: [f64; 4] = [62.0, 40.0, 178.0, 46.0];

const INK: &str = "#1f2430";
const FAINT: &str = "#6b7280";
const GRID: &str = "#e5e7eb";
/// Colours that colour-blind readers can distinguish (Okabe and Ito).
const SOLID: [&str; 6] = ["#d55e00", "#0072b2", "#009e73", "#cc79a7", "#b8860b", "#4d4d4d"];
const DASHED: [&str; 3] = ["#4d4d4d", "#cc79a7", "#b8860b"];
const DASHES: &str = "5 4";

/// Factor between two marks of the sizes.
const SIZE_STEP: f64 = 8.0;
/// Distance between names in the legend.
const LEGEND_STEP: f64 = 19.0;

/// A picture: panels in two columns under a title.
#[derive(Clone, Debug, Default)]
pub struct Plot {
    /// Its title.
    pub title: String,
    /// The line below it: the machine, the date.
    pub caption: String,
    /// Its panels, row by row.
    pub panels: Vec<Panel>,
}

/// Curves over a common pair of axes.
#[derive(Clone, Debug, Default)]
pub struct Panel {
    /// Its title, with the unit of the figures.
    pub title: String,
    /// Its curves.
    pub curves: Vec<Curve>,
}

/// A figure by message size.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// Its name in the legend.
    pub name: String,
    /// Whether it is thin and dashed, as a peer for comparison is.
    pub dashed: bool,
    /// Its points, by size.
    pub points: Vec<Point>,
}

/// The figure of one size.
#[derive(Clone, Debug, Default)]
pub struct Point {
    /// Message size in bytes.
    pub size: u64,
    /// The figure, in the panel's unit.
    pub figure: f64,
    /// Smallest and largest of the measured figures; equal if there is only one.
    pub spread: [f64; 2],
    /// The figure with its unit, for the tooltip.
    pub text: String,
}

impl Plot {
    /// Draws the picture.
    pub fn draw(&self) -> String {
        let rows = self.panels.len().div_ceil(COLUMNS).max(1);
        let columns = self.panels.len().clamp(1, COLUMNS);
        let mut svg = Svg::new(PANEL[0] * columns as f64, HEAD + PANEL[1] * rows as f64);
        svg.text([MARGIN[0], 24.0], 17.0, Anchor::Start, INK, &self.title);
        svg.text([MARGIN[0], 42.0], 11.0, Anchor::Start, FAINT, &self.caption);
        for (number, panel) in self.panels.iter().enumerate() {
            let corner = [PANEL[0] * (number % COLUMNS) as f64, HEAD + PANEL[1] * (number / COLUMNS) as f64];
            panel.draw(&mut svg, corner);
        }
        svg.finish()
    }
}

impl Panel {
    fn draw(&self, svg: &mut Svg, [x, y]: [f64; 2]) {
        let (left, right) = (x + MARGIN[0], x + PANEL[0] - MARGIN[2]);
        let (top, bottom) = (y + MARGIN[1], y + PANEL[1] - MARGIN[3]);
        svg.text([left, y + 26.0], 14.0, Anchor::Start, INK, &self.title);
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        let sizes = Axis::around(points().map(|point| point.size as f64), SIZE_STEP, left, right);
        let figures = points().flat_map(|point| [point.figure, point.spread[0], point.spread[1]]);
        let figures = Axis::around(figures, 10.0, bottom, top);
        let (Some(sizes), Some(figures)) = (sizes, figures) else {
            svg.text([left, f64::midpoint(top, bottom)], 12.0, Anchor::Start, FAINT, "nothing was measured");
            return;
        };
        grid(svg, &sizes, &figures, [left, top], [right, bottom]);
        let (mut solid, mut dashed) = (SOLID.iter().cycle(), DASHED.iter().cycle());
        for (number, curve) in self.curves.iter().enumerate() {
            let colours = if curve.dashed { &mut dashed } else { &mut solid };
            let colour = colours.next().copied().unwrap_or(INK);
            curve.legend(svg, colour, [right + 14.0, top + 8.0 + LEGEND_STEP * number as f64]);
            curve.draw(svg, colour, &sizes, &figures);
        }
    }
}

fn grid(svg: &mut Svg, sizes: &Axis, figures: &Axis, [left, top]: [f64; 2], [right, bottom]: [f64; 2]) {
    for size in sizes.powers(SIZE_STEP) {
        let x = sizes.place(size);
        svg.line([x, top], [x, bottom], GRID, 1.0);
        svg.text([x, bottom + 17.0], 11.0, Anchor::Middle, FAINT, &axis::bytes(size));
    }
    for figure in figures.powers(10.0) {
        let y = figures.place(figure);
        svg.line([left, y], [right, y], GRID, 1.0);
        svg.text([left - 8.0, y + 4.0], 11.0, Anchor::End, FAINT, &axis::decimal(figure));
    }
    svg.line([left, bottom], [right, bottom], FAINT, 1.0);
    svg.line([left, top], [left, bottom], FAINT, 1.0);
    svg.text([f64::midpoint(left, right), bottom + 34.0], 11.0, Anchor::Middle, FAINT, "message size");
}

impl Curve {
    fn legend(&self, svg: &mut Svg, colour: &str, [x, y]: [f64; 2]) {
        svg.curve(&[[x, y], [x + 22.0, y]], colour, self.width(), self.dashes());
        let measured = if self.points.is_empty() { " (not measured)" } else { "" };
        svg.text([x + 28.0, y + 4.0], 11.0, Anchor::Start, INK, &format!("{}{measured}", self.name));
    }

    fn draw(&self, svg: &mut Svg, colour: &str, sizes: &Axis, figures: &Axis) {
        // A figure that is not positive has no place on a logarithmic axis.
        let points: Vec<_> = self.points.iter().filter(|point| point.figure > 0.0).collect();
        let place = |size: u64, figure: f64| [sizes.place(size as f64), figures.place(figure)];
        let line: Vec<_> = points.iter().map(|point| place(point.size, point.figure)).collect();
        svg.curve(&line, colour, self.width(), self.dashes());
        for (point, &at) in points.iter().zip(&line) {
            let [low, high] = point.spread;
            if high > low && low > 0.0 {
                svg.line(place(point.size, low), place(point.size, high), colour, 1.0);
            }
            let title = format!("{}, {}: {}", self.name, axis::bytes(point.size as f64), point.text);
            svg.dot(at, if self.dashed { 2.4 } else { 3.2 }, colour, &title);
        }
    }

    fn width(&self) -> f64 {
        if self.dashed { 1.5 } else { 2.4 }
    }

    fn dashes(&self) -> &'static str {
        if self.dashed { DASHES } else { "" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(size: u64, figure: f64, spread: [f64; 2]) -> Point {
        Point { size, figure, spread, text: format!("{figure:.2} GB/s") }
    }

    #[test]
    fn every_curve_every_point_and_every_spread_is_drawn() {
        let points = vec![point(8, 0.2, [0.1, 0.3]), point(1 << 20, 40.0, [40.0, 40.0])];
        let ours = Curve { name: "ib_write_bw".into(), dashed: false, points };
        let theirs = Curve { name: "memcpy".into(), dashed: true, points: vec![point(8, 1.0, [1.0, 1.0])] };
        let panels = vec![Panel { title: "bandwidth (GB/s)".into(), curves: vec![ours, theirs] }];
        let svg = Plot { title: "Weft".into(), caption: "a machine & a date".into(), panels }.draw();
        // Two curves, each with a line in the legend.
        assert_eq!(svg.matches("<polyline").count(), 4);
        assert_eq!(svg.matches("<circle").count(), 3);
        assert_eq!(svg.matches("stroke-dasharray").count(), 2);
        assert!(svg.contains("<title>ib_write_bw, 1 MiB: 40.00 GB/s</title>"));
        assert!(svg.contains("a machine &amp; a date") && svg.contains(">bandwidth (GB/s)<"));
        // The grid: sizes of 8 to 2 MiB in steps of eight, 0.1 to 100 in steps of ten; two axes; one spread.
        assert_eq!(svg.matches("<line").count(), 7 + 4 + 2 + 1);
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn nothing_measured_is_said() {
        let panel = Panel { title: "latency (µs)".into(), curves: vec![Curve::default()] };
        let svg = Plot { panels: vec![panel], ..Plot::default() }.draw();
        assert!(svg.contains("nothing was measured") && svg.ends_with("</svg>\n"));
        assert!(Plot::default().draw().ends_with("</svg>\n"));
    }

    #[test]
    fn a_rate_of_zero_is_left_out() {
        let points = vec![point(8, 0.0, [0.0, 0.0]), point(64, 1.0, [0.0, 2.0])];
        let curve = Curve { name: "UD send".into(), dashed: false, points };
        let svg = Plot { panels: vec![Panel { title: String::new(), curves: vec![curve] }], ..Plot::default() }.draw();
        assert_eq!(svg.matches("<circle").count(), 1);
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }
}
