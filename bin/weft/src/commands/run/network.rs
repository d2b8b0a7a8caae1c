//! The network of a fabric's host, in which a program runs: its interfaces, its host name, and the names of all hosts.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use weft_ipc::{Client, DeviceInfo, PortState, RequestError};
use weft_sys::host_namespace::{self, HostNamespaces};
use weft_sys::namespace;

use super::task::Task;

/// Longest file of hosts' names that is read.
const HOSTS_BYTES_MAX: u64 = 16 << 20;

/// A host's namespaces, and the names of all hosts.
pub struct Network {
    namespaces: HostNamespaces,
    names: String,
}

impl Network {
    /// Asks for the network of the session's host.
    ///
    /// # Errors
    /// The system refuses the daemon namespaces, or the user may not enter them; the program then has the machine's
    /// network.
    pub fn of(client: &mut Client) -> Result<Network, String> {
        let (namespaces, file) = client.host_network().map_err(|error| match error {
            RequestError::Refused(refusal) if !refusal.text.is_empty() => refusal.text,
            error => error.to_string(),
        })?;
        // All programs share the file's position, so it is read by position.
        let names = read_whole(&File::from(file)).map_err(|error| format!("the hosts' names: {error}"))?;
        Ok(Network { namespaces, names })
    }

    /// Moves this process into the host's namespaces.
    ///
    /// # Errors
    /// The system lets the process not enter them, as in a sandbox that the daemon is not in.
    pub fn entered(self) -> Result<Network, String> {
        let entered = host_namespace::join(&self.namespaces).and_then(|()| host_namespace::keep_rights());
        entered.map(|()| self).map_err(|error| crate::errno::text(&error))
    }

    /// The file of names for programs: the machine's, then the fabric's hosts.
    pub fn hosts_file(&self) -> String {
        let machine = fs::read_to_string("/etc/hosts").unwrap_or_default();
        format!("{}\n{}", machine.trim_end(), self.names)
    }
}

fn read_whole(file: &File) -> io::Result<String> {
    let mut bytes = vec![0; file.metadata()?.len().min(HOSTS_BYTES_MAX) as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Time limit for links: a manager may refuse them.
const LINKS_WITHIN: Duration = Duration::from_millis(500);
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Waits until the kernel sends over the host's IPoIB interfaces, which `/sys` shows: a program's first packets would be lost
/// before. Interfaces of ports that are not active have no link to wait for.
pub fn wait_for_links(devices: &[DeviceInfo]) {
    let until = Instant::now() + LINKS_WITHIN;
    let is_active = devices.iter().any(|device| device.state == PortState::Active);
    while is_active && !are_operational(Path::new("/sys/class/net")) && Instant::now() < until {
        thread::sleep(LOOK_EVERY);
    }
}

/// Whether an interface of link type InfiniBand is operational, or none is switched on.
fn are_operational(dir: &Path) -> bool {
    const INFINIBAND: &str = "32";
    let read = |path: &Path, name: &str| fs::read_to_string(path.join(name)).unwrap_or_default().trim().to_owned();
    let is_on = |flags: &str| {
        flags.strip_prefix("0x").is_some_and(|hex| hex.ends_with(['1', '3', '5', '7', '9', 'b', 'd', 'f']))
    };
    let interfaces = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let on: Vec<_> =
        interfaces.filter(|path| read(path, "type") == INFINIBAND && is_on(&read(path, "flags"))).collect();
    on.is_empty() || on.iter().any(|path| read(path, "operstate") == "up")
}

/// Shows the network's interfaces in /sys.
pub fn show_interfaces(task: &Task<'_>) {
    if let Err(error) = namespace::mount_sysfs(Path::new("/sys")) {
        task.say(&format!("/sys shows the machine's network interfaces: {error}"));
    }
}
