//! The checks on machines that tests describe.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;

use weft_ipc::{Build, PortHealth};
use weft_sys::probe::Probe;

use super::{ALL, calls, daemon, devices, host, libraries, namespaces, program};
use crate::commands::doctor::machine::{Asked, Daemon, Library, Machine, Session};
use crate::commands::doctor::report::{Finding, State};
use crate::commands::run::program::Program;

/// A machine on which all is well, until a test changes something.
struct Fake {
    files: BTreeMap<&'static str, String>,
    dirs: BTreeMap<&'static str, Vec<String>>,
    refused: BTreeSet<Probe>,
    descriptors: u64,
    user: u32,
    libraries: Result<Vec<Library>, String>,
    daemon: Daemon,
    asked: Option<(&'static str, Option<&'static str>, u32)>,
    program: Option<Program>,
}

impl Default for Fake {
    fn default() -> Fake {
        let session = Session {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            port: PortHealth::Held,
            devices: vec!["rxe0".to_owned()],
        };
        let library =
            Library { soname: "libibverbs.so.1", path: Some("/w/libibverbs.so.1".into()), build: Some(Build::own()) };
        Fake {
            files: [("/proc/sys/kernel/osrelease", "6.1.0-17-amd64\n".to_owned())].into(),
            dirs: BTreeMap::new(),
            refused: BTreeSet::new(),
            descriptors: 4096,
            user: 0,
            libraries: Ok(vec![library]),
            daemon: Daemon { process: Some((7, 0)), session: Some(Ok(session)), other_protocol: None },
            asked: None,
            program: None,
        }
    }
}

impl Fake {
    fn with(mut self, path: &'static str, text: &str) -> Fake {
        self.files.insert(path, text.to_owned());
        self
    }

    fn listing(mut self, path: &'static str, names: &[&str]) -> Fake {
        self.dirs.insert(path, names.iter().map(|name| (*name).to_owned()).collect());
        self
    }

    fn refusing(mut self, probe: Probe) -> Fake {
        self.refused.insert(probe);
        self
    }

    fn session(mut self, change: impl FnOnce(&mut Session)) -> Fake {
        if let Some(Ok(session)) = &mut self.daemon.session {
            change(session);
        }
        self
    }

    fn asked(mut self, name: &'static str, mode: u32) -> Fake {
        self.program = Program::read(OsStr::new(name));
        self.asked = Some((name, std::path::Path::new(name).is_file().then_some(name), mode));
        self
    }
}

impl Machine for Fake {
    fn read(&self, path: &str) -> Option<String> {
        self.files.get(path).cloned()
    }

    fn list(&self, path: &str) -> Vec<String> {
        self.dirs.get(path).cloned().unwrap_or_default()
    }

    fn may_use(&self, _: &str) -> bool {
        self.user == 0
    }

    fn attempt(&self, probe: Probe) -> io::Result<()> {
        match self.refused.contains(&probe) {
            true => Err(io::Error::from_raw_os_error(rustix::io::Errno::PERM.raw_os_error())),
            false => Ok(()),
        }
    }

    fn descriptors_max(&self) -> u64 {
        self.descriptors
    }

    fn locked_bytes_max(&self) -> u64 {
        8 << 20
    }

    fn user(&self) -> u32 {
        self.user
    }

    fn owner_of_socket(&self, inode: u64) -> Option<(u32, String)> {
        (inode == 4711).then(|| (99, "other-roce".to_owned()))
    }

    fn libraries(&self) -> Result<Vec<Library>, String> {
        self.libraries.clone()
    }

    fn daemon(&self) -> Daemon {
        self.daemon.clone()
    }

    fn program(&self) -> Option<Asked<'_>> {
        let (name, path, mode) = self.asked?;
        let path = path.map(str::to_owned);
        Some(Asked { name: OsStr::new(name), path, mode, first_line: None, program: self.program.as_ref() })
    }
}

/// The only finding, with its state, its text and its remedy.
fn one(findings: &[Finding]) -> (State, &str, &str) {
    assert_eq!(findings.len(), 1, "{findings:?}");
    (findings[0].state, &findings[0].text, findings[0].remedy.as_deref().unwrap_or_default())
}

#[test]
fn a_good_machine_has_nothing_to_do() {
    let machine = Fake::default();
    let findings: Vec<Finding> = ALL.iter().flat_map(|check| (check.examine)(&machine)).collect();
    assert!(findings.iter().all(|finding| finding.state <= State::Note), "{findings:?}");
    let names: BTreeSet<_> = ALL.iter().map(|check| check.name).collect();
    assert_eq!(names.len(), ALL.len());
}

#[test]
fn old_kernels_are_refused() {
    let of = |release: &str| host::kernel(&Fake::default().with("/proc/sys/kernel/osrelease", release))[0].state;
    assert_eq!(of("5.4.0-42-generic\n"), State::Error);
    assert_eq!(of("5.10.0\n"), State::Note);
    assert_eq!(of("6.18.44-fc-v657\n"), State::Well);
    assert_eq!(of("unknown\n"), State::Note);
}

#[test]
fn low_limits_are_named() {
    let findings = host::limits(&Fake { descriptors: 256, ..Fake::default() });
    assert_eq!(findings[0].state, State::Warning);
    assert!(findings[1].text.starts_with("8192 KiB of locked memory"), "{findings:?}");
}

#[test]
fn libraries_of_another_build_are_an_error() {
    let of = |build: Option<Build>, path: Option<&str>| {
        let library = Library { soname: "libibverbs.so.1", path: path.map(str::to_owned), build };
        libraries::libraries(&Fake { libraries: Ok(vec![library]), ..Fake::default() })
    };
    let other = Build { version: "0.0.9".to_owned(), protocol: 3 };
    let findings = of(Some(other), Some("/w/libibverbs.so.1"));
    assert!(one(&findings).1.starts_with("/w/libibverbs.so.1 is of version 0.0.9 (protocol 3)"), "{findings:?}");
    assert_eq!(one(&of(None, Some("/w/x"))).0, State::Error);
    assert!(one(&of(None, None)).1.contains("is missing"));
    assert_eq!(one(&of(Some(Build::own()), Some("/w/x"))).0, State::Well);
}

#[test]
fn a_stale_daemon_is_named_with_its_process() {
    let other = Daemon { process: Some((42, 1000)), session: None, other_protocol: Some(3) };
    let findings = daemon::daemon(&Fake { daemon: other, ..Fake::default() });
    let (state, text, remedy) = one(&findings);
    assert!(state == State::Error && text.starts_with("process 42 of user 1000 is a daemon of another version"));
    assert!(remedy.contains("weft daemon --stop"));
    let findings = daemon::daemon(&Fake::default().session(|session| session.version = "0.0.1".to_owned()));
    assert_eq!(one(&findings).0, State::Warning);
    let mut foreign = Fake { user: 1000, ..Fake::default() };
    foreign.daemon.process = Some((7, 1001));
    assert!(one(&daemon::daemon(&foreign)).1.contains("another user's daemon"));
    let mut silent =
        Daemon { process: Some((42, 0)), session: Some(Err("no answer".to_owned())), other_protocol: None };
    let findings = daemon::daemon(&Fake { daemon: silent.clone(), ..Fake::default() });
    let (state, text, remedy) = one(&findings);
    assert!(
        state == State::Error
            && text == "process 42 of user 0 is the daemon: no answer"
            && remedy.contains("kill -9 42")
    );
    silent.process = None;
    assert!(one(&daemon::daemon(&Fake { daemon: silent, ..Fake::default() })).2.contains("--foreground"));
}

#[test]
fn a_program_on_the_port_is_named() {
    let table =
        "head\n2: 00000000:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000  1000        0 4711 2 0 0\n";
    let taken = Fake::default()
        .with("/proc/self/net/udp", table)
        .session(|session| session.port = PortHealth::Taken("in use".to_owned()));
    let findings = daemon::port(&taken);
    assert_eq!(one(&findings).1, "in use: other-roce (process 99)");
    let unused = Fake::default().with("/proc/self/net/udp", table).session(|session| session.port = PortHealth::Unused);
    assert!(one(&daemon::port(&unused)).1.ends_with("other-roce (process 99)"));
    let kernel = Fake::default()
        .listing("/sys/module", &["rdma_rxe"])
        .session(|session| session.port = PortHealth::Taken("in use".to_owned()));
    assert!(one(&daemon::port(&kernel)).2.contains("modprobe -r rdma_rxe"));
    assert_eq!(one(&daemon::port(&Fake::default())).0, State::Well);
}

#[test]
fn foreign_devices_matter_where_they_cannot_be_hidden() {
    let machine = || Fake::default().listing("/sys/class/infiniband", &["mana_0", "rxe0"]);
    assert_eq!(one(&devices::foreign(&machine())).0, State::Note);
    let findings = devices::foreign(&machine().refusing(Probe::Mount));
    let (state, text, _) = one(&findings);
    assert!(state == State::Note && text.contains("has mana_0, which") && text.contains("no other here"), "{text}");
    assert_eq!(one(&devices::devices(&Fake::default().session(|s| s.devices.clear()))).0, State::Error);
    let nodes = Fake { user: 33, ..Fake::default().listing("/dev/infiniband", &["umad0"]) };
    assert!(one(&devices::nodes(&nodes)).1.contains("may not open umad0"));
}

#[test]
fn the_setting_that_forbids_namespaces_is_named() {
    let machine = Fake::default()
        .refusing(Probe::MountNamespace)
        .refusing(Probe::Mount)
        .with("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n");
    let findings = namespaces::namespaces(&machine);
    let (state, text, remedy) = one(&findings);
    assert!(state == State::Warning && text.contains("cannot make a private mount namespace"), "{text}");
    assert!(remedy.contains("sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"), "{remedy}");
    let findings = namespaces::namespaces(&Fake::default().refusing(Probe::Mount));
    assert!(one(&findings).1.contains("cannot mount in its private namespace"));
}

#[test]
fn confinement_is_described() {
    let machine = Fake::default()
        .with("/proc/self/status", "Name:\tweft\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1\n")
        .with("/proc/self/attr/current", "docker-default (enforce)\n");
    let findings = namespaces::confinement(&machine);
    let expected = "by a seccomp filter, AppArmor's profile docker-default (enforce), no_new_privs";
    assert!(one(&findings).1.starts_with(expected), "{findings:?}");
}

#[test]
fn refused_calls_have_their_consequences() {
    assert_eq!(one(&calls::memory_files(&Fake::default().refusing(Probe::MemoryFile))).0, State::Error);
    assert_eq!(one(&calls::copies(&Fake::default().refusing(Probe::ReadProcess))).0, State::Warning);
    let yama = Fake::default().with("/proc/sys/kernel/yama/ptrace_scope", "1\n");
    assert!(one(&calls::copies(&yama)).1.starts_with("kernel.yama.ptrace_scope=1"));
    assert_eq!(one(&calls::sharing(&Fake::default().refusing(Probe::UserFaults))).0, State::Note);
    assert_eq!(one(&calls::sharing(&Fake { user: 1000, ..Fake::default() })).0, State::Note);
}

#[test]
fn programs_are_judged() {
    // This test's own file: under an emulator, /bin/sh is for another processor.
    let own = "/proc/self/exe";
    assert!(program::program(&Fake::default()).is_empty());
    assert_eq!(one(&program::program(&Fake::default().asked("/nonexistent/tool", 0))).0, State::Error);
    assert_eq!(one(&program::program(&Fake::default().asked(own, 0o755))).0, State::Well);
    let findings = program::program(&Fake::default().asked(own, 0o4755));
    assert!(findings[0].text.contains("is set-user-ID"), "{findings:?}");
    assert_eq!(one(&program::program(&Fake::default().asked("/etc/passwd", 0o644))).0, State::Error);
}
