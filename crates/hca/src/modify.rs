//! `modify_qp`: checks the transition (the table in `verbs::qp_state`), then each given value, then applies them to the
//! queue pair. On an error nothing has changed.

use weft_transport::Qp;
use weft_transport::peers::PeerId;
use weft_verbs::injection::Call;
use weft_verbs::{
    AddressVector, DeviceId, Gid, Instant, QPN_INDEX_BITS, QpAttr, QpAttrMask as Mask, QpId, QpState, QpType,
    RD_ATOMIC_MAX, VerbsError, qp_state,
};

use crate::context::HcaContext;
use crate::objects::Device;
use crate::paths::FabricPath;
use crate::{Hca, HostInterface};

/// Bit of a Q_Key that only a privileged process may set (IBA 10.2.5).
const CONTROLLED_QKEY: u32 = 1 << 31;
/// Numbers of 24 bits: queue pairs and PSNs.
const BITS_24: u32 = 0xff_ffff;
/// Timeouts and RNR timers are codes of five bits.
const TIMER_CODE_MAX: u8 = 31;
/// Retry counts are numbers of three bits.
const RETRY_MAX: u8 = 7;

fn refuse_if(bad: bool, why: &'static str) -> Result<(), VerbsError> {
    if bad { Err(VerbsError::Invalid(why)) } else { Ok(()) }
}

/// Returns the port that a queue pair has, or is given: the first one by default.
fn port_of(now: &QpAttr, attr: &QpAttr, mask: Mask) -> u8 {
    if mask.contains(Mask::PORT) { attr.port_num } else { now.port_num.max(1) }
}

/// Checks the given values, as listed in the mask, for a queue pair of a port.
fn check_values(device: &Device, port: u8, attr: &QpAttr, mask: Mask, privileged: bool) -> Result<(), VerbsError> {
    let bad = |given: Mask, bad: bool, why| refuse_if(mask.contains(given) && bad, why);

    device.check_port(port)?;
    let active_mtu = device.attr.port(port).map(|port| port.active_mtu);
    bad(
        Mask::PKEY_INDEX,
        usize::from(attr.pkey_index) >= device.pkey_rows(port),
        "pkey_index is outside the port's P_Key table",
    )?;
    bad(Mask::PATH_MTU, Some(attr.path_mtu) > active_mtu, "path_mtu is above the port's active_mtu")?;
    bad(Mask::TIMEOUT, attr.timeout > TIMER_CODE_MAX, "timeout is above 31")?;
    bad(Mask::RETRY_CNT, attr.retry_cnt > RETRY_MAX, "retry_cnt is above 7")?;
    bad(Mask::RNR_RETRY, attr.rnr_retry > RETRY_MAX, "rnr_retry is above 7")?;
    bad(Mask::MIN_RNR_TIMER, attr.min_rnr_timer > TIMER_CODE_MAX, "min_rnr_timer is above 31")?;
    bad(Mask::MAX_QP_RD_ATOMIC, attr.max_rd_atomic > RD_ATOMIC_MAX, "max_rd_atomic is above the device's limit")?;
    bad(
        Mask::MAX_DEST_RD_ATOMIC,
        attr.max_dest_rd_atomic > RD_ATOMIC_MAX,
        "max_dest_rd_atomic is above the device's limit",
    )?;
    bad(Mask::DEST_QPN, attr.dest_qpn > BITS_24, "dest_qp_num has more than 24 bits")?;
    if mask.contains(Mask::AV) {
        let av = attr.av.ok_or(VerbsError::Invalid("the primary path is missing"))?;
        refuse_if(av.port_num != port, "the primary path's port_num is not the queue pair's port")?;
        refuse_if(av.dgid.is_multicast(), "the primary path leads to a multicast group")?;
        device.check_av(&av)?;
    }
    if mask.contains(Mask::QKEY) && attr.qkey & CONTROLLED_QKEY != 0 && !privileged {
        return Err(VerbsError::Permission("a Q_Key with the top bit set is reserved to the privileged"));
    }
    if mask.contains(Mask::ALT_PATH) {
        return Err(VerbsError::NotSupported("alternate paths"));
    }
    Ok(())
}

impl<H: HostInterface> HcaContext<H> {
    /// Returns the P_Key that a queue pair's index names in its port's table now.
    fn pkey_of(&self, qp: &Qp) -> u16 {
        let attr = qp.query();
        self.devices.get(&qp.device()).map_or(0, |device| device.pkey(attr.port_num.max(1), attr.pkey_index))
    }
}

/// Returns the name of a peer's port: its GID, or its LID where packets have no GID.
fn name_of(peer: &AddressVector) -> Gid {
    if peer.dlid != 0 && !peer.is_global { Gid(u128::from(peer.dlid).to_be_bytes()) } else { peer.dgid }
}

impl<H: HostInterface> Hca<H> {
    /// Whether the packets of a queue pair will cross a fabric hop by hop if it goes to RTR with these attributes.
    pub fn goes_by_hops(&self, id: QpId, attr: &QpAttr, mask: Mask) -> bool {
        let Some(entry) = self.qps.get(id).ok().filter(|_| self.context.fabric_packets) else { return false };
        let device = self.context.devices.get(&entry.device);
        let port = device.and_then(|device| device.fabric_port(port_of(&entry.qp.query(), attr, mask)));
        port.is_some_and(|port| !port.is_ethernet)
    }

    /// Returns the path over the fabric that a queue pair will send on if it goes to RTR with these attributes; `None`
    /// for a queue pair that is not on a fabric, or sends packets there.
    pub fn fabric_path(&self, id: QpId, attr: &QpAttr, mask: Mask) -> Option<FabricPath> {
        let entry = self.qps.get(id).ok()?;
        let device = self.context.devices.get(&entry.device)?;
        let av = attr.av.filter(|_| mask.contains(Mask::AV))?;
        let now = entry.qp.query();
        let port = port_of(&now, attr, mask);
        let is_ethernet = device.fabric_port(port)?.is_ethernet;
        if self.goes_by_hops(id, attr, mask) {
            return None;
        }
        let index = if mask.contains(Mask::PKEY_INDEX) { attr.pkey_index } else { now.pkey_index };
        let mtu = if mask.contains(Mask::PATH_MTU) { attr.path_mtu } else { now.path_mtu };
        Some(FabricPath {
            device: entry.device,
            port,
            dlid: if is_ethernet { 0 } else { av.dlid },
            dgid: if is_ethernet { av.dgid } else { Gid::ZERO },
            sl: av.sl,
            pkey: device.pkey(port, index),
            mtu: mtu.bytes() as u16,
            slot: attr.dest_qpn >> QPN_INDEX_BITS,
            there_and_back: entry.qp.qp_type() != QpType::Uc,
        })
    }

    /// Gives the queue pairs of a device the P_Keys of its ports' tables, after a change of these.
    pub(crate) fn resolve_pkeys(&mut self, device: DeviceId) {
        for (_, entry) in self.qps.iter_mut().filter(|(_, entry)| entry.device == device) {
            let pkey = self.context.pkey_of(&entry.qp);
            entry.qp.set_pkey(pkey);
        }
    }

    /// Moves a queue pair to another state and sets its attributes.
    pub fn modify_qp(&mut self, now: Instant, id: QpId, attr: &QpAttr, mask: Mask) -> Result<(), VerbsError> {
        self.modify_qp_local(now, id, attr, mask, None)
    }

    /// Does the same; for the transition to RTR, the queue pair reaches its peer through `peer`, a process of this
    /// host.
    pub fn modify_qp_local(
        &mut self,
        now: Instant,
        id: QpId,
        attr: &QpAttr,
        mask: Mask,
        peer: Option<PeerId>,
    ) -> Result<(), VerbsError> {
        self.may_call_for_qp(id, Call::ModifyQp)?;
        let entry = self.qps.get_mut(id)?;
        if entry.qp.stream_phase().is_some() {
            return self.modify_iwarp(now, id, attr, mask);
        }
        let from = entry.qp.state();
        let to = if mask.contains(Mask::STATE) { attr.qp_state } else { from };
        if mask.contains(Mask::CUR_STATE) && attr.cur_qp_state != from {
            return Err(VerbsError::Invalid("cur_qp_state is not the queue pair's state"));
        }
        let mask = qp_state::heeded(entry.qp.qp_type(), mask);
        qp_state::check(entry.qp.qp_type(), from, to, mask)?;

        let device = self.context.devices.get(&entry.device);
        let device = device.ok_or(VerbsError::NoDevice("the device has gone"))?;
        // Queue pairs of a removed device can still be torn down.
        if device.gone && !matches!(to, QpState::Reset | QpState::Err) {
            return Err(VerbsError::NoDevice("the device has gone"));
        }
        let port = port_of(&entry.qp.query(), attr, mask);
        check_values(device, port, attr, mask, self.privileged)?;
        let on_fabric = device.on_fabric();

        let mut attr = *attr;
        attr.qp_state = to;
        attr.rq_psn &= BITS_24;
        attr.sq_psn &= BITS_24;
        if let Some(av) = attr.av.as_mut().filter(|_| mask.contains(Mask::AV)) {
            // The row's address may have changed since the caller resolved it.
            if let Some(row) = device.gid(port, av.sgid_index).filter(|_| av.is_global) {
                (av.sgid, av.ifindex) = (row.gid, row.ifindex);
            }
            entry.peer = Some(*av);
        }
        if to == QpState::Reset {
            entry.peer = None;
        }
        self.context.act(entry.device, now);
        if on_fabric {
            entry.qp.count_passed();
        }
        if let Some(peer) = peer.filter(|_| to == QpState::Rtr && from != QpState::Rtr) {
            entry.qp.set_peer(peer);
            self.context.rings_open |= entry.qp.peer().is_some();
        }
        entry.qp.modify(now, &attr, mask | Mask::STATE, &mut self.context);
        if to == QpState::Rts
            && from == QpState::Rtr
            && let Some(peer) = entry.peer
        {
            entry.qp.join(self.peer_quotas.of(name_of(&peer)));
        }
        let pkey = self.context.pkey_of(&entry.qp);
        entry.qp.set_pkey(pkey);
        let on_wire = entry.qp.peer().is_none() && !matches!(to, QpState::Reset | QpState::Init);
        let was = std::mem::replace(&mut entry.on_wire, on_wire);
        self.wire_qps = self.wire_qps + usize::from(on_wire) - usize::from(was);
        if to == QpState::Reset && from != QpState::Reset {
            // Restores the acknowledgement delay that `release_acks` took back when the queue pair left its peer.
            entry.qp.allow_ack_delay(self.ack_delay);
            self.forget_completions_of(id);
        }
        if matches!(to, QpState::Reset | QpState::Err) {
            self.leave_line(id);
            self.admit_all(now);
        }
        self.settle(id, now);
        if to == QpState::Rts {
            self.note_ready(now);
        }
        Ok(())
    }

    /// Removes the completions of a queue pair, which enters RESET, from its queues.
    pub(crate) fn forget_completions_of(&mut self, id: QpId) {
        let Ok(entry) = self.qps.get(id) else { return };
        for cq in [entry.init.send_cq, entry.init.recv_cq].into_iter().flatten() {
            self.context.forget_completions(cq, entry.qp.qpn());
        }
    }
}
