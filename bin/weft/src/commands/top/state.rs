//! The state of `weft top`, and what keys do to it: pure computation.

use std::time::Duration;

use super::columns::{self, FIRST_SORT};
use super::input::Key;

/// Shortest time between two reports: each wakes every process that has an adapter open.
pub const DELAY_MIN: Duration = Duration::from_millis(100);
/// Longest time between two reports.
pub const DELAY_MAX: Duration = Duration::from_secs(3600);
/// Longest filter in characters.
const FILTER_MAX: usize = 40;

/// The objects that are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum View {
    /// Processes that have an adapter open
    #[default]
    Processes,
    /// Queue pairs
    #[value(name = "qps")]
    QueuePairs,
    /// Ports of adapters and of the fabric
    Ports,
}

impl View {
    /// Every view, in the order of their keys.
    pub const ALL: [View; 3] = [View::Processes, View::QueuePairs, View::Ports];

    fn place(self) -> usize {
        View::ALL.iter().position(|view| *view == self).unwrap_or(0)
    }

    /// Returns its name.
    pub const fn title(self) -> &'static str {
        match self {
            View::Processes => "Processes",
            View::QueuePairs => "Queue pairs",
            View::Ports => "Ports",
        }
    }

    /// Returns the titles of its columns, and whether each holds text.
    pub fn columns(self) -> Vec<(&'static str, bool)> {
        fn of<R>(columns: &'static [columns::Column<R>]) -> Vec<(&'static str, bool)> {
            columns.iter().map(|column| (column.heading().title, column.heading().left)).collect()
        }
        match self {
            View::Processes => of(columns::PROCESSES),
            View::QueuePairs => of(columns::QUEUE_PAIRS),
            View::Ports => of(columns::PORTS),
        }
    }
}

/// Order of rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sort {
    /// Column that gives the order.
    pub column: usize,
    /// Whether the greatest comes first.
    pub descending: bool,
}

/// Where keys go.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// To the table.
    #[default]
    Table,
    /// To the filter; Escape brings back the one from before.
    Filter {
        /// The filter from before.
        before: String,
    },
    /// To the menu of columns to sort by.
    Sort {
        /// The chosen column.
        column: usize,
    },
    /// To the page of keys, which any key closes.
    Help,
}

/// Action of the loop after a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Draws again.
    Draw,
    /// Asks for a report now, and for the next one after the present delay.
    Report,
    /// Stops the process, as Ctrl-Z does everywhere.
    Suspend,
    /// Draws everything, whatever the terminal shows.
    Redraw,
    /// Ends.
    Quit,
}

/// The table on the screen, as far as keys act on it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Shown {
    /// All rows.
    pub rows: usize,
    /// Rows that the screen has room for.
    pub page: usize,
    /// Process of the chosen row: the daemon's number of it, and its program.
    pub process: Option<(u64, String)>,
}

/// The state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct State {
    /// The objects that are shown.
    pub view: View,
    /// Order of each view's rows.
    pub sorts: [Sort; 3],
    /// Text that a cell of a row must contain, in any case.
    pub filter: String,
    /// The process whose rows alone are shown, by the daemon's number, and its program.
    pub only: Option<(u64, String)>,
    /// The chosen row.
    pub selected: usize,
    /// The first row on the screen.
    pub first: usize,
    /// Whether reports are not shown.
    pub paused: bool,
    /// Time between two reports.
    pub delay: Duration,
    /// Where keys go.
    pub mode: Mode,
}

impl Default for State {
    fn default() -> State {
        State {
            view: View::default(),
            sorts: FIRST_SORT.map(|column| Sort { column, descending: true }),
            filter: String::new(),
            only: None,
            selected: 0,
            first: 0,
            paused: false,
            delay: Duration::from_secs(2),
            mode: Mode::Table,
        }
    }
}

impl State {
    /// Returns the order of the view's rows.
    pub fn sort(&self) -> Sort {
        self.sorts[self.view.place()]
    }

    /// Orders the view's rows by a column: numbers from the greatest down, texts from A on.
    pub fn sort_by(&mut self, column: usize) {
        let columns = self.view.columns();
        // Process and queue pair numbers are identities: their order is that of texts.
        let identity = |title: &str| matches!(title, "PID" | "UID" | "QPN" | "DEST");
        if let Some((title, left)) = columns.get(column) {
            self.sorts[self.view.place()] = Sort { column, descending: !left && !identity(title) };
        }
    }

    /// Orders the view's rows by the column with this title; returns false if there is none.
    pub fn sort_by_title(&mut self, title: &str) -> bool {
        let columns = self.view.columns();
        let found = columns.iter().position(|(other, _)| other.eq_ignore_ascii_case(title));
        found.inspect(|column| self.sort_by(*column)).is_some()
    }

    /// Turns the order around.
    pub fn invert(&mut self) {
        let sort = &mut self.sorts[self.view.place()];
        sort.descending = !sort.descending;
    }

    /// Chooses a row among `rows`, and scrolls until it is among the `height` rows on the screen.
    pub fn keep_in_view(&mut self, rows: usize, height: usize) {
        self.selected = self.selected.min(rows.saturating_sub(1));
        let last_first = rows.saturating_sub(height);
        self.first = self.first.min(last_first).min(self.selected);
        if height > 0 && self.selected >= self.first + height {
            self.first = self.selected + 1 - height;
        }
    }

    /// Does what a key says.
    pub fn on_key(&mut self, key: Key, shown: &Shown) -> Action {
        match self.mode.clone() {
            _ if key == Key::Control('c') => return Action::Quit,
            _ if key == Key::Control('z') => return Action::Suspend,
            _ if key == Key::Control('l') => return Action::Redraw,
            Mode::Help => self.mode = Mode::Table,
            Mode::Filter { before } => self.edit_filter(key, before),
            Mode::Sort { column } => self.choose_column(key, column),
            Mode::Table => return self.on_table_key(key, shown),
        }
        Action::Draw
    }

    fn on_table_key(&mut self, key: Key, shown: &Shown) -> Action {
        let (last, page) = (shown.rows.saturating_sub(1), shown.page.max(1));
        match key {
            Key::Char('q' | 'Q') | Key::Function(10) => return Action::Quit,
            Key::Char('h' | 'H' | '?') | Key::Function(1) => self.mode = Mode::Help,
            Key::Char('1') => self.show(View::Processes),
            Key::Char('2') => self.show(View::QueuePairs),
            Key::Char('3') => self.show(View::Ports),
            Key::Tab | Key::Function(2) => self.show(View::ALL[(self.view.place() + 1) % View::ALL.len()]),
            Key::BackTab => self.show(View::ALL[(self.view.place() + View::ALL.len() - 1) % View::ALL.len()]),
            Key::Char('/' | '\\') | Key::Function(3 | 4) => self.mode = Mode::Filter { before: self.filter.clone() },
            Key::Char('>' | '.' | ',' | 's' | 'S') | Key::Function(6) => {
                self.mode = Mode::Sort { column: self.sort().column }
            }
            Key::Char('<') | Key::Left => self.sort_beside(-1),
            Key::Right => self.sort_beside(1),
            Key::Char('i' | 'I' | 'r' | 'R') | Key::Function(7) => self.invert(),
            Key::Char(' ' | 'p' | 'P') | Key::Function(5) => self.paused = !self.paused,
            Key::Char('+' | '=') => return self.change_delay(self.delay.saturating_mul(2)),
            Key::Char('-') => return self.change_delay(self.delay / 2),
            Key::Up | Key::Char('k') => self.selected = self.selected.saturating_sub(1),
            Key::Down | Key::Char('j') => self.selected = (self.selected + 1).min(last),
            Key::PageUp => self.selected = self.selected.saturating_sub(page),
            Key::PageDown => self.selected = (self.selected + page).min(last),
            Key::Home | Key::Char('g') => self.selected = 0,
            Key::End | Key::Char('G') => self.selected = last,
            Key::Enter => self.enter(shown),
            Key::Escape => self.leave(),
            _ => {}
        }
        Action::Draw
    }

    fn show(&mut self, view: View) {
        self.view = view;
        (self.selected, self.first) = (0, 0);
    }

    /// Shows the queue pairs of the chosen process.
    fn enter(&mut self, shown: &Shown) {
        if self.view == View::Processes && shown.process.is_some() {
            self.only.clone_from(&shown.process);
            self.show(View::QueuePairs);
        }
    }

    /// Leaves the queue pairs of one process, or else removes the filter.
    fn leave(&mut self) {
        if self.only.take().is_some() {
            self.show(View::Processes);
        } else {
            self.filter.clear();
        }
    }

    fn sort_beside(&mut self, step: isize) {
        let columns = self.view.columns().len();
        self.sort_by((self.sort().column + columns).saturating_add_signed(step) % columns);
    }

    fn change_delay(&mut self, delay: Duration) -> Action {
        self.delay = delay.clamp(DELAY_MIN, DELAY_MAX);
        Action::Report
    }

    fn edit_filter(&mut self, key: Key, before: String) {
        match key {
            Key::Enter | Key::Function(3 | 4) => self.mode = Mode::Table,
            Key::Escape => {
                self.filter = before;
                self.mode = Mode::Table;
            }
            Key::Backspace => drop(self.filter.pop()),
            Key::Control('u') => self.filter.clear(),
            Key::Char(c) if self.filter.chars().count() < FILTER_MAX => self.filter.push(c),
            _ => {}
        }
        (self.selected, self.first) = (0, 0);
    }

    fn choose_column(&mut self, key: Key, column: usize) {
        let last = self.view.columns().len().saturating_sub(1);
        match key {
            Key::Up | Key::Char('k') => self.mode = Mode::Sort { column: column.saturating_sub(1) },
            Key::Down | Key::Char('j') => self.mode = Mode::Sort { column: (column + 1).min(last) },
            Key::Home => self.mode = Mode::Sort { column: 0 },
            Key::End => self.mode = Mode::Sort { column: last },
            Key::Enter => {
                self.sort_by(column);
                self.mode = Mode::Table;
            }
            Key::Escape | Key::Char('q') | Key::Function(_) => self.mode = Mode::Table,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown() -> Shown {
        Shown { rows: 50, page: 10, process: Some((9, "rping".to_owned())) }
    }

    fn press(state: &mut State, keys: &[Key]) -> Vec<Action> {
        keys.iter().map(|key| state.on_key(*key, &shown())).collect()
    }

    #[test]
    fn rows_are_chosen_with_arrows_and_pages() {
        let mut state = State::default();
        press(&mut state, &[Key::Down, Key::PageDown, Key::Up]);
        assert_eq!(state.selected, 10);
        press(&mut state, &[Key::End, Key::Down]);
        assert_eq!(state.selected, 49);
        state.keep_in_view(50, 10);
        assert_eq!(state.first, 40);
        press(&mut state, &[Key::Home, Key::Up]);
        state.keep_in_view(50, 10);
        assert_eq!((state.selected, state.first), (0, 0));
        state.keep_in_view(0, 0);
        assert_eq!((state.selected, state.first), (0, 0));
    }

    #[test]
    fn a_process_opens_its_queue_pairs() {
        let mut state = State::default();
        press(&mut state, &[Key::Enter]);
        assert_eq!((state.view, state.only.clone()), (View::QueuePairs, Some((9, "rping".to_owned()))));
        press(&mut state, &[Key::Escape]);
        assert_eq!((state.view, state.only.clone()), (View::Processes, None));
    }

    #[test]
    fn a_filter_is_typed_and_taken_back() {
        let mut state = State::default();
        press(&mut state, &[Key::Char('/'), Key::Char('q'), Key::Char('1'), Key::Enter]);
        assert_eq!((state.filter.as_str(), state.mode.clone()), ("q1", Mode::Table));
        press(&mut state, &[Key::Function(4), Key::Backspace, Key::Char('x'), Key::Escape]);
        assert_eq!(state.filter, "q1");
        press(&mut state, &[Key::Escape]);
        assert_eq!(state.filter, "");
        press(&mut state, &[Key::Char('/')]);
        press(&mut state, &[Key::Char('a'); 100]);
        assert_eq!(state.filter.len(), FILTER_MAX);
    }

    #[test]
    fn views_and_orders_change() {
        let mut state = State::default();
        press(&mut state, &[Key::Tab, Key::Tab]);
        assert_eq!(state.view, View::Ports);
        press(&mut state, &[Key::Function(2), Key::BackTab, Key::Char('2')]);
        assert_eq!(state.view, View::QueuePairs);
        press(&mut state, &[Key::Function(6), Key::Home, Key::Down, Key::Enter]);
        assert_eq!(state.sort(), Sort { column: 1, descending: false });
        press(&mut state, &[Key::Char('I'), Key::Left, Key::Left]);
        assert_eq!(state.sort(), Sort { column: View::QueuePairs.columns().len() - 1, descending: false });
        assert!(state.sort_by_title("rtt") && state.sort().descending && !state.sort_by_title("nothing"));
    }

    #[test]
    fn letters_pause_and_end() {
        let mut state = State::default();
        assert_eq!(press(&mut state, &[Key::Char('+'), Key::Char('-')]), [Action::Report, Action::Report]);
        for _ in 0..20 {
            press(&mut state, &[Key::Char('-')]);
        }
        assert_eq!(state.delay, DELAY_MIN);
        press(&mut state, &[Key::Char(' ')]);
        assert!(state.paused);
        press(&mut state, &[Key::Char('?')]);
        assert_eq!(state.mode, Mode::Help);
        assert_eq!(press(&mut state, &[Key::Char('q'), Key::Char('q')]), [Action::Draw, Action::Quit]);
        assert_eq!(press(&mut state, &[Key::Function(10), Key::Control('c')]), [Action::Quit, Action::Quit]);
        assert_eq!(press(&mut state, &[Key::Control('z'), Key::Control('l')]), [Action::Suspend, Action::Redraw]);
    }
}
