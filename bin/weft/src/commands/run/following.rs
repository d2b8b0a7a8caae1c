//! Keeps a view's files and nodes those of the devices: a device that a user adds or renames, or an interface or address
//! that comes or goes, shows in /sys and /dev of programs that run already.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use weft_ipc::stat::StatReport;
use weft_ipc::{Client, ConnectOptions, DeviceInfo, Event};
use weft_sys::epoll::{Epoll, Interest};

use super::counters::PortCounters;
use super::cpus::Cpus;
use super::nodes::{Manager, Nodes};
use super::sys_files::{Changes, SysFiles};
use super::view::View;

/// How often a daemon is looked for while none runs.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// A view whose devices are followed.
#[derive(Debug)]
pub struct Followed {
    /// Its files.
    pub sys: SysFiles,
    /// Its nodes, unless they stay as they are.
    pub nodes: Option<Nodes>,
    /// The machine's processors.
    pub cpus: Cpus,
    /// Whether its devices have RoCE v1 GIDs.
    pub roce_v1: bool,
}

impl Followed {
    fn show<'a>(&mut self, devices: impl Iterator<Item = &'a DeviceInfo>) -> Changes {
        let mut devices: Vec<DeviceInfo> = devices.cloned().collect();
        if self.roce_v1 {
            devices.iter_mut().for_each(DeviceInfo::add_roce_v1);
        }
        let view = View::of(&devices, &StatReport::default(), &PortCounters::new(), &self.cpus);
        // A file that could not be made or removed is tried again at the next change; this process has no user to report to.
        let manager = Manager { host: "", may_manage: false };
        let _ = self.nodes.as_mut().map(|nodes| nodes.show(&view, manager));
        self.sys.show(&view).unwrap_or_default()
    }
}

/// The daemon's reports about devices, and the view that follows them.
pub struct Following {
    followed: Followed,
    options: ConnectOptions,
    /// Epoll token for the daemon's messages.
    token: u64,
    client: Option<Client>,
    devices: BTreeMap<u32, DeviceInfo>,
    next_look: Instant,
}

impl Following {
    /// Prepares to follow; [`Following::turn`] begins.
    pub fn new(followed: Followed, options: ConnectOptions, token: u64) -> Following {
        Following { followed, options, token, client: None, devices: BTreeMap::new(), next_look: Instant::now() }
    }

    /// When the next turn is due without a message.
    pub fn due_in(&self) -> Option<Duration> {
        self.client.is_none().then(|| self.next_look.saturating_duration_since(Instant::now()))
    }

    /// Processes the daemon's messages, or looks for a daemon. Returns the changes to the files.
    pub fn turn(&mut self, epoll: &Epoll) -> Changes {
        let changed = match &mut self.client {
            Some(client) => {
                let events = client.poll_events();
                self.apply(events)
            }
            None if self.next_look <= Instant::now() => self.connect(epoll),
            None => false,
        };
        if changed { self.followed.show(self.devices.values()) } else { Changes::default() }
    }

    fn connect(&mut self, epoll: &Epoll) -> bool {
        self.next_look = Instant::now() + LOOK_EVERY;
        let Ok(mut client) = Client::connect(&self.options) else { return false };
        let Ok(devices) = client.subscribe() else { return false };
        if epoll.add(client.fd(), self.token, Interest::READ).is_err() {
            return false;
        }
        // Messages may have come with the answer.
        let events = client.poll_events();
        self.client = Some(client);
        self.devices = devices.into_iter().map(|device| (device.index, device)).collect();
        self.apply(events);
        true
    }

    /// Returns whether any device may differ.
    fn apply(&mut self, events: Vec<Event>) -> bool {
        let mut changed = false;
        for event in events {
            match event {
                Event::DeviceChanged(device) => {
                    let index = device.index;
                    changed |= self.devices.insert(index, device.clone()).as_ref() != Some(&device);
                }
                Event::DeviceRemoved { index } => changed |= self.devices.remove(&index).is_some(),
                // The next list has the changes that were lost; without a daemon, the devices stay until the next one.
                Event::Overrun | Event::Disconnected => self.client = None,
                _ => {}
            }
        }
        changed
    }
}
