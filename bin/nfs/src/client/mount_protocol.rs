//! MOUNT (RFC 1813 appendix I): asks the server for the handle of the exported directory.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use rustix::io::Errno;

use super::errors::errno_of;
use super::message::{self, Handle};
use super::nfs::Nfs;
use crate::limits::MOUNT_RECORD_MAX;
use crate::protocol::credential::Credential;
use crate::protocol::rpc::{MOUNT_PROGRAM, PORTMAP_PROGRAM};
use crate::protocol::status::Status;
use crate::protocol::xdr::{Reader, Writer};
use crate::tcp::{RecordReader, record_mark};

const MNT: u32 = 1;
/// Port of the port mapper.
const PORTMAP: u16 = 111;
/// Port of MOUNT where no port mapper tells another: mountd's own.
const MOUNT_PORT: u16 = 20048;
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// Service that answers MOUNT.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MountService {
    /// Host (`mountaddr=`); the server if it is not given.
    pub host: Option<String>,
    /// TCP port (`mountport=`). Without it, the connection over RDMA is tried first, then the port mapper.
    pub port: Option<u16>,
}

/// Returns the handle of a directory.
///
/// # Errors
/// The server refuses it, or no MOUNT service answers.
pub fn root_handle(nfs: &Nfs, server: &str, service: &MountService, path: &str, by: &Credential) -> Result<Handle> {
    let mut arguments = Writer::default();
    arguments.opaque(path.as_bytes());
    let refused = |errno: Errno| anyhow!("{path}: {}", text(errno));
    if service.port.is_none()
        && service.host.is_none()
        && let Ok(answer) = nfs.raw(MOUNT_PROGRAM, MNT, by, &arguments.0)
        && let Ok(mut xdr) = message::results(&answer.head)
    {
        return read_handle(&mut xdr).map_err(refused);
    }
    let host = service.host.as_deref().unwrap_or(server);
    let port = service.port.unwrap_or_else(|| mount_port(host));
    let mut out = message::call(MOUNT_PROGRAM, MNT, by, rustix::system::uname().nodename().to_bytes());
    out.0.extend_from_slice(&arguments.0);
    let hint = || format!("MOUNT on TCP port {port} of {host}; mountport= and mountaddr= choose another");
    let reply = exchange(host, port, &out.0).with_context(hint)?;
    let mut xdr = message::results(&reply).map_err(refused).with_context(hint)?;
    read_handle(&mut xdr).map_err(refused)
}

fn text(errno: Errno) -> String {
    weft_tool::errno::text(&errno.into())
}

fn read_handle(xdr: &mut Reader<'_>) -> Result<Handle, Errno> {
    match xdr.u32().ok_or(Errno::IO)? {
        0 => Handle::read(xdr).ok_or(Errno::IO),
        status => Err(errno_of(Status(status))),
    }
}

/// Returns MOUNT's TCP port on a host, as its port mapper tells; without an answer, that of mountd and of `weft nfs serve`.
pub fn mount_port(host: &str) -> u16 {
    mapped(host).unwrap_or(MOUNT_PORT)
}

/// Asks the port mapper for MOUNT's port.
fn mapped(host: &str) -> Option<u16> {
    const GETPORT: u32 = 3;
    const TCP: u32 = 6;
    let mut out = Writer::default();
    out.words(&[0, 0, 2, PORTMAP_PROGRAM, 2, GETPORT, 0, 0, 0, 0, MOUNT_PROGRAM, 3, TCP, 0]);
    let reply = exchange(host, PORTMAP, &out.0).ok()?;
    let port = message::results(&reply).ok()?.u32()?;
    u16::try_from(port).ok().filter(|port| *port != 0)
}

/// Sends a call over TCP, and returns the reply.
fn exchange(host: &str, port: u16, call: &[u8]) -> Result<Vec<u8>> {
    let mut last = anyhow!("unknown host");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, ANSWERS_WITHIN) {
            Ok(socket) => return ask(socket, call),
            Err(error) => last = anyhow!("{address}: {}", weft_tool::errno::text(&error)),
        }
    }
    Err(last)
}

fn ask(mut socket: TcpStream, call: &[u8]) -> Result<Vec<u8>> {
    socket.set_read_timeout(Some(ANSWERS_WITHIN))?;
    socket.set_write_timeout(Some(ANSWERS_WITHIN))?;
    socket.write_all(&[&record_mark(call.len())[..], call].concat())?;
    let (mut reader, mut bytes) = (RecordReader::new(MOUNT_RECORD_MAX), [0; MOUNT_RECORD_MAX]);
    loop {
        let count = socket.read(&mut bytes)?;
        if count == 0 {
            bail!("the connection ended");
        }
        let mut record = None;
        let pushed = reader.push(bytes.get(..count).unwrap_or_default(), |whole| record = Some(whole));
        pushed.map_err(|_| anyhow!("the reply is too long"))?;
        if let Some(record) = record {
            return Ok(record);
        }
    }
}
