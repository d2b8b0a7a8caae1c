//! The terminal: raw mode and the alternate screen while `weft top` runs, and their end however it ends.

use std::io::{self, IsTerminal, Write};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::queue;
use crossterm::style::{
    Attribute, Color as TerminalColor, Print, SetAttribute, SetBackgroundColor, SetForegroundColor,
};
use crossterm::terminal::{self, Clear, DisableLineWrap, EnableLineWrap, EnterAlternateScreen, LeaveAlternateScreen};
use ratatui_core::backend::{Backend, ClearType, WindowSize};
use ratatui_core::buffer::Cell;
use ratatui_core::layout::{Position, Size};
use ratatui_core::style::{Color, Modifier};

/// Whether the terminal is in raw mode and shows the alternate screen.
static ENTERED: AtomicBool = AtomicBool::new(false);
static PANIC_HOOK: Once = Once::new();

/// The terminal in raw mode. Dropping it restores the terminal; so does a panic.
#[derive(Debug)]
pub struct RawTerminal(());

impl RawTerminal {
    /// Enters raw mode and the alternate screen.
    ///
    /// # Errors
    /// Standard input or output is no terminal, or the terminal refuses.
    pub fn enter() -> io::Result<RawTerminal> {
        if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            return Err(io::Error::other(
                "standard input and output must be a terminal; --batch prints reports as text",
            ));
        }
        PANIC_HOOK.call_once(|| {
            let hook = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                restore();
                hook(panic);
            }));
        });
        let entered = RawTerminal(());
        entered.again()?;
        Ok(entered)
    }

    /// Enters them again, after the process was stopped and continued.
    ///
    /// # Errors
    /// The terminal refuses.
    pub fn again(&self) -> io::Result<()> {
        terminal::enable_raw_mode()?;
        ENTERED.store(true, Ordering::SeqCst);
        let mut out = io::stdout().lock();
        queue!(out, EnterAlternateScreen, DisableLineWrap, Hide, Clear(terminal::ClearType::All))?;
        out.flush()
    }

    /// Restores the terminal until [`RawTerminal::again`].
    pub fn leave(&self) {
        restore();
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        restore();
    }
}

/// Restores the terminal, once. Errors have no remedy: the terminal may be gone.
fn restore() {
    if ENTERED.swap(false, Ordering::SeqCst) {
        let mut out = io::stdout();
        let _ = queue!(out, SetAttribute(Attribute::Reset), EnableLineWrap, LeaveAlternateScreen, Show);
        let _ = out.flush();
        let _ = terminal::disable_raw_mode();
    }
}

/// Writes cells to standard output, each frame in one piece.
#[derive(Debug, Default)]
pub struct Output {
    frame: Vec<u8>,
}

impl Output {
    fn style(&mut self, cell: &Cell) -> io::Result<()> {
        queue!(self.frame, SetAttribute(Attribute::Reset))?;
        for (modifier, attribute) in [
            (Modifier::BOLD, Attribute::Bold),
            (Modifier::DIM, Attribute::Dim),
            (Modifier::REVERSED, Attribute::Reverse),
        ] {
            if cell.modifier.contains(modifier) {
                queue!(self.frame, SetAttribute(attribute))?;
            }
        }
        if let Some(color) = color(cell.fg) {
            queue!(self.frame, SetForegroundColor(color))?;
        }
        if let Some(color) = color(cell.bg) {
            queue!(self.frame, SetBackgroundColor(color))?;
        }
        Ok(())
    }
}

/// The colors that the screen uses.
fn color(color: Color) -> Option<TerminalColor> {
    match color {
        Color::Black => Some(TerminalColor::Black),
        Color::Red => Some(TerminalColor::DarkRed),
        Color::Green => Some(TerminalColor::DarkGreen),
        Color::Cyan => Some(TerminalColor::DarkCyan),
        _ => None,
    }
}

impl Backend for Output {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        let mut next = None;
        let mut last: Option<&Cell> = None;
        for (x, y, cell) in content {
            if next != Some((x, y)) {
                queue!(self.frame, MoveTo(x, y))?;
            }
            next = Some((x + 1, y));
            let same = |other: &&Cell| (other.fg, other.bg, other.modifier) == (cell.fg, cell.bg, cell.modifier);
            if !last.as_ref().is_some_and(same) {
                self.style(cell)?;
            }
            last = Some(cell);
            queue!(self.frame, Print(cell.symbol()))?;
        }
        queue!(self.frame, SetAttribute(Attribute::Reset))
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        queue!(self.frame, Hide)
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        queue!(self.frame, Show)
    }

    /// The cursor is hidden, and every frame moves it first.
    fn get_cursor_position(&mut self) -> io::Result<Position> {
        Ok(Position::ORIGIN)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        let Position { x, y } = position.into();
        queue!(self.frame, MoveTo(x, y))
    }

    fn clear(&mut self) -> io::Result<()> {
        self.clear_region(ClearType::All)
    }

    fn clear_region(&mut self, _: ClearType) -> io::Result<()> {
        queue!(self.frame, Clear(terminal::ClearType::All))
    }

    fn size(&self) -> io::Result<Size> {
        let (width, height) = terminal::size()?;
        // A terminal of unknown size says zero.
        let or = |value: u16, usual| if value == 0 { usual } else { value };
        Ok(Size { width: or(width, 80), height: or(height, 24) })
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        Ok(WindowSize { columns_rows: self.size()?, pixels: Size::default() })
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(&self.frame)?;
        self.frame.clear();
        out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Set where the test below runs itself on a terminal.
    const ON_A_TERMINAL: &str = "WEFT_TEST_ON_A_TERMINAL";

    #[test]
    fn a_panic_restores_the_terminal() {
        if std::env::var_os(ON_A_TERMINAL).is_some() {
            let _terminal = RawTerminal::enter().expect("a terminal");
            panic!("on purpose");
        }
        let own = std::env::current_exe().expect("this test");
        let name = std::thread::current().name().expect("the test's thread has its name").to_owned();
        let line = format!("{} --exact {name} --nocapture; stty -a", own.display());
        let output = Command::new("script").args(["-qec", &line, "/dev/null"]).env(ON_A_TERMINAL, "1").output();
        let output = output.expect("script, which every system has");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("no {what:?} in {text}"));
        assert!(at("\x1b[?1049h") < at("\x1b[?1049l") && at("\x1b[?1049l") < at("on purpose"), "{text}");
        assert!(at("\x1b[?25l") < at("\x1b[?25h") && text.contains(" icanon") && text.contains(" echo "), "{text}");
    }
}
