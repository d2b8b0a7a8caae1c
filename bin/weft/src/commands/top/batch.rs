//! Batch mode: reports as plain text, for scripts and files.

use super::activity::Activity;
use super::state::State;
use super::summary;
use super::table::Table;
use crate::commands::report::Report;

/// Width of lines unless the user says otherwise: room for every column.
pub const WIDTH: usize = 400;

/// Returns a report as text: the summary, the headings, the rows.
pub fn text(report: &Report, activity: &Activity, state: &State, time: &str, width: usize) -> String {
    let table = Table::new(activity, state);
    let columns = table.fit(width);
    let mut lines = summary::lines(report, activity, state, time);
    lines.push(String::new());
    lines.push(table.heading_line(&columns));
    lines.extend((0..table.rows.len()).map(|row| table.line(row, &columns)));
    lines.iter().map(|line| line.trim_end().to_owned() + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::report::tests::report;
    use crate::commands::top::activity::compare;
    use crate::commands::top::state::View;

    #[test]
    fn a_report_is_text() {
        let after = report(3_000);
        let activity = compare(Some(&report(1_000)), &after, 2.0);
        let text = |state: &State, width| super::text(&after, &activity, state, "12:34:56", width);
        let narrow = text(&State::default(), 80);
        let expected = "\n    PID  QPS   B/s▽  SEND/s  RECV/s  COPY/s   WR/s  RETX/s     RTT PROGRAM\n   \
                        4242    1  1.00M   1.00M       0       0    500     100  12.3us ib_write_bw\n";
        assert!(narrow.ends_with(expected), "{narrow}");
        let wide = text(&State { view: View::QueuePairs, ..State::default() }, WIDTH);
        assert!(wide.contains(" 10.77.0.2 ") && wide.contains(" wire "), "{wide}");
    }
}
