//! Connections: InfiniBand's communication management protocol ([`ib`]), iWARP's over TCP ([`iw`]), and on
//! top of both the RDMA connection manager that programs know ([`rdma_cm`]). Sans-I/O: the owner passes in datagrams and the time.
#![forbid(unsafe_code)]

pub mod ib;
pub mod iw;
pub mod rdma_cm;
