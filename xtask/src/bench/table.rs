//! The results as a Markdown table, as in BENCHMARKING.md: one line for each peer of a case.

use super::room::Place;
use super::row::{Outcome, Row};
use super::statistics::Sample;
use super::unit::Unit;

const HEAD: &str = "| what | Weft | beside | theirs | ratio | wanted |\n|---|---:|---|---:|---:|---:|\n";

/// Returns all rows, grouped by place.
pub fn markdown(rows: &[Row]) -> String {
    let mut text = String::new();
    for place in Place::ALL {
        let here: Vec<_> = rows.iter().filter(|row| row.place == place).collect();
        if here.is_empty() {
            continue;
        }
        let name = place.name();
        let mut letters = name.chars();
        let name: String = letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect();
        text += &format!("\n{name}:\n\n{HEAD}");
        here.iter().for_each(|row| text += &lines(row));
    }
    text
}

/// Returns the lines of one row; only the first contains our figure.
fn lines(row: &Row) -> String {
    let mut first = [row.name.to_owned(), cell(&row.ours, row.unit)];
    let mut text = String::new();
    let mut line = |beside: &str, theirs: &str, ratio: &str, wanted: &str, kept: Option<bool>| {
        let [name, ours] = std::mem::take(&mut first);
        let mark = if kept == Some(false) { " **missed**" } else { "" };
        text += &format!("| {name} | {ours} | {beside} | {theirs} | {ratio} | {wanted}{mark} |\n");
    };
    if let Some(aim) = &row.aim {
        line("", "", "", aim, row.aim_kept);
    }
    for rival in &row.rivals {
        let ratio = rival.ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default();
        let wanted = rival.wanted.as_deref().unwrap_or_default();
        line(&rival.name, &cell(&rival.theirs, row.unit), &ratio, wanted, rival.kept);
    }
    if row.aim.is_none() && row.rivals.is_empty() {
        line("", "", "", "", None);
    }
    text
}

fn cell(outcome: &Outcome, unit: Unit) -> String {
    match outcome {
        Outcome::Measured(sample) => figures(sample, unit),
        Outcome::NotInstalled { package } => format!("not installed: apt install {package}"),
        // The reason is in standard error and in the JSON.
        Outcome::Failed { .. } => "failed".to_owned(),
    }
}

/// Formats the median, and the spread if there is one.
fn figures(sample: &Sample, unit: Unit) -> String {
    let median = unit.show(sample.median);
    if sample.turns.len() < 2 {
        return median;
    }
    format!("{median} ({}..{})", unit.number(sample.min), unit.number(sample.max))
}

#[cfg(test)]
mod tests {
    use super::super::row::RivalRow;
    use super::super::statistics::Bound;
    use super::*;

    fn measured(turns: &[f64]) -> Outcome {
        Outcome::Measured(Sample::of(turns).expect("a turn"))
    }

    #[test]
    fn a_row_is_a_line_for_each_peer() {
        let ours = measured(&[3e9, 4e9, 5e9]);
        let rival = |name: &str, wanted, theirs| RivalRow::new(name.into(), String::new(), wanted, &ours, theirs);
        let row = Row {
            name: "write_bw",
            place: Place::TwoHosts { mtu: 9000 },
            unit: Unit::BytesPerSecond,
            command: String::new(),
            aim: None,
            aim_kept: None,
            rivals: vec![
                rival("qperf tcp_bw", Some(Bound::AtLeast(1.5)), measured(&[5e9])),
                rival("UCX put_bw", None, Outcome::NotInstalled { package: "ucx-utils" }),
                rival("memcpy", Some(Bound::AtLeast(0.9)), Outcome::Failed { why: "it died".into() }),
            ],
            ours: ours.clone(),
        };
        let text = markdown(&[row]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[1], "Two namespaces, MTU 9000:");
        assert_eq!(
            lines[5..],
            [
                "| write_bw | 4.00 GB/s (3.00..5.00) | qperf tcp_bw | 5.00 GB/s | 0.80 | ≥ 1.5 **missed** |",
                "|  |  | UCX put_bw | not installed: apt install ucx-utils |  |  |",
                "|  |  | memcpy | failed |  | ≥ 0.9 |",
            ]
        );
    }
}
