//! The library's way to management datagrams in the daemon. Questions of all threads go over one session of the process;
//! each open port has a socket of its own, whose form [`crate::umad`] describes, so that its descriptor is readable
//! exactly when a datagram waits. When the daemon dies, its ports hang up.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::cm::CmError;
use crate::process::{ProcessClient, Session};
use crate::umad::{IbCounters, UmadAgent, UmadRequest, UmadResponse};
use crate::{ConnectOptions, DeviceInfo, Request, RequestError, Response};

/// Why something was not done.
pub type UmadError = CmError;

/// A process's management datagrams: connects when it is first asked, and again after the daemon died.
#[derive(Debug)]
pub struct UmadClient(ProcessClient);

/// A port that was opened, as long as its socket is.
#[derive(Debug)]
pub struct OpenPort {
    session: Arc<Session>,
    handle: u32,
}

/// What opening a port brings.
#[derive(Debug)]
pub struct Opened {
    /// Its socket, which the program polls.
    pub socket: OwnedFd,
    /// The memory of its rings ([`crate::umad_ring`]), unless the daemon had none.
    pub rings: Option<OwnedFd>,
    /// What agents are registered by.
    pub port: OpenPort,
}

fn ask(session: &Session, request: UmadRequest) -> Result<UmadResponse, RequestError> {
    match session.request(Request::Umad(request))? {
        Response::Umad(response) => Ok(response),
        _ => Err(RequestError::Protocol),
    }
}

fn order(session: &Session, request: UmadRequest) -> Result<(), RequestError> {
    match ask(session, request)? {
        UmadResponse::Done => Ok(()),
        _ => Err(RequestError::Protocol),
    }
}

impl UmadClient {
    /// Not connected yet.
    pub fn new(options: ConnectOptions) -> UmadClient {
        UmadClient(ProcessClient::new(options))
    }

    /// The adapters of this process's virtual host.
    pub fn devices(&self) -> Result<Vec<DeviceInfo>, UmadError> {
        let mut devices = self.0.session()?.client()?.list_devices()?;
        devices.retain(|device| device.infiniband.is_some());
        Ok(devices)
    }

    /// Opens a port.
    pub fn open(&self, device: u32, port: u8) -> Result<Opened, UmadError> {
        let session = self.0.session()?;
        let request = Request::Umad(UmadRequest::Open { device, port });
        let (response, fds) = session.client()?.request_with_descriptors(request, 2)?;
        let mut fds = fds.into_iter();
        match (response, fds.next()) {
            (Response::Umad(UmadResponse::Opened { handle }), Some(socket)) => {
                Ok(Opened { socket, rings: fds.next(), port: OpenPort { session, handle } })
            }
            _ => Err(RequestError::Protocol.into()),
        }
    }

    /// Says that a subnet manager runs on a port, or no longer.
    pub fn set_is_sm(&self, device: u32, port: u8, is_sm: bool) -> Result<(), UmadError> {
        Ok(order(&*self.0.session()?, UmadRequest::SetIsSm { device, port, is_sm })?)
    }

    /// What a port counted.
    pub fn counters(&self, device: u32, port: u8) -> Result<IbCounters, UmadError> {
        match ask(&*self.0.session()?, UmadRequest::Counters { device, port })? {
            UmadResponse::Counters(counters) => Ok(*counters),
            _ => Err(RequestError::Protocol.into()),
        }
    }
}

impl OpenPort {
    /// Registers an agent: its number on the port.
    pub fn register(&self, agent: UmadAgent) -> Result<u32, RequestError> {
        match ask(&self.session, UmadRequest::Register { handle: self.handle, agent })? {
            UmadResponse::Registered { agent } => Ok(agent),
            _ => Err(RequestError::Protocol),
        }
    }

    /// Takes one off.
    pub fn unregister(&self, agent: u32) -> Result<(), RequestError> {
        order(&self.session, UmadRequest::Unregister { handle: self.handle, agent })
    }
}

impl Drop for OpenPort {
    fn drop(&mut self) {
        let _ = order(&self.session, UmadRequest::Close { handle: self.handle });
    }
}
