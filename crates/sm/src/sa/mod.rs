//! Subnet administration (IBA 15): requests from hosts and their responses, one file for each record. [`Administrator`]
//! does no I/O: datagrams and time go in, datagrams and [`Change`]s come out. Requests wait in a queue that serves LIDs
//! in turn, so that a flood delays only its sender.

mod answer;
mod cache;
mod facts;
mod group;
mod guid_info;
mod index;
mod inform;
mod lanes;
pub mod limits;
mod link;
mod node;
mod path;
mod pkey_table;
mod pkeys;
mod port_info;
mod question;
mod queue;
mod report;
mod reports;
mod service;
mod services;
mod sm_info;
mod subscription;
mod switch;
#[cfg(test)]
mod tests;
mod world;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weft_verbs::Instant;
use weft_wire::mad::sa::{JoinState, McMemberRecord, SaMad};
use weft_wire::mad::{AttrId, Class, MAD_LEN, Mad, Method};
use zerocopy::FromBytes;

pub use cache::CacheError;
use limits::ANSWERS_BYTES_AT_ONCE;
pub use world::{LaneTables, PathLevel, PathPolicy, PathQuestion, Settings, World};

use crate::io::{GmpOut, Peer};
use crate::multicast::{Group, Groups, Wanted};
use answer::{Answer, Outcome, Refusal};
use index::Index;
use question::Question;
use queue::{Queue, Waiting};
use reports::Reports;
use services::Services;
use subscription::Subscription;

/// Work for the manager that results from requests.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Change {
    /// The members of this LID's groups changed: recompute their tree.
    Multicast(u16),
    /// Write a block of a port's GUIDs: [`Administrator::guids_of`].
    Guids {
        /// The port.
        port_guid: u64,
        /// Block number; a block has eight GUIDs.
        block: u8,
    },
    /// The output of [`Administrator::dump`] changed.
    Cache,
}

/// Counters of datagrams and requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Datagrams received.
    pub received: u64,
    /// Requests answered.
    pub answered: u64,
    /// Requests answered with a status other than success.
    pub refused: u64,
    /// Datagrams ignored: not an SA request, manager not master, wrong key, or unknown requester.
    pub ignored: u64,
    /// Requests dropped because the queue was full.
    pub overrun: u64,
    /// Reports dropped because the queue was full.
    pub reports_dropped: u64,
}

/// The subnet administrator.
#[derive(Clone, Debug, Default)]
pub struct Administrator {
    index: Index,
    queue: Queue,
    out: VecDeque<GmpOut>,
    changes: BTreeSet<Change>,
    groups: Groups,
    services: Services,
    subscriptions: BTreeMap<u64, Subscription>,
    last_subscription: u64,
    reports: Reports,
    /// All GUIDs of ports that have alias GUIDs, by PortGUID.
    aliases: BTreeMap<u64, Vec<u64>>,
    mgids_assigned: u32,
    guids_assigned: u32,
    counters: Counters,
}

/// Handler of a record.
type Run = fn(&mut Administrator, Instant, &World<'_>, &Question<'_>, &mut Answer) -> Outcome;

/// A record: its methods and handler.
struct Row {
    attr_id: AttrId,
    methods: &'static [Method],
    run: Run,
}

const READ: &[Method] = &[Method::GET, Method::GET_TABLE];
const CHANGED: &[Method] = &[Method::GET, Method::GET_TABLE, Method::SET, Method::DELETE];

/// Every supported record.
const ROWS: &[Row] = &[
    Row { attr_id: AttrId::SA_PATH_RECORD, methods: READ, run: |sa, _, w, q, a| sa.path_records(w, q, a) },
    Row {
        attr_id: AttrId::SA_MC_MEMBER_RECORD,
        methods: CHANGED,
        run: |sa, t, w, q, a| sa.mc_member_records(t, w, q, a),
    },
    Row { attr_id: AttrId::SA_NODE_RECORD, methods: READ, run: |sa, _, w, q, a| sa.node_records(w, q, a) },
    Row { attr_id: AttrId::SA_PORT_INFO_RECORD, methods: READ, run: |sa, _, w, q, a| sa.port_info_records(w, q, a) },
    Row {
        attr_id: AttrId::SA_SWITCH_INFO_RECORD,
        methods: READ,
        run: |sa, _, w, q, a| sa.switch_info_records(w, q, a),
    },
    Row {
        attr_id: AttrId::SA_LINEAR_FORWARDING_TABLE_RECORD,
        methods: READ,
        run: |sa, _, w, q, a| sa.lft_records(w, q, a),
    },
    Row {
        attr_id: AttrId::SA_MULTICAST_FORWARDING_TABLE_RECORD,
        methods: READ,
        run: |sa, _, w, q, a| sa.mft_records(w, q, a),
    },
    Row {
        attr_id: AttrId::SA_SL_TO_VL_TABLE_RECORD,
        methods: READ,
        run: |sa, _, w, q, a| sa.sl_to_vl_records(w, q, a),
    },
    Row {
        attr_id: AttrId::SA_VL_ARBITRATION_TABLE_RECORD,
        methods: READ,
        run: |sa, _, w, q, a| sa.vl_arbitration_records(w, q, a),
    },
    Row { attr_id: AttrId::SA_PKEY_TABLE_RECORD, methods: READ, run: |sa, _, w, q, a| sa.pkey_table_records(w, q, a) },
    Row { attr_id: AttrId::SA_GUID_INFO_RECORD, methods: CHANGED, run: |sa, _, w, q, a| sa.guid_info_records(w, q, a) },
    Row { attr_id: AttrId::SA_LINK_RECORD, methods: READ, run: |sa, _, w, q, a| sa.link_records(w, q, a) },
    Row { attr_id: AttrId::SA_SM_INFO_RECORD, methods: READ, run: |sa, _, w, q, a| sa.sm_info_records(w, q, a) },
    Row { attr_id: AttrId::SA_SERVICE_RECORD, methods: CHANGED, run: |sa, t, _, q, a| sa.service_records(t, q, a) },
    Row { attr_id: AttrId::SA_INFORM_INFO_RECORD, methods: READ, run: |sa, _, _, q, a| sa.inform_info_records(q, a) },
    Row { attr_id: AttrId::INFORM_INFO, methods: &[Method::SET], run: |sa, _, _, q, a| sa.inform_info(q, a) },
    Row {
        attr_id: AttrId::SA_MULTI_PATH_RECORD,
        methods: &[Method::GET_MULTI],
        run: |sa, _, w, q, a| sa.multi_path_records(w, q, a),
    },
    Row { attr_id: AttrId::CLASS_PORT_INFO, methods: &[Method::GET], run: |sa, _, w, _, a| sa.class_port_info(w, a) },
];

/// Methods of requests.
const ASKING: &[Method] =
    &[Method::GET, Method::GET_TABLE, Method::SET, Method::DELETE, Method::GET_MULTI, Method::GET_TRACE_TABLE];

/// Whether the code is a valid MTU: 256 to 4096 bytes.
fn is_mtu(code: u8) -> bool {
    (1..=5).contains(&code)
}

impl Administrator {
    /// Takes in a received datagram; [`Self::serve`] answers requests. `bytes` beyond one MAD are the whole of a
    /// multi-packet transfer.
    pub fn handle(&mut self, now: Instant, world: &World<'_>, from: &Peer, bytes: &[u8]) {
        let _ = now;
        self.counters.received += 1;
        let Some(mad) = datagram(bytes).filter(|_| world.serving) else {
            self.counters.ignored += 1;
            return;
        };
        let key = mad.sm_key();
        let method = mad.header.method();
        if method == Method::REPORT_RESP {
            self.on_report_response(from, &mad);
        } else if method.is_response() || key != 0 && key != world.settings.sa_key || !ASKING.contains(&method) {
            // A wrong key gets no response (IBA C15-0.1.5).
            self.counters.ignored += 1;
        } else if !self.queue.push(self.turn_of(from.lid), Waiting { from: *from, mad }) {
            self.counters.overrun += 1;
        }
    }

    /// Answers up to `most` pending requests, LIDs in turn. Stops early after long responses, which must be sent before
    /// more are built. Returns the number of requests answered.
    pub fn serve(&mut self, now: Instant, world: &World<'_>, most: usize) -> usize {
        self.refresh(now, world);
        let mut bytes = 0;
        for served in 0..most {
            if bytes >= ANSWERS_BYTES_AT_ONCE {
                return served;
            }
            let Some(waiting) = self.queue.pop() else { return served };
            bytes += self.answer(now, world, &waiting);
        }
        most
    }

    /// Round-robin key of a LID: a port gets one turn, however many LIDs it has.
    fn turn_of(&self, lid: u16) -> u16 {
        self.index.at_lid(lid).map_or(lid, |(_, entry)| entry.lid)
    }

    /// The number of pending requests.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Whether a datagram or a request is pending.
    pub fn has_more(&self) -> bool {
        !self.out.is_empty() || self.queue.len() > 0
    }

    /// The next datagram to send.
    pub fn poll_gmp(&mut self) -> Option<GmpOut> {
        self.out.pop_front()
    }

    /// The next change for the manager.
    pub fn poll_change(&mut self) -> Option<Change> {
        self.changes.pop_first()
    }

    /// Time of the next [`Administrator::handle_timeout`] call.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.services.next_end()
    }

    /// Removes services whose lease has ended.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.services.expire(now) {
            self.changes.insert(Change::Cache);
        }
    }

    /// Current counters.
    pub fn counters(&self) -> Counters {
        Counters { reports_dropped: self.reports.dropped, ..self.counters }
    }

    /// Every multicast group.
    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter()
    }

    /// The last LID available to multicast groups.
    pub fn mlid_top(&self) -> u16 {
        self.groups.mlids.top()
    }

    /// The highest LID that a multicast group has; 0 if there is none.
    pub fn mlid_last(&self) -> u16 {
        self.groups.mlids.used().last().unwrap_or(0)
    }

    /// The number of subscriptions.
    pub fn subscription_count(&self) -> usize {
        self.subscriptions.len()
    }

    /// The number of registered services.
    pub fn service_count(&self) -> usize {
        self.services.iter().count()
    }

    /// GUIDs of a port that were set here, its own first.
    pub fn guids_of(&self, port_guid: u64) -> Option<&[u64]> {
        self.aliases.get(&port_guid).map(Vec::as_slice)
    }

    /// Switches without a multicast table, by index in the graph.
    pub fn without_mft(&self) -> &[u32] {
        &self.index.without_mft
    }

    /// The members of every multicast LID, for [`crate::multicast::trees`].
    pub fn wanted(&self) -> Vec<Wanted> {
        self.groups.mlids.used().map(|mlid| self.wanted_at(mlid)).collect()
    }

    /// The members of a multicast LID.
    pub fn wanted_at(&self, mlid: u16) -> Wanted {
        let members = self.groups.at_mlid(mlid).flat_map(|group| group.members.values());
        let seats = members.filter_map(|member| self.index.seat(member.port_guid, member.receives()));
        let mut seats: Vec<_> = seats.collect();
        // A port in two groups of the LID receives if it does in either one.
        seats.sort_unstable_by_key(|seat| (seat.switch, seat.port, !seat.receives));
        seats.dedup_by_key(|seat| (seat.switch, seat.port));
        Wanted { mlid, seats }
    }

    /// Sets the groups of partitions. Creates missing ones, with the LID in their record if it is not 0 and free; they
    /// stay without members. A group that no longer belongs to a partition is removed with its last member.
    pub fn set_well_known(&mut self, now: Instant, world: &World<'_>, groups: &[McMemberRecord]) {
        self.refresh(now, world);
        let wanted: BTreeSet<[u8; 16]> = groups.iter().map(|group| group.mgid).collect();
        let known: Vec<[u8; 16]> =
            self.groups.iter().filter(|group| group.well_known).map(|group| group.record.mgid).collect();
        for mgid in known.iter().filter(|mgid| !wanted.contains(*mgid)) {
            let Some(group) = self.groups.get_mut(mgid) else { continue };
            group.well_known = false;
            if group.members.is_empty() {
                self.groups.remove(mgid);
            }
            self.changes.insert(Change::Cache);
        }
        for record in groups {
            match self.groups.get_mut(&record.mgid) {
                Some(group) => {
                    group.well_known = true;
                    let (mlid, mgid) = (group.record.mlid, group.record.mgid);
                    group.record = McMemberRecord { mlid, mgid, ..*record };
                }
                None => self.add_well_known(world, record),
            }
        }
    }

    fn add_well_known(&mut self, world: &World<'_>, record: &McMemberRecord) {
        let mask = McMemberRecord::MTU
            | McMemberRecord::MTU_SELECTOR
            | McMemberRecord::RATE
            | McMemberRecord::RATE_SELECTOR
            | McMemberRecord::PACKET_LIFE_TIME;
        let mut plain = world.settings.clone();
        // IPoIB validation is for hosts' requests, not for the configuration.
        plain.ipoib_mcgroup_creation_validation = false;
        let world = World { settings: &plain, ..*world };
        let exact = weft_wire::mad::sa::Selector::EXACTLY;
        let asked = McMemberRecord { mtu_selector: exact, rate_selector: exact, ..*record };
        if let Ok(created) = self.created(&world, &asked, mask, None) {
            let _ = self.insert_group(created, true);
        }
    }

    /// Removes all subscriptions and services; their owners register again.
    pub fn forget_registrations(&mut self) {
        let subscriptions = !std::mem::take(&mut self.subscriptions).is_empty();
        if self.services.clear() || subscriptions {
            self.changes.insert(Change::Cache);
        }
    }

    /// Rebuilds the index if the world has changed; removes the memberships and subscriptions of ports that are gone.
    pub fn refresh(&mut self, now: Instant, world: &World<'_>) {
        if self.index.generation == world.generation && !self.index.entries.is_empty() {
            return;
        }
        if !self.index.entries.is_empty() && self.index.facts.are(world) {
            // The sweep found no change.
            self.index.generation = world.generation;
            return;
        }
        self.index = Index::new(world, &self.aliases);
        self.groups.mlids.set_capacity(self.index.mft_cap);
        if world.serving {
            self.forget_the_gone(now, world);
        }
    }

    fn forget_the_gone(&mut self, now: Instant, world: &World<'_>) {
        let here = |guid: u64| self.index.at_guid(guid).is_some();
        let mut gone: Vec<(McMemberRecord, u64)> = Vec::new();
        for group in self.groups.iter() {
            let members = group.members.values().filter(|member| !here(member.port_guid));
            gone.extend(members.map(|member| (group.record, crate::multicast::guid_of(&member.gid))));
        }
        let before = self.subscriptions.len();
        let index = &self.index;
        let subscriber = |own: &Subscription| crate::multicast::guid_of(&own.record.subscriber_gid);
        self.subscriptions.retain(|_, own| index.at_guid(subscriber(own)).is_some());
        if before != self.subscriptions.len() {
            self.changes.insert(Change::Cache);
        }
        for (group, guid) in gone {
            self.remove_member(now, world, &group, guid, JoinState::all());
        }
    }

    /// Answers or ignores a request. Returns the response's size in bytes.
    fn answer(&mut self, now: Instant, world: &World<'_>, waiting: &Waiting) -> usize {
        let mad = &waiting.mad;
        let method = mad.header.method();
        let requester = self.index.at_lid(waiting.from.lid).map(|(place, _)| place);
        // An unknown requester gets no response: no port has its LID.
        let Some(requester) = requester.filter(|_| world.serving) else {
            self.counters.ignored += 1;
            return 0;
        };
        let question = Question { from: &waiting.from, mad, requester, trusted: mad.sm_key() != 0 };
        let mut answer = Answer::new(method);
        let outcome = match ROWS.iter().find(|row| row.attr_id == mad.attr_id()) {
            Some(row) if row.methods.contains(&method) => (row.run)(self, now, world, &question, &mut answer),
            // As OpenSM does.
            Some(row) if row.attr_id == AttrId::CLASS_PORT_INFO => Err(Refusal::INVALID),
            _ => Err(Refusal::METHOD),
        };
        let Some(bytes) = answer.finish(mad, outcome) else {
            self.counters.ignored += 1;
            return 0;
        };
        let len = bytes.len();
        self.queue.charge(self.turn_of(waiting.from.lid), len);
        self.counters.answered += 1;
        self.counters.refused += u64::from(bytes.get(4..6) != Some(&[0, 0]));
        self.out.push_back(reply(&waiting.from, bytes));
        len
    }
}

/// A response datagram to the sender of a request; it needs no response itself.
fn reply(to: &Peer, bytes: Vec<u8>) -> GmpOut {
    GmpOut { to: *to, bytes, timeout: weft_verbs::Duration::ZERO, retries: 0 }
}

/// Parses an SA datagram. Of a multi-packet transfer it takes the first MAD.
fn datagram(bytes: &[u8]) -> Option<SaMad> {
    let mut whole = [0; MAD_LEN];
    let len = bytes.len().min(MAD_LEN);
    whole.get_mut(..len)?.copy_from_slice(bytes.get(..len)?);
    let mad = SaMad::from_mad(Mad::read_from_bytes(&whole).ok()?);
    (bytes.len() >= SaMad::DATA_AT && mad.header.class() == Class::SUBN_ADM).then_some(mad)
}
