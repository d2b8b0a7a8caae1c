//! The events of a program under a scenario: the traces of its processes, which come through a Unix socket and are
//! compared with the patterns that steps wait for. A thread reads them, so that a step that takes long stops no program.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, DirEntry, Metadata, Permissions};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use weft_sys::epoll::{Epoll, Interest};
use weft_sys::event::EventFd;

use super::pattern::Watch;
use crate::errln;

/// Processes that send events at a time; those beyond are not traced.
const PROCESSES_MAX: usize = 512;
/// Longest line; patterns do not see the rest of a longer one.
const LINE_BYTES_MAX: usize = 4096;
/// Bytes that one call reads.
const READ_BYTES: usize = 64 << 10;
/// Longest path of the socket, as `sockaddr_un` has room for.
const PATH_BYTES_MAX: usize = 107;
/// Begin of the name of each socket's directory.
const DIRECTORY_PREFIX: &str = "weft-events-";
/// Age after which a directory whose socket nothing listens on is a killed command's. A younger one may not listen yet.
const STALE_AFTER: Duration = Duration::from_secs(60);
/// Number of the listener in epoll; connections have those after it.
const LISTENER: u64 = 0;

/// A private place for the socket, removed at the end.
struct Place {
    directory: PathBuf,
    socket: PathBuf,
}

impl Place {
    fn new() -> io::Result<Place> {
        let name = format!("{DIRECTORY_PREFIX}{:016x}", weft_sys::random::u64());
        let socket = format!("{:016x}", weft_sys::random::u64());
        let places = [std::env::temp_dir(), PathBuf::from("/tmp")].map(|parent| parent.join(&name));
        let directory = places.into_iter().find(|directory| is_usable(&directory.join(&socket)));
        let directory = directory.ok_or(ErrorKind::InvalidFilename)?;
        sweep(directory.parent().unwrap_or(Path::new("/tmp")));
        DirBuilder::new().mode(0o700).create(&directory)?;
        let place = Place { socket: directory.join(socket), directory };
        // A program may change its user. Other users cannot list the directory, and do not know the socket's name.
        fs::set_permissions(&place.directory, Permissions::from_mode(0o711))?;
        Ok(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.socket);
        let _ = fs::remove_dir(&self.directory);
    }
}

/// Removes places that killed commands of this user left behind.
fn sweep(parent: &Path) {
    let is_own = |entry: &DirEntry| {
        let is_old = |meta: &Metadata| meta.modified().is_ok_and(|at| at.elapsed().is_ok_and(|age| age > STALE_AFTER));
        let named = entry.file_name().as_bytes().starts_with(DIRECTORY_PREFIX.as_bytes());
        named
            && entry
                .metadata()
                .is_ok_and(|meta| meta.is_dir() && meta.uid() == weft_sys::process::euid() && is_old(&meta))
    };
    for directory in fs::read_dir(parent).into_iter().flatten().flatten().filter(is_own) {
        for socket in fs::read_dir(directory.path()).into_iter().flatten().flatten() {
            let is_left =
                UnixStream::connect(socket.path()).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused);
            if is_left {
                let _ = (fs::remove_file(socket.path()), fs::remove_dir(directory.path()));
            }
        }
    }
}

/// Whether a path can be a word of `WEFT_TRACE`, wherever the program's working directory is.
fn is_usable(path: &Path) -> bool {
    let is_word = path.to_str().is_some_and(|text| !text.contains([',', ';']) && text.len() <= PATH_BYTES_MAX);
    is_word && path.is_absolute()
}

/// Steps whose lines have come, with the time, and an error that ended the thread.
#[derive(Default)]
struct News {
    seen: Vec<(usize, Instant)>,
    error: Option<String>,
}

struct Shared {
    news: Mutex<News>,
    wake: EventFd,
}

impl Shared {
    fn tell(&self, change: impl FnOnce(&mut News)) {
        change(&mut self.news.lock().unwrap_or_else(PoisonError::into_inner));
        self.wake.signal();
    }
}

/// Events that steps wait for.
pub(super) struct Events {
    place: Place,
    shared: Arc<Shared>,
}

impl Events {
    /// Starts to listen for the traces of the program's processes.
    pub fn start(watch: Watch) -> io::Result<Events> {
        let place = Place::new()?;
        let listener = UnixListener::bind(&place.socket)?;
        fs::set_permissions(&place.socket, Permissions::from_mode(0o666))?;
        listener.set_nonblocking(true)?;
        let epoll = Epoll::new()?;
        epoll.add(&listener, LISTENER, Interest::READ)?;
        let shared = Arc::new(Shared { news: Mutex::default(), wake: EventFd::new()? });
        let reader = Reader { listener, epoll, watch, traces: BTreeMap::new(), next: LISTENER + 1, warned: false };
        let told = shared.clone();
        std::thread::Builder::new().name("events".to_owned()).spawn(move || {
            if let Err(error) = reader.run(&told) {
                told.tell(|news| news.error = Some(format!("the program's events cannot be read: {error}")));
            }
        })?;
        Ok(Events { place, shared })
    }

    /// Returns `WEFT_TRACE` for the program: events of these kinds, beside the traces that the user wants.
    ///
    /// # Errors
    /// The user's value is not text.
    pub fn variable(&self, kinds: &str, own: Option<OsString>) -> Result<String, String> {
        let own = own.unwrap_or_default().into_string().map_err(|_| "WEFT_TRACE is not text; unset it".to_owned())?;
        let socket = format!("unix:{},{kinds}", self.place.socket.display());
        Ok(if own.is_empty() { socket } else { format!("{own};{socket}") })
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
    /// Whether the user knows that there are too many processes.
    warned: bool,
}

impl Reader {
    /// Reads until no step waits. Then processes that send more find the connection closed, and trace no longer.
    fn run(mut self, shared: &Shared) -> io::Result<()> {
        let (mut ready, mut buffer) = (Vec::new(), vec![0; READ_BYTES]);
        while !self.watch.is_done() {
            self.epoll.wait(&mut ready, None)?;
            for source in &ready {
                match source.token {
                    LISTENER => self.accept()?,
                    number => self.read(number, &mut buffer, shared),
                }
            }
        }
        Ok(())
    }

    fn accept(&mut self) -> io::Result<()> {
        let stream = match self.listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if is_transient(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        if self.traces.len() >= PROCESSES_MAX {
            if !std::mem::replace(&mut self.warned, true) {
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

    fn read(&mut self, number: u64, buffer: &mut [u8], shared: &Shared) {
        let Some((stream, lines)) = self.traces.get_mut(&number) else { return };
        let bytes = match stream.read(buffer) {
            Ok(count @ 1..) => buffer.get(..count).unwrap_or_default(),
            Err(error) if is_transient(&error) => return,
            // The process has ended. Closing the descriptor, which has no duplicate, removes it from epoll.
            Ok(_) | Err(_) => return drop(self.traces.remove(&number)),
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
        let connect = || UnixStream::connect(&events.place.socket).unwrap();
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
        let directory = events.place.directory.clone();
        drop(events);
        assert!(!directory.exists());
    }

    #[test]
    fn places_of_killed_commands_are_removed_and_no_others() {
        let parent = std::env::temp_dir().join(format!("weft-sweep-{}", std::process::id()));
        let make = |name: &str, age: Duration| {
            let directory = parent.join(name);
            fs::create_dir_all(&directory).unwrap();
            let listener = UnixListener::bind(directory.join("s")).unwrap();
            let then = std::time::SystemTime::now() - age;
            fs::File::open(&directory).unwrap().set_modified(then).unwrap();
            (directory, listener)
        };
        let old = 2 * STALE_AFTER;
        let (killed, _) = make("weft-events-1", old);
        let (young, _) = make("weft-events-2", Duration::ZERO);
        let (other, _) = make("other", old);
        let (live, _listener) = make("weft-events-3", old);
        sweep(&parent);
        assert_eq!([killed, young, other, live].map(|place| place.exists()), [false, true, true, true]);
        fs::remove_dir_all(&parent).unwrap();
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
        let socket = events.place.socket.display();
        assert_eq!(events.variable("cqe", None).unwrap(), format!("unix:{socket},cqe"));
        let both = events.variable("state,cqe", Some("stderr,fault".into())).unwrap();
        assert_eq!(both, format!("stderr,fault;unix:{socket},state,cqe"));
        let wrong = std::os::unix::ffi::OsStringExt::from_vec(vec![0xff]);
        assert!(events.variable("cqe", Some(wrong)).unwrap_err().contains("unset it"));
    }

    #[test]
    fn the_socket_has_a_path_that_the_variable_can_hold() {
        assert!(is_usable(Path::new("/tmp/weft-events-1/2")));
        let long = format!("/{}", "a".repeat(PATH_BYTES_MAX));
        for wrong in ["tmp/x", "/tmp/a,b/x", "/tmp/a;b/x", &long] {
            assert!(!is_usable(Path::new(wrong)), "{wrong}");
        }
    }
}
