//! Attributes of subnet management (IBA 14.2.5), under the names that the tools print.

/// NodeInfo.
pub mod node_info {
    use crate::ib::fields::table;

    table! {
        /// All fields, in printing order.
        ALL {
            BASE_VERS = "BaseVers" 0 8 Uint;
            CLASS_VERS = "ClassVers" 8 8 Uint;
            NODE_TYPE = "NodeType" 16 8 NodeType;
            NUM_PORTS = "NumPorts" 24 8 Uint;
            SYSTEM_GUID = "SystemGuid" 32 64 Hex;
            GUID = "Guid" 96 64 Hex;
            PORT_GUID = "PortGuid" 160 64 Hex;
            PART_CAP = "PartCap" 224 16 Uint;
            DEV_ID = "DevId" 240 16 Hex;
            REVISION = "Revision" 256 32 Hex;
            LOCAL_PORT = "LocalPort" 288 8 Uint;
            VENDOR_ID = "VendorId" 296 24 Hex;
        }
    }
}

/// PortInfo.
pub mod port_info {
    use crate::ib::fields::table;

    table! {
        /// All fields, in printing order.
        ALL {
            MKEY = "Mkey" 0 64 Hex;
            GID_PREFIX = "GidPrefix" 64 64 Hex;
            LID = "Lid" 128 16 Uint;
            SM_LID = "SMLid" 144 16 Uint;
            CAP_MASK = "CapMask" 160 32 CapMask;
            DIAG_CODE = "DiagCode" 192 16 Hex;
            MKEY_LEASE_PERIOD = "MkeyLeasePeriod" 208 16 Uint;
            LOCAL_PORT = "LocalPort" 224 8 Uint;
            LINK_WIDTH_ENABLED = "LinkWidthEnabled" 232 8 LinkWidthEnabled;
            LINK_WIDTH_SUPPORTED = "LinkWidthSupported" 240 8 LinkWidthSupported;
            LINK_WIDTH_ACTIVE = "LinkWidthActive" 248 8 LinkWidth;
            LINK_SPEED_SUPPORTED = "LinkSpeedSupported" 256 4 LinkSpeeds;
            LINK_STATE = "LinkState" 260 4 PortState;
            PHYS_LINK_STATE = "PhysLinkState" 264 4 PhysState;
            LINK_DOWN_DEF_STATE = "LinkDownDefState" 268 4 DownDefault;
            PROTECT_BITS = "ProtectBits" 272 2 Uint;
            LMC = "LMC" 277 3 Uint;
            LINK_SPEED_ACTIVE = "LinkSpeedActive" 280 4 LinkSpeed;
            LINK_SPEED_ENABLED = "LinkSpeedEnabled" 284 4 LinkSpeeds;
            NEIGHBOR_MTU = "NeighborMTU" 288 4 Mtu;
            SM_SL = "SMSL" 292 4 Uint;
            VL_CAP = "VLCap" 296 4 VlCap;
            INIT_TYPE = "InitType" 300 4 Hex;
            VL_HIGH_LIMIT = "VLHighLimit" 304 8 Uint;
            VL_ARB_HIGH_CAP = "VLArbHighCap" 312 8 Uint;
            VL_ARB_LOW_CAP = "VLArbLowCap" 320 8 Uint;
            INIT_REPLY = "InitReply" 328 4 Hex;
            MTU_CAP = "MtuCap" 332 4 Mtu;
            VL_STALL_COUNT = "VLStallCount" 336 3 Uint;
            HOQ_LIFE = "HoqLife" 339 5 Uint;
            OPER_VLS = "OperVLs" 344 4 OperVls;
            PART_ENFORCE_INB = "PartEnforceInb" 348 1 Uint;
            PART_ENFORCE_OUTB = "PartEnforceOutb" 349 1 Uint;
            FILTER_RAW_INB = "FilterRawInb" 350 1 Uint;
            FILTER_RAW_OUTB = "FilterRawOutb" 351 1 Uint;
            MKEY_VIOLATIONS = "MkeyViolations" 352 16 Uint;
            PKEY_VIOLATIONS = "PkeyViolations" 368 16 Uint;
            QKEY_VIOLATIONS = "QkeyViolations" 384 16 Uint;
            GUID_CAP = "GuidCap" 400 8 Uint;
            CLIENT_REREGISTER = "ClientReregister" 408 1 Uint;
            MCAST_PKEY_TRAP_SUPPRESSION_ENABLED = "McastPkeyTrapSuppressionEnabled" 409 2 Uint;
            SUBNET_TIMEOUT = "SubnetTimeout" 411 5 Uint;
            RESP_TIME_VAL = "RespTimeVal" 419 5 Uint;
            LOCAL_PHYS_ERR = "LocalPhysErr" 424 4 Uint;
            OVERRUN_ERR = "OverrunErr" 428 4 Uint;
            MAX_CREDIT_HINT = "MaxCreditHint" 432 16 Uint;
            ROUND_TRIP = "RoundTrip" 456 24 Uint;
            CAPABILITY_MASK2 = "CapabilityMask2" 480 16 CapMask2;
            LINK_SPEED_EXT_ACTIVE = "LinkSpeedExtActive" 496 4 LinkSpeedExt;
            LINK_SPEED_EXT_SUPPORTED = "LinkSpeedExtSupported" 500 4 LinkSpeedExtSupported;
            LINK_SPEED_EXT_ENABLED = "LinkSpeedExtEnabled" 507 5 LinkSpeedExtEnabled;
            LINK_SPEED_EXT_ACTIVE2 = "LinkSpeedExtActive2" 449 2 LinkSpeedExt2;
            LINK_SPEED_EXT_SUPPORTED2 = "LinkSpeedExtSupported2" 451 2 LinkSpeedsExt2;
            LINK_SPEED_EXT_ENABLED2 = "LinkSpeedExtEnabled2" 453 3 LinkSpeedsExt2;
        }
    }
}

/// SwitchInfo.
pub mod switch_info {
    use crate::ib::fields::table;

    table! {
        /// All fields, in printing order.
        ALL {
            LINEAR_FDB_CAP = "LinearFdbCap" 0 16 Uint;
            RANDOM_FDB_CAP = "RandomFdbCap" 16 16 Uint;
            MCAST_FDB_CAP = "McastFdbCap" 32 16 Uint;
            LINEAR_FDB_TOP = "LinearFdbTop" 48 16 Uint;
            DEF_PORT = "DefPort" 64 8 Uint;
            DEF_MCAST_PRIM_PORT = "DefMcastPrimPort" 72 8 Uint;
            DEF_MCAST_NOT_PRIM_PORT = "DefMcastNotPrimPort" 80 8 Uint;
            LIFE_TIME = "LifeTime" 88 5 Uint;
            STATE_CHANGE = "StateChange" 93 1 Uint;
            OPT_SL_TO_VL_MAPPING = "OptSLtoVLMapping" 94 2 Uint;
            LIDS_PER_PORT = "LidsPerPort" 96 16 Uint;
            PART_ENFORCE_CAP = "PartEnforceCap" 112 16 Uint;
            INBOUND_PART_ENF = "InboundPartEnf" 128 1 Uint;
            OUTBOUND_PART_ENF = "OutboundPartEnf" 129 1 Uint;
            FILTER_RAW_INBOUND = "FilterRawInbound" 130 1 Uint;
            FILTER_RAW_OUTBOUND = "FilterRawOutbound" 131 1 Uint;
            ENHANCED_PORT0 = "EnhancedPort0" 132 1 Uint;
            MULTICAST_FDB_TOP = "MulticastFDBTop" 144 16 Hex;
        }
    }
}

/// PortInfoExtended.
pub mod port_info_extended {
    use crate::ib::fields::table;

    table! {
        /// All fields, in printing order.
        ALL {
            CAP_MASK = "CapMask" 0 32 Hex;
            FEC_MODE_ACTIVE = "FECModeActive" 32 16 Uint;
            FDR_FEC_MODE_SUPPORTED = "FDRFECModeSupported" 48 16 Hex;
            FDR_FEC_MODE_ENABLED = "FDRFECModeEnabled" 64 16 Hex;
            EDR_FEC_MODE_SUPPORTED = "EDRFECModeSupported" 80 16 Hex;
            EDR_FEC_MODE_ENABLED = "EDRFECModeEnabled" 96 16 Hex;
            HDR_FEC_MODE_SUPPORTED = "HDRFECModeSupported" 112 16 Hex;
            HDR_FEC_MODE_ENABLED = "HDRFECModeEnabled" 128 16 Hex;
            NDR_FEC_MODE_SUPPORTED = "NDRFECModeSupported" 144 16 Hex;
            NDR_FEC_MODE_ENABLED = "NDRFECModeEnabled" 160 16 Hex;
        }
    }
}

/// The vendor's ExtendedPortInfo, which reports FDR10.
pub mod mlnx_ext_port_info {
    use crate::ib::fields::table;

    table! {
        /// All fields, in printing order.
        ALL {
            STATE_CHANGE_ENABLE = "StateChangeEnable" 24 8 Hex;
            LINK_SPEED_SUPPORTED = "LinkSpeedSupported" 56 8 Hex;
            LINK_SPEED_ENABLED = "LinkSpeedEnabled" 88 8 Hex;
            LINK_SPEED_ACTIVE = "LinkSpeedActive" 120 8 Hex;
        }
    }
}

/// SMInfo.
pub mod sm_info {
    use crate::ib::field::{Field, field};
    use crate::ib::format::Format::{Hex, Uint};

    /// `SmInfoGuid`
    pub const SM_INFO_GUID: Field = field("SmInfoGuid", 0, 64, Hex);
    /// `SmActivity`
    pub const SM_ACTIVITY: Field = field("SmActivity", 128, 32, Uint);
    /// `SmPriority`
    pub const SM_PRIORITY: Field = field("SmPriority", 160, 4, Uint);
    /// `SmState`
    pub const SM_STATE: Field = field("SmState", 164, 4, Uint);
}
