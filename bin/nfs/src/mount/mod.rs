//! `weft nfs mount` and `weft nfs umount`.
//!
//! - `command` chooses the client; `options` are those of nfs(5), `source` is the server and its directory;
//! - `kernel` mounts by the kernel's own client through a relay, `user` by this program's client and FUSE;
//! - `helper` is the command line that mount(8) gives its helper `mount.nfs`;
//! - `background` starts the process that stays, `unmount` ends it.

mod args;
mod background;
mod command;
mod helper;
mod kernel;
mod options;
mod source;
mod unmount;
mod user;

pub use args::{MountArgs, UmountArgs};
pub use command::run;
pub use helper::mount_over_rdma;
pub use unmount::run as unmount;
