//! Connecting to the daemon: connect, start one if none runs, exchange hellos. Many programs may do this at once: each
//! one that finds no listener starts a daemon, the kernel gives one of them the name, and the others exit.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use weft_sys::unix::{self, Wait};

use crate::codec::encode;
use crate::ethernet::{ETHERNET_SOCKET_NAME, ETHERNET_VARIABLE};
use crate::hello::{Hello, HelloReply, HelloStatus, Purpose};
use crate::limits::HELLO_REPLY_BYTES_MAX;
use crate::{ClientFrame, ConnectError, Request, SOCKET_NAME, executable};

/// Whether to start a daemon if none runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Spawn {
    /// Start one.
    #[default]
    IfNeeded,
    /// Fail with [`ConnectError::NotRunning`].
    Never,
}

/// How to reach the daemon.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// Name of this program for `weft status`.
    pub program: String,
    /// Directory that the shared library was loaded from; the program `weft` may be near it.
    pub library_dir: Option<PathBuf>,
    /// Whether to start a daemon if none runs.
    pub spawn: Spawn,
    /// How long to wait for a started daemon to answer.
    pub timeout: Duration,
    /// Extra arguments for `weft daemon`.
    pub daemon_args: Vec<String>,
    /// Virtual host that this program runs as; empty for the machine itself.
    pub host: String,
    /// Faults that this program requests; empty for none.
    pub fault: String,
    /// Abstract name to connect to; only tests change it.
    pub socket_name: String,
}

/// Environment variable that names the virtual host a program runs as; `weft run --host` sets it.
pub const HOST_VARIABLE: &str = "WEFT_HOST";

/// Program name of the sessions that the keeper of a view (the process of `weft run` that updates its files) has with the
/// daemon. Lists of the user's programs leave it out.
pub const VIEW_KEEPER: &str = "weft run (view)";

/// Least time to wait for a daemon's answer, so that one that came in time is read after the deadline, too.
const ANSWERS_WITHIN_MIN: Duration = Duration::from_millis(1);

/// Environment variable with the faults that a program requests.
const FAULT_VARIABLE: &str = "WEFT_FAULT";

impl Default for ConnectOptions {
    fn default() -> ConnectOptions {
        let program = std::env::current_exe()
            .ok()
            .and_then(|exe| Some(exe.file_name()?.to_string_lossy().into_owned()))
            .unwrap_or_else(|| "?".to_owned());
        ConnectOptions {
            program,
            library_dir: None,
            spawn: Spawn::IfNeeded,
            timeout: ANSWERS_WITHIN,
            daemon_args: Vec::new(),
            host: std::env::var(HOST_VARIABLE).unwrap_or_default(),
            fault: std::env::var(FAULT_VARIABLE).unwrap_or_default(),
            socket_name: SOCKET_NAME.to_owned(),
        }
    }
}

/// How long a daemon may take to start and to answer: if hundreds of programs share a processor, each waits its turn.
const ANSWERS_WITHIN: Duration = Duration::from_secs(60);

/// Time between two attempts to start a daemon within one connect.
const SPAWN_INTERVAL: Duration = Duration::from_secs(1);

/// Longest sleep between two attempts to connect.
const RETRY_INTERVAL_MAX: Duration = Duration::from_millis(40);

/// Environment variables that this process passes to a daemon. LD_PRELOAD and LD_LIBRARY_PATH, which `weft run` sets,
/// must not be among them, nor the faults that this program requests: the hello carries those, for this program alone.
/// A program that gained rights by being executed passes none, since the daemon would gain those rights too.
const DAEMON_ENVIRONMENT: [&str; 3] = ["PATH", "RUST_BACKTRACE", "WEFT_DAEMON_LOG"];

/// Connects and exchanges hellos; starts a daemon if the options allow it and the program runs as no virtual host.
pub(crate) fn establish(options: &ConnectOptions) -> Result<OwnedFd, ConnectError> {
    let start = Instant::now();
    let deadline = start + options.timeout;
    let mut spawned: Option<Instant> = None;
    let mut pause = Duration::from_millis(1);
    loop {
        match attempt(options, deadline) {
            Ok(fd) => return Ok(fd),
            Err(Failure::Final(error)) => return Err(error),
            Err(Failure::NobodyThere) if options.spawn == Spawn::Never => return Err(ConnectError::NotRunning),
            // A fabric ends with its daemon, and a new one has no such host. In the host's network namespace it would keep
            // that alive, too.
            Err(Failure::NobodyThere) if !options.host.is_empty() => return Err(no_host(&options.host)),
            Err(Failure::NobodyThere) => {
                if spawned.is_none_or(|at| at.elapsed() >= SPAWN_INTERVAL) {
                    if let Some(host) = dead_ethernet_host() {
                        return Err(no_host(&host));
                    }
                    start_daemon(options)?;
                    spawned = Some(Instant::now());
                    pause = Duration::from_millis(1);
                }
            }
            // The daemon left during the hello, or is too busy to accept the connection.
            Err(Failure::Retry) => {}
        }
        if Instant::now() >= deadline {
            return Err(ConnectError::TimedOut { seconds: options.timeout.as_secs() });
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(RETRY_INTERVAL_MAX);
    }
}

/// Returns the Ethernet host that the program runs on, if its network is down: the machine's daemon listens there otherwise.
fn dead_ethernet_host() -> Option<String> {
    let host = std::env::var(ETHERNET_VARIABLE).ok().filter(|host| !host.is_empty())?;
    let gone = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    unix::connect_abstract(ETHERNET_SOCKET_NAME).is_err_and(gone).then_some(host)
}

fn no_host(host: &str) -> ConnectError {
    ConnectError::NoHost(format!(
        "no host {host}, for no fabric is up in this network namespace: bring one up with `weft up`"
    ))
}

enum Failure {
    NobodyThere,
    Retry,
    Final(ConnectError),
}

fn attempt(options: &ConnectOptions, deadline: Instant) -> Result<OwnedFd, Failure> {
    let fd = match unix::connect_abstract(&options.socket_name) {
        Ok(fd) => fd,
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Err(Failure::NobodyThere),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(Failure::Retry),
        Err(error) => return Err(Failure::Final(error.into())),
    };
    let hello = Hello::new(Purpose::Session, &options.program).with_host(&options.host).with_fault(&options.fault);
    let reply = greet(&fd, &hello, deadline)?;
    match reply.status {
        HelloStatus::Welcome => Ok(fd),
        HelloStatus::OtherVersion => Err(Failure::Final(ConnectError::other_version(reply.protocol))),
        HelloStatus::Refused => Err(Failure::Final(ConnectError::Refused(reply.text))),
        HelloStatus::NoHost => Err(Failure::Final(ConnectError::NoHost(reply.text))),
        HelloStatus::Stopping => Err(Failure::Retry),
    }
}

fn greet(fd: &OwnedFd, hello: &Hello, deadline: Instant) -> Result<HelloReply, Failure> {
    send_hello(fd, hello)?;
    receive_reply(fd, deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(100)))
}

fn gone(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::WouldBlock => Failure::Retry,
        _ => Failure::Final(error.into()),
    }
}

fn send_hello(fd: &OwnedFd, hello: &Hello) -> Result<(), Failure> {
    let sent = unix::send(fd, &hello.encode(), &[], Wait::No);
    // A daemon out of descriptors answers before it reads the hello, and closes.
    if !matches!(&sent, Err(error) if error.kind() == io::ErrorKind::BrokenPipe) {
        sent.map_err(gone)?;
    }
    Ok(())
}

fn receive_reply(fd: &OwnedFd, within: Duration) -> Result<HelloReply, Failure> {
    unix::set_receive_timeout(fd, within).map_err(gone)?;
    let mut buffer = [0; HELLO_REPLY_BYTES_MAX];
    let received = unix::recv(fd, &mut buffer, 0, Wait::Block).map_err(gone)?;
    let bytes = buffer.get(..received.len).unwrap_or_default();
    if bytes.is_empty() {
        return Err(Failure::Retry);
    }
    HelloReply::decode(bytes).ok_or(Failure::Final(ConnectError::NotADaemon))
}

fn start_daemon(options: &ConnectOptions) -> Result<(), ConnectError> {
    let program =
        executable::find(options.library_dir.as_deref()).map_err(|looked| ConnectError::NoExecutable { looked })?;
    let own = [program.as_os_str(), OsStr::new("daemon")];
    let args: Vec<&OsStr> = own.into_iter().chain(options.daemon_args.iter().map(OsStr::new)).collect();
    let passed = if weft_sys::process::gained_privilege() { &[][..] } else { &DAEMON_ENVIRONMENT[..] };
    let environment: Vec<_> =
        passed.iter().filter_map(|&name| Some((OsStr::new(name), std::env::var_os(name)?))).collect();
    let environment: Vec<_> = environment.iter().map(|(name, value)| (*name, value.as_os_str())).collect();
    weft_sys::spawn::spawn_detached(&program, &args, &environment)
        .map_err(|error| ConnectError::SpawnFailed { program: program.display().to_string(), error })
}

/// Returns whether a daemon of any version serves the name. A dying daemon may still accept connections but sends no
/// hello.
pub fn is_served(socket_name: &str, timeout: Duration) -> bool {
    let options = ConnectOptions {
        program: String::new(),
        library_dir: None,
        spawn: Spawn::Never,
        timeout,
        daemon_args: Vec::new(),
        host: String::new(),
        fault: String::new(),
        socket_name: socket_name.to_owned(),
    };
    !matches!(establish(&options), Err(ConnectError::NotRunning))
}

/// Hands the running daemon the sockets of a dead one, for processes that cannot: those of users whom the dead daemon
/// did not trust with all sockets. Offers them only to a daemon of root or of this process's user.
pub fn offer_anchor(options: &ConnectOptions, anchor: BorrowedFd<'_>) -> Result<(), ConnectError> {
    let fd = establish(&ConnectOptions { spawn: Spawn::Never, ..options.clone() })?;
    let daemon = unix::peer_credentials(&fd)?;
    if daemon.uid != 0 && daemon.uid != weft_sys::process::euid() {
        return Err(ConnectError::Refused(format!("it runs as user {}", daemon.uid)));
    }
    // No process can reclaim slot 0: the daemon takes the sockets over, then refuses.
    let request = Request::Reattach { slot: 0, groups: Vec::new() };
    let bytes = encode(&ClientFrame { id: 1, request }).map_err(|_| ConnectError::NotADaemon)?;
    unix::send(&fd, &bytes, &[anchor, anchor], Wait::Block)?;
    unix::recv(&fd, &mut [0; HELLO_REPLY_BYTES_MAX], 0, Wait::Block)?;
    Ok(())
}

/// Stops the daemon, of whatever version; returns true if one ran. Programs that use it start another.
pub fn stop_daemon(options: &ConnectOptions) -> Result<bool, ConnectError> {
    let deadline = Instant::now() + options.timeout;
    let stopping = request_stop(options)?;
    stopping.map_or(Ok(false), |stopping| stopping.wait(deadline).map(|()| true))
}

/// A daemon that was asked to stop.
#[derive(Debug)]
pub struct StoppingDaemon {
    fd: OwnedFd,
    timeout: Duration,
}

/// Asks the daemon to stop, without waiting for its answer; `None` if none runs.
pub fn request_stop(options: &ConnectOptions) -> Result<Option<StoppingDaemon>, ConnectError> {
    let fd = match unix::connect_abstract(&options.socket_name) {
        Ok(fd) => fd,
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let stopping = StoppingDaemon { fd, timeout: options.timeout };
    match send_hello(&stopping.fd, &Hello::new(Purpose::Stop, &options.program)) {
        Ok(()) => Ok(Some(stopping)),
        Err(failure) => Err(stopping.error(failure)),
    }
}

impl StoppingDaemon {
    /// Waits for its answer.
    pub fn wait(self, deadline: Instant) -> Result<(), ConnectError> {
        let left = deadline.saturating_duration_since(Instant::now()).max(ANSWERS_WITHIN_MIN);
        let reply = receive_reply(&self.fd, left).map_err(|failure| self.error(failure))?;
        match reply.status {
            HelloStatus::Stopping => Ok(()),
            HelloStatus::OtherVersion => Err(ConnectError::other_version(reply.protocol)),
            HelloStatus::Refused | HelloStatus::NoHost | HelloStatus::Welcome => Err(ConnectError::Refused(reply.text)),
        }
    }

    fn error(&self, failure: Failure) -> ConnectError {
        match failure {
            Failure::Final(error) => error,
            Failure::NobodyThere | Failure::Retry => ConnectError::TimedOut { seconds: self.timeout.as_secs() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A daemon that answers the first hello after some time, or never.
    fn serve(name: String, answers_after: Option<Duration>) -> std::thread::JoinHandle<()> {
        let listener = unix::listen_abstract(&name, 1).unwrap();
        std::thread::spawn(move || {
            let fd = loop {
                match unix::accept(&listener) {
                    Ok(fd) => break fd,
                    Err(_) => std::thread::sleep(Duration::from_millis(1)),
                }
            };
            if let Some(after) = answers_after {
                std::thread::sleep(after);
                let reply = HelloReply::new(HelloStatus::Stopping, "").encode();
                unix::send(&fd, &reply, &[], Wait::Block).unwrap();
            }
            // It stays connected as long as the client.
            let is_over = || match unix::recv(&fd, &mut [0; HELLO_REPLY_BYTES_MAX], 0, Wait::No) {
                Ok(received) => received.len == 0,
                Err(error) => error.kind() != io::ErrorKind::WouldBlock,
            };
            while !is_over() {
                std::thread::sleep(Duration::from_millis(1));
            }
        })
    }

    #[test]
    fn daemons_stop_at_the_same_time_with_one_deadline() {
        let (answer, limit) = (Duration::from_millis(200), Duration::from_millis(700));
        let name = |number: u32| format!("weft-stop-{}-{number}", std::process::id());
        let daemons: Vec<_> = (0..8).map(|number| serve(name(number), (number < 6).then_some(answer))).collect();
        let options = |number| ConnectOptions {
            program: "weft".to_owned(),
            spawn: Spawn::Never,
            timeout: limit,
            socket_name: name(number),
            ..ConnectOptions::default()
        };
        let start = Instant::now();
        let stopping: Vec<_> = (0..8).map(|number| request_stop(&options(number)).unwrap().unwrap()).collect();
        assert!(request_stop(&options(8)).unwrap().is_none());
        let answers: Vec<bool> = stopping.into_iter().map(|daemon| daemon.wait(start + limit).is_ok()).collect();
        assert_eq!(answers, [true, true, true, true, true, true, false, false]);
        let took = start.elapsed();
        assert!((limit..6 * answer).contains(&took), "one after another: {took:?}");
        daemons.into_iter().for_each(|daemon| daemon.join().unwrap());
    }
}
