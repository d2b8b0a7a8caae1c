//! How a process gets its cable to the switches of a fabric whose packets go hop by hop.

use std::os::fd::OwnedFd;

use crate::{Client, Request, RequestError, Response};

/// What the daemon gives of a cable: the memory of its rings, the bell that wakes the process, the bell that calls the daemon.
#[derive(Debug)]
pub struct HopsFds {
    /// The rings.
    pub memory: OwnedFd,
    /// Readable when the process is rung.
    pub bell: OwnedFd,
    /// To be written to when the daemon sleeps.
    pub call: OwnedFd,
}

/// Descriptors of a cable.
const CABLE_FDS: usize = 3;

impl Client {
    /// The cable of this process, which has a slot, to the fabric's switches; `None` where traffic goes by verdicts.
    pub fn open_cable(&mut self) -> Result<Option<HopsFds>, RequestError> {
        let (response, fds) = self.request_with_descriptors(Request::OpenCable, CABLE_FDS)?;
        let Response::Cable { packets } = response else { return Err(RequestError::Protocol) };
        if !packets {
            return Ok(None);
        }
        let [memory, bell, call] = <[OwnedFd; CABLE_FDS]>::try_from(fds).map_err(|_| RequestError::Protocol)?;
        Ok(Some(HopsFds { memory, bell, call }))
    }
}
