//! A test bench for third-party programs.
//!
//! A [`Lab`] is one or two network namespaces joined by a veth pair; a [`Proc`] is a program running in one of them
//! under `weft run`; a [`Pair`] is a server and a client that must both end well; a [`Table`] runs many cases and
//! reports every failure at its end. Dropping the lab ends everything that a test started: the processes by their own
//! ids, then all others inside the lab's namespaces.
//!
//! Labs need root, or an ordinary user who may create user namespaces; then everything happens inside one.

pub mod device;
pub mod early;
pub mod ends;
pub mod fabric;
pub mod guest;
pub mod guest_peer;
pub mod ibsim;
pub mod lab;
pub mod manager;
pub mod mpi;
pub mod multicast;
pub mod nbd_host;
pub mod networks;
pub mod nvme_host;
pub mod originals;
pub mod pair;
pub mod path;
pub mod proc;
pub mod product;
pub mod python;
pub mod sandbox;
pub mod skip;
pub mod srp_initiator;
pub mod table;
pub mod tgt;
pub mod user;
pub mod webdriver;

pub use device::Device;
pub use fabric::{Fabric, OpenSm};
pub use guest::{Guest, GuestProc};
pub use guest_peer::{Peer, Server};
pub use ibsim::{IbSim, Said};
pub use lab::{Lab, Shape, Side};
pub use originals::Originals;
pub use pair::{Outcome, Pair};
pub use path::Path;
pub use proc::{Ended, Proc};
pub use sandbox::Sandbox;
pub use table::Table;
pub use user::Who;
