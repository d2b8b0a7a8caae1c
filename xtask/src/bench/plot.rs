//! The plot: a panel for each sweep, ours in solid lines and the peers dashed.

use super::sweep::{Curve, Swept};
use super::unit::Unit;

/// Draws all sweeps in one picture.
pub fn draw(sweeps: &[Swept], caption: &str) -> String {
    let title = "Weft beside its peers, by message size".to_owned();
    weft_plot::Plot { title, caption: caption.to_owned(), panels: sweeps.iter().map(panel).collect() }.draw()
}

fn panel(swept: &Swept) -> weft_plot::Panel {
    let name = swept.name.trim_start_matches("sweep: ");
    let title = format!("{name} ({})", swept.unit.sign());
    weft_plot::Panel { title, curves: swept.curves.iter().map(|drawn| curve(drawn, swept.unit)).collect() }
}

fn curve(curve: &Curve, unit: Unit) -> weft_plot::Curve {
    let points = curve.points.iter().map(|point| {
        let [figure, low, high] = [point.sample.median, point.sample.min, point.sample.max].map(|v| v / unit.scale());
        weft_plot::Point { size: point.size, figure, spread: [low, high], text: unit.show(point.sample.median) }
    });
    weft_plot::Curve { name: curve.name.to_owned(), dashed: !curve.ours, points: points.collect() }
}

#[cfg(test)]
mod tests {
    use super::super::room::Place;
    use super::super::statistics::Sample;
    use super::super::sweep::Point;
    use super::*;

    #[test]
    fn a_sweep_is_drawn_in_its_unit() {
        let sample = Sample::of(&[1e8, 2e8, 3e8]).expect("a turn");
        let ours = Curve { name: "ib_write_bw", ours: true, points: vec![Point { size: 8, sample }] };
        let (name, unit) = ("sweep: bandwidth, same host", Unit::BytesPerSecond);
        let svg = draw(&[Swept { name, place: Place::SameHost, unit, curves: vec![ours] }], "a machine");
        assert!(
            svg.contains(">bandwidth, same host (GB/s)<") && svg.contains("<title>ib_write_bw, 8 B: 0.20 GB/s</title>")
        );
        // The spread is between the smallest and the largest, so the axis of figures begins at 0.1.
        assert!(svg.contains(">0.1<") && svg.contains(">1<"));
    }
}
