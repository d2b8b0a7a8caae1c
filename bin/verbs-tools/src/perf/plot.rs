//! Results as a picture: a panel for each metric, a curve for each operation over each transport, by message size.

use weft_plot::{Curve, Panel, Plot, Point};

use super::{Measured, Metric, Outcome, bandwidth, rate};

/// Metrics in the order of their panels, with the titles.
const PANELS: [(Metric, &str); 3] = [
    (Metric::Bw, "bandwidth (Gb/s)"),
    (Metric::Lat, "latency (µs): median, 1% to 99%"),
    (Metric::Rate, "message rate (M/s)"),
];

/// Draws the results.
pub fn draw(measured: &[Measured], caption: String) -> String {
    let panels = PANELS.iter().filter_map(|(metric, title)| panel(measured, *metric, title)).collect();
    Plot { title: "weft perf, by message size".to_owned(), caption, panels }.draw()
}

/// Returns the panel of a metric; `None` if it was not measured.
fn panel(measured: &[Measured], metric: Metric, title: &str) -> Option<Panel> {
    let mut curves: Vec<Curve> = Vec::new();
    for measured in measured.iter().filter(|measured| measured.case.metric == metric) {
        let name = format!("{} {}", measured.case.transport.name(), measured.case.op.name());
        let point = point(measured);
        match curves.iter_mut().find(|curve| curve.name == name) {
            Some(curve) => curve.points.push(point),
            None => curves.push(Curve { name, dashed: false, points: vec![point] }),
        }
    }
    let sorted = |mut curve: Curve| {
        // Sizes come in the order of the command line.
        curve.points.sort_by_key(|point| point.size);
        curve
    };
    let curves: Vec<_> = curves.into_iter().map(sorted).collect();
    (!curves.is_empty()).then(|| Panel { title: title.to_owned(), curves })
}

fn point(measured: &Measured) -> Point {
    let us = |share| measured.latency_ns(share) as f64 / 1000.0;
    let (figure, spread, text) = match (&measured.outcome, measured.case.metric) {
        (Outcome::Latency { .. }, _) => (us(0.5), [us(0.01), us(0.99)], format!("{:.2} µs", us(0.5))),
        (Outcome::Flood { .. }, Metric::Rate) => {
            let messages = measured.messages_per_second();
            (messages / 1e6, [messages / 1e6; 2], rate(messages))
        }
        (Outcome::Flood { .. }, _) => {
            let bytes = measured.bytes_per_second();
            (bytes * 8.0 / 1e9, [bytes * 8.0 / 1e9; 2], bandwidth(bytes))
        }
    };
    Point { size: u64::from(measured.case.size), figure, spread, text }
}

#[cfg(test)]
mod tests {
    use super::super::measure::Throughput;
    use super::super::{Case, Operation, Transport};
    use super::*;
    use std::time::Duration;

    fn flood(transport: Transport, metric: Metric, size: u32) -> Measured {
        let case = Case::new(Operation::Send, transport, metric, size, 1.0);
        let arrived = Throughput { messages: 1_000_000, took: Duration::from_secs(1) };
        Measured { case, outcome: Outcome::Flood { arrived, sent: 1_000_000 } }
    }

    #[test]
    fn a_metric_is_a_panel_and_a_transport_a_curve() {
        let measured = [
            flood(Transport::Rc, Metric::Bw, 4096),
            flood(Transport::Rc, Metric::Bw, 64),
            flood(Transport::Ud, Metric::Bw, 64),
            flood(Transport::Rc, Metric::Rate, 8),
        ];
        let panel = panel(&measured, Metric::Bw, "bandwidth").expect("a panel");
        let names: Vec<_> = panel.curves.iter().map(|curve| curve.name.as_str()).collect();
        assert_eq!(names, ["RC send", "UD send"]);
        let sizes: Vec<_> = panel.curves[0].points.iter().map(|point| point.size).collect();
        assert_eq!(sizes, [64, 4096]);
        assert_eq!(panel.curves[0].points[1].text, "32.77 Gb/s");
        let svg = draw(&measured, "rxe0".to_owned());
        assert!(svg.contains("message rate (M/s)") && !svg.contains("latency"));
        assert_eq!(svg.matches("<circle").count(), 4);
    }
}
