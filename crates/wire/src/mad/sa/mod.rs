//! Subnet administration (IBA 15): queries from hosts to the subnet manager, and the records in its responses.
//!
//! ```text
//!  0 | common header (24)                                                            |
//! 24 | multi-packet header (12)                                                      |
//! 36 | SM_Key (8), attribute offset (2), reserved (2), component mask (8)            |
//! 56 | data (200): a record; of a table, records one after another across datagrams  |
//! ```

mod component;
mod group;
mod inform;
mod node;
mod path;
mod service;
mod table;

pub use component::{ComponentMask, Components, Record};
pub use group::{JoinState, McMemberRecord, Selector};
pub use inform::InformInfoRecord;
pub use node::{GuidInfoRecord, LinkRecord, NodeRecord, PortInfoRecord, SmInfoRecord, SwitchInfoRecord};
pub use path::{MULTIPATH_GIDS_MAX, MultiPathRecord, PathRecord};
pub use service::ServiceRecord;
pub use table::{
    LinearForwardingTableRecord, MulticastForwardingTableRecord, PKeyTableRecord, RandomForwardingTableRecord,
    SlToVlTableRecord, VlArbitrationTableRecord,
};

use zerocopy::byteorder::big_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, transmute, transmute_mut, transmute_ref};

use crate::mad::attribute::attributes;
use crate::mad::rmpp::RmppHeader;
use crate::mad::{AttrId, Attribute, Class, Mad, MadHeader, Method, Status};

/// Class version of subnet administration.
pub const CLASS_VERSION: u8 = 2;

/// Class-specific status bits of subnet administration.
impl Status {
    /// The administrator is out of resources.
    pub const SA_NO_RESOURCES: Status = Status(1 << 8);
    /// The request is invalid.
    pub const SA_REQ_INVALID: Status = Status(2 << 8);
    /// No record matches.
    pub const SA_NO_RECORDS: Status = Status(3 << 8);
    /// More than one record matches, but the request was for one.
    pub const SA_TOO_MANY_RECORDS: Status = Status(4 << 8);
    /// A GID in the request is invalid.
    pub const SA_REQ_INVALID_GID: Status = Status(5 << 8);
    /// The request lacks required components.
    pub const SA_REQ_INSUFFICIENT_COMPONENTS: Status = Status(6 << 8);
    /// The administrator denies the request.
    pub const SA_REQ_DENIED: Status = Status(7 << 8);
    /// The requester should use the suggested priority.
    pub const SA_PRIORITY_SUGGESTED: Status = Status(8 << 8);
}

bitflags::bitflags! {
    /// CapabilityMask of the class's ClassPortInfo.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct Capability: u16 {
        /// Optional records.
        const SUBNET_OPTIONAL_RECORDS = 1 << 8;
        /// UD multicast.
        const UD_MULTICAST = 1 << 9;
        /// MultiPathRecord.
        const MULTIPATH = 1 << 10;
        /// Reinitialisation.
        const REINIT = 1 << 11;
        /// Scoped GIDs in MultiPathRecord.
        const GID_SCOPED_MULTIPATH = 1 << 12;
        /// PortInfoRecord queries can match capabilities as a mask.
        const PORT_INFO_CAPABILITY_MASK_MATCH = 1 << 13;
        /// Pairs of link speed and width.
        const LINK_SPEED_WIDTH_PAIRS = 1 << 14;
        /// Performance administration.
        const PA_SERVICES = 1 << 15;
    }
}

/// A datagram of subnet administration.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct SaMad {
    /// The common header.
    pub header: MadHeader,
    /// The multi-packet header; zeros if unused.
    pub rmpp: RmppHeader,
    sm_key: U64,
    attribute_offset: U16,
    reserved: U16,
    component_mask: U64,
    /// The record, or a piece of a table of them.
    pub data: [u8; 200],
}

const _: () = assert!(size_of::<SaMad>() == super::MAD_LEN);

impl SaMad {
    /// Offset of the data in the datagram.
    pub const DATA_AT: usize = 56;

    /// Creates a request for this record's components in the mask.
    pub fn request<A: Attribute>(method: Method, tid: u64, mask: ComponentMask, record: &A) -> SaMad {
        let header = MadHeader::new(Class::SUBN_ADM, CLASS_VERSION, method, tid, A::ID);
        let mut mad = SaMad::from_mad(Mad { header, data: [0; super::DATA_LEN] });
        mad.component_mask = mask.0.into();
        record.write(&mut mad.data);
        mad
    }
    /// Interprets a datagram as one of subnet administration; its class is not checked.
    pub fn from_mad(mad: Mad) -> SaMad {
        transmute!(mad)
    }
    /// The same, by reference.
    pub fn ref_from_mad(mad: &Mad) -> &SaMad {
        transmute_ref!(mad)
    }
    /// The same, by mutable reference.
    pub fn mut_from_mad(mad: &mut Mad) -> &mut SaMad {
        transmute_mut!(mad)
    }
    /// Converts to a plain datagram.
    pub fn to_mad(self) -> Mad {
        transmute!(self)
    }
    /// Attribute.
    pub fn attr_id(&self) -> AttrId {
        self.header.attr_id()
    }
    /// The requester's key of the subnet manager.
    pub fn sm_key(&self) -> u64 {
        self.sm_key.get()
    }
    /// Distance between records of a table, in words of eight bytes.
    pub fn attribute_offset(&self) -> u16 {
        self.attribute_offset.get()
    }
    /// The components of the record that the request specifies.
    pub fn component_mask(&self) -> ComponentMask {
        ComponentMask(self.component_mask.get())
    }
    /// Sets the subnet manager's key.
    pub fn set_sm_key(&mut self, sm_key: u64) {
        self.sm_key = sm_key.into();
    }
    /// Sets the distance between records.
    pub fn set_attribute_offset(&mut self, words: u16) {
        self.attribute_offset = words.into();
    }
    /// Sets the components.
    pub fn set_component_mask(&mut self, mask: ComponentMask) {
        self.component_mask = mask.0.into();
    }
    /// Reads its record as one of this type.
    pub fn record<A: Attribute>(&self) -> Option<A> {
        A::read(&self.data)
    }
}

/// Returns the records of a table. `data` is that of all its datagrams together, with `offset` words of eight bytes
/// from one record to the next. A table whose offset is 0 or smaller than its records has none.
pub fn records<A: Attribute>(data: &[u8], offset: u16) -> impl Iterator<Item = A> {
    let stride = usize::from(offset) * 8;
    let chunks = if stride >= A::SIZE { data.chunks(stride) } else { [].chunks(1) };
    chunks.filter_map(A::read)
}

/// Returns the distance between records of this type in a table, in words of eight bytes.
pub fn attribute_offset<A: Attribute>() -> u16 {
    A::SIZE.div_ceil(8) as u16
}

attributes! {
    /// Records of subnet administration and their names.
    ATTRIBUTES {
        NodeRecord(SA_NODE_RECORD = 0x0011, "NodeRecord");
        PortInfoRecord(SA_PORT_INFO_RECORD = 0x0012, "PortInfoRecord");
        SlToVlTableRecord(SA_SL_TO_VL_TABLE_RECORD = 0x0013, "SLtoVLMappingTableRecord");
        SwitchInfoRecord(SA_SWITCH_INFO_RECORD = 0x0014, "SwitchInfoRecord");
        LinearForwardingTableRecord(SA_LINEAR_FORWARDING_TABLE_RECORD = 0x0015, "LinearForwardingTableRecord");
        RandomForwardingTableRecord(SA_RANDOM_FORWARDING_TABLE_RECORD = 0x0016, "RandomForwardingTableRecord");
        MulticastForwardingTableRecord(SA_MULTICAST_FORWARDING_TABLE_RECORD = 0x0017, "MulticastForwardingTableRecord");
        SmInfoRecord(SA_SM_INFO_RECORD = 0x0018, "SMInfoRecord");
        LinkRecord(SA_LINK_RECORD = 0x0020, "LinkRecord");
        GuidInfoRecord(SA_GUID_INFO_RECORD = 0x0030, "GuidInfoRecord");
        ServiceRecord(SA_SERVICE_RECORD = 0x0031, "ServiceRecord");
        PKeyTableRecord(SA_PKEY_TABLE_RECORD = 0x0033, "P_KeyTableRecord");
        PathRecord(SA_PATH_RECORD = 0x0035, "PathRecord");
        VlArbitrationTableRecord(SA_VL_ARBITRATION_TABLE_RECORD = 0x0036, "VLArbitrationTableRecord");
        McMemberRecord(SA_MC_MEMBER_RECORD = 0x0038, "MCMemberRecord");
        MultiPathRecord(SA_MULTI_PATH_RECORD = 0x003a, "MultiPathRecord");
        InformInfoRecord(SA_INFORM_INFO_RECORD = 0x00f3, "InformInfoRecord");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Components are numbered by position, so a forgotten one shifts all that follow: the last ones have known
    /// numbers.
    #[test]
    fn components_have_the_numbers_that_others_use() {
        for (mask, bit) in [
            (NodeRecord::NODE_DESCRIPTION, 14),
            (NodeRecord::PORT_GUID, 8),
            (PortInfoRecord::LINK_SPEED_EXT_ENABLED, 57),
            (PortInfoRecord::LMC, 20),
            (PortInfoRecord::CAPABILITY_MASK, 7),
            (PathRecord::PACKET_LIFE_TIME, 21),
            (PathRecord::SL, 15),
            (MultiPathRecord::SERVICE_ID_LSB, 21),
            (McMemberRecord::PROXY_JOIN, 17),
            (McMemberRecord::JOIN_STATE, 16),
            (ServiceRecord::DATA64_1, 36),
            (ServiceRecord::SERVICE_NAME, 6),
            (InformInfoRecord::PRODUCER_TYPE, 15),
            (InformInfoRecord::QPN, 11),
            (SmInfoRecord::SM_STATE, 6),
            (GuidInfoRecord::GUID7, 11),
            (LinkRecord::TO_LID, 3),
            (MulticastForwardingTableRecord::BLOCK_NUM, 3),
            (VlArbitrationTableRecord::BLOCK_NUM, 2),
            (PKeyTableRecord::PORT_NUM, 2),
        ] {
            assert_eq!(mask, ComponentMask::bit(bit));
        }
    }

    #[test]
    fn a_question_is_compared_by_its_components_alone() {
        let record = PathRecord { dlid: 4, slid: 6, sl: 3, pkey: 0xffff, ..PathRecord::default() };
        let question = PathRecord { dlid: 4, sl: 3, pkey: 0x8001, hop_limit: 9, ..PathRecord::default() };
        let fits = |mask| PathRecord::fits(mask, &question.encode(), &record.encode());
        assert!(fits(PathRecord::DLID | PathRecord::SL) && fits(ComponentMask::NONE));
        assert!(!fits(PathRecord::PKEY) && !fits(PathRecord::SLID) && !fits(PathRecord::HOP_LIMIT));
        assert!(!fits(ComponentMask::bit(40)), "a component that no path record has");
        assert!(!PathRecord::fits(PathRecord::DLID, &[], &record.encode()));
    }

    #[test]
    fn a_table_is_cut_at_its_offset() {
        let mut data = Vec::new();
        for lid in 1..4 {
            let record = LinkRecord { from_lid: lid, ..LinkRecord::default() };
            data.extend(record.encode());
            data.extend([0xee; 8]);
        }
        let lids: Vec<u16> = records::<LinkRecord>(&data, 2).map(|record| record.from_lid).collect();
        assert_eq!(lids, [1, 2, 3]);
        assert_eq!(records::<LinkRecord>(&data, 0).count(), 0);
        assert_eq!(records::<NodeRecord>(&data, 1).count(), 0, "an offset shorter than the record");
        assert_eq!(attribute_offset::<NodeRecord>(), 14);
    }

    #[test]
    fn the_header_stands_where_the_specification_puts_it() {
        let question = PathRecord { dlid: 0x0102, ..PathRecord::default() };
        let mut mad = SaMad::request(Method::GET, 1, PathRecord::DLID, &question);
        mad.set_sm_key(0x1122_3344_5566_7788);
        mad.set_attribute_offset(8);
        let bytes = mad.to_mad();
        let bytes = bytes.as_bytes();
        assert_eq!(bytes[36..48], [0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0, 8, 0, 0]);
        assert_eq!((&bytes[48..56], &bytes[96..98]), (&[0, 0, 0, 0, 0, 0, 0, 0x10][..], &[1, 2][..]));
    }
}
