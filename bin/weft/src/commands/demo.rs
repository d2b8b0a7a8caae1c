//! `weft demo`: shows within seconds that RDMA works on this machine, with two processes that exchange real packets.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use weft_ipc::DeviceInfo;
use weft_verbs_tools::devinfo::gid_text;

use crate::output::print;
use crate::perf::{self, Case, Metric, Operation, PerfArgs, Transport};

/// Options of `weft demo`.
#[derive(Args, Debug)]
pub struct DemoArgs {
    /// Seconds for each measurement
    #[arg(long, default_value_t = 0.5, hide = true)]
    seconds: f64,
}

/// Messages of the first part, in each direction.
const MESSAGES: u32 = 1000;
/// Time limit of the first part.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs the command.
pub fn run(args: &DemoArgs) -> ExitCode {
    match show(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            crate::errln!("weft demo: {message}");
            ExitCode::FAILURE
        }
    }
}

fn show(args: &DemoArgs) -> Result<(), String> {
    print(&format!("Weft {}: RDMA without the hardware\n\n", env!("CARGO_PKG_VERSION")));
    // Locates (and if needed builds) the libraries once, before several processes need them.
    crate::rdma_dir::find().map_err(|e| format!("{e:#}"))?;
    let devices = super::connect()
        .map_err(|e| e.to_string())
        .and_then(|mut client| client.list_devices().map_err(|e| e.to_string()))?;
    if devices.is_empty() {
        return Err("no interface of this machine has an address, so there is no device".to_owned());
    }
    print("Devices\n");
    for device in &devices {
        print(&device_line(device));
    }
    let device = &devices[0].name;
    packets(device)?;
    speed(device, args.seconds)?;
    print(
        "\nRun your own program on these devices:  weft run -- ib_write_bw\n\
         See them as programs do:                weft ibv_devinfo -v\n",
    );
    Ok(())
}

fn device_line(device: &DeviceInfo) -> String {
    let gid = device.gids.first().map_or_else(|| "no GID".to_owned(), |row| format!("GID {}", gid_text(&row.gid)));
    format!("  {:<12} on {:<8} {gid}, path MTU {}\n", device.name, device.netdev, device.active_mtu)
}

/// The first part: two pingpong processes, one of which captures its packets.
fn packets(device: &str) -> Result<(), String> {
    let capture = Capture::new();
    let port = free_port()?;
    let tool = |extra: &[&str]| -> Result<Command, String> {
        let mut command = Command::new(std::env::current_exe().map_err(|e| e.to_string())?);
        command.args([
            "ibv_rc_pingpong",
            "-c",
            "-e",
            "-d",
            device,
            "-n",
            &MESSAGES.to_string(),
            "-p",
            &port.to_string(),
        ]);
        command.args(extra).env("WEFT_LOOPBACK", "wire").stdin(Stdio::null());
        Ok(command)
    };
    let start = |command: &mut Command| command.spawn().map_err(|e| format!("cannot start ibv_rc_pingpong: {e}"));
    let mut server = start(tool(&[])?.stdout(Stdio::piped()))?;
    await_listener(port);
    let client = start(tool(&[weft_verbs_tools::THIS_MACHINE])?.env("WEFT_PCAP", &capture.0).stdout(Stdio::piped()))?;
    let (client_pid, server_pid) = (client.id(), server.id());
    let client = client.wait_with_output().map_err(|e| e.to_string())?;
    if !client.status.success() {
        let _ = server.kill();
        let _ = server.wait();
        return Err("the client's ibv_rc_pingpong failed".to_owned());
    }
    let server = server.wait_with_output().map_err(|e| e.to_string())?;
    let said = String::from_utf8_lossy(&server.stdout).into_owned();
    if !server.status.success() || said.contains("invalid data") {
        return Err(format!("the server's ibv_rc_pingpong failed: {said}"));
    }
    print(&format!(
        "\nProcess {client_pid} sends {MESSAGES} messages to process {server_pid} and gets them back (ibv_rc_pingpong -c -e)\n"
    ));
    for line in String::from_utf8_lossy(&client.stdout).lines() {
        print(&format!("  {}\n", line.trim()));
    }
    print(&match capture.count() {
        Some(count) => {
            format!("  {} RoCE v2 packets (UDP port 4791) left the client or reached it; the data was checked\n", count)
        }
        None => "  the data was checked\n".to_owned(),
    });
    Ok(())
}

/// The second part: bandwidth, latency and message rate.
fn speed(device: &str, seconds: f64) -> Result<(), String> {
    let case = |op, transport, metric, size| Case::new(op, transport, metric, size, seconds);
    let cases = [
        case(Operation::Send, Transport::Rc, Metric::Lat, 8),
        case(Operation::Write, Transport::Rc, Metric::Bw, 1 << 20),
        case(Operation::Read, Transport::Rc, Metric::Bw, 1 << 20),
        case(Operation::Send, Transport::Rc, Metric::Rate, 8),
        case(Operation::Atomic, Transport::Rc, Metric::Rate, 8),
    ];
    let args = PerfArgs::for_device(device);
    let measured = perf::measure_locally(&args, &cases)?;
    print("\nTwo processes, reliable connection, polling\n");
    for m in &measured {
        let (what, figure) = match (m.case.op, m.case.metric) {
            (_, Metric::Lat) => ("latency of an 8-byte SEND", format!("{:.2} us", m.latency_ns(0.5) as f64 / 1000.0)),
            (Operation::Write, _) => ("bandwidth of 1 MiB RDMA WRITEs", perf::bandwidth(m.bytes_per_second())),
            (Operation::Read, _) => ("bandwidth of 1 MiB RDMA READs", perf::bandwidth(m.bytes_per_second())),
            (Operation::Send, _) => ("rate of 8-byte SENDs", perf::rate(m.messages_per_second())),
            (Operation::Atomic, _) => ("rate of atomic additions", perf::rate(m.messages_per_second())),
        };
        print(&format!("  {what:<32} {figure:>12}\n"));
    }
    Ok(())
}

/// A free TCP port.
fn free_port() -> Result<u16, String> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).map_err(|e| e.to_string())?;
    listener.local_addr().map(|addr| addr.port()).map_err(|e| e.to_string())
}

/// Waits until a process listens on the TCP port. It does not connect, because the pingpong would take that for its
/// client.
fn await_listener(port: u16) {
    let wanted = format!(":{port:04X}");
    let listens = |file: &str| {
        let table = std::fs::read_to_string(file).unwrap_or_default();
        table.lines().any(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            matches!(fields.as_slice(), [_, local, _, "0A", ..] if local.ends_with(&wanted))
        })
    };
    let start = Instant::now();
    while start.elapsed() < PATIENCE && !listens("/proc/net/tcp6") && !listens("/proc/net/tcp") {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A capture file, removed when dropped.
struct Capture(PathBuf);

impl Capture {
    fn new() -> Capture {
        let name = format!("weft-demo-{}-{:x}.pcapng", std::process::id(), weft_sys::random::u64());
        Capture(std::env::temp_dir().join(name))
    }

    fn count(&self) -> Option<usize> {
        count_packets(&self.0).filter(|&n| n > 0)
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Number of packets in a capture file.
fn count_packets(file: &Path) -> Option<usize> {
    /// Block type of a packet.
    const ENHANCED_PACKET: u32 = 6;
    let bytes = std::fs::read(file).ok()?;
    let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let (mut at, mut count) = (0, 0);
    while let (Some(kind), Some(length)) = (word(at), word(at + 4)) {
        count += usize::from(kind == ENHANCED_PACKET);
        at = at.checked_add((length as usize).max(12))?;
    }
    Some(count)
}
