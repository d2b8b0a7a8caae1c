//! Traces of events, line by line, for debugging and for `weft fault run`: `WEFT_TRACE=stderr`, `WEFT_TRACE=FILE` or
//! `WEFT_TRACE=unix:SOCKET`, then a comma and an optional filter; several with semicolons between them. While off, which
//! is nearly always, they cost one branch on [`on`] at each of the few trace points. Changes inside a queue pair's state
//! machines show by comparison with its previous state, which only happens while they are on.

mod observe;
mod sink;
mod socket;
mod spec;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use weft_transport::{RxPacket, TxBatch};
use weft_verbs::{Event, Instant, Wc};
use weft_wire::{Bth, Opcode};
use zerocopy::FromBytes as _;

use crate::error::EngineError;
use observe::Observer;
use sink::Sink;
pub use spec::Kind;
use spec::Spec;

static ON: AtomicBool = AtomicBool::new(false);
static TRACE: Mutex<Option<Trace>> = Mutex::new(None);

/// Whether the trace is on.
#[inline(always)]
pub fn on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Starts the traces that `WEFT_TRACE` requests; an empty text is off.
///
/// # Errors
/// The text does not parse, or a file cannot be written.
pub fn start(text: &str) -> Result<(), EngineError> {
    if text.is_empty() {
        return Ok(());
    }
    let specs = Spec::parse_all(text).map_err(|error| EngineError::new(EngineError::EINVAL, error))?;
    let sinks = specs.into_iter().map(Sink::open).collect::<Result<Vec<Sink>, EngineError>>()?;
    // In a forked child, a thread that no longer exists may hold the lock for ever.
    if let Some(mut trace) = TRACE.try_lock() {
        let started = trace.insert(Trace { sinks, observer: Observer::default() });
        ON.store(started.is_open(), Ordering::Relaxed);
    }
    Ok(())
}

/// Writes the buffered lines.
pub fn flush() {
    if on()
        && let Some(trace) = TRACE.lock().as_mut()
    {
        trace.sinks.iter_mut().for_each(Sink::flush);
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
        trace.deliver();
    }
}

/// Traces an event of a turn or call, at whose end [`observe`] delivers the lines.
fn collect(now: Instant, kind: Kind, qpn: Option<u32>, text: fmt::Arguments<'_>) {
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
        Some(dest) => collect(
            now,
            Kind::Packet,
            Some(qpn),
            format_args!("way={way} dest=0x{dest:06x} opcode={opcode} psn={psn} bytes={bytes}{ack}"),
        ),
        None => collect(
            now,
            Kind::Packet,
            Some(qpn),
            format_args!("way={way} opcode={opcode} psn={psn} bytes={bytes}{ack}"),
        ),
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
        collect(
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

/// Compares the queue pairs with their previous states, at the end of each call and turn.
#[cold]
pub fn observe(now: Instant, qps: impl Iterator<Item = weft_hca::QpSummary>) {
    let mut guard = TRACE.lock();
    let Some(trace) = guard.as_mut() else { return };
    let mut observer = std::mem::take(&mut trace.observer);
    observer.look(qps, &mut |kind, qpn, text| trace.line(now, kind, Some(qpn), text));
    trace.observer = observer;
    trace.deliver();
}

struct Trace {
    sinks: Vec<Sink>,
    observer: Observer,
}

impl Trace {
    fn line(&mut self, now: Instant, kind: Kind, qpn: Option<u32>, text: fmt::Arguments<'_>) {
        for sink in &mut self.sinks {
            sink.line(now, kind, qpn, text);
        }
    }

    /// Sends readers of sockets their lines. A trace whose readers have all left is off again.
    fn deliver(&mut self) {
        self.sinks.iter_mut().for_each(Sink::deliver);
        if !self.is_open() {
            ON.store(false, Ordering::Relaxed);
        }
    }

    fn is_open(&self) -> bool {
        self.sinks.iter().any(Sink::is_open)
    }
}
