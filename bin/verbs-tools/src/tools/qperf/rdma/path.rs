//! Queue pairs connected through an exchange of addresses over TCP. On Ethernet, which the original does not support,
//! the GIDs come from the addresses of the TCP connection.

use std::net::{IpAddr, SocketAddr};

use weft_abi_types::{
    IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE, IBV_LINK_LAYER_ETHERNET, IBV_QPT_RC,
    IBV_QPT_UD, ibv_port_attr,
};

use super::verbs::{Verbs, Wanted};
use crate::pingpong::random_psn;
use crate::tools::qperf::control::{Failure, Result, system};
use crate::tools::qperf::run::Run;
use crate::tools::qperf::wire::{Node, Number};
use weft_client::verbs::{Ah, Connect, Context, DeviceList, Library, Path, Qp, UdTarget};

/// Q_Key of the tests' datagrams.
const QKEY: u32 = 0x1111_1111;
/// Hop limit of packets.
const HOP_LIMIT: u8 = 64;

/// A port and the address of a queue pair on it.
pub struct Direct {
    transport: u32,
    context: Context,
    port_num: u8,
    port: ibv_port_attr,
    psn: u32,
}

impl Direct {
    /// Opens the requested device, or the first one, and a queue pair in the Init state.
    pub fn open(run: &Run, wanted: Wanted) -> Result<(Direct, Verbs, Qp)> {
        let library = Library::load(run.which).map_err(|e| Failure::Ours(format!("{e:#}")))?;
        let none = |e: &std::io::Error| system("failed to find any InfiniBand devices", e);
        let list = DeviceList::new(library).map_err(|e| none(&e))?;
        let (name, port) = match run.request.id.split_once(':') {
            Some((name, port)) => (name, port.parse().unwrap_or(0)),
            None => (run.request.id.as_str(), 1),
        };
        if port < 1 {
            return Err(format!("bad IB port: {port}; must be at least 1").into());
        }
        let device = list.find(Some(name).filter(|name| !name.is_empty()));
        let device = device.ok_or_else(|| Failure::Ours("failed to find InfiniBand device".to_owned()))?;
        let failed = format!("failed to open device {}", device.name());
        let context = device.open().map_err(|e| system(failed, &e))?;
        let attr = context.query_port(port).map_err(|e| system("query port failed", &e))?;
        let verbs = Verbs::new(run, &context, wanted)?;
        let qp = Qp::new(&verbs.pd, &wanted.request(&verbs.cq)).map_err(|e| system("failed to create QP", &e))?;
        let access = match wanted.transport {
            IBV_QPT_RC => IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
            _ => IBV_ACCESS_REMOTE_WRITE,
        };
        let init = qp.to_init(port, access, QKEY);
        init.map_err(|e| system("failed to modify QP to INIT state", &e))?;
        let transport = wanted.transport;
        Ok((Direct { transport, context, port_num: port, port: attr, psn: random_psn() }, verbs, qp))
    }

    /// The local LID.
    pub fn lid(&self) -> u32 {
        self.port.lid.into()
    }

    /// The first local PSN.
    pub fn psn(&self) -> u32 {
        self.psn
    }

    /// Takes the queue pair to Ready to Send; for UD, returns the datagrams' destination.
    pub fn connect(&self, run: &Run, qp: &Qp, verbs: &Verbs, peer: &Node) -> Result<Option<UdTarget>> {
        let path = Path {
            dlid: peer.lid as u16,
            sl: run.number(Number::Sl) as u8,
            port_num: self.port_num,
            gid: if u32::from(self.port.link_layer) == IBV_LINK_LAYER_ETHERNET { Some(self.gids(run)?) } else { None },
            hop_limit: HOP_LIMIT,
        };
        let to = |rd_atomic: u32| -> Result<Connect> {
            Ok(Connect {
                dest_qpn: peer.qpn,
                rq_psn: peer.psn,
                sq_psn: self.psn,
                path_mtu: self.mtu(run)?,
                path,
                rd_atomic: rd_atomic.min(u8::MAX.into()) as u8,
            })
        };
        qp.to_rtr(&to(verbs.rd_atomic)?).map_err(|e| system("failed to modify QP to RTR", &e))?;
        qp.to_rts(&to(peer.rd_atomic)?).map_err(|e| system("failed to modify QP to RTS", &e))?;
        if self.transport != IBV_QPT_UD {
            return Ok(None);
        }
        let ah = Ah::new(&verbs.pd, &path).map_err(|e| system("failed to create address handle", &e))?;
        Ok(Some(UdTarget { ah, qpn: peer.qpn, qkey: QKEY }))
    }

    /// The requested MTU, limited to the port's active MTU.
    fn mtu(&self, run: &Run) -> Result<u32> {
        let wanted = run.number(Number::MtuSize);
        let code = [256, 512, 1024, 2048, 4096].iter().position(|mtu| *mtu == wanted);
        let code = code.ok_or_else(|| format!("bad MTU: {wanted}; must be 256/512/1K/2K/4K"))?;
        Ok((code as u32 + 1).min(self.port.active_mtu))
    }

    /// The peer's GID and the local GID's index.
    fn gids(&self, run: &Run) -> Result<([u8; 16], u8)> {
        let stream = run.control.stream();
        let failed = |e: std::io::Error| system("getsockname failed", &e);
        let (ours, theirs) = (stream.local_addr().map_err(failed)?, stream.peer_addr().map_err(failed)?);
        let ours = gid(ours);
        let rows = u32::try_from(self.port.gid_tbl_len).unwrap_or(0);
        let row = (0..rows)
            .filter_map(|index| self.context.query_gid(self.port_num, index).ok())
            .find(|row| row.gid == ours && row.is_roce_v2())
            .or_else(|| self.context.default_gid(self.port_num))
            .ok_or_else(|| Failure::Ours("the port has no GID".to_owned()))?;
        Ok((gid(theirs), row.index as u8))
    }
}

/// The GID of an IP address on Ethernet.
fn gid(addr: SocketAddr) -> [u8; 16] {
    match addr.ip() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}
