//! Quality of service: VLs and arbitration by kind of port, and the policy.

use super::own;
use crate::options::spec::{Change, Effect, Spec, group};
use crate::options::value::Value;

group! {
    /// Quality of service: on or off, and the policy file.
    Qos at qos {
        /// Configure VLs and arbitration
        qos: bool = false, Live, Effect::Works;
        /// QoS policy file
        qos_policy_file: Option<String> = own("qos-policy.conf"), Restart, Effect::Works;
        /// Log no error when a port refuses an SL2VL table
        suppress_sl2vl_mad_status_errors: bool = false, Live, Effect::Works;
    }
}

/// VLs and arbitration by kind of port.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KindLanes {
    /// For all ports without settings of their own.
    pub all: Lanes,
    /// For ports of adapters.
    pub ca: Lanes,
    /// For enhanced switches' port 0.
    pub sw0: Lanes,
    /// For switches' other ports.
    pub swe: Lanes,
    /// For ports of routers.
    pub rtr: Lanes,
}

/// VLs and arbitration of a kind of port, as opensm.conf gives them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lanes {
    /// Data VLs; 0: as for all ports, or 15.
    pub max_vls: u32,
    /// Limit of High Priority; -1: as for all ports, or 0.
    pub high_limit: i32,
    /// High-priority table: `vl:weight,...`.
    pub vlarb_high: Option<String>,
    /// Low-priority table: `vl:weight,...`.
    pub vlarb_low: Option<String>,
    /// VL of each service level: `vl,...`; VL 15 drops the packet.
    pub sl2vl: Option<String>,
}

impl Default for Lanes {
    fn default() -> Lanes {
        Lanes { max_vls: 0, high_limit: -1, vlarb_high: None, vlarb_low: None, sl2vl: None }
    }
}

macro_rules! spec {
    ($name:expr, $about:literal, $kind:ident.$field:ident) => {
        Spec {
            name: $name,
            about: &[$about],
            change: Change::Live,
            effect: Effect::Works,
            set: |options, text| Value::update(&mut options.lanes.$kind.$field, text),
            show: |options| Value::lines(&options.lanes.$kind.$field),
        }
    };
}

macro_rules! lanes {
    ($CONST:ident, $kind:ident, $prefix:literal, $about:literal) => {
        #[doc = $about]
        pub(in crate::options) const $CONST: &[Spec] = &[
            spec!(concat!($prefix, "_max_vls"), $about, $kind.max_vls),
            spec!(concat!($prefix, "_high_limit"), "", $kind.high_limit),
            spec!(concat!($prefix, "_vlarb_high"), "", $kind.vlarb_high),
            spec!(concat!($prefix, "_vlarb_low"), "", $kind.vlarb_low),
            spec!(concat!($prefix, "_sl2vl"), "", $kind.sl2vl),
        ];
    };
}

lanes!(
    ALL,
    all,
    "qos",
    "For all ports: lanes, the limit of high priority, arbitration tables, lanes of service levels"
);
lanes!(CA, ca, "qos_ca", "The same for ports of adapters");
lanes!(SW0, sw0, "qos_sw0", "The same for enhanced switches' port 0");
lanes!(SWE, swe, "qos_swe", "The same for switches' other ports");
lanes!(RTR, rtr, "qos_rtr", "The same for ports of routers");
