//! Programs of a virtual host, whose adapters are on a fabric in the daemon: their properties, and opening their ports.

use libc::{EIO, ENODEV, c_int};
use std::collections::BTreeMap;
use std::os::fd::IntoRawFd;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use weft_ipc::umad::UmadAgent;
use weft_ipc::umad_ring::program_ends;
use weft_ipc::{ConnectOptions, DeviceInfo, HOST_VARIABLE, IbPort, InfiniBand, OpenPort, UmadClient, UmadError};

use crate::adapter::{Ca, Port};
use crate::debug::{trace, warn};
use crate::socket::Socket;

const NODE_TYPE_CA: u32 = 1;

static IS_OURS: LazyLock<bool> = LazyLock::new(|| std::env::var_os(HOST_VARIABLE).is_some_and(|host| !host.is_empty()));

static CLIENT: LazyLock<UmadClient> = LazyLock::new(|| {
    let here = is_ours as fn() -> bool;
    let library = weft_sys::mapping::file_of_code(here as usize);
    let library_dir = library.and_then(|file| file.parent().map(ToOwned::to_owned));
    UmadClient::new(ConnectOptions { library_dir, ..ConnectOptions::default() })
});

/// The open ports, by the descriptors that programs use.
static OPEN: Mutex<BTreeMap<c_int, Arc<Opened>>> = Mutex::new(BTreeMap::new());

/// An open port.
#[derive(Debug)]
pub(crate) struct Opened {
    port: OpenPort,
    /// The connection to the daemon.
    pub(crate) socket: Socket,
    /// The socket's inode number, which duplicate descriptors share.
    inode: u64,
}

/// Whether this process belongs to a virtual host.
pub(crate) fn is_ours() -> bool {
    *IS_OURS
}

/// Returns the errno value of an error; prints its text if the debug level allows it.
fn errno_of(error: &UmadError) -> c_int {
    if crate::debug::level() > 0 || std::env::var_os("WEFT_LOG").is_some_and(|to| to == "stderr") {
        warn("umad", &error.to_string());
    }
    error.errno()
}

fn devices() -> Result<Vec<DeviceInfo>, c_int> {
    CLIENT.devices().map_err(|error| errno_of(&error))
}

fn device(name: &[u8]) -> Result<DeviceInfo, c_int> {
    devices()?.into_iter().find(|device| device.name.as_bytes() == name).ok_or(ENODEV)
}

pub(crate) fn ca_names() -> Result<Vec<Vec<u8>>, c_int> {
    Ok(devices()?.into_iter().map(|device| device.name.into_bytes()).collect())
}

pub(crate) fn ca(name: &[u8]) -> Result<Ca, c_int> {
    let device = device(name)?;
    let infiniband = device.infiniband.as_deref().ok_or(ENODEV)?;
    Ok(Ca {
        name: name.to_vec(),
        node_type: NODE_TYPE_CA,
        fw_ver: env!("CARGO_PKG_VERSION").into(),
        hw_ver: format!("{:x}", infiniband.revision).into_bytes(),
        ca_type: device.kind.clone().into_bytes(),
        node_guid: device.node_guid,
        system_guid: infiniband.system_image_guid,
        ports: infiniband.ports.iter().map(describe).collect(),
    })
}

pub(crate) fn port(ca: &[u8], number: u8) -> Result<Port, c_int> {
    with_port(ca, c_int::from(number), |_, port| describe(port)).ok_or(EIO)
}

pub(crate) fn node_number(ca: &[u8], number: c_int) -> Option<usize> {
    with_port(ca, number, |_, port| port.umad as usize)
}

fn with_port<T>(ca: &[u8], number: c_int, f: impl FnOnce(&DeviceInfo, &IbPort) -> T) -> Option<T> {
    let device = device(ca).ok()?;
    let infiniband: &InfiniBand = device.infiniband.as_deref()?;
    Some(f(&device, infiniband.port(u8::try_from(number).ok()?)?))
}

fn describe(port: &IbPort) -> Port {
    Port {
        number: port.number,
        lid: u32::from(port.lid),
        lmc: u32::from(port.lmc),
        sm_lid: u32::from(port.sm_lid),
        sm_sl: u32::from(port.sm_sl),
        state: u32::from(port.state),
        phys_state: u32::from(port.phys_state),
        rate: port.lanes() * port.lane_speed().0 / 10,
        capabilities: port.capabilities,
        gid_prefix: port.gid_prefix,
        guid: port.guid,
        pkeys: port.pkeys.clone(),
        link_layer: if port.is_ethernet() { b"Ethernet".to_vec() } else { b"InfiniBand".to_vec() },
    }
}

/// Opens a port; the returned descriptor belongs to the program.
pub(crate) fn open(ca: &[u8], number: c_int) -> Result<c_int, c_int> {
    let (device, number) = with_port(ca, number, |device, port| (device.index, port.number)).ok_or(libc::EINVAL)?;
    let opened = CLIENT.open(device, number).map_err(|error| {
        errno_of(&error);
        EIO
    })?;
    let rings = opened.rings.and_then(|memory| program_ends(memory).ok());
    let fd = opened.socket.into_raw_fd();
    crate::socket::prepare(fd);
    trace!("umad_open_port", "opened port {number} of the virtual host, fd {fd}");
    // A port that the program closed without our call had the same descriptor.
    let inode = inode(fd).unwrap_or(0);
    let stale = table().insert(fd, Arc::new(Opened { port: opened.port, socket: Socket::new(rings), inode }));
    drop(stale);
    Ok(fd)
}

/// Returns the inode number of a socket; `None` if the descriptor is not a socket.
fn inode(fd: c_int) -> Option<u64> {
    // SAFETY: an all-zero stat is valid, and the call fills it.
    let stat = unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        (libc::fstat(fd, &raw mut stat) == 0).then_some(stat)?
    };
    (stat.st_mode & libc::S_IFMT == libc::S_IFSOCK).then_some(stat.st_ino)
}

fn table() -> std::sync::MutexGuard<'static, BTreeMap<c_int, Arc<Opened>>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the port of this descriptor, which may be a duplicate of the original one.
pub(crate) fn opened(fd: c_int) -> Option<Arc<Opened>> {
    let table = table();
    if table.is_empty() {
        return None;
    }
    if let Some(opened) = table.get(&fd) {
        return Some(opened.clone());
    }
    let inode = inode(fd)?;
    table.values().find(|opened| opened.inode == inode).cloned()
}

/// Closes a port, except for its descriptor.
pub(crate) fn close(fd: c_int) {
    let closed = table().remove(&fd);
    drop(closed);
}

impl Opened {
    pub(crate) fn register(&self, agent: UmadAgent) -> Result<u32, c_int> {
        self.socket.may_register()?;
        let number = self.port.register(agent).map_err(|error| errno_of(&error.into()))?;
        self.socket.add_agent(number);
        Ok(number)
    }

    pub(crate) fn unregister(&self, number: u32) -> Result<(), c_int> {
        self.port.unregister(number).map_err(|error| errno_of(&error.into()))?;
        self.socket.remove_agent(number);
        Ok(())
    }
}
