//! Every system call that Weft makes itself, in small safe wrappers. All of the project's dependencies on Linux can be
//! read here in one place, and so can its unsafe code. This crate keeps no state, starts no threads and handles no
//! signals.

pub mod batch;
pub mod bell;
pub mod bpf;
pub mod cancel;
pub mod channel;
pub mod epoll;
pub mod ethtool;
pub mod event;
pub mod exit;
pub mod fifo;
pub mod file_size;
pub mod foreign;
pub mod fork;
pub mod host_namespace;
pub mod icmp;
pub mod lease;
pub mod lifetime;
mod many;
pub mod mapping;
pub mod memory;
pub mod namespace;
pub mod neighbour;
pub mod netlink;
pub mod node;
pub mod packet;
pub mod pidfd;
pub mod probe;
pub mod process;
pub mod processors;
pub mod random;
pub mod roce_port;
pub mod share;
pub mod shared;
pub mod signals;
pub mod sockopt;
pub mod spawn;
pub mod sync;
pub mod tcp;
pub mod tcp_sockets;
pub mod thread;
pub mod tun;
pub mod udp;
pub mod unix;
pub mod vm;
pub mod write_watch;
