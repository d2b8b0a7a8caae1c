//! The screen, drawn into a buffer of cells: no terminal and no reports.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};

use super::state::{Mode, State, View};
use super::table::Table;

/// Everything on the screen.
#[derive(Clone, Debug, Default)]
pub struct Screen {
    /// Lines above the table.
    pub summary: Vec<String>,
    /// The line that says what the table shows.
    pub view: String,
    /// The table.
    pub table: Table,
    /// Why there is no report, if there is none.
    pub problem: Option<String>,
}

/// Keys of the last line with their words.
const BAR: [(&str, &str); 8] = [
    ("F1", "Help"),
    ("F2", "View"),
    ("F4", "Filter"),
    ("F5", "Pause"),
    ("F6", "SortBy"),
    ("F7", "Invert"),
    ("+-", "Delay"),
    ("F10", "Quit"),
];

/// The page of keys.
const HELP: [&str; 22] = [
    "Keys of weft top",
    "",
    " 1 2 3            processes, queue pairs, ports",
    " Tab F2           next view",
    " arrows PgUp PgDn Home End   choose a row",
    " Enter            queue pairs of the chosen process; Esc leaves them",
    " / F4             show only rows that contain a text; Esc removes the filter",
    " F6 > < left right   column that gives the order",
    " F7 i             turn the order around",
    " F5 p space       pause",
    " + -              report less often, more often",
    " q F10            quit",
    "",
    " B/s     bytes sent, received and copied in a second",
    " SEND/s  payload bytes sent in packets and in frames within the host",
    " RECV/s  payload bytes received in packets and in frames within the host",
    " COPY/s  bytes copied directly to or from a process of the same host",
    " WR/s    work requests posted in a second",
    " RETX/s  packets and frames sent again in a second",
    " RTT     smoothed round trip; - where the transport measures none",
    "",
    " Any key closes this page.",
];

/// Number of lines that are not rows: the view, the headings, the keys.
const OTHER_LINES: usize = 3;

/// Returns how many rows a screen of this height has room for.
pub fn rows_of(screen: &Screen, height: u16) -> usize {
    usize::from(height).saturating_sub(screen.summary.len() + OTHER_LINES)
}

/// Colors, or only attributes where the user wants no colors.
#[derive(Clone, Copy, Debug)]
pub struct Palette {
    /// Whether there are colors.
    pub colors: bool,
}

impl Palette {
    fn bar(self) -> Style {
        match self.colors {
            true => Style::new().fg(Color::Black).bg(Color::Cyan),
            false => Style::new().add_modifier(Modifier::REVERSED),
        }
    }

    fn headings(self) -> Style {
        match self.colors {
            true => Style::new().fg(Color::Black).bg(Color::Green),
            false => Style::new().add_modifier(Modifier::REVERSED),
        }
    }

    fn chosen(self) -> Style {
        self.bar()
    }

    fn problem(self) -> Style {
        let style = Style::new().add_modifier(Modifier::BOLD);
        if self.colors { style.fg(Color::Red) } else { style }
    }
}

/// Draws the screen. `state` has been brought into view for this size.
pub fn draw(buffer: &mut Buffer, screen: &Screen, state: &State, palette: Palette) {
    let area = buffer.area;
    let mut canvas = Canvas { buffer, area, next: 0 };
    for (number, line) in screen.summary.iter().enumerate() {
        let style = if number == 0 { Style::new().add_modifier(Modifier::BOLD) } else { Style::new() };
        canvas.line(line, style);
    }
    tabs(&mut canvas, screen, state);
    let columns = screen.table.fit(area.width.into());
    canvas.filled(&screen.table.heading_line(&columns), palette.headings());
    if let Some(problem) = &screen.problem {
        canvas.wrapped(problem, palette.problem());
    } else {
        let rows = rows_of(screen, area.height);
        for row in (state.first..screen.table.rows.len()).take(rows) {
            let line = screen.table.line(row, &columns);
            if row == state.selected {
                canvas.filled(&line, palette.chosen())
            } else {
                canvas.line(&line, Style::new())
            }
        }
    }
    last_line(&mut canvas, state, palette);
    match &state.mode {
        Mode::Help => page(&mut canvas, &HELP.map(str::to_owned), None, palette),
        Mode::Sort { column } => {
            let titles = state.view.columns();
            let mut lines = vec!["Sort by".to_owned()];
            lines.extend(titles.iter().map(|(title, _)| format!(" {title}")));
            page(&mut canvas, &lines, Some(column + 1), palette);
        }
        _ => {}
    }
}

/// The buffer, and the next line to draw.
struct Canvas<'a> {
    buffer: &'a mut Buffer,
    area: Rect,
    next: u16,
}

impl Canvas<'_> {
    /// Draws a text at a line; lines outside of the screen are dropped.
    fn put(&mut self, x: u16, y: u16, text: &str, style: Style) -> u16 {
        if y >= self.area.height || x >= self.area.width {
            return x;
        }
        let room = usize::from(self.area.width - x);
        self.buffer.set_stringn(self.area.x + x, self.area.y + y, text, room, style).0 - self.area.x
    }

    fn line(&mut self, text: &str, style: Style) {
        self.put(0, self.next, text, style);
        self.next = self.next.saturating_add(1);
    }

    /// Draws a line whose style reaches to the right edge.
    fn filled(&mut self, text: &str, style: Style) {
        self.fill(self.next, style);
        self.line(text, style);
    }

    fn fill(&mut self, y: u16, style: Style) {
        if y < self.area.height {
            self.buffer.set_style(Rect::new(self.area.x, self.area.y + y, self.area.width, 1), style);
        }
    }

    /// Draws a text over as many lines as it takes.
    fn wrapped(&mut self, text: &str, style: Style) {
        let (width, mut line) = (usize::from(self.area.width), String::new());
        for word in text.split(' ') {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
                self.line(&std::mem::take(&mut line), style);
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        self.line(&line, style);
    }
}

/// The line of views: the present one stands out, and says what it leaves out.
fn tabs(canvas: &mut Canvas<'_>, screen: &Screen, state: &State) {
    let (y, mut x) = (canvas.next, 0);
    for (number, view) in View::ALL.into_iter().enumerate() {
        let (text, style) = match view == state.view {
            true => (format!("[{} {}]", number + 1, screen.view), Style::new().add_modifier(Modifier::BOLD)),
            false => (format!(" {} {} ", number + 1, view.title()), Style::new()),
        };
        x = canvas.put(x, y, &text, style);
    }
    canvas.next = canvas.next.saturating_add(1);
}

/// The keys, or the filter while it is typed.
fn last_line(canvas: &mut Canvas<'_>, state: &State, palette: Palette) {
    let Some(y) = canvas.area.height.checked_sub(1) else { return };
    let blank = " ".repeat(canvas.area.width.into());
    canvas.put(0, y, &blank, Style::new());
    if let Mode::Filter { .. } = &state.mode {
        canvas.fill(y, palette.bar());
        canvas.put(0, y, &format!("Filter: {}_   (Enter: keep, Esc: undo)", state.filter), palette.bar());
        return;
    }
    let mut x = 0;
    for (key, word) in BAR {
        x = canvas.put(x, y, key, Style::new().add_modifier(Modifier::BOLD));
        x = canvas.put(x, y, &format!("{word} "), palette.bar());
    }
}

/// A page of lines over the table; `chosen` stands out, and is always to be seen.
fn page(canvas: &mut Canvas<'_>, lines: &[String], chosen: Option<usize>, palette: Palette) {
    let Rect { width, height, .. } = canvas.area;
    let height = usize::from(height.saturating_sub(1));
    let longest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0) + 2;
    let box_width = longest.min(width.into());
    let first = chosen.map_or(0, |chosen| (chosen + 1).saturating_sub(height));
    for (y, (number, line)) in (0u16..).zip(lines.iter().enumerate().skip(first).take(height)) {
        let style = match number {
            0 => palette.headings(),
            number if Some(number) == chosen => palette.chosen(),
            _ => Style::reset(),
        };
        canvas.put(0, y, &format!("{line:<box_width$}"), style);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::report::tests::fabric_report;
    use crate::commands::top::activity::compare;
    use crate::commands::top::input::Key;
    use crate::commands::top::summary;

    fn screen(state: &State) -> Screen {
        let (before, after) = (fabric_report(0), fabric_report(1_000_000));
        let activity = compare(Some(&before), &after, 1.0);
        Screen {
            summary: summary::lines(&after, &activity, state, "12:34:56"),
            view: summary::view_line(state),
            table: Table::new(&activity, state),
            problem: None,
        }
    }

    /// Draws on ratatui's terminal for tests, and returns its lines without blanks at their ends.
    fn drawn(screen: &Screen, state: &State, width: u16, height: u16) -> Vec<String> {
        use ratatui_core::backend::TestBackend;
        use ratatui_core::terminal::Terminal;
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        terminal.draw(|frame| draw(frame.buffer_mut(), screen, state, Palette { colors: true })).expect("drawn");
        let buffer = terminal.backend().buffer().clone();
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol().to_owned()).collect::<String>().trim_end().to_owned();
        (0..height).map(line).collect()
    }

    #[test]
    fn the_screen_has_summary_table_and_keys() {
        let state = State::default();
        let lines = drawn(&screen(&state), &state, 80, 12);
        assert_eq!(lines[0], "weft top 12:34:56, every 2s; daemon 0.1.0, pid 42, up 00:07");
        assert_eq!(lines[4], "[1 Processes] 2 Queue pairs  3 Ports");
        assert_eq!(lines[5], "    PID  QPS   B/s▽  SEND/s  RECV/s  COPY/s   WR/s  RETX/s     RTT PROGRAM");
        assert_eq!(lines[6], "   4242    1  1.00G   1.00G       0       0   500k    100k  12.3us ib_write_bw");
        assert_eq!(lines[11], "F1Help F2View F4Filter F5Pause F6SortBy F7Invert +-Delay F10Quit");
    }

    #[test]
    fn every_view_is_drawn_at_every_size() {
        for view in View::ALL {
            for mode in [Mode::Table, Mode::Filter { before: String::new() }, Mode::Sort { column: 9 }, Mode::Help] {
                let mut state = State { view, mode, ..State::default() };
                let screen = screen(&state);
                for (width, height) in [(1, 1), (3, 2), (10, 3), (20, 5), (80, 24), (200, 50), (500, 200)] {
                    state.keep_in_view(screen.table.rows.len(), rows_of(&screen, height));
                    drawn(&screen, &state, width, height);
                }
            }
        }
    }

    #[test]
    fn a_wide_terminal_has_every_column() {
        let state = State { view: View::QueuePairs, ..State::default() };
        let lines = drawn(&screen(&state), &state, 200, 12);
        for word in ["DEVICE", "PEER", "PATH", "RNR/s", "RTT", "PROGRAM"] {
            assert!(lines[5].contains(word), "{}", lines[5]);
        }
        assert!(lines[6].contains("10.77.0.2") && lines[6].contains(" RC "), "{}", lines[6]);
    }

    #[test]
    fn a_problem_takes_the_place_of_rows() {
        let state = State::default();
        let screen =
            Screen { problem: Some("no daemon runs in this network namespace".to_owned()), ..Screen::default() };
        let lines = drawn(&screen, &state, 20, 8);
        assert_eq!(lines[2..5], ["no daemon runs in", "this network", "namespace"]);
    }

    #[test]
    fn pages_cover_the_table() {
        let mut state = State::default();
        state.on_key(Key::Function(6), &crate::commands::top::state::Shown::default());
        let lines = drawn(&screen(&state), &state, 80, 24);
        assert!(lines[0].starts_with("Sort by") && lines[1].starts_with(" PID"), "{lines:?}");
        state.mode = Mode::Help;
        assert!(drawn(&screen(&state), &state, 80, 24)[0].starts_with("Keys of weft top"));
    }
}
