//! A terminal prompt without echo: keys do not belong on screens.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;

/// Prompts with `question` and returns the typed line.
pub fn hidden(question: &str) -> Option<String> {
    let mut terminal = OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
    let fd = terminal.as_raw_fd();
    let mut before = MaybeUninit::<libc::termios>::uninit();
    // SAFETY: the descriptor is open, and the call fills the structure.
    if unsafe { libc::tcgetattr(fd, before.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: the call succeeded, so it has initialised the structure.
    let before = unsafe { before.assume_init() };
    let mut silent = before;
    silent.c_lflag &= !(libc::ECHO | libc::ISIG);
    terminal.write_all(question.as_bytes()).ok()?;
    // SAFETY: the descriptor is open and the structure is valid, as in the second call.
    unsafe { libc::tcsetattr(fd, libc::TCSAFLUSH, &silent) };
    let mut line = String::new();
    let read = BufReader::new(&terminal).read_line(&mut line);
    // SAFETY: as above.
    unsafe { libc::tcsetattr(fd, libc::TCSAFLUSH, &before) };
    let _ = terminal.write_all(b"\n");
    read.ok()?;
    Some(line.trim_end_matches('\n').to_owned())
}
