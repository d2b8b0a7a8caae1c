//! Packets that tests of several modules send.

use weft_verbs::{AddressVector, Gid, GidType};

/// A path of RoCE v2 between GIDs.
pub fn av(sgid: Gid, dgid: Gid) -> AddressVector {
    AddressVector {
        sgid,
        sgid_index: 0,
        dgid,
        flow_label: 0,
        hop_limit: 64,
        traffic_class: 0,
        sl: 0,
        port_num: 1,
        dlid: 0,
        src_path_bits: 0,
        static_rate: 0,
        is_global: true,
        ifindex: 0,
        gid_type: GidType::RoceV2,
    }
}
