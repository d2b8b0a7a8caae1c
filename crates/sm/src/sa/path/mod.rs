//! PathRecord (IBA 15.2.5.16): paths between ports. Depending on the ends it names, a request is for a pair of ports,
//! for all paths of one port, or for all paths.

mod multicast;
pub(super) mod multipath;
mod params;
mod walk;

use weft_wire::mad::sa::{PathRecord, Selector};

pub(super) use params::limited;
use params::{Asked, End, Params};
use walk::{Course, walk_both};

use super::answer::{Answer, Outcome, Refusal};
use super::index::{Entry, gid, is_rate};
use super::limits::PATHS_MAX;
use super::question::Question;
use super::world::World;
use super::{Administrator, is_mtu};
use crate::multicast::{guid_of, prefix_of};

/// The link-local subnet prefix, which every port has.
const LINK_LOCAL: u64 = 0xfe80_0000_0000_0000;
/// Hop limit of paths through routers.
const HOPS_BEYOND: u8 = 0xff;

/// One end of the requested path, as far as the request names it.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// The port.
    entry: Option<u32>,
    /// The GID in the request.
    gid: Option<[u8; 16]>,
    /// The LID in the request.
    lid: Option<u16>,
    /// Whether the GID is beyond a router: then `entry` is the router's port.
    beyond: bool,
}

impl Place {
    /// The GID in the path record: a local port's GID always has the port's own prefix, whatever prefix the request
    /// used.
    fn told(&self, own: [u8; 16]) -> [u8; 16] {
        match self.gid {
            Some(gid) if self.beyond => gid,
            Some(named) => gid(prefix_of(&own), guid_of(&named)),
            None => own,
        }
    }
}

/// A pair of ports to find paths for.
#[derive(Clone, Copy)]
struct Pair {
    from: u32,
    to: u32,
}

impl Administrator {
    /// Answers PathRecord.
    pub(super) fn path_records(&mut self, world: &World<'_>, question: &Question<'_>, answer: &mut Answer) -> Outcome {
        let record: PathRecord = question.record()?;
        let asked = Asked { record: &record, mask: question.mask() };
        let names = |component| asked.names(component);
        if names(PathRecord::RATE_SELECTOR | PathRecord::RATE) && !is_rate(record.rate)
            || names(PathRecord::MTU_SELECTOR | PathRecord::MTU) && !is_mtu(record.mtu)
        {
            return Err(Refusal::INVALID);
        }
        if names(PathRecord::SERVICE_ID_MSB) != names(PathRecord::SERVICE_ID_LSB) {
            return Err(Refusal::INSUFFICIENT);
        }
        if names(PathRecord::DGID) && record.dgid[0] == 0xff {
            self.path_to_group(question, &asked, answer);
            return Ok(());
        }
        // As in OpenSM, an unknown end is no error: the response has no paths.
        let Ok(from) = self.place(world, &asked, true) else { return Ok(()) };
        let Ok(to) = self.place(world, &asked, false) else { return Ok(()) };
        let (Ok(from), Ok(to)) = (agreed(&self.index, from), agreed(&self.index, to)) else {
            return Err(Refusal::INVALID);
        };
        self.paths_between(world, question, &asked, from, to, answer);
        Ok(())
    }

    /// One end of the requested path.
    fn place(&self, world: &World<'_>, asked: &Asked<'_>, source: bool) -> Result<Place, Refusal> {
        let (gid_named, lid_named, gid, lid) = match source {
            true => (PathRecord::SGID, PathRecord::SLID, asked.record.sgid, asked.record.slid),
            false => (PathRecord::DGID, PathRecord::DLID, asked.record.dgid, asked.record.dlid),
        };
        let mut place = Place::default();
        if asked.names(gid_named) {
            let prefix = prefix_of(&gid);
            let local = prefix == LINK_LOCAL || prefix == world.settings.subnet_prefix;
            let guid = match local {
                true => guid_of(&gid),
                false if source => return Err(Refusal::INVALID_GID),
                false => self.router(world, prefix).ok_or(Refusal::INVALID_GID)?,
            };
            let (entry, _) = self.index.at_guid(guid).ok_or(Refusal::INVALID_GID)?;
            place = Place { entry: Some(entry), gid: Some(gid), lid: None, beyond: !local };
        }
        if asked.names(lid_named) {
            self.index.at_lid(lid).ok_or(Refusal::NO_RECORDS)?;
            place.lid = Some(lid);
        }
        Ok(place)
    }

    /// The port of the router to a subnet.
    fn router(&self, world: &World<'_>, prefix: u64) -> Option<u64> {
        let routes = world.settings.prefix_routes.iter();
        let (_, guid) = *routes.into_iter().find(|(subnet, _)| *subnet == 0 || *subnet == prefix)?;
        let mut routers = world.graph.ends.iter().filter(|end| end.router);
        routers.find(|end| guid == 0 || end.guid == guid || end.node_guid == guid).map(|end| end.guid)
    }

    /// Adds the paths between all candidates for the two ends.
    fn paths_between(
        &mut self,
        world: &World<'_>,
        question: &Question<'_>,
        asked: &Asked<'_>,
        from: Place,
        to: Place,
        answer: &mut Answer,
    ) {
        let count = self.index.entries.len() as u32;
        let range = |place: &Place| place.entry.map_or(0..count, |entry| entry..entry + 1);
        if range(&from).len() * range(&to).len() > PATHS_MAX && !answer.is_single() {
            return answer.overflow();
        }
        for end in range(&to) {
            for start in range(&from) {
                let pair = Pair { from: start, to: end };
                self.paths_of_pair(world, question, asked, pair, (&from, &to), answer);
                if answer.is_single() && answer.count() > 0 || !answer.wants_more() {
                    return;
                }
            }
        }
    }

    /// Adds the paths between two ports: first those with equal LID offsets at both ends, then the others.
    fn paths_of_pair(
        &mut self,
        world: &World<'_>,
        question: &Question<'_>,
        asked: &Asked<'_>,
        pair: Pair,
        (from, to): (&Place, &Place),
        answer: &mut Answer,
    ) {
        let Some(pairs) = self.lids_of_pair(question, pair, from.lid, to.lid) else { return };
        let most = match answer.is_single() {
            true => 1,
            false if asked.names(PathRecord::NUMB_PATH) => usize::from(asked.record.numb_path),
            false => usize::MAX,
        };
        let mut found = 0;
        for (slid, dlid, preference) in pairs {
            if found >= most || !answer.wants_more() {
                return;
            }
            let ends = (End { entry: pair.from, lid: slid }, End { entry: pair.to, lid: dlid });
            if let Some((params, reversible)) = self.both_ways(world, asked, ends) {
                let mut record = self.path_record(ends, params, reversible, preference);
                record.sgid = from.gid.unwrap_or(record.sgid);
                record.dgid = to.told(record.dgid);
                record.hop_limit = if to.beyond { HOPS_BEYOND } else { 0 };
                answer.push(&record);
                found += 1;
            }
        }
    }

    /// The LID pairs of two ports, with preferences; `None` if the ports or the requester must not know of each other.
    fn lids_of_pair(
        &mut self,
        question: &Question<'_>,
        pair: Pair,
        slid: Option<u16>,
        dlid: Option<u16>,
    ) -> Option<impl Iterator<Item = (u16, u16, u8)> + use<>> {
        let index = &mut self.index;
        let known = index.share(question.requester, pair.from)
            && index.share(question.requester, pair.to)
            && index.share(pair.from, pair.to);
        let (from, to) = (index.entry(pair.from)?, index.entry(pair.to)?);
        let range = |entry: &Entry, lid: Option<u16>| match lid {
            Some(lid) => (lid, 1),
            None => (entry.lid, 1_u16 << entry.lmc),
        };
        let ((first, count), (far, far_count)) = (range(from, slid), range(to, dlid));
        if !known || first == 0 || far == 0 {
            return None;
        }
        let straight = (0..count.min(far_count)).map(move |offset| (offset, offset, 0));
        let crossed = (0..count).flat_map(move |a| (0..far_count).map(move |b| (a, b, 2)));
        let all = straight.chain(crossed.filter(|(a, b, _)| a != b));
        Some(all.map(move |(a, b, preference)| (first + a, far + b, preference)))
    }

    /// The properties of a path, and whether it is reversible. `None` if it does not match the request.
    fn both_ways(&mut self, world: &World<'_>, asked: &Asked<'_>, (from, to): (End, End)) -> Option<(Params, bool)> {
        let there = Course { from: from.entry, to: to.entry, dlid: to.lid };
        let back = Course { from: to.entry, to: from.entry, dlid: from.lid };
        let [there, back] = walk_both(world, &self.index, there, back);
        let params = self.params(world, asked, (from, to), &there?)?;
        let reversible = back.is_some_and(|back| self.params(world, asked, (to, from), &back).is_some());
        let wanted = asked.names(PathRecord::REVERSIBLE) && asked.record.reversible;
        (reversible || !wanted).then_some((params, reversible))
    }

    /// Builds a path record.
    fn path_record(&self, (from, to): (End, End), params: Params, reversible: bool, preference: u8) -> PathRecord {
        let gid = |end: End| self.index.entry(end.entry).map_or([0; 16], Entry::gid);
        PathRecord {
            dgid: gid(to),
            sgid: gid(from),
            dlid: to.lid,
            slid: from.lid,
            reversible,
            pkey: params.pkey,
            sl: params.sl,
            mtu_selector: Selector::EXACTLY,
            mtu: params.mtu,
            rate_selector: Selector::EXACTLY,
            rate: params.rate,
            packet_life_time_selector: Selector::EXACTLY,
            packet_life_time: params.life,
            preference,
            ..PathRecord::default()
        }
    }
}

/// The end with the port of its LID filled in; an error if its GID belongs to another port.
fn agreed(index: &super::index::Index, place: Place) -> Result<Place, Refusal> {
    let by_lid = place.lid.and_then(|lid| index.at_lid(lid)).map(|(entry, _)| entry);
    match (place.entry, by_lid) {
        (Some(entry), Some(by_lid)) if entry != by_lid => Err(Refusal::INVALID),
        (entry, by_lid) => Ok(Place { entry: entry.or(by_lid), ..place }),
    }
}
