//! `weft capture`: writes the packets of a running fabric's hosts into a capture file, as ibdump and tcpdump do.

use std::fs::File;
use std::io::{BufWriter, ErrorKind, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Args;
use rustix::process::Signal;
use weft_ipc::{Capture, Captured, Client, RequestError, Spawn};
use weft_sys::epoll::{Epoll, Interest};
use weft_sys::signals::SignalQueue;
use weft_tool::fabric::{finish, session, spell};
use weft_wire::pcapng::{self, Direction};

/// Name of the interface in the file.
const INTERFACE: &str = "fabric";

/// Packets between two looks at the signals and the clock.
const PACKETS_PER_TURN: u32 = 256;

/// Options of `weft capture`.
#[derive(Args, Debug)]
pub struct CaptureArgs {
    /// Capture at the adapters of this host; repeat it for several [default: all hosts]
    #[arg(long, value_name = "HOST")]
    host: Vec<String>,
    /// Write pcapng to this file; - is the standard output [default: the standard output, unless it is a terminal]
    #[arg(short, long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// End after this many seconds
    #[arg(long, value_name = "N")]
    seconds: Option<u32>,
    /// End after this many packets
    #[arg(short, long, value_name = "N")]
    count: Option<u64>,
}

/// Runs the command.
pub fn run(args: &CaptureArgs) -> ExitCode {
    finish("weft capture", capture(args))
}

/// Why a capture ended, and what it had.
#[derive(Default)]
struct Tally {
    captured: u64,
    dropped: u64,
}

fn capture(args: &CaptureArgs) -> Result<(), String> {
    let to_stdout = args.write.as_ref().is_none_or(|file| file.as_os_str() == "-");
    if to_stdout && std::io::stdout().is_terminal() {
        return Err("a terminal cannot show packets: name a file with -w FILE, or pipe to `tshark -r -`".to_owned());
    }
    let signals = SignalQueue::new(&[Signal::INT.as_raw(), Signal::TERM.as_raw()]).map_err(|e| e.to_string())?;
    let mut client = session(Spawn::Never)?;
    let mut packets = client.capture(&args.host).map_err(spell)?;
    let mut out: Box<dyn Write> = match &args.write {
        Some(file) if !to_stdout => {
            Box::new(File::create(file).map_err(|e| format!("cannot write {}: {e}", file.display()))?)
        }
        _ => Box::new(std::io::stdout()),
    };
    let mut tally = Tally::default();
    let written = write(args, &mut client, &mut packets, &signals, &mut BufWriter::new(&mut out), &mut tally);
    match written {
        // The program at the other end of the pipe has seen enough.
        Err(error) if to_stdout && error.kind() == ErrorKind::BrokenPipe => {}
        other => other.map_err(|error| format!("cannot write the capture: {error}"))?,
    }
    let plural = if tally.captured == 1 { "" } else { "s" };
    crate::errln!("{} packet{plural} captured, {} dropped by the daemon", tally.captured, tally.dropped);
    Ok(())
}

/// Writes packets until something ends the capture.
fn write(
    args: &CaptureArgs,
    client: &mut Client,
    packets: &mut Capture,
    signals: &SignalQueue,
    out: &mut impl Write,
    tally: &mut Tally,
) -> std::io::Result<()> {
    let until = args.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds.into()));
    let mut ends_at = Ends { most: args.count.unwrap_or(u64::MAX), last_ns: None };
    let epoll = Epoll::new()?;
    epoll.add(&*packets, 0, Interest::READ)?;
    epoll.add(signals, 1, Interest::READ)?;
    let mut block = Vec::new();
    pcapng::put_header(&mut block, INTERFACE, pcapng::LINKTYPE_ERF);
    out.write_all(&block)?;
    out.flush()?;
    crate::errln!("capturing until it is interrupted, or the fabric goes down");
    while tally.captured < ends_at.most {
        let ends = signals.take().is_some() || until.is_some_and(|until| Instant::now() >= until);
        if ends && ends_at.last_ns.is_none() {
            ends_at.last_ns = Some(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64);
            // The file has all that hosts sent and received before the end. If the daemon has ended, it wrote all.
            let _ = client.await_captured();
        }
        match take(packets, out, tally, &ends_at)? {
            Taken::End => break,
            Taken::More => {}
            Taken::Nothing if ends_at.last_ns.is_some() => break,
            Taken::Nothing => {
                out.flush()?;
                let left = until.map(|until| until.saturating_duration_since(Instant::now()));
                epoll.wait(&mut Vec::new(), left)?;
            }
        }
    }
    out.flush()
}

/// Where a capture ends, unless the fabric ends before.
struct Ends {
    /// Number of packets.
    most: u64,
    /// Moment of the signal, or of the end of the time asked for, in nanoseconds since the epoch, once it is there.
    last_ns: Option<u64>,
}

enum Taken {
    /// There may be more now.
    More,
    /// There is none for now.
    Nothing,
    /// There will be none that the capture wants: the fabric has ended, or they are later than the capture's last moment.
    End,
}

/// Writes the packets that are there and that the capture wants.
fn take(packets: &mut Capture, out: &mut impl Write, tally: &mut Tally, ends_at: &Ends) -> std::io::Result<Taken> {
    let (mut record, mut block) = (Vec::new(), Vec::new());
    for _ in 0..PACKETS_PER_TURN {
        if tally.captured >= ends_at.most {
            return Ok(Taken::More);
        }
        match packets.take() {
            Ok(Some(Captured::Packet { time_ns, .. })) if ends_at.last_ns.is_some_and(|last_ns| time_ns > last_ns) => {
                return Ok(Taken::End);
            }
            Ok(Some(Captured::Packet { time_ns, sent, packet })) => {
                record.clear();
                block.clear();
                pcapng::put_infiniband(&mut record, time_ns, &packet);
                let direction = if sent { Direction::Outbound } else { Direction::Inbound };
                pcapng::put_packet(&mut block, time_ns, direction, &record);
                out.write_all(&block)?;
                tally.captured += 1;
            }
            Ok(Some(Captured::Dropped(number))) => tally.dropped = tally.dropped.saturating_add(number),
            Ok(None) => return Ok(Taken::Nothing),
            Err(RequestError::Disconnected) => return Ok(Taken::End),
            Err(error) => return Err(std::io::Error::other(error.to_string())),
        }
    }
    Ok(Taken::More)
}
