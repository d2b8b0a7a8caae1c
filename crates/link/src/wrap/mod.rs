//! Wrappers around a link: fault injection for tests, a packet capture for people.

pub mod fault;
pub mod pcap;
