//! The two ends of a session: a server that handles requests one after another, and a client with one request.

use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use weft_abi_types::IBV_QPT_RC;

use super::control::{Control, Failure, Result};
use super::options::Settings;
use super::params::{ID, STATIC_RATE, Side};
use super::results::Results;
use super::run::Run;
use super::tests_table::{Kind, Pattern, TESTS, TestEntry};
use super::view::View;
use super::wire::{Conf, Number, Request, VERSION};
use super::{conf, rdma, sockets};
use crate::outln;
use crate::output::print;
use weft_client::Which;

/// Default timeout of a message, in seconds.
const TIMEOUT_S: u32 = 5;
/// Default duration of a test, in seconds.
const TIME_S: u32 = 2;

fn which(settings: &Settings) -> Which {
    if settings.system { Which::System } else { Which::Ours }
}

/// Serves requests until a client sends "quit".
pub fn serve(settings: &Settings) -> std::result::Result<(), String> {
    let port = settings.listen_port;
    let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))
        .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)))
        .map_err(|_| "unable to bind to listen port".to_owned())?;
    let own = settings.params.number(Side::Local, Number::Timeout);
    let timeout = Duration::from_secs(if own > 0 { own } else { TIMEOUT_S }.into());
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(e) => {
                outln!("accept failed: {}", crate::errno::text(&e));
                continue;
            }
        };
        let mut control = Control::new(stream, "client", timeout);
        let request = match take_request(&mut control) {
            Ok(request) => request,
            Err(failure) => {
                report(&failure, &control);
                continue;
            }
        };
        let seconds = request.number(Number::Timeout);
        control.timeout = Duration::from_secs(if seconds > 0 { seconds } else { TIMEOUT_S }.into());
        let mut run = Run::new(control, request, false, which(settings));
        match answer(&mut run) {
            Ok(false) => {}
            Ok(true) => return Ok(()),
            Err(failure) => report(&failure, &run.control),
        }
    }
}

fn take_request(control: &mut Control) -> Result<Request> {
    let head: [u8; 6] = control.recv("request version")?;
    let theirs: [u16; 3] = std::array::from_fn(|i| u16::from_le_bytes([head[2 * i], head[2 * i + 1]]));
    if theirs[..2] != VERSION[..2] {
        let (low, from, to) = if theirs < VERSION { ("client", theirs, VERSION) } else { ("server", VERSION, theirs) };
        let text = |[major, minor, increment]: [u16; 3]| format!("{major}.{minor}.{increment}");
        return Err(Failure::Ours(format!("upgrade qperf on {low} from {} to {}", text(from), text(to))));
    }
    let rest: [u8; Request::LEN - 6] = control.recv("request data")?;
    let mut bytes = [0; Request::LEN];
    bytes[..6].copy_from_slice(&head);
    bytes[6..].copy_from_slice(&rest);
    Ok(Request::decode(&bytes))
}

/// Does the server's part of a request; returns whether it was "quit".
fn answer(run: &mut Run) -> Result<bool> {
    let index = run.request.test;
    let test = TESTS.get(usize::from(index)).ok_or_else(|| format!("bad request index: {index}"))?;
    match test.kind {
        Kind::Conf => run.control.send(&conf::here().encode(), "configuration")?,
        Kind::Quit => {
            run.sync()?;
            // The client closes the connection first.
            let _ = run.control.recv::<1>("end");
            return Ok(true);
        }
        _ => measure(run, test).map(drop)?,
    }
    Ok(false)
}

/// Runs a test on either side. Its resources close only after the other side has its results.
fn measure(run: &mut Run, test: &TestEntry) -> Result<Option<super::wire::Stat>> {
    match test.kind {
        Kind::Tcp { latency: false } => sockets::tcp_bandwidth(run)?,
        Kind::Tcp { latency: true } => sockets::tcp_latency(run)?,
        Kind::Udp { latency: false } => sockets::udp_bandwidth(run)?,
        Kind::Udp { latency: true } => sockets::udp_latency(run)?,
        Kind::Rdma(transport, pattern) => return rdma::measure(run, transport, pattern),
        _ => return Err(Failure::Ours(format!("{}: this qperf has no such test", test.name))),
    }
    run.exchange()
}

/// Prints a failure of this side and reports it to the peer.
fn report(failure: &Failure, control: &Control) {
    match failure {
        Failure::Ours(text) => {
            outln!("{text}");
            control.tell(&format!("{text}\n"));
        }
        Failure::Told(text) => outln!("{text}"),
        Failure::Theirs(_) => {}
    }
}

/// Sends a test request to the server and shows the results.
pub fn ask(settings: &mut Settings, test: &'static TestEntry) -> std::result::Result<(), String> {
    prepare(settings, test);
    outln!("{}:", test.name);
    if !test.is_known() {
        return Err(format!("{}: this qperf has no such test", test.name));
    }
    for option in settings.params.unused() {
        outln!("warning: {option} set but not used in test {}", test.name);
    }
    let stream = connect(settings)?;
    let own = settings.params.request(Side::Local, test.index());
    let timeout = Duration::from_secs(own.number(Number::Timeout).into());
    let mut run = Run::new(Control::new(stream, "server", timeout), own, true, which(settings));
    let asked = settings.params.request(Side::Remote, test.index());
    match perform(settings, test, &mut run, &asked) {
        Ok(text) => {
            print(&text);
            Ok(())
        }
        Err(Failure::Ours(text)) => {
            run.control.tell(&format!("{text}\n"));
            Err(text)
        }
        Err(Failure::Told(text) | Failure::Theirs(text)) => Err(text),
    }
}

fn perform(settings: &Settings, test: &TestEntry, run: &mut Run, asked: &Request) -> Result<String> {
    run.control.send(&asked.encode(), "request data")?;
    let mut view = View::new(&settings.style);
    match test.kind {
        Kind::Conf => {
            let theirs = Conf::decode(&run.control.recv("configuration")?);
            for (side, conf) in [("loc", conf::here()), ("rem", theirs)] {
                for (name, text) in ["node", "cpu", "os", "qperf"].iter().zip(&conf.0) {
                    view.text(&format!("{side}_{name}"), text);
                }
            }
        }
        Kind::Quit => run.sync()?,
        _ => {
            let theirs = measure(run, test)?.unwrap_or_default();
            let style = &settings.style;
            let results = Results::new(run.stat, theirs);
            results.show(&mut view, test.measure(), &settings.params, style.used, style.unify_nodes);
        }
    }
    Ok(view.finish())
}

/// Sets the test's defaults for parameters that the user has not set.
fn prepare(settings: &mut Settings, test: &TestEntry) {
    let params = &mut settings.params;
    params.begin();
    let by_count = [Side::Local, Side::Remote].iter().any(|side| params.is_set(*side, Number::NoMsgs));
    if !by_count {
        params.default_both(Number::Time, TIME_S);
    }
    params.default_both(Number::Timeout, TIMEOUT_S);
    params.use_both(Number::Affinity as usize);
    params.use_both(Number::Time as usize);
    if matches!(test.kind, Kind::Conf | Kind::Quit | Kind::Unknown) {
        return;
    }
    params.default_both(Number::MsgSize, test.default_size());
    if !matches!(test.measure(), super::results::Measure::Latency) {
        params.use_both(Number::AccessRecv as usize);
    }
    let Kind::Rdma(transport, pattern) = test.kind else {
        params.use_both(Number::Port as usize);
        params.use_both(Number::SockBufSize as usize);
        return;
    };
    if pattern == Pattern::Bandwidth {
        params.use_both(Number::NoMsgs as usize);
    }
    params.use_both(Number::PollMode as usize);
    match transport == IBV_QPT_RC {
        true => params.use_both(Number::UseCm as usize),
        false => params.force_both(Number::UseCm, 0),
    }
    if params.number(Side::Local, Number::UseCm) == 0 {
        params.default_both(Number::MtuSize, 2048);
        for param in [ID, STATIC_RATE, Number::Sl as usize, Number::SrcPathBits as usize] {
            params.use_both(param);
        }
    }
}

fn connect(settings: &Settings) -> std::result::Result<TcpStream, String> {
    let host = settings.host.as_deref().unwrap_or_default();
    let end = Instant::now() + Duration::from_secs(settings.wait_server.into());
    loop {
        let found = (host, settings.listen_port).to_socket_addrs();
        let addrs: Vec<_> = found.map_err(|e| format!("getaddrinfo failed: {e}"))?.collect();
        if let Ok(stream) = TcpStream::connect(&addrs[..]) {
            return Ok(stream);
        }
        if Instant::now() >= end {
            return Err(format!("{host}: failed to connect"));
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}
