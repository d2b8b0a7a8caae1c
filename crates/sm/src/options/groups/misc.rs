//! Options that belong to no other group.

use super::own;
use crate::options::spec::{Effect, group};

group! {
    /// Options that belong to no other group.
    Misc at misc {
        /// Run in the background
        daemon: bool = false, Restart, Effect::Works;
        /// Start in the Not active state until another SM activates this one
        sm_inactive: bool = false, Live, Effect::Works;
        /// Disable a port that repeats the same trap without end
        babbling_port_policy: bool = false, Live, Effect::Works;
        /// Drop subscriptions and services when an SM becomes master (they always end when their port leaves)
        drop_event_subscriptions: bool = false, Live, Effect::Works;
        /// Require a new IPoIB group to match the broadcast group (RFC 4391)
        ipoib_mcgroup_creation_validation: bool = true, Live, Effect::Works;
        /// Require joins to match the multicast group
        mcgroup_join_validation: bool = true, Live, Effect::Works;
        /// Report no rates above 300 Gb/s, for hosts that do not know them
        use_original_extended_sa_rates_only: bool = false, Live, Effect::Works;
        /// Highest rate code to report; 255 is all
        max_rate_enum: u8 = 255, Live, Effect::Works;
        /// Write SL2VL tables for all ports at once on switches that support it
        use_optimized_slvl: bool = false, Live, Effect::Works;
        /// Flush the files that a successor needs to disk before going on
        fsync_high_avail_files: bool = true, Live, Effect::Works;
        /// Apply quirks for certain devices
        enable_quirks: bool = false, Live, Effect::Nothing("no device is known to need one");
        /// Do not ask hosts to register again when an SM takes over
        no_clients_rereg: bool = false, Live, Effect::Works;
        /// Disable multicast
        disable_multicast: bool = false, Live, Effect::Works;
        /// Exit on a subnet that cannot be right: duplicate GUIDs, wrong cabling
        exit_on_fatal: bool = true, Live,
            Effect::Nothing("the SM isolates and reports the fault, and manages the rest of the subnet");
        /// Access to a console besides weft sm console: off, local (the terminal that started the SM),
        /// loopback (connections to console_port from this host), socket (connections from any host)
        console: crate::options::Console = crate::options::Console::Off, Restart, Effect::Works;
        /// Port of the console
        console_port: u16 = 10_000, Restart, Effect::Works;
        /// File of routers by prefix: a prefix and a port GUID per line, * for any
        prefix_routes_file: Option<String> = own("prefix-routes.conf"), Restart, Effect::Works;
        /// Share one MLID among the IPv6 solicited-node groups of a scope and P_Key
        consolidate_ipv6_snm_req: bool = false, Live, Effect::Works;
    }
}
