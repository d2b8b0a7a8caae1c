//! LD_PRELOAD library that gives a program sockets of the family AF_RDS, which kernels without rds.ko lack.
//!
//! A program's RDS socket is a Unix socket to the RDS service of its user ([`service`]), so that the kernel's own poll, select,
//! epoll, fork, fcntl and time limits work on it. The calls that differ are wrapped in [`exports`]: they turn datagrams into
//! messages of `weft_rds::local` ([`sending`], [`receiving`]) and answer options ([`options`]). Memory for RDMA
//! ([`rdma`]) moves onto a file that the service maps, too ([`pages`]). [`sockets`] knows which descriptors are such sockets;
//! calls on all others pass to the C library ([`next`]).

mod address;
mod exports;
mod failure;
mod names;
mod next;
mod options;
mod pages;
mod piece;
mod rdma;
mod receiving;
mod sending;
mod service;
mod sockets;
