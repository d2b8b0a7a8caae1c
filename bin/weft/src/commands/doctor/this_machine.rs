//! This machine's answers to the checks. Attempts that change a process are made in child processes with a time limit.

use std::cell::OnceCell;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{Access, access};
use rustix::process::{Resource, getrlimit};
use weft_ipc::{Client, ConnectError, ConnectOptions, SOCKET_NAME};
use weft_sys::probe::Probe;
use weft_sys::unix;

use super::machine::{Asked, Daemon, Library, Machine, Session};
use crate::commands::run::program::{self, Program};
use crate::rdma_dir;

/// Time limit for an attempt.
const ATTEMPT_WITHIN: Duration = Duration::from_secs(5);
/// Time limit for a daemon to start and answer.
const DAEMON_WITHIN: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Maximum number of bytes read from a file.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Maximum length of a script's first line.
const LINE_BYTES_MAX: u64 = 256;

/// The machine that the command runs on.
pub struct ThisMachine {
    asked: Option<OsString>,
    program: OnceCell<Option<Program>>,
    daemon: OnceCell<Daemon>,
}

impl ThisMachine {
    /// Prepares for questions about this machine and a program.
    pub fn new(asked: Option<OsString>) -> ThisMachine {
        rdma_dir::announce_daemon();
        ThisMachine { asked, program: OnceCell::new(), daemon: OnceCell::new() }
    }
}

impl Machine for ThisMachine {
    fn read(&self, path: &str) -> Option<String> {
        let mut text = String::new();
        File::open(path).ok()?.take(FILE_BYTES_MAX).read_to_string(&mut text).ok()?;
        Some(text)
    }

    fn list(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    fn may_use(&self, path: &str) -> bool {
        access(path, Access::READ_OK | Access::WRITE_OK).is_ok()
    }

    fn attempt(&self, probe: Probe) -> io::Result<()> {
        let (name, _) = Probe::ALL.iter().find(|(_, known)| *known == probe).ok_or(io::ErrorKind::NotFound)?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["doctor", "--probe", name]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let until = Instant::now() + ATTEMPT_WITHIN;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if Instant::now() > until {
                child.kill()?;
                child.wait()?;
                return Err(io::ErrorKind::TimedOut.into());
            }
            std::thread::sleep(LOOK_EVERY);
        };
        match status.code() {
            Some(0) => Ok(()),
            Some(errno) => Err(io::Error::from_raw_os_error(errno)),
            // A seccomp filter may kill instead of refusing.
            None => Err(io::Error::from_raw_os_error(rustix::io::Errno::PERM.raw_os_error())),
        }
    }

    fn descriptors_max(&self) -> u64 {
        getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
    }

    fn locked_bytes_max(&self) -> u64 {
        getrlimit(Resource::Memlock).current.unwrap_or(u64::MAX)
    }

    fn user(&self) -> u32 {
        weft_sys::process::euid()
    }

    fn owner_of_socket(&self, inode: u64) -> Option<(u32, String)> {
        let wanted = format!("socket:[{inode}]");
        let pids = self.list("/proc").into_iter().filter_map(|name| name.parse::<u32>().ok());
        let has = |pid: &u32| {
            let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
            let mut targets = descriptors.filter_map(|entry| fs::read_link(entry.path()).ok());
            targets.any(|target| target.as_os_str() == wanted.as_str())
        };
        let pid = pids.into_iter().find(has)?;
        let name = self.read(&format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned();
        Some((pid, name))
    }

    fn libraries(&self) -> Result<Vec<Library>, String> {
        let dir = rdma_dir::find().map_err(|error| format!("{error:#}"))?;
        let library = |soname: &'static str| {
            let file = dir.join(soname);
            let program = Program::read(file.as_os_str());
            let path = file.is_file().then(|| file.display().to_string());
            Library { soname, path, build: program.and_then(|library| library.build().cloned()) }
        };
        Ok(rdma_dir::SONAMES.map(library).to_vec())
    }

    fn daemon(&self) -> Daemon {
        self.daemon.get_or_init(ask_daemon).clone()
    }

    fn program(&self) -> Option<Asked<'_>> {
        let name = self.asked.as_deref()?;
        let path = program::resolve(name).filter(|path| path.is_file());
        let mode = path.as_ref().and_then(|path| path.metadata().ok()).map_or(0, |meta| meta.permissions().mode());
        let first_line = path.as_deref().and_then(|path| script_line(path.as_os_str()));
        let program = self.program.get_or_init(|| match first_line.as_deref().and_then(interpreter) {
            Some(interpreter) => Program::read(OsStr::new(interpreter)),
            None => Program::read(path.as_deref()?.as_os_str()),
        });
        let path = path.as_ref().map(|path| path.display().to_string());
        Some(Asked { name, path, mode, first_line, program: program.as_ref() })
    }
}

/// The first line of a script; `None` if the file is none.
fn script_line(path: &OsStr) -> Option<String> {
    let mut head = Vec::new();
    File::open(path).ok()?.take(LINE_BYTES_MAX).read_to_end(&mut head).ok()?;
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    Some(String::from_utf8_lossy(line).trim().to_owned())
}

/// The interpreter that a script's first line names, also behind env(1).
fn interpreter(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    let first = words.next()?;
    let is_env = first.ends_with("/env");
    if is_env { words.find(|word| !word.starts_with('-') && !word.contains('=')) } else { Some(first) }
}

fn ask_daemon() -> Daemon {
    let options =
        ConnectOptions { program: "weft doctor".to_owned(), timeout: DAEMON_WITHIN, ..ConnectOptions::default() };
    let answer = Client::connect(&options);
    // The kernel names the listener even if its protocol is not ours.
    let listener = unix::connect_abstract(SOCKET_NAME).and_then(|socket| unix::peer_credentials(&socket));
    let mut daemon = Daemon { process: listener.ok().map(|found| (found.pid, found.uid)), ..Daemon::default() };
    if let Err(ConnectError::OtherVersion { theirs, .. }) = &answer {
        daemon.other_protocol = Some(*theirs);
    }
    let session = answer.map_err(|error| error.to_string()).and_then(|mut client| {
        let status = client.status().map_err(|error| error.to_string())?;
        let devices = client.list_devices().map_err(|error| error.to_string())?;
        let devices = devices.into_iter().map(|device| device.name).collect();
        Ok(Session { version: status.version, port: status.port, devices })
    });
    daemon.session = Some(session);
    daemon
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_name_their_interpreter() {
        assert_eq!(interpreter("/bin/sh -e"), Some("/bin/sh"));
        assert_eq!(interpreter("/usr/bin/env -S A=1 python3 -u"), Some("python3"));
        assert_eq!(interpreter(""), None);
        assert_eq!(script_line(OsStr::new("/proc/self/exe")), None);
    }

    #[test]
    fn a_missing_program_has_no_file() {
        let machine = ThisMachine::new(Some("/nonexistent/tool".into()));
        let asked = machine.program().unwrap();
        assert!(asked.path.is_none() && asked.program.is_none() && asked.first_line.is_none());
        assert!(ThisMachine::new(None).program().is_none());
    }

    #[test]
    fn sockets_have_owners() {
        use std::os::fd::AsRawFd;
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let name = fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd())).unwrap();
        let inode = name.to_str().unwrap().trim_start_matches("socket:[").trim_end_matches(']').parse().unwrap();
        assert_eq!(ThisMachine::new(None).owner_of_socket(inode).map(|(pid, _)| pid), Some(std::process::id()));
    }
}
