//! The client's end of a connection: a requester with its queue pair and the memory that its calls offer.
//!
//! [`Connection`] sends whole RPC calls and returns whole replies; `offers` is the memory.

mod answer;
mod connection;
mod lost;
mod offers;

pub use answer::{Answer, Heard};
pub use connection::{Connection, open_channel, resolve};
pub use lost::Lost;
