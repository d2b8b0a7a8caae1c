//! The plot: a panel for each sweep, both axes logarithmic, ours in solid lines and the peers dashed.

mod axis;
mod svg;

use super::sweep::{Curve, Swept};
use super::unit::Unit;
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
const OURS: [&str; 3] = ["#d55e00", "#0072b2", "#009e73"];
const THEIRS: [&str; 3] = ["#4d4d4d", "#cc79a7", "#b8860b"];
const DASHES: &str = "5 4";

/// Factor between two marks of the sizes.
const SIZE_STEP: f64 = 8.0;
/// Distance between names in the legend.
const LEGEND_STEP: f64 = 19.0;

/// Draws all sweeps in one picture.
pub fn draw(sweeps: &[Swept], caption: &str) -> String {
    let rows = sweeps.len().div_ceil(COLUMNS).max(1);
    let columns = sweeps.len().clamp(1, COLUMNS);
    let mut svg = Svg::new(PANEL[0] * columns as f64, HEAD + PANEL[1] * rows as f64);
    svg.text([MARGIN[0], 24.0], 17.0, Anchor::Start, INK, "Weft beside its peers, by message size");
    svg.text([MARGIN[0], 42.0], 11.0, Anchor::Start, FAINT, caption);
    for (number, swept) in sweeps.iter().enumerate() {
        let corner = [PANEL[0] * (number % COLUMNS) as f64, HEAD + PANEL[1] * (number / COLUMNS) as f64];
        panel(&mut svg, swept, corner);
    }
    svg.finish()
}

fn panel(svg: &mut Svg, swept: &Swept, [x, y]: [f64; 2]) {
    let (left, right) = (x + MARGIN[0], x + PANEL[0] - MARGIN[2]);
    let (top, bottom) = (y + MARGIN[1], y + PANEL[1] - MARGIN[3]);
    let title = format!("{} ({})", swept.name.trim_start_matches("sweep: "), unit_of(swept.unit).1);
    svg.text([left, y + 26.0], 14.0, Anchor::Start, INK, &title);
    let points = || swept.curves.iter().flat_map(|curve| &curve.points);
    let sizes = Axis::around(points().map(|point| point.size as f64), SIZE_STEP, left, right);
    let scale = unit_of(swept.unit).0;
    let values = points().flat_map(|point| [point.sample.min, point.sample.max]).map(|value| value / scale);
    let values = Axis::around(values, 10.0, bottom, top);
    let (Some(sizes), Some(values)) = (sizes, values) else {
        svg.text([left, f64::midpoint(top, bottom)], 12.0, Anchor::Start, FAINT, "nothing was measured");
        return;
    };
    grid(svg, &sizes, &values, [left, top], [right, bottom]);
    let (mut ours, mut theirs) = (OURS.iter().cycle(), THEIRS.iter().cycle());
    for (number, drawn) in swept.curves.iter().enumerate() {
        let colours = if drawn.ours { &mut ours } else { &mut theirs };
        let colour = colours.next().copied().unwrap_or(INK);
        let at = [right + 14.0, top + 8.0 + LEGEND_STEP * number as f64];
        legend(svg, drawn, colour, at);
        curve(svg, drawn, swept.unit, colour, &sizes, &values);
    }
}

/// Returns the divisor of a figure in the plot, and the unit of the quotient.
fn unit_of(unit: Unit) -> (f64, &'static str) {
    match unit {
        Unit::BytesPerSecond => (1e9, "GB/s"),
        Unit::Microseconds => (1.0, "µs"),
        Unit::MessagesPerSecond => (1e6, "M/s"),
        Unit::DatagramsPerSecond => (1e3, "k/s"),
        Unit::Percent => (1.0, "%"),
        Unit::SleepsPerCompletion => (1.0, "sleeps"),
        Unit::Seconds => (1.0, "s"),
        Unit::Bytes => (f64::from(1 << 20), "MiB"),
    }
}

fn grid(svg: &mut Svg, sizes: &Axis, values: &Axis, [left, top]: [f64; 2], [right, bottom]: [f64; 2]) {
    for size in sizes.powers(SIZE_STEP) {
        let x = sizes.place(size);
        svg.line([x, top], [x, bottom], GRID, 1.0);
        svg.text([x, bottom + 17.0], 11.0, Anchor::Middle, FAINT, &axis::bytes(size));
    }
    for value in values.powers(10.0) {
        let y = values.place(value);
        svg.line([left, y], [right, y], GRID, 1.0);
        svg.text([left - 8.0, y + 4.0], 11.0, Anchor::End, FAINT, &axis::decimal(value));
    }
    svg.line([left, bottom], [right, bottom], FAINT, 1.0);
    svg.line([left, top], [left, bottom], FAINT, 1.0);
    svg.text([f64::midpoint(left, right), bottom + 34.0], 11.0, Anchor::Middle, FAINT, "message size");
}

fn legend(svg: &mut Svg, curve: &Curve, colour: &str, [x, y]: [f64; 2]) {
    svg.curve(&[[x, y], [x + 22.0, y]], colour, width(curve), dashes(curve));
    let name = if curve.points.is_empty() { format!("{} (not measured)", curve.name) } else { curve.name.to_owned() };
    svg.text([x + 28.0, y + 4.0], 11.0, Anchor::Start, INK, &name);
}

fn curve(svg: &mut Svg, curve: &Curve, unit: Unit, colour: &str, sizes: &Axis, values: &Axis) {
    let scale = unit_of(unit).0;
    let place = |size: u64, value: f64| [sizes.place(size as f64), values.place(value / scale)];
    let line: Vec<_> = curve.points.iter().map(|point| place(point.size, point.sample.median)).collect();
    svg.curve(&line, colour, width(curve), dashes(curve));
    for (point, &at) in curve.points.iter().zip(&line) {
        let sample = &point.sample;
        if sample.max > sample.min {
            svg.line(place(point.size, sample.min), place(point.size, sample.max), colour, 1.0);
        }
        let title = format!("{}, {}: {}", curve.name, axis::bytes(point.size as f64), unit.show(sample.median));
        svg.dot(at, if curve.ours { 3.2 } else { 2.4 }, colour, &title);
    }
}

fn width(curve: &Curve) -> f64 {
    if curve.ours { 2.4 } else { 1.5 }
}

fn dashes(curve: &Curve) -> &'static str {
    if curve.ours { "" } else { DASHES }
}

#[cfg(test)]
mod tests {
    use super::super::room::Place;
    use super::super::statistics::Sample;
    use super::super::sweep::Point;
    use super::*;

    fn curve_of(name: &'static str, ours: bool, figures: &[(u64, &[f64])]) -> Curve {
        let point = |&(size, turns): &(u64, &[f64])| Point { size, sample: Sample::of(turns).expect("a turn") };
        Curve { name, ours, points: figures.iter().map(point).collect() }
    }

    fn swept(curves: Vec<Curve>) -> Swept {
        Swept { name: "sweep: bandwidth, same host", place: Place::SameHost, unit: Unit::BytesPerSecond, curves }
    }

    #[test]
    fn every_curve_every_point_and_every_spread_is_drawn() {
        let ours = curve_of("ib_write_bw", true, &[(8, &[1e8, 2e8, 3e8]), (1 << 20, &[4e10])]);
        let svg = draw(&[swept(vec![ours, curve_of("memcpy", false, &[(8, &[1e9])])])], "a machine & a date");
        // Two curves, each with a line in the legend.
        assert_eq!(svg.matches("<polyline").count(), 4);
        assert_eq!(svg.matches("<circle").count(), 3);
        assert_eq!(svg.matches("stroke-dasharray").count(), 2);
        assert!(svg.contains("<title>ib_write_bw, 1 MiB: 40.00 GB/s</title>"));
        assert!(svg.contains("a machine &amp; a date") && svg.contains(">bandwidth, same host (GB/s)<"));
        // The grid: sizes of 8 to 2 MiB in steps of eight, 0.1 to 100 in steps of ten; two axes; one spread.
        assert_eq!(svg.matches("<line").count(), 7 + 4 + 2 + 1);
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn nothing_measured_is_said() {
        let svg = draw(&[swept(vec![curve_of("UCX put_bw", false, &[])])], "");
        assert!(svg.contains("nothing was measured") && svg.ends_with("</svg>\n"));
        assert!(draw(&[], "").ends_with("</svg>\n"));
    }
}
