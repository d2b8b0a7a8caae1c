//! Notices (IBA 13.4.8.2), which describe an event in traps and reports, and InformInfo, which subscribes to them
//! (13.4.8.3). The details of the generic traps are those of subnet management (14.2.5.1) and administration (15.4.2).

use crate::layout::{Bytes, bits, int, message, open};
use crate::mad::Block;

open! {
    /// Severity of the event.
    NoticeType(u8) {
        FATAL = 0, "fatal";
        URGENT = 1, "urgent";
        SECURITY = 2, "security";
        SUBNET_MANAGEMENT = 3, "subnet management";
        INFORMATIONAL = 4, "informational";
        /// In InformInfo: all types.
        EVERY = 0x7f, "all";
    }
}

open! {
    /// Producer of a generic event.
    ProducerType(u32) {
        CA = 1, "channel adapter";
        SWITCH = 2, "switch";
        ROUTER = 3, "router";
        CLASS_MANAGER = 4, "class manager";
        /// In InformInfo: all producers.
        EVERY = 0xff_ffff, "all";
    }
}

open! {
    /// Number of a generic trap.
    TrapNumber(u16) {
        GID_IN_SERVICE = 64, "GID now in service";
        GID_OUT_OF_SERVICE = 65, "GID out of service";
        MULTICAST_GROUP_CREATED = 66, "new multicast group";
        MULTICAST_GROUP_DELETED = 67, "multicast group deleted";
        LINK_STATE = 128, "link state change";
        LOCAL_LINK_INTEGRITY = 129, "local link integrity threshold reached";
        BUFFER_OVERRUN = 130, "excessive buffer overrun threshold reached";
        FLOW_CONTROL_WATCHDOG = 131, "flow control update watchdog expired";
        LOCAL_CHANGES = 144, "capability mask, node description or link setting changed";
        SYSTEM_IMAGE_GUID = 145, "system image GUID changed";
        BAD_MKEY = 256, "bad M_Key";
        BAD_PKEY = 257, "bad P_Key";
        BAD_QKEY = 258, "bad Q_Key";
        BAD_PKEY_SWITCH = 259, "bad P_Key at a switch's port";
        /// In InformInfo: all traps.
        EVERY = 0xffff, "all";
    }
}

message! {
    /// A notice. An SMP has only the first 64 bytes: all fields except the issuer's GID.
    #[derive(Copy)]
    Notice[80] {
        /// Defined by the specification, not by a vendor.
        is_generic: bool = bits(0, 0, 1),
        /// Severity, 7 bits.
        notice_type: NoticeType = bits(0, 1, 7),
        /// Producer; in a vendor's notice the vendor's OUI. 24 bits.
        producer_type: ProducerType = int(1, 3),
        /// Trap number; in a vendor's notice the device ID.
        trap_number: TrapNumber = int(4, 2),
        /// LID of the issuer.
        issuer_lid: u16 = int(6, 2),
        /// Changes with each notice that is set.
        toggle: bool = bits(8, 0, 1),
        /// Number of waiting notices, 15 bits.
        count: u16 = bits(8, 1, 15),
        /// Details of the event: [`NoticeDetails`].
        data_details: Block<54> = Bytes(10),
        /// GID of the issuer.
        issuer_gid: [u8; 16] = Bytes(64),
    }
}

impl Notice {
    /// Creates a generic notice.
    pub fn generic(kind: NoticeType, producer: ProducerType, issuer_lid: u16, details: &NoticeDetails) -> Notice {
        Notice {
            is_generic: true,
            notice_type: kind,
            producer_type: producer,
            trap_number: details.trap_number(),
            issuer_lid,
            data_details: details.encode(),
            ..Notice::default()
        }
    }

    /// Reads the notice of an SMP.
    pub fn from_smp(data: &super::subn::SmpData) -> Notice {
        let mut whole = [0; Notice::LEN];
        crate::mad::attribute::copy_front(&mut whole, data);
        Notice::parse(&whole)
    }

    /// Converts to an SMP's data.
    pub fn to_smp(&self) -> super::subn::SmpData {
        let mut data = [0; 64];
        crate::mad::attribute::copy_front(&mut data, &self.encode());
        data
    }

    /// Returns the details of the event; `None` for a vendor's notice and for unknown trap numbers.
    pub fn details(&self) -> Option<NoticeDetails> {
        if self.is_generic { NoticeDetails::parse(self.trap_number, &self.data_details) } else { None }
    }
}

message! {
    /// Details of traps 64 to 67.
    #[derive(Copy)]
    GidDetails[54] {
        /// The GID of the node or group.
        gid: [u8; 16] = Bytes(6),
    }
}

message! {
    /// Details of trap 128.
    #[derive(Copy)]
    LinkStateDetails[54] {
        /// The switch.
        lid: u16 = int(0, 2),
    }
}

message! {
    /// Details of traps 129 to 131.
    #[derive(Copy)]
    PortDetails[54] {
        /// The node.
        lid: u16 = int(2, 2),
        /// Its port.
        port_num: u8 = int(4, 1),
    }
}

message! {
    /// Details of trap 144.
    #[derive(Copy)]
    LocalChangesDetails[54] {
        /// The port.
        lid: u16 = int(2, 2),
        /// The flags below tell the change; if clear, the capability mask changed.
        other_local_changes: bool = bits(5, 7, 1),
        /// New CapabilityMask.
        capability_mask: u32 = int(6, 4),
        /// The enabled extended link speeds changed.
        link_speed_ext_enabled_change: bool = bits(11, 3, 1),
        /// Whether the subnet manager's priority changed.
        sm_priority_change: bool = bits(11, 4, 1),
        /// The enabled link speeds changed.
        link_speed_enabled_change: bool = bits(11, 5, 1),
        /// The enabled link widths changed.
        link_width_enabled_change: bool = bits(11, 6, 1),
        /// The node's description changed.
        node_description_change: bool = bits(11, 7, 1),
        /// New CapabilityMask2.
        capability_mask2: u16 = int(12, 2),
    }
}

message! {
    /// Details of trap 145.
    #[derive(Copy)]
    SystemImageGuidDetails[54] {
        /// The node.
        lid: u16 = int(2, 2),
        /// New system image GUID.
        system_image_guid: u64 = int(6, 8),
    }
}

message! {
    /// Details of trap 256.
    #[derive(Copy)]
    BadMkeyDetails[54] {
        /// LID of the SMP's sender.
        lid: u16 = int(2, 2),
        /// DrSLID of the SMP.
        dr_slid: u16 = int(4, 2),
        /// Its method.
        method: u8 = int(6, 1),
        /// Its attribute.
        attr_id: u16 = int(8, 2),
        /// Its attribute modifier.
        attr_mod: u32 = int(10, 4),
        /// Its M_Key.
        mkey: u64 = int(14, 8),
        /// The SMP had a directed route.
        dr_notice: bool = bits(23, 0, 1),
        /// The path below is truncated.
        dr_path_truncated: bool = bits(23, 1, 1),
        /// Hops, 6 bits.
        dr_hop_count: u8 = bits(23, 2, 6),
        /// The return path.
        dr_return_path: [u8; 30] = Bytes(24),
    }
}

message! {
    /// Details of traps 257 and 258.
    #[derive(Copy)]
    BadKeyDetails[54] {
        /// LID of the sender.
        lid1: u16 = int(2, 2),
        /// LID of the receiver.
        lid2: u16 = int(4, 2),
        /// The P_Key or Q_Key.
        key: u32 = int(6, 4),
        /// Service level, 4 bits.
        sl: u8 = bits(10, 0, 4),
        /// Queue pair of the sender, 24 bits.
        qp1: u32 = int(11, 3),
        /// Queue pair of the receiver, 24 bits.
        qp2: u32 = int(15, 3),
        /// GID of the sender.
        gid1: [u8; 16] = Bytes(18),
        /// GID of the receiver.
        gid2: [u8; 16] = Bytes(34),
    }
}

message! {
    /// Details of trap 259.
    #[derive(Copy)]
    BadPkeySwitchDetails[54] {
        /// Bits of the valid fields below.
        data_valid: u16 = int(0, 2),
        /// LID of the sender.
        lid1: u16 = int(2, 2),
        /// LID of the receiver.
        lid2: u16 = int(4, 2),
        /// The P_Key.
        pkey: u16 = int(6, 2),
        /// Service level, 4 bits.
        sl: u8 = bits(8, 0, 4),
        /// Queue pair of the sender, 24 bits.
        qp1: u32 = int(9, 3),
        /// Queue pair of the receiver, 24 bits.
        qp2: u32 = int(13, 3),
        /// GID of the sender.
        gid1: [u8; 16] = Bytes(16),
        /// GID of the receiver.
        gid2: [u8; 16] = Bytes(32),
        /// The switch.
        switch_lid: u16 = int(48, 2),
        /// Its port.
        port_num: u8 = int(50, 1),
    }
}

macro_rules! details {
    ($($(#[$doc:meta])* $name:ident($type:ident) = $($number:ident)|+,)*) => {
        /// Details of a generic notice.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum NoticeDetails {
            $($(#[$doc])* $name(TrapNumber, $type),)*
        }

        impl NoticeDetails {
            /// Reads the details of this trap.
            pub fn parse(number: TrapNumber, data: &[u8; 54]) -> Option<NoticeDetails> {
                match number {
                    $($(TrapNumber::$number)|+ => Some(NoticeDetails::$name(number, $type::parse(data))),)*
                    _ => None,
                }
            }
            /// Writes the details.
            pub fn encode(&self) -> Block<54> {
                match self {
                    $(NoticeDetails::$name(_, details) => Block(details.encode()),)*
                }
            }
            /// Returns the trap number.
            pub fn trap_number(&self) -> TrapNumber {
                match self {
                    $(NoticeDetails::$name(number, _) => *number,)*
                }
            }
        }

        #[cfg(test)]
        #[test]
        fn details_have_a_place_for_each_field() {
            $(assert_eq!(crate::layout::overlaps($type::LEN, &$type::layout()), Vec::<String>::new());)*
        }
    };
}

details! {
    /// A node or a multicast group appeared or disappeared.
    Gid(GidDetails) = GID_IN_SERVICE | GID_OUT_OF_SERVICE | MULTICAST_GROUP_CREATED | MULTICAST_GROUP_DELETED,
    /// The state of a switch's port changed.
    LinkState(LinkStateDetails) = LINK_STATE,
    /// A port has errors.
    Port(PortDetails) = LOCAL_LINK_INTEGRITY | BUFFER_OVERRUN | FLOW_CONTROL_WATCHDOG,
    /// A port's capabilities or settings changed.
    LocalChanges(LocalChangesDetails) = LOCAL_CHANGES,
    /// The system image GUID of a node changed.
    SystemImageGuid(SystemImageGuidDetails) = SYSTEM_IMAGE_GUID,
    /// An SMP had a wrong M_Key.
    BadMkey(BadMkeyDetails) = BAD_MKEY,
    /// A packet had a wrong key.
    BadKey(BadKeyDetails) = BAD_PKEY | BAD_QKEY,
    /// A switch saw a packet with a wrong P_Key.
    BadPkeySwitch(BadPkeySwitchDetails) = BAD_PKEY_SWITCH,
}

message! {
    /// InformInfo: a subscription to notices.
    #[derive(Copy)]
    InformInfo[36] {
        /// Only notices about this port; 0: the LID range applies.
        gid: [u8; 16] = Bytes(0),
        /// First LID; 0xffff: all LIDs.
        lid_range_begin: u16 = int(16, 2),
        /// Last LID; 0: only the first.
        lid_range_end: u16 = int(18, 2),
        /// 1: generic notices; 0: a vendor's.
        is_generic: u8 = int(22, 1),
        /// 1 subscribes, 0 unsubscribes.
        subscribe: u8 = int(23, 1),
        /// Notice type, 16 bits here; 0xffff: all types.
        inform_type: u16 = int(24, 2),
        /// Trap number; for a vendor's notices the device ID.
        trap_number: TrapNumber = int(26, 2),
        /// Queue pair that receives the reports, 24 bits; 0 means 1.
        qpn: u32 = int(28, 3),
        /// Maximum response time of the subscriber: 4.096 us * 2^n, 5 bits.
        resp_time_value: u8 = bits(31, 3, 5),
        /// Producer type; for a vendor's notices its OUI. 24 bits.
        producer_type: ProducerType = int(33, 3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_are_told_by_the_trap_number() {
        for number in TrapNumber::ALL {
            let details = NoticeDetails::parse(*number, &[0xff; 54]);
            assert_eq!(details.is_some(), *number != TrapNumber::EVERY, "{number}");
            if let Some(details) = details {
                let notice = Notice::generic(NoticeType::URGENT, ProducerType::CA, 7, &details);
                assert_eq!(notice.details(), Some(details));
                assert_eq!(Notice::from_smp(&notice.to_smp()), notice);
            }
        }
        assert_eq!(Notice { trap_number: TrapNumber::LINK_STATE, ..Notice::default() }.details(), None);
    }

    #[test]
    fn a_link_state_trap_is_what_switches_send() {
        let details = NoticeDetails::LinkState(TrapNumber::LINK_STATE, LinkStateDetails { lid: 0x0102 });
        let notice = Notice::generic(NoticeType::URGENT, ProducerType::SWITCH, 0x0102, &details);
        assert_eq!(notice.to_smp()[..12], [0x81, 0, 0, 2, 0, 128, 1, 2, 0, 0, 1, 2]);
    }
}
