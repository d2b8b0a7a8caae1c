//! Program's end of a socket: connects to the service, starts it on demand, sends and receives.

use std::io;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use anyhow::{Context, Result, bail};
use weft_rdma_service::detached;
use weft_rds::local::{HEAD_LEN, INFO_BYTES_MAX, INLINE_BYTES_MAX, Kind, Message, Operation, service_name};
use weft_rds::{InfoKind, InfoTable};
use weft_sys::unix::{self, Wait};
use weft_tool::errno;

const NO_ADDRESS: SocketAddrV4 = SocketAddrV4::new(std::net::Ipv4Addr::UNSPECIFIED, 0);

/// A socket.
#[derive(Debug)]
pub struct ServiceClient(OwnedFd);

impl ServiceClient {
    /// Connects to the service of this user; `None`: none runs.
    ///
    /// # Errors
    /// Another user has the service's name.
    pub fn connect() -> Result<Option<ServiceClient>> {
        let user = weft_sys::process::euid();
        let socket = match unix::connect_abstract(&service_name(user)) {
            Ok(socket) => socket,
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Ok(None),
            Err(error) => bail!("the RDS service: {}", errno::text(&error)),
        };
        if unix::peer_credentials(&socket)?.uid != user {
            bail!("another user runs an RDS service under this user's name");
        }
        Ok(Some(ServiceClient(socket)))
    }

    /// Connects to the service, and starts it if none runs.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn connect_or_start() -> Result<ServiceClient> {
        if let Some(client) = ServiceClient::connect()? {
            return Ok(client);
        }
        let mut command = detached::again()?;
        command.args(["rds", "start", "--on-demand"]);
        if !command.status().context("the RDS service")?.success() {
            bail!("the RDS service does not start");
        }
        ServiceClient::connect()?.context("the RDS service has ended")
    }

    fn call(&self, message: Message) -> Result<(Message, Vec<u8>)> {
        let (ours, theirs) = unix::pair()?;
        unix::send(&self.0, &message.to_bytes(), &[theirs.as_fd()], Wait::Block).context("the RDS service")?;
        drop(theirs);
        let mut reply = vec![0; HEAD_LEN + INLINE_BYTES_MAX];
        let received = unix::recv(&ours, &mut reply, 1, Wait::Block)?;
        reply.truncate(received.len);
        let Some((message, data)) = Message::parse(&reply) else { bail!("the RDS service has ended") };
        let Kind::Reply(errno) = message.kind else { bail!("the RDS service answers in another version") };
        if errno != 0 {
            let error = io::Error::from_raw_os_error(errno.into());
            bail!("{}", errno::text(&error));
        }
        let data = match received.fds.first() {
            Some(file) if message.is_in_file => {
                let mut bytes = vec![0; INFO_BYTES_MAX.min(message.length as usize)];
                let len = rustix::io::pread(file, &mut bytes, 0)?;
                bytes.truncate(len);
                bytes
            }
            _ => data.to_vec(),
        };
        Ok((message, data))
    }

    /// Gives the socket an address.
    ///
    /// # Errors
    /// No RDMA device has it.
    pub fn bind(&self, address: SocketAddrV4) -> Result<SocketAddrV4> {
        Ok(self.call(Message::call(Operation::Bind, address, 0))?.0.address)
    }

    /// Returns a list.
    ///
    /// # Errors
    /// The service has ended.
    pub fn info(&self, kind: InfoKind) -> Result<InfoTable> {
        let (_, bytes) = self.call(Message::call(Operation::Info, NO_ADDRESS, kind as u64))?;
        Ok(InfoTable { entry_bytes: kind.entry_bytes(), bytes })
    }

    /// Ends the service.
    ///
    /// # Errors
    /// The service has ended.
    pub fn stop(&self) -> Result<()> {
        self.call(Message::call(Operation::Stop, NO_ADDRESS, 0)).map(drop)
    }

    /// Sends an empty datagram.
    ///
    /// # Errors
    /// The service has ended.
    pub fn send_empty(&self, to: SocketAddrV4) -> io::Result<()> {
        let message = Message::with_data(Kind::Send, to, 0);
        unix::send(&self.0, &message.to_bytes(), &[], Wait::Block).map(drop)
    }

    /// Takes a datagram; returns its sender. `None`: none is there.
    ///
    /// # Errors
    /// The service has ended.
    pub fn receive(&self) -> io::Result<Option<SocketAddrV4>> {
        let mut head = [0; HEAD_LEN];
        match unix::recv(&self.0, &mut head, 0, Wait::No) {
            Ok(received) if received.len == 0 => Err(io::ErrorKind::ConnectionReset.into()),
            Ok(_) => Ok(Message::parse(&head)
                .filter(|(message, _)| message.kind == Kind::Datagram)
                .map(|(message, _)| message.address)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for ServiceClient {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
