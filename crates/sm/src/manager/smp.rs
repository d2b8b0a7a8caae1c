//! Incoming SMPs: matches answers to requests, and passes the rest to their handlers.

use weft_wire::mad::subn::{NodeDescription, NodeInfo, PKeyTable, PortInfo, SmInfo, Smp, SwitchInfo};
use weft_wire::mad::{AttrId, Mad, Method, Status};

use super::{Event, Manager};
use crate::io::Peer;
use crate::subnet::PortIx;
use crate::sweep::{Ask, Silence, What};

impl Manager {
    pub(crate) fn on_smp(&mut self, from: &Peer, mad: &Mad) {
        let smp = Smp::ref_from_mad(mad);
        if !mad.header.class().is_subn() {
            return;
        }
        match mad.header.method() {
            Method::GET_RESP => {
                if let Some(ask) = self.wire.take(mad.header.tid() as u32) {
                    self.wire.on_answer();
                    self.on_answer(ask, smp);
                }
            }
            Method::TRAP => self.on_trap(from, smp),
            Method::GET if mad.header.attr_id() == AttrId::SM_INFO => self.on_sm_info_asked(from, smp),
            Method::SET if mad.header.attr_id() == AttrId::SM_INFO => self.on_control(from, smp),
            _ => {}
        }
    }

    pub(crate) fn on_smp_timeout(&mut self, mad: &Mad) {
        let retries = self.setup.transaction_retries;
        if let Silence::GivenUp(ask) = self.wire.on_timeout(mad.header.tid() as u32, retries) {
            self.on_silence(ask);
        }
    }

    fn on_answer(&mut self, ask: Ask, smp: &Smp) {
        if smp.status().common() != Status::SUCCESS {
            return self.on_refused(ask, smp);
        }
        match ask.what {
            What::OwnNode => self.on_node_info(None, &NodeInfo::parse(&smp.data)),
            What::NodeInfo => self.on_node_info(Some(ask.at), &NodeInfo::parse(&smp.data)),
            What::Verify => self.on_verified(ask, Some(&NodeInfo::parse(&smp.data))),
            What::NodeDescription => self.on_description(ask.at.node, NodeDescription::parse(&smp.data)),
            What::SwitchInfo => self.on_switch_info(ask.at.node, SwitchInfo::parse(&smp.data)),
            What::Changed => self.on_light(ask.at.node, SwitchInfo::parse(&smp.data)),
            What::PortInfo => self.on_port_info(ask.at, PortInfo::parse(&smp.data)),
            What::PKeys => self.on_pkeys(ask, &PKeyTable::parse(&smp.data)),
            What::ClearChange => self.on_cleared(ask.at.node, SwitchInfo::parse(&smp.data)),
            What::SetSwitchInfo => self.on_switch_set(ask.at.node, SwitchInfo::parse(&smp.data)),
            What::SetPort | What::Activate | What::Disable => self.on_port_set(ask, PortInfo::parse(&smp.data)),
            What::ReadBack => self.on_read_back(ask, PortInfo::parse(&smp.data)),
            What::SmInfo | What::Poll => self.on_sm_info(ask, &SmInfo::parse(&smp.data)),
            What::Control => self.on_control_answered(ask, &SmInfo::parse(&smp.data)),
            What::SetLft | What::SetMft | What::SetPKeys | What::SetSlToVl | What::SetVlArb | What::SetGuids => {
                self.on_table_set(ask, smp);
            }
        }
    }

    /// Handles an error status from a node.
    fn on_refused(&mut self, ask: Ask, smp: &Smp) {
        let what = weft_wire::mad::subn::ATTRIBUTES.iter().find(|(id, _)| *id == smp.header.attr_id());
        let what = what.map_or("an SMP", |(_, name)| name);
        let at = self.subnet.call(ask.at);
        let hushed = match ask.what {
            What::SetSlToVl => self.setup.options.qos.suppress_sl2vl_mad_status_errors,
            // An adapter answers like this for a manager that has just ended.
            What::SmInfo | What::Poll => smp.status().common() == Status::BAD_METHOD_ATTRIBUTE,
            _ => false,
        };
        if !hushed {
            self.tell(Event::Refused { at, what, status: smp.status().0 });
        }
        match ask.what {
            // Some agents answer with the port's present settings, others with the settings they were sent.
            What::SetPort | What::Activate => self.read_back(ask),
            What::ReadBack => self.on_unreadable(ask, smp.status().0),
            What::SmInfo => self.on_peer_gone(ask.at),
            What::Poll | What::Control => self.on_peer_silent(ask),
            What::PKeys | What::NodeDescription => {}
            What::SetLft => self.on_lft_lost(ask),
            What::SetMft => self.on_mft_lost(ask),
            _ => {}
        }
    }

    /// Handles a node that did not answer any try of a request.
    fn on_silence(&mut self, ask: Ask) {
        match ask.what {
            What::NodeInfo => self.on_silent_end(ask.at),
            What::Verify => self.on_verified(ask, None),
            What::SmInfo | What::Poll | What::Control => self.on_peer_silent(ask),
            What::Disable => {}
            What::NodeDescription if self.is_asking_names() => {
                self.tell(Event::Nameless { at: self.subnet.call(ask.at) })
            }
            What::SetLft => {
                self.on_lft_lost(ask);
                self.on_silent_node(ask);
            }
            What::SetMft => {
                self.on_mft_lost(ask);
                self.on_silent_node(ask);
            }
            What::SetSlToVl | What::SetVlArb => {
                self.on_lanes_lost(ask);
                self.on_silent_node(ask);
            }
            _ => self.on_silent_node(ask),
        }
    }

    pub(crate) fn is_own(&self, at: PortIx) -> bool {
        self.subnet.own == Some(at)
    }
}
