//! The format that ibnetdiscover prints and ibsim reads: a block for each node, a line for each cabled port. [`read`]
//! accepts every variant of it, [`write()`] produces the plain one.
//!
//! ```text
//! vendid=0x2c9
//! devid=0xcb20
//! sysimgguid=0x2c90300100000
//! switchguid=0x2c90300100000(2c90300100000)
//! Switch  8 "S-0002c90300100000"       # "leaf0001" enhanced port 0 lid 2 lmc 0
//! [1]     "H-0002c9030a000000"[1](2c9030a000001)       # "h00001 HCA-1" lid 1 4xEDR
//! ```

mod line;
mod names;
mod reader;
mod writer;

pub use reader::{Files, NoFiles, read};
pub use writer::{Lids, NoLids, write};

#[cfg(test)]
mod tests;
