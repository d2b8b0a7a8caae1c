//! First process of the guest: it mounts file systems, loads the modules, and runs the host's commands.

use super::channel::{Frame, Kind};
use anyhow::{Context, Result, ensure};
use rustix::mount::{MountFlags, mount};
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Word on the kernel's command line that asks for a shell on the console.
pub const SHELL_WORD: &str = "weft.shell";
/// I/O port of QEMU's isa-debug-exit: a value written there ends the machine with a status made from it.
pub const EXIT_PORT: u64 = 0xf4;
/// Name prefix of virtio serial ports; there is one.
const CONTROL: &str = "vport";
/// Time limit for devices to appear.
const DEVICES_WITHIN: Duration = Duration::from_secs(20);
/// Maximum size of a piece of output.
const PIECE: usize = 32 << 10;

const MOUNTS: &[(&str, &str, &str)] = &[
    ("proc", "/proc", ""),
    ("sysfs", "/sys", ""),
    ("devtmpfs", "/dev", ""),
    ("devpts", "/dev/pts", ""),
    ("tmpfs", "/dev/shm", ""),
    ("tmpfs", "/tmp", "mode=1777"),
    ("tmpfs", "/run", ""),
];

/// Runs the guest. When this returns, the kernel panics, which ends the machine.
pub fn main() -> Result<()> {
    prepare()?;
    let words = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    if words.split_whitespace().any(|word| word == SHELL_WORD) {
        return shell();
    }
    let control = appear(CONTROL)?;
    let to_host = Arc::new(Mutex::new(control.try_clone()?));
    say(&to_host, &Frame::new(0, Kind::Ready, Vec::new()));
    serve(control, &to_host)
}

fn prepare() -> Result<()> {
    for (kind, place, options) in MOUNTS {
        fs::create_dir_all(place)?;
        let options = std::ffi::CString::new(*options)?;
        mount(*kind, *place, *kind, MountFlags::empty(), options.as_c_str())
            .with_context(|| format!("cannot mount {place}"))?;
    }
    let order = fs::read_to_string("/modules/order").context("no modules")?;
    for module in order.lines() {
        let status = Command::new("/usr/bin/busybox").args(["insmod", module]).status()?;
        if !status.success() {
            println!("weft: {module} does not load");
        }
    }
    Ok(())
}

/// Opens the first device whose name has this prefix, as soon as it appears.
fn appear(name: &str) -> Result<File> {
    let until = Instant::now() + DEVICES_WITHIN;
    let is_it = |path: &PathBuf| path.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(name.as_bytes()));
    loop {
        if let Some(path) = fs::read_dir("/dev")?.flatten().map(|entry| entry.path()).find(is_it) {
            let file = OpenOptions::new().read(true).write(true).open(&path);
            return file.with_context(|| format!("cannot open {}", path.display()));
        }
        ensure!(Instant::now() < until, "there is no /dev/{name}*");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs an interactive shell on the console; its status becomes the machine's.
fn shell() -> Result<()> {
    environment(Command::new("/usr/bin/busybox").args(["sh", super::image::SETUP])).status()?;
    let words = ["setsid", "cttyhack", "sh", "-c", "cd /root; exec bash -i || exec sh -i"];
    let status = environment(Command::new("/usr/bin/busybox").args(words)).status()?;
    let code = status.code().unwrap_or(1).clamp(0, 127) as u8;
    OpenOptions::new().write(true).open("/dev/port")?.write_all_at(&[code], EXIT_PORT)?;
    Ok(())
}

fn environment(command: &mut Command) -> &mut Command {
    command.env_clear().envs([
        ("PATH", "/usr/bin:/usr/sbin:/bin:/sbin"),
        ("HOME", "/root"),
        ("TERM", "linux"),
        ("LC_ALL", "C"),
    ])
}

type ToHost = Arc<Mutex<File>>;
type Running = Arc<Mutex<BTreeMap<u32, Pid>>>;

fn serve(mut control: File, to_host: &ToHost) -> Result<()> {
    let running = Running::default();
    while let Some(frame) = Frame::read(&mut control)? {
        match frame.kind {
            Kind::Start => start(&frame, to_host, &running),
            Kind::Signal => {
                let pid = lock(&running).get(&frame.id).copied();
                let signal = frame.number().and_then(Signal::from_named_raw);
                if let (Some(pid), Some(signal)) = (pid, signal) {
                    let _ = kill_process_group(pid, signal);
                }
            }
            _ => println!("weft: the host said {frame:?}"),
        }
    }
    Ok(())
}

/// Starts a command, and a thread that reports its output and end to the host.
fn start(frame: &Frame, to_host: &ToHost, running: &Running) {
    let (id, words) = (frame.id, frame.words());
    let (to_host, running) = (to_host.clone(), running.clone());
    // Registered before the next frame is read, which may be a signal to it.
    let mut child = match spawn(&words) {
        Ok(child) => child,
        Err(error) => {
            say(&to_host, &Frame::new(id, Kind::Output, format!("cannot start {}: {error}\n", words.join(" "))));
            // Exit status 127, as a shell reports "not found".
            return say(&to_host, &Frame::new(id, Kind::Ended, (127_i32 << 8).to_le_bytes()));
        }
    };
    if let Some(pid) = Pid::from_raw(child.0.id().cast_signed()) {
        lock(&running).insert(id, pid);
    }
    std::thread::spawn(move || {
        let mut piece = vec![0; PIECE];
        while let Ok(len @ 1..) = child.1.read(&mut piece) {
            say(&to_host, &Frame::new(id, Kind::Output, &piece[..len]));
        }
        let status = child.0.wait().map_or(0x7f00, ExitStatusExt::into_raw);
        lock(&running).remove(&id);
        say(&to_host, &Frame::new(id, Kind::Ended, status.to_le_bytes()));
    });
}

fn spawn(words: &[String]) -> std::io::Result<(std::process::Child, std::io::PipeReader)> {
    let (program, args) = words.split_first().map_or(("", &[][..]), |(program, args)| (program.as_str(), args));
    let (output, writer) = std::io::pipe()?;
    let mut command = Command::new(program);
    environment(command.args(args)).current_dir("/root").process_group(0);
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    // Dropping the command closes this process's ends of the pipe, so that the pipe ends with the program.
    Ok((command.spawn()?, output))
}

fn say(to_host: &ToHost, frame: &Frame) {
    if let Err(error) = frame.write(&mut *lock(to_host)) {
        println!("weft: the host does not listen: {error}");
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
