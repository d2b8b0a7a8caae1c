//! Partitions, and where they are enforced.

use super::own;
use crate::options::spec::{Effect, group};
use crate::options::value::PartEnforce;

group! {
    /// Partitions, and where they are enforced.
    Partitions at partitions {
        /// Partition configuration file
        partition_config_file: Option<String> = own("partitions.conf"), Restart, Effect::Works;
        /// Disable enforcement at switches: the old form of part_enforce off
        no_partition_enforcement: bool = false, Live, Effect::Works;
        /// Partition enforcement at switch ports that face hosts: both, in, out, off
        part_enforce: PartEnforce = PartEnforce::Both, Live, Effect::Works;
        /// Allow a port to be both a full and a limited member of one partition
        allow_both_pkeys: bool = false, Restart, Effect::Works;
        /// Keep P_Keys at their present table index
        keep_pkey_indexes: bool = true, Live, Effect::Works;
        /// Byte that sets GUIDs assigned by this SM apart from those of other subnets
        sm_assigned_guid: u8 = 0, Live, Effect::Works;
    }
}

impl Partitions {
    /// Partition enforcement at switches: the combination of the old option and the new one.
    pub fn enforcement(&self) -> PartEnforce {
        if self.no_partition_enforcement { PartEnforce::Off } else { self.part_enforce }
    }
}
