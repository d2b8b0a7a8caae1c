//! Subnet management agent (SMA) of every port (IBA 14.2): a table of attributes, each with its Get and Set. The M_Key
//! check comes first; a request that fails it gets no answer.

mod ask;
mod mkey;
mod node;
mod port_info;
mod tables;

use self::ask::{Ask, UNSUPPORTED};
use crate::Fabric;
use crate::packet::Packet;
use crate::topology::NodeKind;
use weft_wire::mad::subn::{CLASS_VERSION, Smp};
use weft_wire::mad::{AttrId, MadHeader, Method, Status};

/// The agent's reaction to a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Send the answer that the agent wrote into it.
    Reply,
    /// Send nothing.
    Silence,
}

/// Serves a Get, or a Set; a Get then fills in the answer. A refusal returns a status.
type Serve = fn(&mut Fabric, Ask, &mut Smp) -> Result<(), Status>;

/// An attribute: its number, its Get, and its Set if it has one. The most frequent come first.
struct Row(AttrId, Serve, Option<Serve>);

const TABLE: &[Row] = &[
    Row(AttrId::PORT_INFO, port_info::get, Some(port_info::set)),
    Row(AttrId::NODE_INFO, node::info, None),
    Row(AttrId::LINEAR_FORWARDING_TABLE, tables::lft, Some(tables::set_lft)),
    Row(AttrId::NODE_DESCRIPTION, node::description, Some(node::set_description)),
    Row(AttrId::SWITCH_INFO, node::switch_info, Some(node::set_switch_info)),
    Row(AttrId::PKEY_TABLE, tables::pkeys, Some(tables::set_pkeys)),
    Row(AttrId::SL_TO_VL_TABLE, tables::sl2vl, Some(tables::set_sl2vl)),
    Row(AttrId::VL_ARBITRATION_TABLE, tables::vl_arbitration, Some(tables::set_vl_arbitration)),
    Row(AttrId::MULTICAST_FORWARDING_TABLE, tables::mft, Some(tables::set_mft)),
    Row(AttrId::GUID_INFO, tables::guids, Some(tables::set_guids)),
    Row(AttrId::LED_INFO, node::led, Some(node::set_led)),
    Row(AttrId::PORT_INFO_EXTENDED, port_info::extended, Some(port_info::set_extended)),
    Row(AttrId::VENDOR_DIAG, node::vendor_diag, None),
    Row(AttrId::MLNX_EXT_PORT_INFO, port_info::mellanox, None),
];

impl Fabric {
    /// Answers an SMP that arrived by port `at`.
    pub(crate) fn answer_smp(&mut self, at: u32, packet: &mut Packet) -> Answer {
        let header: MadHeader = packet.mad.header;
        let smp = Smp::mut_from_mad(&mut packet.mad);
        if header.base_version() != MadHeader::BASE_VERSION || header.class_version() != CLASS_VERSION {
            smp.set_status(Status::BAD_VERSION);
            return Answer::Reply;
        }
        let agent = self.agent_port(at);
        let (node, kind) = (self.ports[at as usize].node, self.ports[at as usize].kind);
        let ask = Ask { at, agent, node, kind, modifier: header.attr_mod() };
        if !self.admits_mkey(&ask, smp) {
            self.on_bad_mkey(at, packet);
            return Answer::Silence;
        }
        match header.method() {
            Method::GET | Method::SET => {
                let status = match self.serve_smp(ask, header, smp) {
                    Ok(()) => Status::SUCCESS,
                    Err(status) => status,
                };
                smp.set_status(status);
                Answer::Reply
            }
            Method::TRAP_REPRESS => {
                let smp = *smp;
                self.on_repress(node, &smp);
                Answer::Silence
            }
            Method::SEND => Answer::Silence,
            _ => {
                smp.set_status(Status::BAD_METHOD);
                Answer::Reply
            }
        }
    }

    fn serve_smp(&mut self, ask: Ask, header: MadHeader, smp: &mut Smp) -> Result<(), Status> {
        let Row(_, get, set) = TABLE.iter().find(|row| row.0 == header.attr_id()).ok_or(UNSUPPORTED)?;
        if header.method() == Method::GET {
            return get(self, ask, smp);
        }
        let set = set.ok_or(UNSUPPORTED)?;
        // The status reports what could not be set; the answer carries the attribute's present value.
        let done = set(self, ask, smp);
        if done != Err(UNSUPPORTED) {
            get(self, ask, smp)?;
        }
        done
    }

    /// Returns the port that a Set may change: on a switch, any port; on other nodes only the one that received the
    /// SMP, since each of their ports has an agent of its own.
    fn settable_port(&self, ask: &Ask, number: u8) -> Result<u32, Status> {
        let place = self.named_port(ask, number)?;
        if ask.kind == NodeKind::Switch || place == ask.at { Ok(place) } else { Err(Status::INVALID_FIELD) }
    }

    /// Returns the port that a modifier names: on a switch, any port; on other nodes, 0 or the receiving port's number.
    fn named_port(&self, ask: &Ask, number: u8) -> Result<u32, Status> {
        let number = match (ask.kind, number) {
            (NodeKind::Switch, number) => number,
            (_, 0) => return Ok(ask.at),
            (_, number) => number,
        };
        self.nodes[ask.node as usize].place(number).ok_or(Status::INVALID_FIELD)
    }
}
