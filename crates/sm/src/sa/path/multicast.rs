//! Paths to multicast groups: the group's properties, for its members.

use weft_wire::mad::sa::{PathRecord, Selector};

use super::{Asked, HOPS_BEYOND};
use crate::multicast::{Group, guid_of};
use crate::sa::Administrator;
use crate::sa::answer::Answer;
use crate::sa::question::Question;

impl Administrator {
    /// Answers a request whose DGID is a multicast GID.
    pub(super) fn path_to_group(&self, question: &Question<'_>, asked: &Asked<'_>, answer: &mut Answer) {
        let Some(group) = self.groups.get(&asked.record.dgid) else { return };
        if !self.group_fits(question, asked, group) {
            return;
        }
        let about = &group.record;
        let beyond = about.mgid[1] & 0xf != 2;
        let record = PathRecord {
            dgid: about.mgid,
            dlid: about.mlid,
            tclass: about.tclass,
            numb_path: 1,
            reversible: false,
            pkey: about.pkey,
            qos_class: 0,
            sl: about.sl,
            mtu_selector: Selector::EXACTLY,
            mtu: about.mtu,
            rate_selector: Selector::EXACTLY,
            rate: about.rate,
            packet_life_time_selector: Selector::EXACTLY,
            packet_life_time: about.packet_life_time,
            raw_traffic: false,
            flow_label: about.flow_label,
            hop_limit: if beyond { HOPS_BEYOND } else { about.hop_limit },
            ..*asked.record
        };
        answer.push(&record);
    }

    /// Whether a group matches the request.
    fn group_fits(&self, question: &Question<'_>, asked: &Asked<'_>, group: &Group) -> bool {
        let (record, about) = (asked.record, &group.record);
        let differs = |component, differs: bool| asked.names(component) && differs;
        let member = |guid: u64| group.members.values().any(|member| member.port_guid == guid);
        let by_lid = self.index.at_lid(record.slid).map(|(_, entry)| entry.guid);
        let none = record.numb_path == 0 && !question.is_get();
        !(differs(PathRecord::DLID, record.dlid != about.mlid)
            || differs(PathRecord::SGID, group.member(guid_of(&record.sgid)).is_none())
            || differs(PathRecord::SLID, !by_lid.is_some_and(member))
            || differs(PathRecord::PKEY, record.pkey != about.pkey)
            || differs(PathRecord::SL, record.sl != about.sl)
            || differs(PathRecord::NUMB_PATH, none)
            || differs(PathRecord::FLOW_LABEL, record.flow_label != about.flow_label)
            || differs(PathRecord::HOP_LIMIT, record.hop_limit != about.hop_limit)
            || differs(PathRecord::TCLASS, record.tclass != about.tclass))
    }
}
