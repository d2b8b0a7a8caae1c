//! Connections: InfiniBand's communication management protocol ([`ib`]) and on top of it the RDMA connection manager
//! that programs know ([`rdma_cm`]). Sans-I/O: the owner passes in datagrams and the time.
#![forbid(unsafe_code)]

pub mod ib;
pub mod rdma_cm;
