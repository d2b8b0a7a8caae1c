//! Description of a fabric: nodes, ports and cables, before anything runs. Generators make a [`Topology`], files store
//! it, and drawings show it.

mod builder;
mod counted;
mod description;
pub mod draw;
mod error;
pub mod file;
pub mod generate;
pub mod limits;
mod link;
mod live;
pub mod net;
mod picture;

pub use builder::{Builder, is_adapter_name};
pub use counted::counted;
pub use description::{Cable, End, LinkLayer, Node, NodeKind, Port, Topology};
pub use error::{Error, Result};
pub use link::{Speed, Width};
pub use live::{CableTraffic, LiveCable, LiveNode, LiveState};
pub use picture::{LinkState, NodeState, Picture};
