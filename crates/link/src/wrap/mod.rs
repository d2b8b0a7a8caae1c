//! What can be wrapped around a link: faults for tests, a capture for people.

pub mod fault;
pub mod pcap;
