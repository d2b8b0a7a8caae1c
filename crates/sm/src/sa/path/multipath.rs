//! MultiPathRecord (IBA 15.2.5.20): paths between several ports at once, as independent of each other as possible.

use weft_wire::mad::AttrId;
use weft_wire::mad::rmpp::RmppHeader;
use weft_wire::mad::sa::{MULTIPATH_GIDS_MAX, MultiPathRecord, PathRecord};

use super::{Asked, End, LINK_LOCAL, Pair};
use crate::multicast::{guid_of, order, prefix_of};
use crate::sa::answer::{Answer, Outcome, Refusal};
use crate::sa::index::is_rate;
use crate::sa::question::Question;
use crate::sa::world::World;
use crate::sa::{Administrator, is_mtu};
use weft_wire::mad::sa::ComponentMask;

/// Number of paths if the request names none.
const PATHS: usize = 127;

/// A path and its number of hops.
type Found = (PathRecord, u8);

/// The request as a PathRecord request.
fn as_path(record: &MultiPathRecord, mask: ComponentMask) -> (PathRecord, ComponentMask) {
    let mut names = ComponentMask::NONE;
    for (component, of_path) in [
        (MultiPathRecord::RAW_TRAFFIC, PathRecord::RAW_TRAFFIC),
        (MultiPathRecord::REVERSIBLE, PathRecord::REVERSIBLE),
        (MultiPathRecord::PKEY, PathRecord::PKEY),
        (MultiPathRecord::QOS_CLASS, PathRecord::QOS_CLASS),
        (MultiPathRecord::SL, PathRecord::SL),
        (MultiPathRecord::MTU_SELECTOR, PathRecord::MTU_SELECTOR),
        (MultiPathRecord::MTU, PathRecord::MTU),
        (MultiPathRecord::RATE_SELECTOR, PathRecord::RATE_SELECTOR),
        (MultiPathRecord::RATE, PathRecord::RATE),
        (MultiPathRecord::PACKET_LIFE_TIME_SELECTOR, PathRecord::PACKET_LIFE_TIME_SELECTOR),
        (MultiPathRecord::PACKET_LIFE_TIME, PathRecord::PACKET_LIFE_TIME),
        (MultiPathRecord::SERVICE_ID_MSB, PathRecord::SERVICE_ID_MSB),
        (MultiPathRecord::SERVICE_ID_LSB, PathRecord::SERVICE_ID_LSB),
    ] {
        if mask.contains(component) {
            names |= of_path;
        }
    }
    let path = PathRecord {
        service_id: u64::from(record.service_id_msb) << 56 | record.service_id_lsb,
        raw_traffic: record.raw_traffic,
        reversible: record.reversible,
        pkey: record.pkey,
        qos_class: record.qos_class,
        sl: record.sl,
        mtu_selector: record.mtu_selector,
        mtu: record.mtu,
        rate_selector: record.rate_selector,
        rate: record.rate,
        packet_life_time_selector: record.packet_life_time_selector,
        packet_life_time: record.packet_life_time,
        ..PathRecord::default()
    };
    (path, names)
}

/// First LID offset of an alternate path: the same in both directions, varying between pairs of ports.
fn offset_of(a: u16, b: u16, lmc: u8) -> u16 {
    let (low, high) = (a.min(b) >> lmc, a.max(b) >> lmc);
    ((u32::from(low) << 4 | u32::from(high)) % 103) as u16
}

impl Administrator {
    /// Answers MultiPathRecord.
    pub(in crate::sa) fn multi_path_records(
        &mut self,
        world: &World<'_>,
        question: &Question<'_>,
        answer: &mut Answer,
    ) -> Outcome {
        if question.mad.rmpp.flags() & RmppHeader::ACTIVE == 0 {
            return Err(Refusal::INVALID);
        }
        let record: MultiPathRecord = question.record()?;
        let mask = question.mask();
        if !mask.contains(MultiPathRecord::SGID_COUNT | MultiPathRecord::DGID_COUNT) {
            return Err(Refusal::INSUFFICIENT);
        }
        let both = |a, b| mask.contains(a | b);
        if both(MultiPathRecord::RATE_SELECTOR, MultiPathRecord::RATE) && !is_rate(record.rate)
            || both(MultiPathRecord::MTU_SELECTOR, MultiPathRecord::MTU) && !is_mtu(record.mtu)
        {
            return Err(Refusal::INVALID);
        }
        if mask.contains(MultiPathRecord::SERVICE_ID_MSB) != mask.contains(MultiPathRecord::SERVICE_ID_LSB) {
            return Err(Refusal::INSUFFICIENT);
        }
        let (from, to) = self.ends(world, &record)?;
        if from.is_empty() || to.is_empty() {
            return Err(Refusal::INVALID);
        }
        answer.set_attr_id(AttrId::SA_PATH_RECORD);
        let (path, names) = as_path(&record, mask);
        let asked = Asked { record: &path, mask: names };
        if let ([a, b], [c, d], 2) = (from.as_slice(), to.as_slice(), record.numb_path) {
            self.alternate(world, question, &asked, ([*a, *b], [*c, *d]), answer);
            return Ok(());
        }
        let most = match mask.contains(MultiPathRecord::NUMB_PATH) {
            true => usize::from(record.numb_path),
            false => PATHS,
        };
        self.many(world, question, &asked, (&from, &to), most, answer);
        Ok(())
    }

    /// The source and destination ports.
    fn ends(&self, world: &World<'_>, record: &MultiPathRecord) -> Result<(Vec<u32>, Vec<u32>), Refusal> {
        let sources = usize::from(record.sgid_count).min(MULTIPATH_GIDS_MAX);
        let ends = usize::from(record.dgid_count).min(MULTIPATH_GIDS_MAX - sources);
        let find = |gid: &[u8; 16]| {
            let prefix = prefix_of(gid);
            let local = prefix == LINK_LOCAL || prefix == world.settings.subnet_prefix;
            let entry = self.index.at_guid(guid_of(gid)).filter(|_| local);
            entry.map(|(entry, _)| entry).ok_or(Refusal::INVALID_GID)
        };
        let (from, rest) = record.gids.split_at(sources);
        let to = rest.iter().take(ends).map(find).collect::<Result<_, _>>()?;
        Ok((from.iter().map(find).collect::<Result<_, _>>()?, to))
    }

    /// Adds paths of every pair up to the limit.
    fn many(
        &mut self,
        world: &World<'_>,
        question: &Question<'_>,
        asked: &Asked<'_>,
        (from, to): (&[u32], &[u32]),
        most: usize,
        answer: &mut Answer,
    ) {
        for start in from {
            for end in to {
                let pair = Pair { from: *start, to: *end };
                let Some(lids) = self.lids_of_pair(question, pair, None, None) else { continue };
                for (slid, dlid, preference) in lids {
                    if answer.count() >= most {
                        return;
                    }
                    let ends = (End { entry: pair.from, lid: slid }, End { entry: pair.to, lid: dlid });
                    if let Some((params, reversible)) = self.both_ways(world, asked, ends) {
                        answer.push(&self.path_record(ends, params, reversible, preference));
                    }
                }
            }
        }
    }

    /// Adds two paths for automatic path migration between two pairs of ports: with different LIDs, pairing the ports
    /// in the way that gives the shorter paths.
    fn alternate(
        &mut self,
        world: &World<'_>,
        question: &Question<'_>,
        asked: &Asked<'_>,
        (mut from, mut to): ([u32; 2], [u32; 2]),
        answer: &mut Answer,
    ) {
        let guid = |entry: &u32| order(self.index.entry(*entry).map_or(0, |entry| entry.guid));
        from.sort_by_key(guid);
        to.sort_by_key(guid);
        let (Some(a), Some(b)) = (self.index.entry(from[0]), self.index.entry(to[0])) else { return };
        let offset = offset_of(a.lid, b.lid, a.lmc);
        let mut path = |start: usize, end: usize| {
            let pair = Pair { from: from[start], to: to[end] };
            self.alternate_path(world, question, asked, pair, offset + start as u16)
        };
        let straight = [path(0, 0), path(1, 1)];
        let crossed = [path(0, 1), path(1, 0)];
        // The pairing that misses fewer paths, then the one with the shortest path.
        let rank = |pair: &[Option<Found>; 2]| {
            (pair.iter().filter(|path| path.is_none()).count(), pair.iter().flatten().map(|(_, hops)| *hops).min())
        };
        let best = if rank(&straight) <= rank(&crossed) { straight } else { crossed };
        best.iter().flatten().for_each(|(record, _)| {
            answer.push(record);
        });
    }

    /// A path between two ports, trying LIDs from an offset on.
    fn alternate_path(
        &mut self,
        world: &World<'_>,
        question: &Question<'_>,
        asked: &Asked<'_>,
        pair: Pair,
        offset: u16,
    ) -> Option<Found> {
        let _known = self.lids_of_pair(question, pair, None, None)?;
        let (from, to) = (*self.index.entry(pair.from)?, *self.index.entry(pair.to)?);
        let (count, far_count) = (1_u16 << from.lmc, 1_u16 << to.lmc);
        for step in 0..count.min(far_count) {
            let start = End { entry: pair.from, lid: from.lid + (offset + step) % count };
            let end = End { entry: pair.to, lid: to.lid + (offset + step) % far_count };
            if let Some((params, reversible)) = self.both_ways(world, asked, (start, end)) {
                let record = self.path_record((start, end), params, reversible, 0);
                return Some((record, params.hops));
            }
        }
        None
    }
}
