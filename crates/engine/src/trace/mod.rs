//! A trace of events, line by line, for debugging: `WEFT_TRACE=stderr` or `WEFT_TRACE=FILE`, then a comma and an
//! optional filter. While off, which is nearly always, it costs one branch on [`on`] at each of the few trace points.
//! Changes inside a queue pair's state machines show by comparison with its previous state, which only happens while it
//! is on.

mod observe;
mod spec;

use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use weft_sys::file_size;
use weft_transport::{RxPacket, TxBatch};
use weft_verbs::{Event, Instant, Wc};
use weft_wire::{Bth, Opcode};
use zerocopy::FromBytes as _;

use crate::error::EngineError;
use observe::Observer;
pub use spec::Kind;
use spec::{Place, Spec};

/// Lines are buffered up to this many bytes, or until the background thread is about to sleep.
const BUFFER_BYTES: usize = 64 << 10;

static ON: AtomicBool = AtomicBool::new(false);
static TRACE: Mutex<Option<Trace>> = Mutex::new(None);

/// Whether the trace is on.
#[inline(always)]
pub fn on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Starts the trace that `WEFT_TRACE` requests; an empty text is off.
///
/// # Errors
/// The text does not parse, or the file cannot be written.
pub fn start(text: &str) -> Result<(), EngineError> {
    if text.is_empty() {
        return Ok(());
    }
    let spec = Spec::parse(text).map_err(|error| EngineError::new(EngineError::EINVAL, error))?;
    let out = match &spec.place {
        Place::Stderr => Out::Stderr,
        Place::File(name) => {
            let file = File::options().append(true).create(true).open(name).map_err(|error| {
                let errno = error.raw_os_error().unwrap_or(EngineError::EINVAL);
                EngineError::new(errno, format!("WEFT_TRACE: {name} cannot be written: {error}; name another file"))
            })?;
            Out::File(file)
        }
    };
    // In a forked child, a thread that no longer exists may hold the lock for ever.
    if let Some(mut trace) = TRACE.try_lock() {
        *trace = Some(Trace { spec, out, buffer: String::new(), observer: Observer::default() });
        ON.store(true, Ordering::Relaxed);
    }
    Ok(())
}

/// Writes the buffered lines.
pub fn flush() {
    if on()
        && let Some(trace) = TRACE.lock().as_mut()
    {
        trace.flush();
    }
}

/// Stops the trace in a forked child, whose file and buffered lines belong to its parent.
pub fn stop() {
    ON.store(false, Ordering::Relaxed);
}

/// Traces an event, of queue pair `qpn` if given.
#[cold]
pub fn note(now: Instant, kind: Kind, qpn: Option<u32>, text: fmt::Arguments<'_>) {
    if let Some(trace) = TRACE.lock().as_mut() {
        trace.line(now, kind, qpn, text);
    }
}

/// Traces a received packet.
#[cold]
pub fn received(now: Instant, rx: &RxPacket<'_>) {
    let bth = &rx.packet.bth;
    let bytes = rx.packet.payload.len();
    packet(now, "in", bth.dest_qp(), None, bth, bytes);
}

/// Traces packets that leave.
#[cold]
pub fn sent(now: Instant, batch: &TxBatch) {
    for out in &batch.packets {
        let header = batch.arena.get(out.header.start as usize..).unwrap_or_default();
        let Ok((bth, _)) = Bth::read_from_prefix(header) else { continue };
        packet(now, "out", out.src_qpn, Some(out.dest_qpn), &bth, out.payload_len as usize);
    }
}

fn packet(now: Instant, way: &str, qpn: u32, dest: Option<u32>, bth: &Bth, bytes: usize) {
    let (opcode, psn) = (Name(bth.opcode()), bth.psn().value());
    let ack = if bth.ack_req() { " ack_req" } else { "" };
    match dest {
        Some(dest) => note(
            now,
            Kind::Packet,
            Some(qpn),
            format_args!("way={way} dest=0x{dest:06x} opcode={opcode} psn={psn} bytes={bytes}{ack}"),
        ),
        None => {
            note(now, Kind::Packet, Some(qpn), format_args!("way={way} opcode={opcode} psn={psn} bytes={bytes}{ack}"))
        }
    }
}

/// An opcode in one word.
struct Name(Opcode);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.info() {
            Some(info) => write!(f, "{:?}:{}", info.service, info.name.replace(' ', "_")),
            None => write!(f, "0x{:02x}", self.0.0),
        }
    }
}

/// Traces completions that the program polled.
#[cold]
pub fn polled(now: Instant, completions: &[Wc]) {
    for wc in completions {
        note(
            now,
            Kind::Cqe,
            Some(wc.qp_num),
            format_args!("wr_id={} status={:?} opcode={:?} bytes={}", wc.wr_id, wc.status, wc.opcode, wc.byte_len),
        );
    }
}

/// Traces delivered events.
#[cold]
pub fn told(now: Instant, events: &[Event]) {
    for event in events {
        match event {
            Event::Completion { cq, .. } => {
                note(now, Kind::Wake, None, format_args!("by=completion cq={}", cq.index));
            }
            Event::Async { event, subject, .. } => {
                note(now, Kind::State, None, format_args!("async={event:?} of={subject:?}"));
            }
        }
    }
}

/// Compares the queue pairs with their previous states.
#[cold]
pub fn observe(now: Instant, qps: impl Iterator<Item = weft_hca::QpSummary>) {
    let mut guard = TRACE.lock();
    let Some(trace) = guard.as_mut() else { return };
    let mut observer = std::mem::take(&mut trace.observer);
    observer.look(qps, &mut |kind, qpn, text| trace.line(now, kind, Some(qpn), text));
    trace.observer = observer;
}

enum Out {
    Stderr,
    File(File),
    /// A file that cannot be written any more.
    Ended,
}

struct Trace {
    spec: Spec,
    out: Out,
    buffer: String,
    observer: Observer,
}

impl Trace {
    fn line(&mut self, now: Instant, kind: Kind, qpn: Option<u32>, text: fmt::Arguments<'_>) {
        if !self.spec.wants(kind, qpn) {
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

    /// Writes the lines. An error of the file ends the trace after the last whole line, and is reported once.
    fn flush(&mut self) {
        match &mut self.out {
            Out::Stderr => drop(std::io::stderr().write_all(self.buffer.as_bytes())),
            Out::Ended => {}
            Out::File(file) => {
                let (written, error) = file_size::write(file, self.buffer.as_bytes());
                if let Some(error) = error {
                    let whole = self.buffer.as_bytes()[..written]
                        .iter()
                        .rposition(|&byte| byte == b'\n')
                        .map_or(0, |at| at + 1);
                    if let Ok(meta) = file.metadata() {
                        let _ = file.set_len(meta.len().saturating_sub((written - whole) as u64));
                    }
                    let _ = writeln!(std::io::stderr(), "weft: WEFT_TRACE: the trace ends early: {error}");
                    self.out = Out::Ended;
                }
            }
        }
        self.buffer.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_a_time_a_kind_and_a_queue_pair() {
        let spec = Spec::parse("stderr,path,wake,qp=0x41").unwrap();
        let mut trace = Trace { spec, out: Out::Stderr, buffer: String::new(), observer: Observer::default() };
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
        let out = Out::File(file.try_clone().unwrap());
        let spec = Spec::parse("stderr").unwrap();
        let mut trace = Trace { spec, out, buffer: String::new(), observer: Observer::default() };
        let mut write_lines = |bytes: usize| {
            let mut expected = String::new();
            while trace.buffer.len() < bytes {
                trace.line(Instant(0), Kind::Cqe, Some(0x41), format_args!("wr_id={}", trace.buffer.len()));
                if trace.buffer.len() <= ROOM as usize {
                    expected.clone_from(&trace.buffer);
                }
            }
            trace.flush();
            assert!(matches!(trace.out, Out::Ended) && trace.buffer.is_empty());
            expected
        };
        let expected = write_lines(2 * ROOM as usize);
        let text = || {
            let mut text = vec![0; file.metadata().unwrap().len() as usize];
            std::os::unix::fs::FileExt::read_exact_at(&file, &mut text, 0).unwrap();
            String::from_utf8(text).unwrap()
        };
        assert!(expected.ends_with('\n') && expected.len() < ROOM as usize);
        assert_eq!(text(), expected);
        write_lines(100);
        assert_eq!(text(), expected, "lines after the end");
    }
}
