//! Attributes of subnet management (IBA 14.2.5), under the names that the tools print.

/// NodeInfo.
pub mod node_info {
    use weft_wire::mad::subn::NodeInfo;

    use crate::ib::fields::table;

    table! {
        /// All fields, in printing order.
        ALL of NodeInfo {
            BASE_VERS = "BaseVers" base_version Uint;
            CLASS_VERS = "ClassVers" class_version Uint;
            NODE_TYPE = "NodeType" node_type NodeType;
            NUM_PORTS = "NumPorts" num_ports Uint;
            SYSTEM_GUID = "SystemGuid" system_image_guid Hex;
            GUID = "Guid" node_guid Hex;
            PORT_GUID = "PortGuid" port_guid Hex;
            PART_CAP = "PartCap" partition_cap Uint;
            DEV_ID = "DevId" device_id Hex;
            REVISION = "Revision" revision Hex;
            LOCAL_PORT = "LocalPort" local_port_num Uint;
            VENDOR_ID = "VendorId" vendor_id Hex;
        }
    }
}

/// PortInfo.
pub mod port_info {
    use weft_wire::mad::subn::PortInfo;

    use crate::ib::fields::table;

    table! {
        /// All fields, in printing order.
        ALL of PortInfo {
            MKEY = "Mkey" mkey Hex;
            GID_PREFIX = "GidPrefix" gid_prefix Hex;
            LID = "Lid" lid Uint;
            SM_LID = "SMLid" master_sm_lid Uint;
            CAP_MASK = "CapMask" capability_mask CapMask;
            DIAG_CODE = "DiagCode" diag_code Hex;
            MKEY_LEASE_PERIOD = "MkeyLeasePeriod" mkey_lease_period Uint;
            LOCAL_PORT = "LocalPort" local_port_num Uint;
            LINK_WIDTH_ENABLED = "LinkWidthEnabled" link_width_enabled LinkWidthEnabled;
            LINK_WIDTH_SUPPORTED = "LinkWidthSupported" link_width_supported LinkWidthSupported;
            LINK_WIDTH_ACTIVE = "LinkWidthActive" link_width_active LinkWidth;
            LINK_SPEED_SUPPORTED = "LinkSpeedSupported" link_speed_supported LinkSpeeds;
            LINK_STATE = "LinkState" port_state PortState;
            PHYS_LINK_STATE = "PhysLinkState" port_physical_state PhysState;
            LINK_DOWN_DEF_STATE = "LinkDownDefState" link_down_default_state DownDefault;
            PROTECT_BITS = "ProtectBits" mkey_protect_bits Uint;
            LMC = "LMC" lmc Uint;
            LINK_SPEED_ACTIVE = "LinkSpeedActive" link_speed_active LinkSpeed;
            LINK_SPEED_ENABLED = "LinkSpeedEnabled" link_speed_enabled LinkSpeeds;
            NEIGHBOR_MTU = "NeighborMTU" neighbor_mtu Mtu;
            SM_SL = "SMSL" master_sm_sl Uint;
            VL_CAP = "VLCap" vl_cap VlCap;
            INIT_TYPE = "InitType" init_type Hex;
            VL_HIGH_LIMIT = "VLHighLimit" vl_high_limit Uint;
            VL_ARB_HIGH_CAP = "VLArbHighCap" vl_arbitration_high_cap Uint;
            VL_ARB_LOW_CAP = "VLArbLowCap" vl_arbitration_low_cap Uint;
            INIT_REPLY = "InitReply" init_type_reply Hex;
            MTU_CAP = "MtuCap" mtu_cap Mtu;
            VL_STALL_COUNT = "VLStallCount" vl_stall_count Uint;
            HOQ_LIFE = "HoqLife" hoq_life Uint;
            OPER_VLS = "OperVLs" operational_vls OperVls;
            PART_ENFORCE_INB = "PartEnforceInb" partition_enforcement_inbound Uint;
            PART_ENFORCE_OUTB = "PartEnforceOutb" partition_enforcement_outbound Uint;
            FILTER_RAW_INB = "FilterRawInb" filter_raw_inbound Uint;
            FILTER_RAW_OUTB = "FilterRawOutb" filter_raw_outbound Uint;
            MKEY_VIOLATIONS = "MkeyViolations" mkey_violations Uint;
            PKEY_VIOLATIONS = "PkeyViolations" pkey_violations Uint;
            QKEY_VIOLATIONS = "QkeyViolations" qkey_violations Uint;
            GUID_CAP = "GuidCap" guid_cap Uint;
            CLIENT_REREGISTER = "ClientReregister" client_reregister Uint;
            MCAST_PKEY_TRAP_SUPPRESSION_ENABLED = "McastPkeyTrapSuppressionEnabled" multicast_pkey_trap_suppression_enabled Uint;
            SUBNET_TIMEOUT = "SubnetTimeout" subnet_timeout Uint;
            RESP_TIME_VAL = "RespTimeVal" resp_time_value Uint;
            LOCAL_PHYS_ERR = "LocalPhysErr" local_phy_errors Uint;
            OVERRUN_ERR = "OverrunErr" overrun_errors Uint;
            MAX_CREDIT_HINT = "MaxCreditHint" max_credit_hint Uint;
            ROUND_TRIP = "RoundTrip" link_round_trip_latency Uint;
            CAPABILITY_MASK2 = "CapabilityMask2" capability_mask2 CapMask2;
            LINK_SPEED_EXT_ACTIVE = "LinkSpeedExtActive" link_speed_ext_active LinkSpeedExt;
            LINK_SPEED_EXT_SUPPORTED = "LinkSpeedExtSupported" link_speed_ext_supported LinkSpeedExtSupported;
            LINK_SPEED_EXT_ENABLED = "LinkSpeedExtEnabled" link_speed_ext_enabled LinkSpeedExtEnabled;
            LINK_SPEED_EXT_ACTIVE2 = "LinkSpeedExtActive2" link_speed_ext_active2 LinkSpeedExt2;
            LINK_SPEED_EXT_SUPPORTED2 = "LinkSpeedExtSupported2" link_speed_ext_supported2 LinkSpeedsExt2;
            LINK_SPEED_EXT_ENABLED2 = "LinkSpeedExtEnabled2" link_speed_ext_enabled2 LinkSpeedsExt2;
        }
    }
}

/// SwitchInfo.
pub mod switch_info {
    use weft_wire::mad::subn::SwitchInfo;

    use crate::ib::fields::table;

    table! {
        /// All fields, in printing order.
        ALL of SwitchInfo {
            LINEAR_FDB_CAP = "LinearFdbCap" linear_fdb_cap Uint;
            RANDOM_FDB_CAP = "RandomFdbCap" random_fdb_cap Uint;
            MCAST_FDB_CAP = "McastFdbCap" multicast_fdb_cap Uint;
            LINEAR_FDB_TOP = "LinearFdbTop" linear_fdb_top Uint;
            DEF_PORT = "DefPort" default_port Uint;
            DEF_MCAST_PRIM_PORT = "DefMcastPrimPort" default_multicast_primary_port Uint;
            DEF_MCAST_NOT_PRIM_PORT = "DefMcastNotPrimPort" default_multicast_not_primary_port Uint;
            LIFE_TIME = "LifeTime" life_time_value Uint;
            STATE_CHANGE = "StateChange" port_state_change Uint;
            OPT_SL_TO_VL_MAPPING = "OptSLtoVLMapping" optimized_sl_to_vl_mapping Uint;
            LIDS_PER_PORT = "LidsPerPort" lids_per_port Uint;
            PART_ENFORCE_CAP = "PartEnforceCap" partition_enforcement_cap Uint;
            INBOUND_PART_ENF = "InboundPartEnf" inbound_enforcement_cap Uint;
            OUTBOUND_PART_ENF = "OutboundPartEnf" outbound_enforcement_cap Uint;
            FILTER_RAW_INBOUND = "FilterRawInbound" filter_raw_inbound_cap Uint;
            FILTER_RAW_OUTBOUND = "FilterRawOutbound" filter_raw_outbound_cap Uint;
            ENHANCED_PORT0 = "EnhancedPort0" enhanced_port0 Uint;
            MULTICAST_FDB_TOP = "MulticastFDBTop" multicast_fdb_top Hex;
        }
    }
}

/// PortInfoExtended.
pub mod port_info_extended {
    use weft_wire::mad::subn::PortInfoExtended;

    use crate::ib::fields::table;

    table! {
        /// All fields, in printing order.
        ALL of PortInfoExtended {
            CAP_MASK = "CapMask" capability_mask Hex;
            FEC_MODE_ACTIVE = "FECModeActive" fec_mode_active Uint;
            FDR_FEC_MODE_SUPPORTED = "FDRFECModeSupported" fdr_fec_mode_supported Hex;
            FDR_FEC_MODE_ENABLED = "FDRFECModeEnabled" fdr_fec_mode_enabled Hex;
            EDR_FEC_MODE_SUPPORTED = "EDRFECModeSupported" edr_fec_mode_supported Hex;
            EDR_FEC_MODE_ENABLED = "EDRFECModeEnabled" edr_fec_mode_enabled Hex;
            HDR_FEC_MODE_SUPPORTED = "HDRFECModeSupported" hdr_fec_mode_supported Hex;
            HDR_FEC_MODE_ENABLED = "HDRFECModeEnabled" hdr_fec_mode_enabled Hex;
            NDR_FEC_MODE_SUPPORTED = "NDRFECModeSupported" ndr_fec_mode_supported Hex;
            NDR_FEC_MODE_ENABLED = "NDRFECModeEnabled" ndr_fec_mode_enabled Hex;
        }
    }
}

/// The vendor's ExtendedPortInfo, which reports FDR10.
pub mod mlnx_ext_port_info {
    use weft_wire::mad::subn::MlnxExtPortInfo;

    use crate::ib::fields::table;

    table! {
        /// All fields, in printing order.
        ALL of MlnxExtPortInfo {
            STATE_CHANGE_ENABLE = "StateChangeEnable" state_change_enable Hex;
            LINK_SPEED_SUPPORTED = "LinkSpeedSupported" link_speed_supported Hex;
            LINK_SPEED_ENABLED = "LinkSpeedEnabled" link_speed_enabled Hex;
            LINK_SPEED_ACTIVE = "LinkSpeedActive" link_speed_active Hex;
        }
    }
}

/// SMInfo.
pub mod sm_info {
    use weft_wire::mad::subn::SmInfo;
    use weft_wire::span;

    use crate::ib::field::{Field, field};
    use crate::ib::format::Format::{Hex, Uint};

    /// `SmInfoGuid`
    pub const SM_INFO_GUID: Field = field("SmInfoGuid", span!(SmInfo.guid), Hex);
    /// `SmActivity`
    pub const SM_ACTIVITY: Field = field("SmActivity", span!(SmInfo.act_count), Uint);
    /// `SmPriority`
    pub const SM_PRIORITY: Field = field("SmPriority", span!(SmInfo.priority), Uint);
    /// `SmState`
    pub const SM_STATE: Field = field("SmState", span!(SmInfo.state), Uint);
}
