//! What stands in no other group.

use super::own;
use crate::options::spec::{Effect, group};

group! {
    /// What stands in no other group.
    Misc at misc {
        /// Run in the background
        daemon: bool = false, Restart, Effect::Works;
        /// Begin as a manager that does nothing until another tells it to
        sm_inactive: bool = false, Live, Effect::Works;
        /// A port that sends the same trap without end is disabled
        babbling_port_policy: bool = false, Live, Effect::Works;
        /// Subscriptions and services end when a manager becomes master (with their port they end in any case)
        drop_event_subscriptions: bool = false, Live, Effect::Works;
        /// Who creates an IPoIB group must agree with the broadcast group (RFC 4391)
        ipoib_mcgroup_creation_validation: bool = true, Live, Effect::Works;
        /// Who joins a multicast group must agree with it
        mcgroup_join_validation: bool = true, Live, Effect::Works;
        /// No rates above 300 Gb/s, for hosts that do not know them
        use_original_extended_sa_rates_only: bool = false, Live, Effect::Works;
        /// The highest code of a rate that is told; 255 is all
        max_rate_enum: u8 = 255, Live, Effect::Works;
        /// Maps of lanes are written for all ports at once, where switches support it
        use_optimized_slvl: bool = false, Live, Effect::Works;
        /// What a successor needs is on the disk before the manager goes on
        fsync_high_avail_files: bool = true, Live, Effect::Works;
        /// Quirks for certain devices
        enable_quirks: bool = false, Live, Effect::Nothing("no device is known to need one");
        /// Hosts are not asked to register again when a manager takes over
        no_clients_rereg: bool = false, Live, Effect::Works;
        /// No multicast
        disable_multicast: bool = false, Live, Effect::Works;
        /// A subnet that cannot be right ends the manager: doubled GUIDs, links that were cabled wrong
        exit_on_fatal: bool = true, Live,
            Effect::Nothing("what cannot be right is isolated and named, and the rest of the subnet managed");
        /// Who may use a console besides weft sm console: off, local (the manager's terminal),
        /// loopback (who connects to console_port on this host), socket (who connects from anywhere)
        console: crate::options::Console = crate::options::Console::Off, Restart, Effect::Works;
        /// Port of the console
        console_port: u16 = 10_000, Restart, Effect::Works;
        /// File of routers by prefix: prefix and port GUID a line, * for any
        prefix_routes_file: Option<String> = own("prefix-routes.conf"), Restart, Effect::Works;
        /// IPv6 solicited-node groups of a scope and P_Key share an MLID
        consolidate_ipv6_snm_req: bool = false, Live, Effect::Works;
    }
}
