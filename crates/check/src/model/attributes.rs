//! Attributes of queue pairs and address vectors.

use super::ids::{Handle, Site};
use super::objects::{DeviceLimits, Kind, PortInfo, QpCap, QpKind, QpState};
use super::qp_attributes::{AddressVector, QpAttributes};
use super::state::Model;
use super::transition;
use crate::rules;

impl Model {
    /// The program is about to modify a queue pair: reports attributes that are wrong whether or not the library says so.
    pub fn check_modify(&mut self, qp: Handle, attributes: &QpAttributes, site: Site) {
        let Some(queue) = self.qps.get(&qp) else { return self.check_alive(Kind::Qp, qp, site) };
        let (kind, name) = (queue.kind, self.qp_name(qp));
        if kind == QpKind::Driver || self.is_iwarp(queue.context) {
            return;
        }
        if let Some(missing) = transition::missing(kind, attributes) {
            let to = attributes.state.unwrap_or(QpState::Unknown).as_str();
            let from = attributes.from.as_str();
            let message = format!("the transition from {from} to {to} lacks {}", transition::names(missing));
            self.find(&rules::ATTRIBUTE_MISSING, site, name.clone(), message);
        }
        self.check_address(name.clone(), attributes.address, site);
        if let (Some(path), Some(port)) = (attributes.path_mtu_bytes, attributes.port_mtu_bytes)
            && path > port
        {
            let message = format!("the path MTU of {path} bytes exceeds the port's active MTU of {port} bytes");
            self.find(&rules::PATH_MTU_EXCEEDS_PORT, site, name.clone(), message);
        }
        if attributes.state == Some(QpState::Rts) {
            self.check_retries(name, attributes, site);
        }
    }

    fn check_retries(&mut self, name: String, attributes: &QpAttributes, site: Site) {
        if attributes.timeout == Some(0) {
            let message = "the program sets timeout 0: the queue pair never retransmits a lost packet".to_owned();
            self.find(&rules::TIMEOUT_ZERO, site, name.clone(), message);
        }
        if attributes.retry_count == Some(0) {
            let message = "the program sets retry_cnt 0: the first lost packet breaks the connection".to_owned();
            self.find(&rules::RETRY_ZERO, site, name, message);
        }
    }

    /// Reports an address vector whose source GID does not exist.
    pub fn check_address(&mut self, object: String, address: Option<AddressVector>, site: Site) {
        if let Some(AddressVector { gid_index, gid_is_empty: Some(true) }) = address {
            let message = format!("the address vector names entry {gid_index} of the GID table, which is empty");
            self.find(&rules::GID_INDEX_EMPTY, site, object, message);
        }
    }

    /// The call succeeded.
    pub fn modified(&mut self, qp: Handle, attributes: &QpAttributes) {
        let Some(queue) = self.qps.get_mut(&qp) else { return };
        queue.read_limit = attributes.read_limit.or(queue.read_limit);
        queue.port = attributes.port.or(queue.port);
        queue.access = attributes.access.unwrap_or(queue.access);
        queue.state = attributes.state.unwrap_or(queue.state);
        let (context, port, is_reset) = (queue.context, queue.port, queue.state == QpState::Reset);
        if is_reset {
            queue.read_limit = None;
            self.drop_requests(qp);
        }
        if let (Some(port), Some(mtu_bytes)) = (port, attributes.port_mtu_bytes)
            && let Some(context) = self.contexts.get_mut(&context)
        {
            context.ports.insert(port, PortInfo { mtu_bytes });
        }
    }

    /// The library refused the call: reports the reason if it lies in the transition.
    pub fn modify_refused(&mut self, qp: Handle, attributes: &QpAttributes, site: Site) {
        let Some(queue) = self.qps.get(&qp) else { return };
        let (kind, name, from) = (queue.kind, self.qp_name(qp), attributes.from);
        let to = attributes.state.unwrap_or(from);
        if kind == QpKind::Driver || from == QpState::Unknown || self.is_iwarp(queue.context) {
            return;
        }
        if !transition::exists(from, to) {
            let message = format!("there is no transition from {} to {}", from.as_str(), to.as_str());
            self.find(&rules::WRONG_TRANSITION, site, name, message);
        } else if let Some(extra) = transition::extra(kind, attributes) {
            let (from, to) = (from.as_str(), to.as_str());
            let message = format!("the transition from {from} to {to} does not allow {}", transition::names(extra));
            self.find(&rules::ATTRIBUTE_EXTRA, site, name, message);
        }
    }

    /// The library refused to create a queue pair: reports capacities beyond the device's.
    pub fn creation_refused(&mut self, context: Handle, cap: QpCap, site: Site) {
        let limits = self.contexts.get(&context).map_or(DeviceLimits::default(), |context| context.limits);
        let wanted = [
            ("max_send_wr", cap.send_wr_max, "max_qp_wr", limits.qp_wr_max),
            ("max_recv_wr", cap.receive_wr_max, "max_qp_wr", limits.qp_wr_max),
            ("max_send_sge", cap.send_sge_max, "max_sge", limits.sge_max),
            ("max_recv_sge", cap.receive_sge_max, "max_sge", limits.sge_max),
        ];
        let excess = wanted.into_iter().find(|(_, wanted, _, limit)| *limit > 0 && wanted > limit);
        if let Some((what, wanted, name, limit)) = excess {
            let message = format!("the program asks for {what} {wanted}, but {name} of the device is {limit}");
            self.find(&rules::QP_CAP_BEYOND_DEVICE, site, self.name(Kind::Context, context), message);
        }
    }

    /// The capacities of a queue pair changed.
    pub fn recapped(&mut self, qp: Handle, cap: QpCap) {
        if let Some(queue) = self.qps.get_mut(&qp) {
            queue.cap = cap;
        }
    }

    /// A completion queue has room for so many entries now.
    pub fn resize_cq(&mut self, cq: Handle, capacity: u32) {
        if let Some(queue) = self.cqs.get_mut(&cq) {
            queue.capacity = capacity;
        }
    }

    /// A shared receive queue has room for so many receives now.
    pub fn resize_srq(&mut self, srq: Handle, wr_max: u32) {
        if let Some(queue) = self.srqs.get_mut(&srq) {
            queue.wr_max = wr_max;
        }
    }
}
