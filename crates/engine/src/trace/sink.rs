//! One trace: its filter, its destination and the lines that wait to be written.

use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::{self, Write as _};

use weft_sys::file_size;
use weft_verbs::Instant;

use super::socket::Socket;
use super::spec::{Kind, Place, Spec};
use crate::error::EngineError;
use crate::log;

/// Lines are buffered up to this many bytes, or until the background thread is about to sleep. A socket's reader gets
/// those of each call at its end.
const BUFFER_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(super) enum Out {
    Stderr,
    File(File),
    Socket(Socket),
    /// A file or socket that cannot be written any more.
    Ended,
}

impl Out {
    /// Opens the destination. A socket whose reader is gone gets no lines, and is no error: programs outlast a scenario.
    pub fn open(place: &Place) -> Result<Out, EngineError> {
        match place {
            Place::Stderr => Ok(Out::Stderr),
            Place::File(name) => {
                let file = File::options().append(true).create(true).open(name).map_err(|error| {
                    let errno = error.raw_os_error().unwrap_or(EngineError::EINVAL);
                    EngineError::new(errno, format!("WEFT_TRACE: {name} cannot be written: {error}; name another file"))
                })?;
                Ok(Out::File(file))
            }
            Place::Socket(path) => Ok(Socket::connect(path).map(Out::Socket).unwrap_or_else(|error| {
                // The reader has ended, and may have removed its socket.
                if !matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound) {
                    log::note(&format!("WEFT_TRACE: unix:{path}: {error}; events of this process are not traced"));
                }
                Out::Ended
            })),
        }
    }
}

#[derive(Debug)]
pub(super) struct Sink {
    pub spec: Spec,
    pub out: Out,
    pub buffer: String,
}

impl Sink {
    /// Opens a trace.
    pub fn open(spec: Spec) -> Result<Sink, EngineError> {
        let out = Out::open(&spec.place)?;
        Ok(Sink { spec, out, buffer: String::new() })
    }

    /// Whether lines are still written.
    pub fn is_open(&self) -> bool {
        !matches!(self.out, Out::Ended)
    }

    /// Buffers a line, if the filter passes it.
    pub fn line(&mut self, now: Instant, kind: Kind, qpn: Option<u32>, text: fmt::Arguments<'_>) {
        if !self.is_open() || !self.spec.wants(kind, qpn) {
            return;
        }
        let (seconds, nanos) = (now.0 / 1_000_000_000, now.0 % 1_000_000_000);
        let _ = write!(self.buffer, "{seconds}.{:06} {} ", nanos / 1000, kind.name());
        if let Some(qpn) = qpn {
            let _ = write!(self.buffer, "qp=0x{qpn:06x} ");
        }
        let _ = writeln!(self.buffer, "{text}");
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush();
        }
    }

    /// Writes the lines if a reader waits for them.
    pub fn deliver(&mut self) {
        if matches!(self.out, Out::Socket(_)) && !self.buffer.is_empty() {
            self.flush();
        }
    }

    /// Writes the lines. An error ends the trace, that of a file after the last whole line, and is reported once.
    pub fn flush(&mut self) {
        let ended = match &self.out {
            Out::Stderr => {
                drop(io::stderr().write_all(self.buffer.as_bytes()));
                false
            }
            Out::Ended => false,
            Out::File(file) => write_file(file, self.buffer.as_bytes()),
            Out::Socket(socket) => write_socket(socket, self.buffer.as_bytes()),
        };
        if ended {
            self.out = Out::Ended;
        }
        self.buffer.clear();
    }
}

/// Returns whether the trace ends.
fn write_file(file: &File, lines: &[u8]) -> bool {
    let (written, error) = file_size::write(file, lines);
    let Some(error) = error else { return false };
    let whole = lines[..written].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    if let Ok(meta) = file.metadata() {
        let _ = file.set_len(meta.len().saturating_sub((written - whole) as u64));
    }
    let _ = writeln!(io::stderr(), "weft: WEFT_TRACE: the trace ends early: {error}");
    true
}

/// Returns whether the trace ends: a reader that leaves has seen enough.
fn write_socket(socket: &Socket, lines: &[u8]) -> bool {
    let Err(error) = socket.write(lines) else { return false };
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {}
        io::ErrorKind::WouldBlock => log::note("WEFT_TRACE: the trace ends early: the socket's reader reads nothing"),
        _ => log::note(&format!("WEFT_TRACE: the trace ends early: {error}")),
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sink(spec: &str, out: Out) -> Sink {
        Sink { spec: Spec::parse_all(spec).unwrap().remove(0), out, buffer: String::new() }
    }

    #[test]
    fn lines_have_a_time_a_kind_and_a_queue_pair() {
        let mut trace = sink("stderr,path,wake,qp=0x41", Out::Stderr);
        let now = Instant(12_345_678_901);
        trace.line(now, Kind::Path, Some(0x41), format_args!("path=wire"));
        trace.line(now, Kind::Path, Some(0x42), format_args!("path=wire"));
        trace.line(now, Kind::Cqe, Some(0x41), format_args!("wr_id=1"));
        trace.line(now, Kind::Wake, None, format_args!("by=timer"));
        assert_eq!(trace.buffer, "12.345678 path qp=0x000041 path=wire\n12.345678 wake by=timer\n");
    }

    /// A sealed memory file that cannot grow is a disk with room for its length.
    #[test]
    fn a_full_disk_ends_the_trace_at_a_whole_line() {
        use rustix::fs::{MemfdFlags, SealFlags};
        const ROOM: u64 = 4096;
        let file = File::from(rustix::fs::memfd_create("full", MemfdFlags::ALLOW_SEALING).unwrap());
        file.set_len(ROOM).unwrap();
        rustix::fs::fcntl_add_seals(&file, SealFlags::GROW).unwrap();
        let mut trace = sink("stderr", Out::File(file.try_clone().unwrap()));
        let mut expected = String::new();
        while trace.buffer.len() < 2 * ROOM as usize {
            trace.line(Instant(0), Kind::Cqe, Some(0x41), format_args!("wr_id={}", trace.buffer.len()));
            if trace.buffer.len() <= ROOM as usize {
                expected.clone_from(&trace.buffer);
            }
        }
        trace.flush();
        assert!(!trace.is_open() && trace.buffer.is_empty());
        let text = || {
            let mut text = vec![0; file.metadata().unwrap().len() as usize];
            std::os::unix::fs::FileExt::read_exact_at(&file, &mut text, 0).unwrap();
            String::from_utf8(text).unwrap()
        };
        assert!(expected.ends_with('\n') && expected.len() < ROOM as usize);
        assert_eq!(text(), expected);
        trace.line(Instant(0), Kind::Cqe, Some(0x41), format_args!("wr_id=0"));
        trace.flush();
        assert!(trace.buffer.is_empty());
        assert_eq!(text(), expected, "lines after the end");
    }

    #[test]
    fn a_socket_gets_lines_at_once_and_ends_quietly_with_its_reader() {
        use std::io::Read as _;
        let path = std::env::temp_dir().join(format!("weft-trace-sink-{}", std::process::id()));
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let spec = Spec::parse_all(&format!("unix:{},cqe", path.display())).unwrap().remove(0);
        let mut trace = Sink::open(spec.clone()).unwrap();
        let (mut reader, _) = listener.accept().unwrap();
        trace.line(Instant(0), Kind::Cqe, None, format_args!("wr_id=1"));
        trace.deliver();
        let mut text = [0; 20];
        reader.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"0.000000 cqe wr_id=1");
        drop((reader, listener));
        std::fs::remove_file(&path).unwrap();
        trace.line(Instant(0), Kind::Cqe, None, format_args!("wr_id=2"));
        trace.deliver();
        assert!(!trace.is_open());
        assert!(!Sink::open(spec).unwrap().is_open(), "a reader that is gone is no error");
    }
}
