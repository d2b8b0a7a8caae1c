//! The events of a program under a scenario: the traces of its processes, which come through a Unix socket and are
//! compared with the patterns that steps wait for. A thread reads them, so that a step that takes long stops no program.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use weft_sys::epoll::{Epoll, Interest};
use weft_sys::event::EventFd;

use super::pattern::Watch;
use super::peer;
use super::socket_directory::SocketDirectory;
use crate::errln;

/// Processes that send events at a time; those beyond are not traced.
const PROCESSES_MAX: usize = 512;
/// Traces that a program takes from `WEFT_TRACE`.
const TRACES_MAX: usize = 4;
/// Longest line; patterns do not see the rest of a longer one.
const LINE_BYTES_MAX: usize = 4096;
/// Bytes that one call reads.
const READ_BYTES: usize = 64 << 10;
/// Time without new processes after one could not be accepted, unless a trace ends before.
const PAUSE: Duration = Duration::from_secs(1);
/// Number of the listener in epoll.
const LISTENER: u64 = 0;
/// Number of the descriptor that ends the thread; connections have those after it.
const END: u64 = 1;

/// Steps whose lines have come, with the time, and an error that ended the thread.
#[derive(Default)]
struct News {
    seen: Vec<(usize, Instant)>,
    error: Option<String>,
}

struct Shared {
    news: Mutex<News>,
    wake: EventFd,
    /// Ends the thread.
    end: EventFd,
}

impl Shared {
    fn tell(&self, change: impl FnOnce(&mut News)) {
        change(&mut self.news.lock().unwrap_or_else(PoisonError::into_inner));
        self.wake.signal();
    }
}

/// Events that steps wait for.
pub(super) struct Events {
    directory: SocketDirectory,
    shared: Arc<Shared>,
}

impl Drop for Events {
    fn drop(&mut self) {
        self.shared.end.signal();
    }
}

impl Events {
    /// Starts to listen for the traces of the program's processes.
    pub fn start(watch: Watch) -> io::Result<Events> {
        let directory = SocketDirectory::new()?;
        let listener = directory.listen()?;
        let epoll = Epoll::new()?;
        epoll.add(&listener, LISTENER, Interest::READ)?;
        let shared = Arc::new(Shared { news: Mutex::default(), wake: EventFd::new()?, end: EventFd::new()? });
        epoll.add(&shared.end, END, Interest::READ)?;
        let reader = Reader {
            listener,
            epoll,
            watch,
            traces: BTreeMap::new(),
            next: END + 1,
            paused: None,
            warned_of_number: false,
            warned_of_error: false,
        };
        let told = shared.clone();
        std::thread::Builder::new().name("events".to_owned()).spawn(move || {
            if let Err(error) = reader.run(&told) {
                told.tell(|news| news.error = Some(format!("the program's events cannot be read: {error}")));
            }
        })?;
        Ok(Events { directory, shared })
    }

    /// Returns `WEFT_TRACE` for the program: events of these kinds, beside the traces that the user wants.
    ///
    /// # Errors
    /// The user's value is not text, or has so many traces that a program would take no more.
    pub fn variable(&self, kinds: &str, own: Option<OsString>) -> Result<String, String> {
        let own = own.unwrap_or_default().into_string().map_err(|_| "WEFT_TRACE is not text; unset it".to_owned())?;
        let mut traces: Vec<&str> = own.split(';').map(str::trim).filter(|trace| !trace.is_empty()).collect();
        if traces.len() >= TRACES_MAX {
            let (count, room) = (traces.len(), TRACES_MAX - 1);
            return Err(format!("WEFT_TRACE: {count} traces; the scenario needs one itself, so name at most {room}"));
        }
        let socket = format!("unix:{},{kinds}", self.directory.socket().display());
        traces.push(&socket);
        Ok(traces.join(";"))
    }

    /// A descriptor that is readable while [`Events::take`] has something new.
    pub fn wake(&self) -> &EventFd {
        &self.shared.wake
    }

    /// Takes the steps whose events have come, with the time.
    ///
    /// # Errors
    /// Events cannot be read any more.
    pub fn take(&self) -> Result<Vec<(usize, Instant)>, String> {
        self.shared.wake.take();
        let mut news = self.shared.news.lock().unwrap_or_else(PoisonError::into_inner);
        match news.error.take() {
            Some(error) => Err(error),
            None => Ok(std::mem::take(&mut news.seen)),
        }
    }
}

/// Splits a process's trace into lines.
#[derive(Default)]
struct Lines {
    /// The begin of a line whose end has not come, at most [`LINE_BYTES_MAX`] bytes of it.
    partial: Vec<u8>,
}

impl Lines {
    fn split(&mut self, bytes: &[u8], on_line: &mut dyn FnMut(&[u8])) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, is_whole) = piece.strip_suffix(b"\n").map_or((piece, false), |text| (text, true));
            let room = LINE_BYTES_MAX.saturating_sub(self.partial.len());
            self.partial.extend_from_slice(text.get(..room).unwrap_or(text));
            if is_whole {
                on_line(&self.partial);
                self.partial.clear();
            }
        }
    }
}

struct Reader {
    listener: UnixListener,
    epoll: Epoll,
    watch: Watch,
    traces: BTreeMap<u64, (UnixStream, Lines)>,
    next: u64,
    /// Since when no process is accepted, because that failed.
    paused: Option<Instant>,
    /// Whether the user knows that there are too many processes.
    warned_of_number: bool,
    /// Whether the user knows that a process was not accepted.
    warned_of_error: bool,
}

impl Reader {
    /// Reads until no step waits. Then processes that send more find the connection closed, and trace no longer; the
    /// listener stays, so that later ones find the same, and other commands see the directory in use.
    fn run(mut self, shared: &Shared) -> io::Result<()> {
        let (mut ready, mut buffer) = (Vec::new(), vec![0; READ_BYTES]);
        loop {
            self.epoll.wait(&mut ready, self.paused.map(|since| PAUSE.saturating_sub(since.elapsed())))?;
            for source in &ready {
                match source.token {
                    LISTENER => self.accept(),
                    END => return Ok(()),
                    number => self.read(number, &mut buffer, shared),
                }
            }
            if self.watch.is_done() {
                self.traces.clear();
            }
            if self.paused.is_some_and(|since| since.elapsed() >= PAUSE) {
                self.resume();
            }
        }
    }

    /// Accepts a process. If that fails, no other is accepted for a while: the listener remains readable.
    fn accept(&mut self) {
        let Err(error) = self.try_accept() else { return };
        if self.epoll.delete(&self.listener).is_ok() {
            self.paused = Some(Instant::now());
        }
        if !std::mem::replace(&mut self.warned_of_error, true) && !self.watch.is_done() {
            errln!("weft fault run: {error}; steps may not see the events of processes that start now");
        }
    }

    fn try_accept(&mut self) -> io::Result<()> {
        let stream = match self.listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if is_transient(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        if self.watch.is_done() || !peer::is_permitted(&stream) {
            return Ok(());
        }
        if self.traces.len() >= PROCESSES_MAX {
            if !std::mem::replace(&mut self.warned_of_number, true) {
                errln!("weft fault run: more than {PROCESSES_MAX} processes; steps do not see the others' events");
            }
            return Ok(());
        }
        stream.set_nonblocking(true)?;
        self.epoll.add(&stream, self.next, Interest::READ)?;
        self.traces.insert(self.next, (stream, Lines::default()));
        self.next += 1;
        Ok(())
    }

    /// Accepts processes again, if it is possible.
    fn resume(&mut self) {
        if self.paused.is_some() {
            let is_added = self.epoll.add(&self.listener, LISTENER, Interest::READ).is_ok();
            self.paused = (!is_added).then(Instant::now);
        }
    }

    fn read(&mut self, number: u64, buffer: &mut [u8], shared: &Shared) {
        let Some((stream, lines)) = self.traces.get_mut(&number) else { return };
        let bytes = match stream.read(buffer) {
            Ok(count @ 1..) => buffer.get(..count).unwrap_or_default(),
            Err(error) if is_transient(&error) => return,
            // The process has ended. Closing the descriptor, which has no duplicate, removes it from epoll.
            Ok(_) | Err(_) => {
                self.traces.remove(&number);
                return self.resume();
            }
        };
        let mut seen = Vec::new();
        lines.split(bytes, &mut |line| self.watch.on_line(line, &mut seen));
        if !seen.is_empty() {
            let now = Instant::now();
            shared.tell(|news| news.seen.extend(seen.into_iter().map(|place| (place, now))));
        }
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted | ErrorKind::WouldBlock)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::super::pattern::Pattern;
    use super::*;

    /// Time limit of what a busy machine does late.
    const WITHIN: Duration = Duration::from_secs(60);

    fn watch(patterns: &[(&str, u64)]) -> Watch {
        let patterns = patterns.iter().map(|(text, nth)| Pattern::parse(text, Some(*nth)).unwrap());
        Watch::new(patterns.enumerate().collect::<Vec<_>>())
    }

    /// Waits until something is new, and returns the steps.
    fn wait(events: &Events) -> Vec<usize> {
        let epoll = Epoll::new().unwrap();
        epoll.add(events.wake(), 0, Interest::READ).unwrap();
        let mut ready = Vec::new();
        epoll.wait(&mut ready, Some(WITHIN)).unwrap();
        assert!(!ready.is_empty(), "no event within {WITHIN:?}");
        events.take().unwrap().into_iter().map(|(place, _)| place).collect()
    }

    #[test]
    fn lines_of_two_processes_do_not_mix() {
        let events = Events::start(watch(&[("^cqe wr_id=1$", 2), ("^state", 1)])).unwrap();
        let connect = || UnixStream::connect(events.directory.socket()).unwrap();
        let (mut first, mut second) = (connect(), connect());
        first.write_all(b"1.0 cqe wr_").unwrap();
        second.write_all(b"1.0 cqe wr_id=1\n1.1 state made\n").unwrap();
        assert_eq!(wait(&events), [1]);
        first.write_all(b"id=1\n").unwrap();
        assert_eq!(wait(&events), [0]);
        // No step waits: the process learns that by its next lines.
        first.set_read_timeout(Some(WITHIN)).unwrap();
        assert!(matches!(first.read(&mut [0; 1]), Ok(0) | Err(_)));
        assert_eq!(first.write_all(b"1.2 cqe\n").unwrap_err().kind(), ErrorKind::BrokenPipe);
        // A later one learns it, too: the listener stays until the end.
        let mut later = connect();
        later.set_read_timeout(Some(WITHIN)).unwrap();
        assert!(matches!(later.read(&mut [0; 1]), Ok(0) | Err(_)));
        assert_eq!(later.write_all(b"1.3 cqe\n").unwrap_err().kind(), ErrorKind::BrokenPipe);
        let directory = events.directory.socket().parent().unwrap().to_owned();
        drop(events);
        assert!(!directory.exists());
    }

    fn reader(listener: UnixListener) -> Reader {
        Reader {
            listener,
            epoll: Epoll::new().unwrap(),
            watch: watch(&[("x", 1)]),
            traces: BTreeMap::new(),
            next: END + 1,
            paused: None,
            warned_of_number: false,
            warned_of_error: false,
        }
    }

    #[test]
    fn an_error_of_accept_pauses_and_the_end_of_a_trace_resumes() {
        let directory = SocketDirectory::new().unwrap();
        let mut reader = reader(directory.listen().unwrap());
        reader.epoll.add(&reader.listener, LISTENER, Interest::READ).unwrap();
        let first = UnixStream::connect(directory.socket()).unwrap();
        reader.accept();
        assert_eq!((reader.traces.len(), reader.paused), (1, None));
        // A socket that does not listen is an error of accept.
        let (deaf, _) = UnixStream::pair().unwrap();
        let listener = std::mem::replace(&mut reader.listener, UnixListener::from(std::os::fd::OwnedFd::from(deaf)));
        reader.epoll.delete(&listener).unwrap();
        reader.epoll.add(&reader.listener, LISTENER, Interest::READ).unwrap();
        reader.accept();
        assert!(reader.paused.is_some() && reader.warned_of_error);
        reader.listener = listener;
        let _second = UnixStream::connect(directory.socket()).unwrap();
        let shared = Shared { news: Mutex::default(), wake: EventFd::new().unwrap(), end: EventFd::new().unwrap() };
        drop(first);
        let number = *reader.traces.keys().next().unwrap();
        reader.read(number, &mut [0; 16], &shared);
        assert_eq!((reader.traces.len(), reader.paused), (0, None));
        let mut ready = Vec::new();
        reader.epoll.wait(&mut ready, Some(WITHIN)).unwrap();
        assert!(ready.iter().any(|source| source.token == LISTENER));
        reader.accept();
        assert_eq!(reader.traces.len(), 1);
    }

    #[test]
    fn a_long_line_is_cut_and_does_not_hide_the_next() {
        let (mut lines, mut found) = (Lines::default(), Vec::new());
        let mut feed = |bytes: &[u8]| lines.split(bytes, &mut |line| found.push(line.to_vec()));
        (0..3).for_each(|_| feed(&[b'a'; LINE_BYTES_MAX]));
        feed(b"b\nnext\n\npart");
        feed(b"ial\n");
        let expected: [&[u8]; 4] = [&[b'a'; LINE_BYTES_MAX], b"next", b"", b"partial"];
        assert_eq!(found, expected);
        assert!(lines.partial.capacity() <= 2 * LINE_BYTES_MAX);
    }

    #[test]
    fn the_variable_keeps_the_users_trace() {
        let events = Events::start(watch(&[("x", 1)])).unwrap();
        let socket = events.directory.socket().display();
        assert_eq!(events.variable("cqe", None).unwrap(), format!("unix:{socket},cqe"));
        let both = events.variable("state,cqe", Some("stderr,fault".into())).unwrap();
        assert_eq!(both, format!("stderr,fault;unix:{socket},state,cqe"));
        let three = events.variable("cqe", Some(" a ;; b; c;".into())).unwrap();
        assert_eq!(three, format!("a;b;c;unix:{socket},cqe"));
        assert_eq!(events.variable("cqe", Some(" ; ".into())).unwrap(), format!("unix:{socket},cqe"));
        let error = events.variable("cqe", Some("a;b;c;d".into())).unwrap_err();
        assert_eq!(error, "WEFT_TRACE: 4 traces; the scenario needs one itself, so name at most 3");
        let wrong = std::os::unix::ffi::OsStringExt::from_vec(vec![0xff]);
        assert!(events.variable("cqe", Some(wrong)).unwrap_err().contains("unset it"));
    }

    #[test]
    fn programs_take_as_many_traces_as_this_command_thinks() {
        let spec = include_str!("../../../../../../crates/engine/src/trace/spec.rs");
        assert!(spec.contains(&format!("const TRACES_MAX: usize = {TRACES_MAX};")));
    }
}
