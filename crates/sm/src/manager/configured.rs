//! Builds the manager's [`Setup`] from opensm.conf and the files that it names.

use std::collections::BTreeMap;
use std::sync::Arc;

use weft_verbs::Duration;

use super::Setup;
use crate::options::files::{self, HopWeight};
use crate::options::{Diagnostic, Diagnostics, Options};
use crate::partition;
use crate::qos::{self, Policy};
use crate::routing::chain::Chain;

/// Maximum SMPs in flight if the file sets no more than OpenSM's default.
const WIRE_SMPS: u32 = 128;

impl Setup {
    /// Builds the setup of a port from options and the files that they name; `read` fetches the text of a file, or says
    /// why it cannot.
    pub fn configured(
        own_guid: u64,
        options: &Options,
        read: &mut dyn FnMut(&str) -> Result<String, String>,
    ) -> (Setup, Vec<Diagnostic>) {
        let (files, mut diagnostics) = files::routing(options, read);
        let partitions = partitions(options, read, &mut diagnostics);
        let policy = policy(options, read, &mut diagnostics);
        let node_names = names(options, read, &mut diagnostics);
        let prefix_routes = prefix_routes(options, read, &mut diagnostics);
        let Options { device, sweep, handover, timing, misc, .. } = options;
        let (names, no_fallback) = options.routing.engines();
        let weight = |of: &HopWeight| (of.switch, of.port, u16::try_from(of.weight).unwrap_or(u16::MAX));
        let setup = Setup {
            m_key: device.m_key,
            m_key_lease_period: device.m_key_lease_period,
            m_key_protection_level: device.m_key_protection_level,
            sm_key: device.sm_key,
            sm_priority: handover.sm_priority & 0xf,
            never_master: misc.sm_inactive,
            ignore_other_sm: handover.ignore_other_sm,
            subnet_prefix: device.subnet_prefix,
            lmc: device.lmc.min(7),
            lmc_esp0: device.lmc_esp0,
            sm_sl: device.sm_sl & 0xf,
            max_wire_smps: timing.smps_max().unwrap_or(WIRE_SMPS),
            transaction_timeout: Duration::from_millis(timing.transaction_timeout.into()),
            long_transaction_timeout: Duration::from_millis(timing.long_transaction_timeout.into()),
            transaction_retries: timing.transaction_retries,
            sweep_interval: Duration::from_secs(sweep.sweep_interval.into()),
            sweep_on_trap: sweep.sweep_on_trap,
            force_heavy_sweep: sweep.force_heavy_sweep,
            reassign_lids: sweep.reassign_lids,
            honor_guid2lid_file: handover.honor_guid2lid_file,
            sminfo_polling_timeout: Duration::from_millis(handover.sminfo_polling_timeout.into()),
            polling_retry_number: handover.polling_retry_number,
            max_op_vls: device.max_op_vls,
            packet_life_time: device.packet_life_time,
            head_of_queue_lifetime: device.head_of_queue_lifetime,
            leaf_head_of_queue_lifetime: device.leaf_head_of_queue_lifetime,
            vl_stall_count: device.vl_stall_count,
            leaf_vl_stall_count: device.leaf_vl_stall_count,
            local_phy_errors_threshold: device.local_phy_errors_threshold,
            overrun_errors_threshold: device.overrun_errors_threshold,
            subnet_timeout: device.subnet_timeout,
            babbling_port_policy: misc.babbling_port_policy,
            engines: Chain::new(&names, !no_fallback),
            hop_weights: files.hop_weights.iter().map(weight).collect(),
            routing: files.options,
            options: options.clone(),
            names: Arc::new(node_names),
            partitions,
            policy: policy.map(Arc::new),
            prefix_routes,
            ..Setup::new(own_guid)
        };
        (setup, diagnostics)
    }
}

/// Reads the node names from the file that the options name.
fn names(options: &Options, read: Read<'_>, diagnostics: &mut Vec<Diagnostic>) -> BTreeMap<u64, String> {
    let Some(path) = &options.log.node_name_map_name else { return BTreeMap::new() };
    let (names, said) = match read(path) {
        Ok(text) => files::names(&text, path),
        Err(why) => {
            let mut said = Diagnostics::of(path);
            said.error((0, 0), format!("cannot be read: {why}"), "nodes are called by their descriptions");
            (BTreeMap::new(), said.into_list())
        }
    };
    diagnostics.extend(said);
    names
}

/// Fetches the text of a file.
type Read<'a> = &'a mut dyn FnMut(&str) -> Result<String, String>;

/// Reads partitions.conf; without the file, every port is in the default partition.
fn partitions(options: &Options, read: Read<'_>, diagnostics: &mut Vec<Diagnostic>) -> partition::Config {
    let Some(path) = &options.partitions.partition_config_file else { return partition::Config::Absent };
    let Ok(text) = read(path) else { return partition::Config::Absent };
    let (config, said) = partition::parse(&text, path);
    diagnostics.extend(said);
    config
}

/// Reads the QoS policy, if QoS is on and the file exists.
fn policy(options: &Options, read: Read<'_>, diagnostics: &mut Vec<Diagnostic>) -> Option<Policy> {
    let path = options.qos.qos_policy_file.as_ref().filter(|_| options.qos.qos)?;
    let text = read(path).ok()?;
    let (policy, said) = qos::policy::parse(&text, path);
    diagnostics.extend(said);
    policy
}

/// Reads the routers by prefix; without the file, no port outside the subnet is reachable.
fn prefix_routes(options: &Options, read: Read<'_>, diagnostics: &mut Vec<Diagnostic>) -> Vec<(u64, u64)> {
    let Some(path) = &options.misc.prefix_routes_file else { return Vec::new() };
    let Ok(text) = read(path) else { return Vec::new() };
    let (routes, said) = files::prefix_routes(&text, path);
    diagnostics.extend(said);
    routes.iter().map(|route| (route.prefix.unwrap_or(0), route.router.unwrap_or(0))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_and_their_files_become_a_setup() {
        let conf = "sm_priority 14\nrouting_engine updn,no_fallback,minhop\nmax_wire_smps 9\nlmc 2\nsweep_interval 0\n";
        let (options, diagnostics) = crate::options::parse(conf, "opensm.conf", Options::default());
        assert!(
            diagnostics.iter().all(|diagnostic| diagnostic.level < crate::options::Level::Error),
            "{diagnostics:?}"
        );
        let options = crate::options::Options {
            routing: crate::options::Routing {
                root_guid_file: Some("roots".to_owned()),
                hop_weights_file: Some("weights".to_owned()),
                ..options.routing.clone()
            },
            ..options
        };
        let mut read = |name: &str| match name {
            "roots" => Ok("0x10\n0x20\n".to_owned()),
            "weights" => Ok("0x10 3 5\n".to_owned()),
            _ => Err("no such file".to_owned()),
        };
        let (setup, diagnostics) = Setup::configured(7, &options, &mut read);
        assert!(diagnostics.is_empty(), "{diagnostics:?}");
        assert_eq!((setup.own_guid, setup.sm_priority, setup.lmc, setup.max_wire_smps), (7, 14, 2, 9));
        assert!(setup.sweep_interval.is_zero());
        assert_eq!(setup.engines.names().collect::<Vec<_>>(), ["updn", "minhop"]);
        assert_eq!(setup.routing.root_guids, [0x10, 0x20]);
        assert_eq!(setup.hop_weights, [(0x10, 3, 5)]);
        let mut read = |name: &str| match name {
            "p" => Ok("Default=0x7fff : ALL=full ;".to_owned()),
            "r" => Ok("fec0000000000001 0x10\n* *\n".to_owned()),
            "q" => Ok("qos-ulps\ndefault : 3\nend-qos-ulps\n".to_owned()),
            _ => Err("no such file".to_owned()),
        };
        let conf = "partition_config_file p\nqos_policy_file q\nprefix_routes_file r\n";
        let (options, _) = crate::options::parse(conf, "f", Options::default());
        let (setup, _) = Setup::configured(7, &options, &mut read);
        assert_eq!(setup.prefix_routes, [(0xfec0_0000_0000_0001, 0x10), (0, 0)]);
        assert!(matches!(setup.partitions, partition::Config::Rules(_)) && setup.policy.is_none());
        let (options, _) = crate::options::parse("qos TRUE\n", "f", options);
        let (setup, _) = Setup::configured(7, &options, &mut read);
        assert_eq!(setup.policy.map(|policy| policy.levels[policy.default].sl), Some(Some(3)));
        let (untold, _) = Setup::configured(7, &Options::default(), &mut read);
        assert_eq!(untold.max_wire_smps, WIRE_SMPS);
    }
}
