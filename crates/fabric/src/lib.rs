//! A virtual InfiniBand fabric: hosts with adapters, switches, routers and the cables between them. Management
//! datagrams cross it packet by packet along the forwarding tables that a subnet manager wrote; connected traffic asks
//! for a verdict on its path. Values in, values out: time is passed in, nothing here knows a socket.
#![forbid(unsafe_code)]

pub mod topology;
