//! The client as a FUSE file system: requests of the kernel become calls of NFSv3.
//!
//! - [`FileSystem`] has the requests, `metadata`, `names`, `content` and `listing` carry them out;
//! - `nodes` are the files that the kernel knows, `files` those that programs have open;
//! - `writes` collects and sends the data of a file before programs wait for it, `budget` bounds it;
//! - `cache` says for how long attributes are valid, `users` has the credentials of programs.

mod budget;
mod cache;
mod content;
mod convert;
mod files;
mod filesystem;
mod listing;
mod metadata;
mod mounted;
mod names;
mod nodes;
mod users;
mod writes;

pub use cache::CacheTimes;
pub use filesystem::FileSystem;
pub use mounted::{Mounted, MountedOptions};
