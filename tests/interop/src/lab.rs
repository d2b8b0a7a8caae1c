//! Network namespaces to run programs in: one, or two joined by a veth pair.

use crate::device::{self, Device};
use crate::path::Path;
use crate::proc::{Ended, Proc};
use crate::product;
use crate::sandbox::{self, Sandbox};
use crate::user::{Door, ORDINARY_UID, Who};
use anyhow::{Context, Result, bail};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Layout of a lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One namespace whose only interface is the loopback.
    Loopback,
    /// One namespace with an Ethernet interface of MTU 1500 beside the loopback.
    One,
    /// Two namespaces, an Ethernet interface each, a cable between them.
    Two {
        /// The MTU of both interfaces.
        mtu: u32,
    },
    /// One namespace whose Ethernet interface is a tap: the program that opens it, such as a guest, is at the other
    /// end.
    Tap {
        /// The interface's MTU.
        mtu: u32,
    },
}

impl Shape {
    /// Shapes that the tools must work in.
    pub const ALL: [Shape; 3] = [Shape::One, Shape::Two { mtu: 1500 }, Shape::Two { mtu: 9000 }];
}

/// One end of the lab: a namespace and the addresses in it.
#[derive(Debug)]
pub struct Side {
    /// The namespace's name (`ip netns exec NAME ...`).
    pub netns: String,
    /// Interface for the traffic.
    pub interface: &'static str,
    /// Its IPv4 address.
    pub v4: &'static str,
    /// Its IPv6 address.
    pub v6: &'static str,
    device: OnceLock<Device>,
}

/// A test environment. Dropping it ends every process inside and removes its namespaces.
#[derive(Debug)]
pub struct Lab {
    sides: Vec<Side>,
    /// Its layout.
    pub shape: Shape,
    /// Transport between programs in one namespace.
    pub path: Path,
    dir: PathBuf,
    logs: AtomicU32,
    door: Door,
    /// The sandbox of the lab's ordinary users: words in front of each of their commands.
    sandbox: Vec<String>,
    _alone: MutexGuard<'static, ()>,
}

/// Time limit for an interface to answer IPv6.
const READY_WITHIN: Duration = Duration::from_secs(20);

/// Polling programs need a core each, and labs measure time, so each process has one lab at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

impl Lab {
    /// Builds a lab of `shape`.
    pub fn new(shape: Shape) -> Result<Lab> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let name = format!("weft-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let labs = std::env::temp_dir().join(format!("weft-interop-{}", rustix::process::getuid().as_raw()));
        let dir = labs.join(&name);
        std::fs::create_dir_all(&dir)?;
        // The lab's ordinary users work here and write captures here, whatever this process's umask is.
        std::fs::set_permissions(&labs, Permissions::from_mode(0o755))?;
        std::fs::set_permissions(&dir, Permissions::from_mode(0o1777))?;
        let door = Door::open()?;
        let (interface, addresses) = match shape {
            Shape::Loopback => ("lo", [("127.0.0.1", "::1"), ("127.0.0.1", "::1")]),
            _ => ("eth0", [("10.77.0.1", "fd77::1"), ("10.77.0.2", "fd77::2")]),
        };
        let count = if matches!(shape, Shape::Two { .. }) { 2 } else { 1 };
        let sides = addresses.iter().zip(["a", "b"]).take(count);
        let sides = sides.map(|(&(v4, v6), end)| Side {
            netns: format!("{name}{end}"),
            interface,
            v4,
            v6,
            device: OnceLock::new(),
        });
        let (sides, path) = (sides.collect(), Path::SameHost);
        let lab = Lab { sides, shape, path, dir, logs: AtomicU32::new(0), door, sandbox: Vec::new(), _alone: alone };
        lab.sweep();
        lab.build()?;
        Ok(lab)
    }

    /// Returns the side where servers run.
    pub fn server(&self) -> &Side {
        self.sides.last().expect("a lab has a side")
    }

    /// Returns the side where clients run (the same one in a lab of one namespace).
    pub fn client(&self) -> &Side {
        self.sides.first().expect("a lab has a side")
    }

    /// Returns every side once.
    pub fn sides(&self) -> &[Side] {
        &self.sides
    }

    /// Returns a path for a file of this lab, writable by every user in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Returns the RDMA device on `side`'s interface.
    pub fn device<'a>(&self, side: &'a Side) -> Result<&'a Device> {
        if side.device.get().is_none() {
            // The first program starts the daemon, which is in the sandbox, too.
            let who = if self.sandbox.is_empty() { Who::Root } else { Who::Ordinary };
            let ended = self.run(side, who, &[], &["ibv_devinfo", "-v"])?.success()?;
            let device = device::find(&ended.text, side.v4, side.v6).with_context(|| ended.report())?;
            let _ = side.device.set(device);
        }
        side.device.get().context("the device was just set")
    }

    /// Returns the command line that runs `words` inside `side` as `who`, without Weft.
    pub fn bare(&self, side: &Side, who: Who, words: &[&str]) -> Vec<String> {
        let mut line = self.door.enter();
        line.extend(["ip", "netns", "exec", &side.netns].map(str::to_owned));
        line.extend(self.door.become_user(who));
        if who == Who::Ordinary {
            line.extend(self.sandbox.iter().cloned());
        }
        line.extend(words.iter().map(|w| (*w).to_owned()));
        line
    }

    /// Returns the words that run a shell command without privileges in a chroot of the whole file system, where the
    /// kernel makes no user namespaces. For [`Who::Root`].
    pub fn in_a_chroot(&self, command: &str) -> Result<Vec<String>> {
        let root = self.file("root");
        std::fs::create_dir_all(&root)?;
        let drop = match self.door {
            Door::Root => format!("setpriv --reuid={ORDINARY_UID} --regid={ORDINARY_UID} --clear-groups"),
            // One id is mapped there, and groups cannot be changed.
            Door::Holder { .. } => "setpriv --bounding-set=-all --inh-caps=-all".to_owned(),
        };
        let script = format!("mount --rbind / {root} && exec chroot {root} {drop} -- {command}", root = root.display());
        let words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", &script];
        Ok(words.map(str::to_owned).to_vec())
    }

    /// Whether [`Who::Root`] and [`Who::Ordinary`] are different users for others: an ordinary user who runs the tests
    /// has only one id, and both are that one outside.
    pub fn has_two_users(&self) -> bool {
        matches!(self.door, Door::Root)
    }

    /// Returns the command line that runs `words` inside `side` as `who`, under `weft run`.
    pub fn wefted(&self, side: &Side, who: Who, words: &[&str]) -> Result<Vec<String>> {
        let weft = product::weft()?;
        let weft = weft.to_str().context("the product's path is not UTF-8")?;
        Ok(self.bare(side, who, &[&[weft, "run", "--"], words].concat()))
    }

    /// Starts a program under `weft run`.
    pub fn start(&self, side: &Side, who: Who, env: &[(&str, &str)], words: &[&str]) -> Result<Proc> {
        self.start_line(&self.wefted(side, who, words)?, env)
    }

    /// Starts a program without Weft.
    pub fn start_bare(&self, side: &Side, who: Who, words: &[&str]) -> Result<Proc> {
        self.start_line(&self.bare(side, who, words), &[])
    }

    /// Runs a program under `weft run` to its end (a minute at most).
    pub fn run(&self, side: &Side, who: Who, env: &[(&str, &str)], words: &[&str]) -> Result<Ended> {
        Ok(self.start(side, who, env, words)?.wait(Duration::from_secs(60)))
    }

    /// Runs the `weft` command itself to its end.
    pub fn weft(&self, side: &Side, who: Who, env: &[(&str, &str)], words: &[&str]) -> Result<Ended> {
        let weft = product::weft()?;
        let weft = weft.to_str().context("the product's path is not UTF-8")?;
        let line = self.bare(side, who, &[&[weft], words].concat());
        Ok(self.start_line(&line, env)?.wait(Duration::from_secs(60)))
    }

    /// Selects another transport between programs in the same namespace.
    #[must_use]
    pub fn on(mut self, path: Path) -> Lab {
        self.path = path;
        self
    }

    /// Puts the lab's ordinary users into a sandbox; `command` is the built `weft-sandbox`.
    pub fn sandboxed(mut self, sandbox: Sandbox, command: &str) -> Result<Lab> {
        let command = sandbox::install(&self, command)?.display().to_string();
        self.sandbox = vec![command, sandbox.name().to_owned()];
        Ok(self)
    }

    /// Starts a command line with an environment; its output goes to a file of the lab.
    pub fn start_line(&self, line: &[String], env: &[(&str, &str)]) -> Result<Proc> {
        let log = self.file(&format!("log-{}", self.logs.fetch_add(1, Ordering::Relaxed)));
        // The test's own variables come last and override the others.
        let env: Vec<_> = self.path.env().iter().chain(env).map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Proc::start(line, &env, &log)
    }

    /// Returns the processes in `side`'s namespace.
    pub fn pids(&self, side: &Side) -> Vec<u32> {
        let out = self.inside(&["ip", "netns", "pids", &side.netns]).output();
        let text = out.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
        text.split_whitespace().filter_map(|w| w.parse().ok()).collect()
    }

    /// Returns the process id of `side`'s daemon, if one runs.
    pub fn daemon(&self, side: &Side) -> Option<u32> {
        let weft = product::weft().ok()?;
        let ours = weft.as_os_str().as_encoded_bytes();
        self.pids(side).into_iter().find(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let mut words = line.split(|&b| b == 0);
            let name = words.next().unwrap_or_default();
            (name == ours || name.ends_with(b"/weft") || name == b"weft") && words.next() == Some(b"daemon")
        })
    }

    /// Runs `ip ARGS` where the namespaces are visible.
    pub fn ip(&self, args: &str) -> Result<()> {
        let words: Vec<_> = std::iter::once("ip").chain(args.split_whitespace()).collect();
        let out = self.inside(&words).output().context("cannot run ip (package iproute2)")?;
        if !out.status.success() {
            bail!("ip {args}: {}", String::from_utf8_lossy(&out.stderr).trim());
        }
        Ok(())
    }

    fn inside(&self, words: &[&str]) -> Command {
        let mut line = self.door.enter();
        line.extend(words.iter().map(|w| (*w).to_owned()));
        let mut command = Command::new(&line[0]);
        command.args(&line[1..]);
        command
    }

    fn build(&self) -> Result<()> {
        for side in &self.sides {
            self.ip(&format!("netns add {}", side.netns))?;
            self.ip(&format!("-n {} link set lo up", side.netns))?;
            // Duplicate address detection keeps IPv6 silent for a second and a half, longer than retry_cnt 7 lasts.
            let words = "echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad";
            self.inside(&["ip", "netns", "exec", &side.netns, "sh", "-c", words]).status()?;
        }
        let mtu = match self.shape {
            Shape::Loopback => return Ok(()),
            Shape::One => 1500,
            Shape::Two { mtu } => mtu,
            Shape::Tap { mtu } => return self.build_tap(mtu),
        };
        let (a, b) = (&self.client().netns, &self.server().netns);
        let far = if a == b { "cable" } else { "eth0" };
        self.ip(&format!("link add eth0 netns {a} mtu {mtu} type veth peer name {far} netns {b} mtu {mtu}"))?;
        for side in &self.sides {
            let Side { netns, interface, v4, v6, .. } = side;
            self.ip(&format!("-n {netns} addr add {v4}/24 dev {interface}"))?;
            self.ip(&format!("-n {netns} addr add {v6}/64 dev {interface} nodad"))?;
            self.ip(&format!("-n {netns} link set {interface} up"))?;
        }
        if a == b {
            // Without an address, so that it gets no RDMA device.
            self.ip(&format!("-n {a} link set cable up addrgenmode none"))?;
        }
        self.sides.iter().try_for_each(|side| self.wait_ready(side))
    }

    /// Builds the tap's namespace. The interface has no carrier until a program opens the tap: call [`Lab::wait_ready`]
    /// after that.
    fn build_tap(&self, mtu: u32) -> Result<()> {
        let Side { netns, interface, v4, v6, .. } = self.client();
        self.ip(&format!("-n {netns} tuntap add {interface} mode tap"))?;
        self.ip(&format!("-n {netns} addr add {v4}/24 dev {interface}"))?;
        self.ip(&format!("-n {netns} addr add {v6}/64 dev {interface} nodad"))?;
        self.ip(&format!("-n {netns} link set {interface} mtu {mtu} up"))
    }

    /// Waits until the interface answers IPv6. The kernel notices the carrier up to a second late; then the interface
    /// gets its link-local address.
    pub fn wait_ready(&self, side: &Side) -> Result<()> {
        let until = Instant::now() + READY_WITHIN;
        let words = ["ip", "-n", &side.netns, "-6", "-o", "addr", "show", "dev", side.interface, "scope", "link"];
        while self.inside(&words).output()?.stdout.is_empty() {
            if Instant::now() > until {
                bail!("{} in {} has no link-local address after {READY_WITHIN:?}", side.interface, side.netns);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Removes the namespaces of killed test processes.
    fn sweep(&self) {
        let Ok(out) = self.inside(&["ip", "netns", "list"]).output() else { return };
        for name in String::from_utf8_lossy(&out.stdout).lines().filter_map(|l| l.split(' ').next()) {
            let owner = name.strip_prefix("weft-").and_then(|rest| rest.split('-').next());
            let owner = owner.and_then(|pid| pid.parse::<u32>().ok());
            if owner.is_some_and(|pid| !std::path::Path::new(&format!("/proc/{pid}")).exists()) {
                self.remove(name);
            }
        }
    }

    /// Kills the processes in a namespace and removes it.
    fn remove(&self, netns: &str) {
        if let Ok(out) = self.inside(&["ip", "netns", "pids", netns]).output() {
            let text = String::from_utf8_lossy(&out.stdout).into_owned();
            for pid in text.split_whitespace().filter_map(|w| w.parse().ok()) {
                if let Some(pid) = rustix::process::Pid::from_raw(pid) {
                    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
                }
            }
        }
        let _ = self.inside(&["ip", "netns", "del", netns]).output();
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for side in &self.sides {
            self.remove(&side.netns);
        }
        if std::env::var_os("WEFT_KEEP").is_none() {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}
