//! Connections: InfiniBand's communication management protocol ([`ib`]) and the RDMA connection manager that programs
//! know ([`rdma_cm`]) on top of it. Values in, values out: who owns them hands them datagrams and the time.
#![forbid(unsafe_code)]

pub mod ib;
pub mod rdma_cm;
