//! Datagrams over an InfiniBand fabric that a queue pair refused for their keys: its port counts them and reports them
//! to the subnet manager (IBA 14.2.5.1, traps 257 and 258).

use weft_transport::RxPacket;
use weft_verbs::{DeviceId, Gid, Qpn};

/// Maximum number of violations kept until the next call; later ones are lost, as traps may be.
const KEPT_MAX: usize = 64;

/// A datagram that was refused for its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyViolation {
    /// Device that received it.
    pub device: DeviceId,
    /// Port that received it.
    pub port: u8,
    /// LID of the sender.
    pub slid: u16,
    /// Destination LID.
    pub dlid: u16,
    /// Service level.
    pub sl: u8,
    /// The key.
    pub key: RefusedKey,
    /// Queue pair that sent it.
    pub src_qp: Qpn,
    /// Queue pair that refused it.
    pub dest_qp: Qpn,
    /// Source and destination of its GRH, if it has one.
    pub gids: Option<[Gid; 2]>,
}

/// Which key was wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RefusedKey {
    /// The P_Key.
    Pkey(u16),
    /// The Q_Key.
    Qkey(u32),
}

/// Records a violation, if the packet came over a fabric and there is room.
pub(crate) fn keep(kept: &mut Vec<KeyViolation>, at: (DeviceId, u8, Qpn), rx: &RxPacket<'_>, key: RefusedKey) {
    let Some(local) = rx.local else { return };
    if kept.len() >= KEPT_MAX {
        return;
    }
    let (device, port, dest_qp) = at;
    kept.push(KeyViolation {
        device,
        port,
        slid: local.slid,
        dlid: local.dlid,
        sl: local.sl,
        key,
        src_qp: rx.packet.ext.deth.map_or(0, |deth| deth.src_qp()),
        dest_qp,
        gids: local.global.then_some([rx.sgid, rx.dgid]),
    });
}
