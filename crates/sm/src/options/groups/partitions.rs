//! Partitions, and where they are enforced.

use super::own;
use crate::options::spec::{Effect, group};
use crate::options::value::PartEnforce;

group! {
    /// Partitions, and where they are enforced.
    Partitions at partitions {
        /// The file of partitions
        partition_config_file: Option<String> = own("partitions.conf"), Restart, Effect::Works;
        /// Switches enforce nothing: the old way to say part_enforce off
        no_partition_enforcement: bool = false, Live, Effect::Works;
        /// What switches enforce at ports that face hosts: both, in, out, off
        part_enforce: PartEnforce = PartEnforce::Both, Live, Effect::Works;
        /// A port may be a full and a limited member of one partition at once
        allow_both_pkeys: bool = false, Restart, Effect::Works;
        /// P_Keys stay at the index where they are found
        keep_pkey_indexes: bool = true, Live, Effect::Works;
        /// The byte that tells GUIDs of this subnet apart where the manager makes GUIDs up
        sm_assigned_guid: u8 = 0, Live, Effect::Works;
    }
}

impl Partitions {
    /// What switches enforce, the old option and the new one together.
    pub fn enforcement(&self) -> PartEnforce {
        if self.no_partition_enforcement { PartEnforce::Off } else { self.part_enforce }
    }
}
