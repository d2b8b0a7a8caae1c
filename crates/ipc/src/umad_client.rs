//! The library's client of management datagrams in the daemon. Requests of all threads share one session of the
//! process; each open port has a socket of its own ([`crate::umad`] describes its format), so that its descriptor is
//! readable exactly when a datagram waits. When the daemon dies, the sockets of its ports hang up.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::cm::CmError;
use crate::process::{ProcessClient, Session};
use crate::umad::{IbCounters, UmadAgent, UmadRequest, UmadResponse};
use crate::{ConnectOptions, DeviceInfo, Request, RequestError, Response};

/// Why a request about management datagrams failed.
pub type UmadError = CmError;

/// A process's client of management datagrams. It connects on the first request, and again after the daemon died.
#[derive(Debug)]
pub struct UmadClient(ProcessClient);

/// An open port; it lasts as long as its socket.
#[derive(Debug)]
pub struct OpenPort {
    session: Arc<Session>,
    handle: u32,
}

/// Result of opening a port.
#[derive(Debug)]
pub struct Opened {
    /// Socket of the port, which the program polls.
    pub socket: OwnedFd,
    /// Memory of its rings ([`crate::umad_ring`]), unless the daemon had none.
    pub rings: Option<OwnedFd>,
    /// Handle for registering agents.
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
    /// Makes a client that is not connected yet.
    pub fn new(options: ConnectOptions) -> UmadClient {
        UmadClient(ProcessClient::new(options))
    }

    /// Returns the adapters of this process's virtual host.
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

    /// Reports that a subnet manager starts or stops running on a port.
    pub fn set_is_sm(&self, device: u32, port: u8, is_sm: bool) -> Result<(), UmadError> {
        Ok(order(&*self.0.session()?, UmadRequest::SetIsSm { device, port, is_sm })?)
    }

    /// Returns the counters of a port.
    pub fn counters(&self, device: u32, port: u8) -> Result<IbCounters, UmadError> {
        match ask(&*self.0.session()?, UmadRequest::Counters { device, port })? {
            UmadResponse::Counters(counters) => Ok(*counters),
            _ => Err(RequestError::Protocol.into()),
        }
    }
}

impl OpenPort {
    /// Registers an agent and returns its number on the port.
    pub fn register(&self, agent: UmadAgent) -> Result<u32, RequestError> {
        match ask(&self.session, UmadRequest::Register { handle: self.handle, agent })? {
            UmadResponse::Registered { agent } => Ok(agent),
            _ => Err(RequestError::Protocol),
        }
    }

    /// Unregisters an agent.
    pub fn unregister(&self, agent: u32) -> Result<(), RequestError> {
        order(&self.session, UmadRequest::Unregister { handle: self.handle, agent })
    }
}

impl Drop for OpenPort {
    fn drop(&mut self) {
        let _ = order(&self.session, UmadRequest::Close { handle: self.handle });
    }
}
