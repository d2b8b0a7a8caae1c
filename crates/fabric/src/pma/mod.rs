//! Performance management agent (PMA) of every port (IBA 16.1). A switch has one for all its ports; port 255 means all
//! of them. Attributes missing from the table are answered as unsupported.

mod bank;
mod counters;
mod details;
mod extended;
mod samples;
mod sampling;
mod splits;

pub(crate) use sampling::Sampling;

use self::bank::{Bank, answer};
use crate::Fabric;
use crate::counters::View;
use crate::topology::NodeKind;
use weft_wire::mad::perf::{ALL_PORTS, CLASS_VERSION, Capability, Capability2};
use weft_wire::mad::{AttrId, ClassPortInfo, Mad, MadHeader, Method, Status};

/// Offset of the attribute in a datagram's data.
const ATTRIBUTE: usize = 40;
/// RespTimeValue of ClassPortInfo: about a quarter of a second.
const RESP_TIME: u8 = 16;

/// Serves a Get, or a Set and the Get after it, on the attribute's bytes.
type Serve = fn(&mut Bank<'_>, &mut [u8], bool) -> Result<(), Status>;

const TABLE: &[(AttrId, View, Serve)] = &[
    (AttrId::PORT_COUNTERS, View::Short, counters::serve),
    (AttrId::PORT_COUNTERS_EXTENDED, View::Extended, extended::serve),
    (AttrId::PORT_RCV_ERROR_DETAILS, View::Short, details::rcv_errors),
    (AttrId::PORT_XMIT_DISCARD_DETAILS, View::Short, details::xmit_discards),
    (AttrId::PORT_XMIT_DATA_SL, View::Short, splits::sent),
    (AttrId::PORT_RCV_DATA_SL, View::Short, splits::received),
    (AttrId::PORT_VL_XMIT_WAIT_COUNTERS, View::Short, splits::waits),
    (AttrId::SW_PORT_VL_CONGESTION, View::Short, splits::congestion),
];

impl Fabric {
    /// Answers a performance management GMP in place; returns whether there is an answer.
    pub(crate) fn answer_perf(&mut self, at: u32, mad: &mut Mad) -> bool {
        let header = mad.header;
        let status = if header.base_version() != MadHeader::BASE_VERSION || header.class_version() != CLASS_VERSION {
            Err(Status::BAD_VERSION)
        } else {
            match header.method() {
                Method::GET | Method::SET => self.serve_perf(at, mad, header.method() == Method::SET),
                Method::TRAP | Method::TRAP_REPRESS | Method::SEND | Method::REPORT => return false,
                _ => Err(Status::BAD_METHOD),
            }
        };
        mad.header.set_method(Method::GET_RESP);
        mad.header.set_status(status.err().unwrap_or(Status::SUCCESS));
        true
    }

    fn serve_perf(&mut self, at: u32, mad: &mut Mad, set: bool) -> Result<(), Status> {
        let data = &mut mad.data[ATTRIBUTE..];
        let attr = mad.header.attr_id();
        if attr == AttrId::CLASS_PORT_INFO {
            return if set { Err(Status::BAD_METHOD_ATTRIBUTE) } else { answer(data, &class_port_info()) };
        }
        match (attr, set) {
            (AttrId::PORT_SAMPLES_CONTROL, _) => return self.serve_samples_control(self.agent_port(at), data, set),
            (AttrId::PORT_SAMPLES_RESULT, false) => return self.serve_samples_result(self.agent_port(at), data),
            _ => {}
        }
        let row = TABLE.iter().find(|row| row.0 == attr);
        let (_, view, serve) = *row.ok_or(Status::BAD_METHOD_ATTRIBUTE)?;
        let places = self.selected(at, data.get(1).copied().unwrap_or(0))?;
        serve(&mut Bank { fabric: self, places, view }, data, set)
    }

    /// Returns the ports that PortSelect names.
    fn selected(&self, at: u32, number: u8) -> Result<std::ops::RangeInclusive<u32>, Status> {
        let node = &self.nodes[self.ports[at as usize].node as usize];
        if number == ALL_PORTS {
            // On a switch, all external ports; port 0 has no cable.
            let first = node.base.wrapping_add(1);
            let last = node.base.wrapping_add(u32::from(node.ports));
            return Ok(if node.kind == NodeKind::Switch { first..=last } else { node.places() });
        }
        node.place(number).map(|place| place..=place).ok_or(Status::INVALID_FIELD)
    }
}

fn class_port_info() -> ClassPortInfo {
    let can =
        Capability::ALL_PORT_SELECT | Capability::EXTENDED_WIDTH | Capability::XMIT_WAIT | Capability::QP1_DROPPED;
    ClassPortInfo {
        base_version: MadHeader::BASE_VERSION,
        class_version: CLASS_VERSION,
        capability_mask: can.bits(),
        capability_mask2: Capability2::ADDITIONAL_EXTENDED.bits(),
        resp_time_value: RESP_TIME,
        ..ClassPortInfo::default()
    }
}
