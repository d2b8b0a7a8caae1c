//! Connects the SA to the manager: lends it the manager's state, and carries out its changes.

use std::collections::BTreeMap;

use weft_verbs::Instant;
use weft_wire::mad::Rate;
use weft_wire::mad::notice::{GidDetails, Notice, NoticeDetails, NoticeType, ProducerType, TrapNumber};
use weft_wire::mad::sa::{McMemberRecord, PathRecord};
use weft_wire::mad::subn::{SmInfo, SmState};

use super::{Event, Manager, Setup};
use crate::partition::Group;
use crate::qos::policy::{Bound, Question};
use crate::sa::{Administrator, Change, PathLevel, PathPolicy, PathQuestion, Settings, World};
use crate::sweep::{Ask, What};

/// The SA and the state that the manager lends it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Administration {
    pub sa: Administrator,
    /// Grows with every change of the lent state.
    pub generation: u64,
    /// The generation for which trees were last computed.
    pub grown_for: u64,
    /// Members of groups changed since trees were last computed.
    pub regrow: bool,
    settings: Settings,
    /// Service levels of partitions, by P_Key without the membership bit.
    levels: BTreeMap<u16, u8>,
    managers: Vec<SmInfo>,
    policy: Option<Policy>,
    /// Groups of partitions as the SA last received them.
    groups: Vec<Group>,
    /// End ports that subscribers know of.
    known: std::collections::BTreeSet<u64>,
    restored: bool,
}

/// A QoS policy in the form that the SA queries.
#[derive(Clone, Debug)]
struct Policy(Bound);

impl PathPolicy for Policy {
    fn level(&self, question: &PathQuestion<'_>) -> Option<PathLevel> {
        let (asked, mask) = (question.asked, question.mask);
        let service = mask.contains(PathRecord::SERVICE_ID_MSB) || mask.contains(PathRecord::SERVICE_ID_LSB);
        let level = self.0.level_for(&Question {
            source: question.source,
            destination: question.destination,
            service_id: service.then_some(asked.service_id),
            qos_class: mask.contains(PathRecord::QOS_CLASS).then_some(asked.qos_class),
            pkey: mask.contains(PathRecord::PKEY).then_some(asked.pkey),
        })?;
        let pkeys = level.pkeys.iter().map(|(first, last)| (*first as u16, *last as u16)).collect();
        let (sl, mtu_limit, rate_limit, packet_life) = (level.sl, level.mtu_limit, level.rate_limit, level.packet_life);
        Some(PathLevel { sl, mtu_limit, rate_limit, packet_life, pkeys })
    }
}

impl Administration {
    pub fn new(setup: &Setup) -> Administration {
        Administration { settings: settings(setup), generation: 1, ..Administration::default() }
    }

    /// Takes over a reloaded configuration.
    pub fn reload(&mut self, setup: &Setup) {
        self.settings = settings(setup);
        self.generation += 1;
    }
}

/// A P_Key without the membership bit; the default partition's has all of these bits set.
const KEY_BITS: u16 = 0x7fff;

/// The code of 300 Gb/s, the highest of the first extended rates (IBA 15.2.5.16).
const RATE_300: u8 = 18;

fn settings(setup: &Setup) -> Settings {
    let options = &setup.options;
    Settings {
        subnet_prefix: setup.subnet_prefix,
        sa_key: options.device.sa_key,
        subnet_timeout: setup.subnet_timeout,
        transaction_timeout_ms: u32::try_from(setup.transaction_timeout.as_millis()).unwrap_or(u32::MAX),
        qos: options.qos.qos,
        disable_multicast: options.misc.disable_multicast,
        use_mfttop: options.device.use_mfttop,
        ipoib_mcgroup_creation_validation: options.misc.ipoib_mcgroup_creation_validation,
        mcgroup_join_validation: options.misc.mcgroup_join_validation,
        consolidate_ipv6_snm_req: options.misc.consolidate_ipv6_snm_req,
        max_rate_enum: match options.misc.use_original_extended_sa_rates_only {
            true => options.misc.max_rate_enum.min(RATE_300),
            false => options.misc.max_rate_enum,
        },
        sm_assigned_guid: options.partitions.sm_assigned_guid,
        prefix_routes: setup.prefix_routes.clone(),
    }
}

fn record(group: &Group) -> McMemberRecord {
    McMemberRecord {
        mgid: group.mgid,
        qkey: group.qkey,
        mtu: group.mtu,
        rate: Rate(group.rate),
        packet_life_time: group.packet_life,
        pkey: group.pkey,
        sl: group.sl,
        scope: group.scope,
        tclass: group.tclass,
        flow_label: group.flow_label,
        hop_limit: group.hop_limit,
        ..McMemberRecord::default()
    }
}

impl Manager {
    /// Runs an action of the SA with the state that the manager lends it.
    pub(crate) fn administer<R>(&mut self, act: impl FnOnce(&mut Administrator, Instant, &World<'_>) -> R) -> R {
        let mut sa = std::mem::take(&mut self.administration.sa);
        let lent = &self.administration;
        let world = World {
            generation: lent.generation,
            serving: self.state == SmState::MASTER && self.sweep.mastered,
            subnet: &self.subnet,
            graph: &self.graph,
            tables: &self.tables,
            settings: &lent.settings,
            partitions: &lent.levels,
            policy: lent.policy.as_ref().map(|policy| policy as &dyn PathPolicy),
            lanes: Some(self),
            managers: &lent.managers,
        };
        let done = act(&mut sa, self.now, &world);
        self.administration.sa = sa;
        done
    }

    /// Carries out the changes that the SA requests.
    pub(crate) fn take_changes(&mut self) {
        while let Some(change) = self.administration.sa.poll_change() {
            match change {
                Change::Multicast(_) => self.administration.regrow = true,
                Change::Guids { port_guid, block } => {
                    if let Some(at) = self.subnet.by_port_guid.get(&port_guid).copied() {
                        self.wire.ask(Ask { what: What::SetGuids, at, arg: block.into() });
                    }
                }
                Change::Cache => self.tell(Event::DataBaseChanged),
            }
        }
    }

    /// Updates the list of managers, when another one appears or this one changes its state.
    pub(crate) fn list_managers(&mut self) {
        let own = self.sm_info_for(false);
        self.administration.managers = std::iter::once(own).chain(self.peers.infos()).collect();
    }

    /// Updates this manager's own SMInfo.
    pub(crate) fn renew_own(&mut self) {
        let own = self.sm_info_for(false);
        if let Some(first) = self.administration.managers.first_mut() {
            *first = own;
        }
    }

    /// Passes the results of a sweep to the SA.
    pub(crate) fn end_administration(&mut self) {
        self.list_managers();
        if self.state != SmState::MASTER || !self.sweep.mastered {
            return;
        }
        self.administration.generation += 1;
        let levels = self.plan.partitions.iter().map(|partition| (partition.key, partition.sl));
        self.administration.levels = levels.collect();
        self.bind_policy();
        self.restore();
        self.administer(|sa, now, world| sa.refresh(now, world));
        if self.administration.groups != self.plan.groups {
            self.administration.groups.clone_from(&self.plan.groups);
            // The first groups get the first MLIDs: those of the default partition, as under OpenSM.
            let mut groups: Vec<&Group> = self.plan.groups.iter().collect();
            groups.sort_by_key(|group| group.pkey & KEY_BITS != KEY_BITS);
            let records: Vec<McMemberRecord> = groups.into_iter().map(record).collect();
            self.administer(|sa, now, world| sa.set_well_known(now, world, &records));
        }
        self.tell_subscribers();
        self.take_changes();
    }

    /// Resolves the policy's port groups to ports; some groups select ports by node description.
    pub(crate) fn bind_policy(&mut self) {
        let policy = self.setup.policy.as_ref().filter(|_| self.setup.options.qos.qos);
        self.administration.policy = policy.map(|policy| Policy(policy.bind(&self.subnet, &self.plan)));
    }

    /// Restores the database of an earlier SA.
    fn restore(&mut self) {
        if std::mem::replace(&mut self.administration.restored, true) || self.setup.sa_db.is_empty() {
            return;
        }
        let text = std::mem::take(&mut self.setup.sa_db);
        for error in self.administer(|sa, now, world| sa.restore(now, world, &text)) {
            self.tell(Event::BadDataBase { what: error.to_string() });
        }
    }

    /// Tells subscribers which ports came and went.
    fn tell_subscribers(&mut self) {
        let departed = std::mem::take(&mut self.departed);
        let now: std::collections::BTreeSet<u64> = self.subnet.by_port_guid.keys().copied().collect();
        let before = std::mem::replace(&mut self.administration.known, now);
        if self.administration.sa.subscription_count() == 0 {
            return;
        }
        let gone = departed.iter().filter(|guid| !self.administration.known.contains(guid));
        let gone: Vec<_> = gone.map(|guid| (TrapNumber::GID_OUT_OF_SERVICE, *guid)).collect();
        let came = self.administration.known.difference(&before).map(|guid| (TrapNumber::GID_IN_SERVICE, *guid));
        let told: Vec<_> = gone.into_iter().chain(came).collect();
        let lid = self.own_lid();
        for (trap, guid) in told {
            let gid = (u128::from(self.setup.subnet_prefix) << 64 | u128::from(guid)).to_be_bytes();
            let details = NoticeDetails::Gid(trap, GidDetails { gid });
            let notice = Notice::generic(NoticeType::INFORMATIONAL, ProducerType::CLASS_MANAGER, lid, &details);
            self.administer(|sa, now, world| sa.notice(now, world, &notice));
        }
    }
}
