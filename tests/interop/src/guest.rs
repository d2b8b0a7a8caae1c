//! A guest: Debian's kernel with rdma_rxe or siw under QEMU, without KVM and without root, as an independent peer.
//!
//! [`Guest::boot`] takes seconds. Commands run in it one after another ([`Guest::run`]) or side by side
//! ([`Guest::start`]) over a virtio serial port (`channel`), where Weft's agent listens as the guest's first process.
//! Only the unpacked kernel is on disk: the initial file system and the console's log are in memory, and QEMU dies with
//! the thread that started it.

pub mod agent;
pub mod channel;
pub mod command;
mod control;
pub mod cpio;
pub mod driver;
pub mod image;
pub mod kernel;
pub mod machine;
pub mod modules;
pub mod siw;

pub use command::GuestProc;
pub use driver::Driver;
pub use image::Additions;

use crate::proc::Ended;
use anyhow::{Context, Result, bail};
use channel::Frame;
use command::Exchange;
use kernel::Kernel;
use machine::Lines;
use rustix::io::FdFlags;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

/// Network interface in the guest.
pub const INTERFACE: &str = "eth0";

/// Time limit of a boot, which takes two to five seconds, or many times that on a busy machine.
const BOOTS_WITHIN: Duration = Duration::from_secs(90);
/// Maximum number of boots: the emulator sometimes breaks a boot or makes it hang, because it races the kernel's
/// patching of its own code.
pub(crate) const BOOTS_MAX: u32 = 3;
/// Time limit of the tests' own commands in the guest.
const COMMAND_LIMIT: Duration = Duration::from_secs(60);
/// Bytes of the console shown when something fails.
const CONSOLE_TAIL: usize = 4096;

/// Environment in which a guest runs.
#[derive(Clone, Debug)]
pub struct Place {
    /// Command prefix that enters the namespace with the tap.
    pub enter: Vec<String>,
    /// Name of the tap.
    pub tap: String,
}

/// A running guest. Dropping it ends it.
#[derive(Debug)]
pub struct Guest {
    exchange: Arc<Exchange>,
    machine: Machine,
    driver: Driver,
    /// Package that its kernel came from.
    pub package: String,
}

/// Returns the reason why this machine cannot run a guest, if any.
pub fn obstacle() -> Option<String> {
    if !cfg!(target_arch = "x86_64") {
        return Some("the guest's programs are copied from the host, and its kernel is amd64's".into());
    }
    let mut missing = image::missing();
    missing.extend(
        [machine::QEMU, "dpkg-deb", "tar", "xz", "ldd", "setpriv"].iter().filter(|n| crate::skip::on_path(n).is_none()),
    );
    if !missing.is_empty() {
        return Some(format!("not installed: {}; `cargo xtask test` as root installs them", missing.join(", ")));
    }
    kernel::find().err().map(|error| format!("{error:#}"))
}

impl Guest {
    /// Boots a guest in `place`; `agent` is the `weft-guest` binary.
    pub fn boot(place: &Place, driver: Driver, agent: &Path) -> Result<Guest> {
        Guest::boot_with(place, driver, agent, Additions::default())
    }

    /// Boots a guest with additions to its image.
    pub fn boot_with(place: &Place, driver: Driver, agent: &Path, additions: Additions<'_>) -> Result<Guest> {
        let kernel = kernel::find()?;
        let archive = memory("initramfs", &image::build(&kernel, driver, agent, "", additions)?)?;
        let mut told = String::new();
        for _ in 0..BOOTS_MAX {
            let machine = Machine::start(place, &kernel, &archive)?;
            let exchange = machine.exchange.clone();
            if exchange.wait_ready(BOOTS_WITHIN) {
                return Ok(Guest { exchange, machine, driver, package: kernel.package });
            }
            told = machine.console_tail();
        }
        bail!("the guest did not boot, tried {BOOTS_MAX} times; its console said\n{told}")
    }

    /// Gives the guest's interface its addresses (with prefix lengths) and MTU, and creates the driver's device on it.
    pub fn configure(&self, addresses: &[&str], mtu: u32) -> Result<()> {
        self.run(&["sh", "-c", &setup(self.driver, addresses, mtu)])?.success().map(drop)
    }

    /// Starts a command.
    pub fn start(&self, words: &[&str]) -> GuestProc {
        self.exchange.start(words)
    }

    /// Runs a command to its end (a minute at most).
    pub fn run(&self, words: &[&str]) -> Result<Ended> {
        let ended = self.start(words).wait(COMMAND_LIMIT);
        if self.exchange.is_over() {
            bail!("the guest died; its console said\n{}", self.machine.console_tail());
        }
        Ok(ended)
    }

    /// Returns the whole console output.
    pub fn console(&self) -> String {
        self.machine.console_text()
    }

    /// Returns the process id of the command started in the place: QEMU.
    pub fn pid(&self) -> u32 {
        self.machine.child().id()
    }
}

/// Returns the shell script for [`Guest::configure`].
fn setup(driver: Driver, addresses: &[&str], mtu: u32) -> String {
    // Duplicate address detection would keep IPv6 silent for a second and a half.
    let mut script = format!(
        "set -e\necho 0 > /proc/sys/net/ipv6/conf/{INTERFACE}/accept_dad\nip link set lo up\n\
         ip link set {INTERFACE} mtu {mtu} up\n"
    );
    for address in addresses {
        script += &format!("ip addr add {address} dev {INTERFACE}\n");
    }
    script + &format!("rdma link add {} type {} netdev {INTERFACE}\n", driver.device(), driver.kind())
}

/// Boots a configured guest whose console is this process's terminal; `started` gets QEMU's process id. Returns the
/// shell's exit status, or `None` if the machine ended otherwise.
pub fn shell(
    place: &Place,
    driver: Driver,
    agent: &Path,
    addresses: &[&str],
    mtu: u32,
    started: impl FnOnce(u32),
) -> Result<Option<u8>> {
    let kernel = kernel::find()?;
    let archive = memory(
        "initramfs",
        &image::build(&kernel, driver, agent, &setup(driver, addresses, mtu), Additions::default())?,
    )?;
    let words = machine::words(&kernel, &path_of(&archive), &place.tap, Lines::Terminal);
    let mut child = spawn(&mut place.command(&words)?, &[&archive])?;
    started(child.id());
    let code = child.wait()?.code();
    // isa-debug-exit turns a written value into an odd exit status.
    Ok(code.filter(|code| code % 2 == 1 && *code > 1).and_then(|code| u8::try_from(code / 2).ok()))
}

impl Place {
    /// Builds the command so that QEMU dies with the thread that started it, however that ends.
    fn command(&self, words: &[String]) -> Result<Command> {
        let bond = ["setpriv", "--pdeathsig", "KILL", "--"].map(str::to_owned);
        let line: Vec<_> = self.enter.iter().chain(&bond).chain(words).collect();
        let (program, args) = line.split_first().context("an empty command")?;
        let mut command = Command::new(program);
        command.args(args);
        Ok(command)
    }
}

/// QEMU and the thread that reads from it.
#[derive(Debug)]
struct Machine {
    exchange: Arc<Exchange>,
    child: Arc<Mutex<Child>>,
    console: File,
    /// Error output of QEMU itself.
    errors: File,
    listener: Option<JoinHandle<()>>,
}

impl Machine {
    fn start(place: &Place, kernel: &Kernel, archive: &File) -> Result<Machine> {
        let (console, errors) = (memory("console", &[])?, memory("errors", &[])?);
        let inherited = [archive.try_clone()?, console.try_clone()?];
        let [archive, console_path] = inherited.each_ref().map(path_of);
        let lines = Lines::Control { console: &console_path };
        let words = machine::words(kernel, &archive, &place.tap, lines);
        let mut command = place.command(&words)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors.try_clone()?);
        let (tell, told) = mpsc::channel();
        // This thread must start QEMU, because QEMU dies with the thread that started it.
        let listener = std::thread::spawn(move || {
            let started = start(&mut command, &inherited).map(|(child, from_guest, exchange)| {
                let exchange = Arc::new(exchange);
                ((Arc::new(Mutex::new(child)), exchange.clone()), (from_guest, exchange))
            });
            match started {
                Ok((parts, (from_guest, exchange))) => {
                    let _ = tell.send(Ok(parts));
                    listen(from_guest, &exchange);
                }
                Err(error) => drop(tell.send(Err(error))),
            }
        });
        let (child, exchange) = told.recv().context("the thread that starts QEMU died")??;
        Ok(Machine { exchange, child, console, errors, listener: Some(listener) })
    }

    fn child(&self) -> std::sync::MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn console_text(&self) -> String {
        let text = |file: &File| {
            let mut bytes = vec![0; file.metadata().map_or(0, |m| m.len() as usize)];
            let len = file.read_at(&mut bytes, 0).unwrap_or(0);
            String::from_utf8_lossy(&bytes[..len]).into_owned()
        };
        text(&self.console) + &text(&self.errors)
    }

    fn console_tail(&self) -> String {
        let text = self.console_text();
        let from = (text.len().saturating_sub(CONSOLE_TAIL)..).find(|&at| text.is_char_boundary(at));
        text[from.unwrap_or(0)..].to_owned()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let mut child = self.child();
        let _ = child.kill();
        let _ = child.wait();
        drop(child);
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }
}

fn start(command: &mut Command, inherited: &[File; 2]) -> Result<(Child, ChildStdout, Exchange)> {
    let mut child = spawn(command, &inherited.each_ref())?;
    let to_guest = child.stdin.take().context("QEMU has no input")?;
    let from_guest = child.stdout.take().context("QEMU has no output")?;
    Ok((child, from_guest, Exchange::new(to_guest)))
}

fn listen(mut from_guest: ChildStdout, exchange: &Exchange) {
    while let Ok(Some(frame)) = Frame::read(&mut from_guest) {
        exchange.on_frame(&frame);
    }
    exchange.on_end();
}

/// Creates a file in memory, which needs no removal.
fn memory(name: &str, bytes: &[u8]) -> Result<File> {
    let file = File::from(rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC)?);
    file.write_all_at(bytes, 0)?;
    Ok(file)
}

/// Returns the path under which a process that inherited a file opens it.
fn path_of(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Starts a command that inherits `files`. From within a user namespace it could not open them by this process's paths.
fn spawn(command: &mut Command, files: &[&File]) -> Result<Child> {
    let inherit = |flags| files.iter().try_for_each(|file| rustix::io::fcntl_setfd(file, flags));
    inherit(FdFlags::empty())?;
    let child = command.spawn().context("cannot run what leads to QEMU");
    inherit(FdFlags::CLOEXEC)?;
    child
}
