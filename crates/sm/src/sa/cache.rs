//! SA state kept over a restart, in the text format that OpenSM writes and reads (`opensm-sa.dump`, `sa_db_file`):
//! alias GUIDs, groups and their members, subscriptions, services.

use std::fmt::Write;

use weft_verbs::Instant;
use weft_wire::mad::notice::{InformInfo, ProducerType, TrapNumber};
use weft_wire::mad::sa::{InformInfoRecord, JoinState, McMemberRecord, Selector, ServiceRecord};
use weft_wire::mad::{Block, Rate};

use super::limits::{CACHE_ERRORS_MAX, CACHE_LINE_MAX};
use super::services::{FOR_GOOD, Service};
use super::subscription::Subscription;
use super::world::World;
use super::{Administrator, Change};
use crate::io::Peer;
use crate::multicast::{Group, Member, guid_of, prefix_of};

/// Number of GUIDs in a block.
const BLOCK: usize = 8;

/// A line that cannot be parsed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct CacheError {
    /// Line number, from 1.
    pub line: usize,
    /// Reason.
    pub why: String,
}

impl Administrator {
    /// Writes everything needed after a restart.
    pub fn dump(&self, now: Instant, world: &World<'_>) -> String {
        let mut text = String::new();
        for (guid, guids) in &self.aliases {
            let lid = self.index.at_guid(*guid).map_or(0, |(_, entry)| entry.lid);
            for (number, block) in guids.chunks(BLOCK).enumerate() {
                let _ = write!(text, "GUIDInfo Record: base_guid=0x{guid:016x} lid=0x{lid:04x} block_num=0x{number:x}");
                for (place, guid) in block.iter().enumerate() {
                    let _ = write!(text, " guid{place}=0x{guid:016x}");
                }
                text.push_str("\n\n");
            }
        }
        let _ = world;
        self.groups.iter().for_each(|group| write_group(&mut text, group));
        self.subscriptions.values().for_each(|subscription| write_subscription(&mut text, subscription));
        self.services.iter().for_each(|service| write_service(&mut text, now, service));
        text
    }

    /// Restores the output of [`Administrator::dump`]; existing entries take precedence. Skips lines that it cannot
    /// parse, and returns the first [`CACHE_ERRORS_MAX`] errors plus the number of further ones.
    pub fn restore(&mut self, now: Instant, world: &World<'_>, text: &str) -> Vec<CacheError> {
        self.refresh(now, world);
        let mut group: Option<McMemberRecord> = None;
        let mut errors = Vec::new();
        let mut more = (0, 0);
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim_start();
            match self.restore_line(now, world, line, &mut group) {
                Ok(()) => {}
                Err(why) if errors.len() < CACHE_ERRORS_MAX => errors.push(CacheError { line: number, why }),
                Err(_) => more = (number, more.1 + 1),
            }
        }
        if let (line, count @ 1..) = more {
            let why = format!("the last of {count} more that cannot be read; is this the right file?");
            errors.push(CacheError { line, why });
        }
        self.end_empty_groups();
        errors
    }

    fn restore_line(
        &mut self,
        now: Instant,
        world: &World<'_>,
        line: &str,
        group: &mut Option<McMemberRecord>,
    ) -> Result<(), String> {
        if line.len() > CACHE_LINE_MAX {
            return Err(format!("longer than {CACHE_LINE_MAX} bytes: no record is"));
        }
        if line.starts_with("MC Group") {
            *group = None;
            *group = Some(self.restore_group(world, &mut Fields(line))?);
        } else if line.starts_with("mcm_port") {
            let about = group.ok_or("a member, but no group before it")?;
            self.restore_member(now, world, about, &mut Fields(line))?;
        } else if line.starts_with("Service Record:") {
            let record = read_service(&mut Fields(line))?;
            if !self.services.contains(&record) {
                self.services.insert(now, record, guid_of(&record.service_gid));
            }
        } else if line.starts_with("InformInfo Record:") {
            let subscription = read_subscription(&mut Fields(line))?;
            let known = |own: &Subscription| own.record == subscription.record && own.to == subscription.to;
            if !self.subscriptions.values().any(known) {
                self.subscribe(subscription).map_err(|_| "too many subscriptions".to_owned())?;
            }
        } else if line.starts_with("GUIDInfo Record:") {
            self.restore_guids(&mut Fields(line))?;
        } else if !line.is_empty() && !line.starts_with('#') {
            return Err("no record that is known".to_owned());
        }
        Ok(())
    }

    fn restore_group(&mut self, world: &World<'_>, line: &mut Fields<'_>) -> Result<McMemberRecord, String> {
        let record = read_group(line)?;
        if let Some(group) = self.groups.get(&record.mgid) {
            return Ok(group.record);
        }
        let mask = McMemberRecord::MTU
            | McMemberRecord::MTU_SELECTOR
            | McMemberRecord::RATE
            | McMemberRecord::RATE_SELECTOR
            | McMemberRecord::PACKET_LIFE_TIME;
        let shared = !self.groups.mlids.groups(record.mlid).is_empty();
        let created = self.created_before(world, &record, mask).map_err(|_| "no group like this can be".to_owned())?;
        // Groups that shared a LID share it again.
        let mlid = if shared && record.mlid <= self.groups.mlids.top() { record.mlid } else { created.mlid };
        let created = McMemberRecord { mlid, ..created };
        self.insert_group(created, false).map_err(|_| "too many groups".to_owned())?;
        Ok(created)
    }

    fn restore_member(
        &mut self,
        now: Instant,
        world: &World<'_>,
        group: McMemberRecord,
        line: &mut Fields<'_>,
    ) -> Result<(), String> {
        let gid = line.gid(" port_gid=0x")?;
        let state = JoinState::from_bits_truncate(line.number(" scope_state=0x")? as u8 & 0xf);
        let proxy = line.number(" proxy_join=0x")? != 0;
        let Some((_, port)) = self.index.at_guid(guid_of(&gid)) else { return Ok(()) };
        let port = *port;
        // The file does not record the requester: the membership counts against the port itself.
        let joins = Member { gid, port_guid: port.guid, join_state: state, proxy, by: port.guid };
        let added = self.add_member(now, world, group, joins);
        added.map(|_| ()).map_err(|_| "the group has too many members, or the member too many groups".to_owned())
    }

    fn restore_guids(&mut self, line: &mut Fields<'_>) -> Result<(), String> {
        let guid = line.number(" base_guid=0x")?;
        let block = line.number(" block_num=0x")?;
        let block = u8::try_from(block).ok().filter(|block| *block < 32).ok_or("no such block")?;
        let first = usize::from(block) * BLOCK;
        let mut guids = self.aliases.get(&guid).cloned().unwrap_or_default();
        guids.resize(guids.len().max(first + BLOCK), 0);
        for place in 0..BLOCK {
            guids[first + place] = line.number(&format!(" guid{place}=0x"))?;
        }
        if self.index.at_guid(guid).is_none() {
            return Ok(());
        }
        guids[0] = guid;
        guids.iter().skip(1).for_each(|alias| self.index.add_alias(guid, *alias));
        self.aliases.insert(guid, guids);
        self.changes.insert(Change::Guids { port_guid: guid, block });
        Ok(())
    }

    /// Removes restored groups without a member that keeps them alive.
    fn end_empty_groups(&mut self) {
        let empty = self.groups.iter().filter(|group| !group.well_known && !group.is_kept());
        let empty: Vec<[u8; 16]> = empty.map(|group| group.record.mgid).collect();
        for mgid in empty {
            self.groups.remove(&mgid);
        }
    }
}

fn write_gid(gid: &[u8; 16]) -> String {
    format!("0x{:016x}:0x{:016x}", prefix_of(gid), guid_of(gid))
}

fn write_group(text: &mut String, group: &Group) {
    let record = &group.record;
    let bits = |selector: Selector, value: u8| selector.0 << 6 | value & 0x3f;
    let sl_flow_hop = u32::from(record.sl) << 28 | (record.flow_label & 0xf_ffff) << 8 | u32::from(record.hop_limit);
    let _ = write!(
        text,
        "MC Group 0x{:04x} {}: mgid={} port_gid={} qkey=0x{:08x} mlid=0x{:04x} mtu=0x{:02x} tclass=0x{:02x} \
         pkey=0x{:04x} rate=0x{:02x} pkt_life=0x{:02x} sl_flow_hop=0x{sl_flow_hop:08x} scope_state=0x{:02x} \
         proxy_join=0x0\n\n",
        record.mlid,
        if group.well_known { " (well known)" } else { "" },
        write_gid(&record.mgid),
        write_gid(&record.port_gid),
        record.qkey,
        record.mlid,
        bits(record.mtu_selector, record.mtu),
        record.tclass,
        record.pkey,
        bits(record.rate_selector, record.rate.0),
        bits(record.packet_life_time_selector, record.packet_life_time),
        record.scope << 4,
    );
    for member in group.members.values() {
        let _ = write!(
            text,
            "mcm_port: port_gid={} scope_state=0x{:02x} proxy_join=0x{:x}\n\n",
            write_gid(&member.gid),
            record.scope << 4 | member.join_state.bits(),
            u8::from(member.proxy),
        );
    }
}

fn read_group(line: &mut Fields<'_>) -> Result<McMemberRecord, String> {
    let mlid = line.number(" 0x")? as u16;
    let mgid = line.gid(" mgid=0x")?;
    let port_gid = line.gid(" port_gid=0x")?;
    let qkey = line.number(" qkey=0x")? as u32;
    line.number(" mlid=0x")?;
    let mtu = line.number(" mtu=0x")? as u8;
    let tclass = line.number(" tclass=0x")? as u8;
    let pkey = line.number(" pkey=0x")? as u16;
    let rate = line.number(" rate=0x")? as u8;
    let life = line.number(" pkt_life=0x")? as u8;
    let sl_flow_hop = line.number(" sl_flow_hop=0x")? as u32;
    let scope = line.number(" scope_state=0x")? as u8 >> 4;
    Ok(McMemberRecord {
        mgid,
        port_gid,
        qkey,
        mlid,
        mtu_selector: Selector::EXACTLY,
        mtu: mtu & 0x3f,
        tclass,
        pkey,
        rate_selector: Selector::EXACTLY,
        rate: Rate(rate & 0x3f),
        packet_life_time_selector: Selector::EXACTLY,
        packet_life_time: life & 0x3f,
        sl: (sl_flow_hop >> 28) as u8,
        flow_label: sl_flow_hop >> 8 & 0xf_ffff,
        hop_limit: sl_flow_hop as u8,
        scope,
        ..McMemberRecord::default()
    })
}

fn write_subscription(text: &mut String, subscription: &Subscription) {
    let (record, to) = (&subscription.record, &subscription.to);
    let info = &record.inform_info;
    let _ = write!(
        text,
        "InformInfo Record: subscriber_gid={} subscriber_enum=0x{:x} InformInfo: gid={} lid_range_begin=0x{:x} \
         lid_range_end=0x{:x} is_generic=0x{:x} subscribe=0x{:x} trap_type=0x{:x} trap_num=0x{:x} \
         qpn_resp_time_val=0x{:x} node_type=0x{:06x} rep_addr: lid=0x{:04x} path_bits=0x{:02x} static_rate=0x00 \
         remote_qp=0x{:08x} remote_qkey=0x{:08x} pkey_ix=0x{:04x} sl=0x{:02x}\n\n",
        write_gid(&record.subscriber_gid),
        record.subscriber_enum,
        write_gid(&info.gid),
        info.lid_range_begin,
        info.lid_range_end,
        info.is_generic,
        info.subscribe,
        info.inform_type,
        info.trap_number.0,
        info.qpn << 8 | u32::from(info.resp_time_value & 0x1f),
        info.producer_type.0,
        to.lid,
        to.path_bits,
        to.qpn,
        to.qkey,
        to.pkey_index,
        to.sl,
    );
}

fn read_subscription(line: &mut Fields<'_>) -> Result<Subscription, String> {
    let subscriber_gid = line.gid(" subscriber_gid=0x")?;
    let subscriber_enum = line.number(" subscriber_enum=0x")? as u16;
    let gid = line.gid(" gid=0x")?;
    let lid_range_begin = line.number(" lid_range_begin=0x")? as u16;
    let lid_range_end = line.number(" lid_range_end=0x")? as u16;
    let is_generic = line.number(" is_generic=0x")? as u8;
    let subscribe = line.number(" subscribe=0x")? as u8;
    let inform_type = line.number(" trap_type=0x")? as u16;
    let trap_number = TrapNumber(line.number(" trap_num=0x")? as u16);
    let qpn_time = line.number(" qpn_resp_time_val=0x")? as u32;
    let producer_type = ProducerType(line.number(" node_type=0x")? as u32);
    let inform_info = InformInfo {
        gid,
        lid_range_begin,
        lid_range_end,
        is_generic,
        subscribe,
        inform_type,
        trap_number,
        qpn: qpn_time >> 8,
        resp_time_value: qpn_time as u8 & 0x1f,
        producer_type,
    };
    let lid = line.number(" lid=0x")? as u16;
    let path_bits = line.number(" path_bits=0x")? as u8;
    line.number(" static_rate=0x")?;
    let qpn = line.number(" remote_qp=0x")? as u32;
    let qkey = line.number(" remote_qkey=0x")? as u32;
    let pkey_index = line.number(" pkey_ix=0x")? as u16;
    let sl = line.number(" sl=0x")? as u8;
    let to = Peer { lid, qpn, qkey, pkey_index, sl, path_bits, global: None };
    Ok(Subscription { record: InformInfoRecord { subscriber_gid, subscriber_enum, inform_info }, to, lost: 0 })
}

fn write_service(text: &mut String, now: Instant, service: &Service) {
    let record = &service.record;
    let halves = |bytes: &[u8; 16]| format!("0x{:016x}:0x{:016x}", prefix_of(bytes), guid_of(bytes));
    let name = String::from_utf8_lossy(record.service_name.split(|byte| *byte == 0).next().unwrap_or_default());
    // A name must fit between quotes on one line.
    let name: String = name.chars().filter(|c| !c.is_control() && *c != '\'').collect();
    let words = |words: &[u16]| words.iter().map(|word| format!("{word:04x}")).collect::<String>();
    let lease = match service.until {
        Some(until) => until.since(now).as_secs().min(u64::from(FOR_GOOD - 1)) as u32,
        None => FOR_GOOD,
    };
    let [d0, d1, d2, d3] = record.service_data32;
    let _ = write!(
        text,
        "Service Record: id=0x{:016x} gid={} pkey=0x{:x} lease=0x{:x} key={} name='{name}' data8={} \
         data16=0x{}:0x{} data32=0x{d0:08x}{d1:08x}:0x{d2:08x}{d3:08x} data64=0x{:016x}:0x{:016x} \
         modified_time=0x{:x} lease_period=0x{lease:x}\n\n",
        record.service_id,
        write_gid(&record.service_gid),
        record.service_pkey,
        record.service_lease,
        halves(&record.service_key),
        halves(&record.service_data8),
        words(&record.service_data16[..4]),
        words(&record.service_data16[4..]),
        record.service_data64[0],
        record.service_data64[1],
        now.0 / 1_000_000_000,
    );
}

fn read_service(line: &mut Fields<'_>) -> Result<ServiceRecord, String> {
    let service_id = line.number(" id=0x")?;
    let service_gid = line.gid(" gid=0x")?;
    let service_pkey = line.number(" pkey=0x")? as u16;
    line.number(" lease=0x")?;
    let service_key = line.gid(" key=0x")?;
    let mut service_name = Block([0; 64]);
    let name = line.quoted(" name='")?;
    service_name.0.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from);
    let service_data8 = line.gid(" data8=0x")?;
    let mut service_data16 = [0; 8];
    let words = u128::from_be_bytes(line.gid(" data16=0x")?);
    service_data16.iter_mut().rev().enumerate().for_each(|(place, word)| *word = (words >> (16 * place)) as u16);
    let mut service_data32 = [0; 4];
    let words = u128::from_be_bytes(line.gid(" data32=0x")?);
    service_data32.iter_mut().rev().enumerate().for_each(|(place, word)| *word = (words >> (32 * place)) as u32);
    let words = line.gid(" data64=0x")?;
    line.number(" modified_time=0x")?;
    let service_lease = line.number(" lease_period=0x")? as u32;
    Ok(ServiceRecord {
        service_id,
        service_gid,
        service_pkey,
        service_lease,
        service_key,
        service_name,
        service_data8,
        service_data16,
        service_data32,
        service_data64: [prefix_of(&words), guid_of(&words)],
    })
}

/// The rest of a line.
struct Fields<'a>(&'a str);

impl<'a> Fields<'a> {
    /// Skips past a mark.
    fn skip(&mut self, mark: &str) -> Result<(), String> {
        let (_, rest) = self.0.split_once(mark).ok_or_else(|| format!("{:?} is missing", mark.trim()))?;
        self.0 = rest;
        Ok(())
    }

    /// Parses a hexadecimal number that follows a mark.
    fn number(&mut self, mark: &str) -> Result<u64, String> {
        self.skip(mark)?;
        let end = self.0.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(self.0.len());
        let (digits, rest) = self.0.split_at(end);
        self.0 = rest;
        u64::from_str_radix(digits, 16).map_err(|_| format!("no number behind {:?}", mark.trim()))
    }

    /// Parses a GID given as two numbers.
    fn gid(&mut self, mark: &str) -> Result<[u8; 16], String> {
        Ok(super::index::gid(self.number(mark)?, self.number(":0x")?))
    }

    /// Parses a quoted string.
    fn quoted(&mut self, mark: &str) -> Result<&'a str, String> {
        self.skip(mark)?;
        let (text, rest) = self.0.split_once('\'').ok_or("a name without its last quote")?;
        self.0 = rest;
        Ok(text)
    }
}
