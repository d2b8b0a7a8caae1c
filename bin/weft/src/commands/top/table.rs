//! Rows as cells of a table: columns by view, order, filter, and the columns that fit a width. No terminal.

use std::cmp::Ordering;

use super::activity::{Activity, ProcessRow, QpRow};
use super::columns::{self, Column, Heading};
use super::state::{Shown, Sort, State, View};

/// A table, in the order of its rows.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Table {
    /// Columns.
    pub headings: Vec<Heading>,
    /// Cells of each row.
    pub rows: Vec<Vec<String>>,
    /// The daemon's number and the program of each row's process, for rows that have one.
    pub processes: Vec<Option<(u64, String)>>,
    /// Column that gives the order.
    pub sort: Sort,
}

impl Table {
    /// Makes the table of the state's view.
    pub fn new(activity: &Activity, state: &State) -> Table {
        match state.view {
            View::Processes => {
                let identity = |row: &ProcessRow| Some((row.client, row.program.clone()));
                build(&activity.processes, columns::PROCESSES, state, identity)
            }
            View::QueuePairs => {
                let identity = |row: &QpRow| Some((row.client, row.program.clone()));
                build(&activity.queue_pairs, columns::QUEUE_PAIRS, state, identity)
            }
            View::Ports => build(&activity.ports, columns::PORTS, state, |_| None),
        }
    }

    /// Returns the parts that keys act on; `page`: rows on the screen, `chosen`: the chosen row.
    pub fn shown(&self, page: usize, chosen: usize) -> Shown {
        Shown { rows: self.rows.len(), page, process: self.processes.get(chosen).cloned().flatten() }
    }

    /// Returns the columns that fit a width, each with the width of its cells.
    pub fn fit(&self, width: usize) -> Vec<(usize, usize)> {
        let is_empty = |column: usize| self.rows.iter().all(|row| row.get(column).is_none_or(String::is_empty));
        let mut shown: Vec<usize> =
            (0..self.headings.len()).filter(|place| !(self.headings[*place].optional && is_empty(*place))).collect();
        // A blank stands before each column but the first.
        let needed = |shown: &[usize]| shown.iter().map(|place| self.headings[*place].width + 1).sum::<usize>();
        while needed(&shown) > width + 1 && shown.len() > 1 {
            let Some(leaves) = shown.iter().copied().max_by_key(|place| (self.headings[*place].rank, *place)) else {
                break;
            };
            shown.retain(|place| *place != leaves);
        }
        let spare = (width + 1).saturating_sub(needed(&shown));
        let last = shown.last().copied();
        let of = |place: usize| {
            let own = self.headings[place].width;
            (place, if Some(place) == last { own + spare } else { own })
        };
        shown.into_iter().map(of).collect()
    }

    /// Returns the line of headings for these columns.
    pub fn heading_line(&self, columns: &[(usize, usize)]) -> String {
        let cells = columns.iter().map(|(place, width)| {
            let heading = &self.headings[*place];
            let mark = match *place == self.sort.column {
                true if self.sort.descending => "▽",
                true => "△",
                false => "",
            };
            cell(&format!("{}{mark}", heading.title), *width, heading.left)
        });
        cells.collect::<Vec<_>>().join(" ")
    }

    /// Returns the line of a row for these columns.
    pub fn line(&self, row: usize, columns: &[(usize, usize)]) -> String {
        let Some(cells) = self.rows.get(row) else { return String::new() };
        let text = |place: usize| cells.get(place).map(String::as_str).unwrap_or_default();
        let cells = columns.iter().map(|(place, width)| cell(text(*place), *width, self.headings[*place].left));
        cells.collect::<Vec<_>>().join(" ")
    }
}

/// Fits a text into a cell; a text that is too long ends in `+`.
fn cell(text: &str, width: usize, left: bool) -> String {
    let length = text.chars().count();
    if length > width {
        let cut: String = text.chars().take(width.saturating_sub(1)).collect();
        return if width == 0 { cut } else { cut + "+" };
    }
    let blanks = " ".repeat(width - length);
    if left { format!("{text}{blanks}") } else { format!("{blanks}{text}") }
}

fn build<R>(
    rows: &[R],
    columns: &'static [Column<R>],
    state: &State,
    identity: impl Fn(&R) -> Option<(u64, String)>,
) -> Table {
    let sort = state.sort();
    let mut kept: Vec<_> = rows
        .iter()
        .map(|row| (row, columns.iter().map(|column| (column.show)(row)).collect::<Vec<_>>(), identity(row)))
        .filter(|(_, cells, process)| is_wanted(state, cells, process.as_ref()))
        .collect();
    if let Some(column) = columns.get(sort.column) {
        kept.sort_by(|a, b| {
            let order: Ordering = (column.order)(a.0, b.0);
            if sort.descending { order.reverse() } else { order }
        });
    }
    let mut table = Table { headings: columns.iter().map(Column::heading).collect(), sort, ..Table::default() };
    for (_, cells, process) in kept {
        table.rows.push(cells);
        table.processes.push(process);
    }
    table
}

/// Returns whether a row passes the filter and belongs to the process that alone is shown.
fn is_wanted(state: &State, cells: &[String], process: Option<&(u64, String)>) -> bool {
    let of_process = match (&state.only, process) {
        (Some((only, _)), Some((client, _))) => only == client,
        _ => true,
    };
    let wanted = state.filter.to_lowercase();
    of_process && (wanted.is_empty() || cells.iter().any(|cell| cell.to_lowercase().contains(&wanted)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::report::tests::{fabric_report, report};
    use crate::commands::top::activity::compare;

    fn activity() -> Activity {
        let mut activity = compare(Some(&fabric_report(0)), &fabric_report(1_000_000), 1.0);
        let mut other = activity.processes[0].clone();
        (other.pid, other.client, other.program) = (7, 8, "rping".to_owned());
        other.rates.sent = 5.0;
        activity.processes.push(other);
        activity
    }

    #[test]
    fn the_busiest_row_comes_first_and_the_order_changes() {
        let mut state = State::default();
        let names = |state: &State| {
            let table = Table::new(&activity(), state);
            table.processes.iter().flatten().map(|(_, program)| program.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(&state), ["ib_write_bw", "rping"]);
        state.sort_by(0);
        assert_eq!(names(&state), ["rping", "ib_write_bw"], "by process ID, the lowest first");
        state.invert();
        assert_eq!(names(&state), ["ib_write_bw", "rping"]);
        state.filter = "RPI".to_owned();
        assert_eq!(names(&state), ["rping"]);
        state.filter.clear();
        state.only = Some((9, "ib_write_bw".to_owned()));
        assert_eq!(names(&state), ["ib_write_bw"]);
    }

    #[test]
    fn lines_are_as_wide_as_the_terminal() {
        for view in View::ALL {
            let table = Table::new(&activity(), &State { view, ..State::default() });
            for width in [0, 1, 10, 40, 79, 80, 81, 120, 200, 500] {
                let columns = table.fit(width);
                let least = columns.iter().map(|(place, _)| table.headings[*place].width).min().unwrap_or(0);
                let line = table.line(0, &columns);
                assert!(line.chars().count() == width || least > width, "{view:?} {width}: {line:?}");
                assert_eq!(table.heading_line(&columns).chars().count(), line.chars().count());
            }
            let titles = |width| table.fit(width).len();
            assert!(titles(80) >= 8 && titles(200) > titles(80), "{view:?}: {} and {}", titles(80), titles(200));
        }
    }

    #[test]
    fn hosts_have_a_column_where_there_are_hosts() {
        let titles = |activity: &Activity| {
            let table = Table::new(activity, &State::default());
            table.fit(80).iter().map(|(place, _)| table.headings[*place].title).collect::<Vec<_>>()
        };
        let mut activity = compare(None, &report(1), 1.0);
        assert!(!titles(&activity).contains(&"HOST"));
        activity.processes[0].host = "node1".to_owned();
        assert!(titles(&activity).contains(&"HOST"));
    }

    #[test]
    fn a_long_text_is_cut() {
        assert_eq!(
            (cell("abcdef", 4, true), cell("ab", 4, true), cell("ab", 4, false)),
            ("abc+".into(), "ab  ".into(), "  ab".into())
        );
        assert_eq!((cell("ab", 0, true), cell("ab", 1, true)), (String::new(), "+".to_owned()));
    }
}
