//! A process's packet channel to the fabric's switches, for a fabric in packet mode (every packet travels hop by hop).

use std::os::fd::OwnedFd;

use crate::{Client, Request, RequestError, Response};

/// Descriptors of a packet channel: the memory of its rings, and a bell to wake each end.
#[derive(Debug)]
pub struct HopsFds {
    /// The rings.
    pub memory: OwnedFd,
    /// Readable when the process has been rung.
    pub bell: OwnedFd,
    /// Rung by the process to wake the daemon.
    pub call: OwnedFd,
}

/// Descriptors of a packet channel.
const CHANNEL_FDS: usize = 3;

impl Client {
    /// Opens this process's packet channel to the fabric's switches; the process must have a slot. `None` in verdict
    /// mode.
    pub fn open_packet_channel(&mut self) -> Result<Option<HopsFds>, RequestError> {
        let (response, fds) = self.request_with_descriptors(Request::OpenPacketChannel, CHANNEL_FDS)?;
        let Response::PacketChannel { packets } = response else { return Err(RequestError::Protocol) };
        if !packets {
            return Ok(None);
        }
        let [memory, bell, call] = <[OwnedFd; CHANNEL_FDS]>::try_from(fds).map_err(|_| RequestError::Protocol)?;
        Ok(Some(HopsFds { memory, bell, call }))
    }
}
