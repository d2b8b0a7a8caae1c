//! The place of a measurement: a laboratory of namespaces or the guest, with the cores for its programs.

use super::cores::{Cores, pinned};
use super::guest::{GuestRoom, Protocol};
use super::storage::guest::StorageRoom;
use anyhow::{Context, Result, bail};
use serde::Serialize;
use weft_interop::{Lab, Proc, Shape, Side, Who};

/// The kind of a room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// Two processes of one network namespace.
    SameHost,
    /// Two namespaces joined by a veth cable of this MTU.
    TwoHosts { mtu: u32 },
    /// A simulated InfiniBand subnet; a large one takes minutes for each run.
    Subnet { large: bool },
    /// A virtual machine whose kernel has rdma_rxe, or siw.
    Guest { protocol: Protocol },
    /// A virtual machine whose kernel has rdma_rxe, and clients and servers of NFS and NVMe.
    Storage,
}

impl Place {
    /// All places, in the order in which they are set up.
    pub const ALL: [Place; 8] = [
        Place::SameHost,
        Place::TwoHosts { mtu: 9000 },
        Place::TwoHosts { mtu: 1500 },
        Place::Subnet { large: false },
        Place::Subnet { large: true },
        Place::Guest { protocol: Protocol::Roce },
        Place::Guest { protocol: Protocol::Iwarp },
        Place::Storage,
    ];

    /// Name for readers.
    pub fn name(self) -> String {
        match self {
            Place::SameHost => "same host".to_owned(),
            Place::TwoHosts { mtu } => format!("two namespaces, MTU {mtu}"),
            Place::Subnet { large: false } => "ibsim".to_owned(),
            Place::Subnet { large: true } => "ibsim, large".to_owned(),
            Place::Guest { protocol: Protocol::Roce } => "inside the guest".to_owned(),
            Place::Guest { protocol: Protocol::Iwarp } => "inside the guest with siw".to_owned(),
            Place::Storage => "storage inside the guest".to_owned(),
        }
    }

    /// Whether it is used only if the filter asks for it.
    pub fn is_on_demand(self) -> bool {
        self == Place::Subnet { large: true }
    }

    /// Returns the reason why it cannot be used on this machine.
    pub fn obstacle(self) -> Option<String> {
        match self {
            Place::Guest { protocol: Protocol::Roce } | Place::Storage => weft_interop::guest::obstacle(),
            Place::Guest { protocol: Protocol::Iwarp } => weft_interop::guest::siw::obstacle(),
            _ => None,
        }
    }
}

/// A place that is set up, with the settings of its programs.
pub struct Room {
    inside: Inside,
    /// One core for each side; `None` leaves the choice to the scheduler.
    cores: Option<Cores>,
    /// Run time of timed programs in seconds.
    pub seconds: u32,
}

enum Inside {
    Lab(Lab),
    Guest(Box<GuestRoom>),
    Storage(Box<StorageRoom>),
}

impl Room {
    /// Sets up the place.
    pub fn enter(place: Place, cores: Option<Cores>, seconds: u32) -> Result<Room> {
        let inside = match place {
            Place::Subnet { .. } => {
                return Ok(Room { inside: Inside::Lab(Lab::new(Shape::Loopback)?), cores, seconds });
            }
            Place::SameHost => Inside::Lab(Lab::new(Shape::One)?),
            Place::TwoHosts { mtu } => Inside::Lab(Lab::new(Shape::Two { mtu })?),
            Place::Guest { protocol } => Inside::Guest(Box::new(GuestRoom::boot(protocol)?)),
            Place::Storage => Inside::Storage(Box::new(StorageRoom::boot()?)),
        };
        if let Inside::Lab(lab) = &inside {
            // This starts the daemons, which must not inherit a program's core.
            lab.sides().iter().try_for_each(|side| lab.device(side).map(drop))?;
        }
        Ok(Room { inside, cores, seconds })
    }

    /// Returns the cores of both sides, if programs are pinned.
    pub fn cores(&self) -> Option<Cores> {
        self.cores
    }

    /// Returns the laboratory.
    pub fn lab(&self) -> Result<&Lab> {
        match &self.inside {
            Inside::Lab(lab) => Ok(lab),
            Inside::Guest(_) | Inside::Storage(_) => bail!("this program runs in namespaces, not in a guest"),
        }
    }

    /// Returns the guest.
    pub fn guest(&self) -> Result<&GuestRoom> {
        match &self.inside {
            Inside::Guest(guest) => Ok(guest),
            Inside::Lab(_) | Inside::Storage(_) => bail!("this program runs in the guest"),
        }
    }

    /// Returns the guest with storage.
    pub fn storage(&self) -> Result<&StorageRoom> {
        match &self.inside {
            Inside::Storage(guest) => Ok(guest),
            Inside::Lab(_) | Inside::Guest(_) => bail!("this program runs in the guest with storage"),
        }
    }

    /// Returns the version of the kernel in a guest.
    pub fn kernel(&self) -> Option<&str> {
        match &self.inside {
            Inside::Lab(_) => None,
            Inside::Guest(guest) => Some(guest.kernel()),
            Inside::Storage(guest) => Some(guest.kernel()),
        }
    }

    /// Prepends the server's core to a command.
    pub fn on_server_core(&self, words: &[String]) -> Vec<String> {
        pinned(self.cores.map(|cores| cores.server), words)
    }

    /// Prepends the client's core to a command.
    pub fn on_client_core(&self, words: &[String]) -> Vec<String> {
        pinned(self.cores.map(|cores| cores.client), words)
    }

    /// Starts a peer's server: without Weft, on its core.
    pub fn serve(&self, words: &[String], env: &[(&str, &str)]) -> Result<Proc> {
        let lab = self.lab()?;
        start(lab, lab.server(), &self.on_server_core(words), env)
    }

    /// Starts a peer's client: without Weft, on its core.
    pub fn connect(&self, words: &[String], env: &[(&str, &str)]) -> Result<Proc> {
        let lab = self.lab()?;
        start(lab, lab.client(), &self.on_client_core(words), env)
    }
}

fn start(lab: &Lab, side: &Side, words: &[String], env: &[(&str, &str)]) -> Result<Proc> {
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    lab.start_line(&lab.bare(side, Who::Root, &words), env)
}

/// Returns the command of one of our own small peers (`peers::Own`).
pub fn own_words(arguments: &str) -> Result<Vec<String>> {
    let xtask = std::env::current_exe().context("where is xtask?")?;
    let xtask = xtask.to_str().context("the path of xtask is not UTF-8")?.to_owned();
    let words = std::iter::once(xtask).chain(std::iter::once("bench-peer".to_owned()));
    Ok(words.chain(arguments.split_whitespace().map(str::to_owned)).collect())
}
