//! Properties of a path: the limits of its route, adjusted to the request, QoS policy and partition.

use weft_wire::mad::Rate;
use weft_wire::mad::sa::{ComponentMask, PathRecord, Selector};

use super::walk::Way;
use crate::sa::Administrator;
use crate::sa::index::{rank, ranked};
use crate::sa::pkeys;
use crate::sa::world::{PathLevel, PathQuestion, World};

/// Properties of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::sa) struct Params {
    pub mtu: u8,
    pub rate: Rate,
    pub life: u8,
    pub pkey: u16,
    pub sl: u8,
    pub hops: u8,
}

/// The requested path properties.
#[derive(Clone, Copy, Debug)]
pub(in crate::sa) struct Asked<'a> {
    pub record: &'a PathRecord,
    pub mask: ComponentMask,
}

/// One end of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::sa) struct End {
    pub entry: u32,
    pub lid: u16,
}

impl Asked<'_> {
    /// Whether both the selector and its value are named: one alone is ignored.
    fn selects(&self, selector: ComponentMask, value: ComponentMask) -> bool {
        self.mask.contains(selector | value)
    }

    /// Whether a component is named.
    pub fn names(&self, component: ComponentMask) -> bool {
        self.mask.contains(component)
    }

    fn is_raw(&self) -> bool {
        self.names(PathRecord::RAW_TRAFFIC) && self.record.raw_traffic
    }
}

/// A value adjusted to a selector; `below` returns the next smaller value. `None` if impossible.
fn select(value: u8, selector: Selector, wanted: u8, below: impl Fn(u8) -> Option<u8>) -> Option<u8> {
    match selector {
        Selector::GREATER_THAN => (value > wanted).then_some(value),
        Selector::LESS_THAN if value >= wanted => below(wanted),
        Selector::EXACTLY => (value >= wanted).then_some(wanted),
        _ => Some(value),
    }
}

/// The next smaller code; MTU and life time codes start at 1.
fn below(code: u8) -> Option<u8> {
    code.checked_sub(1).filter(|code| *code > 0)
}

/// A rate adjusted to a selector. A selector for an exact rate only matches a path of that rate.
fn select_rate(rate: u8, selector: Selector, wanted: u8) -> Option<u8> {
    match selector {
        Selector::EXACTLY => (rate == wanted).then_some(rate),
        other => select(rate, other, wanted, |rank| rank.checked_sub(1)),
    }
}

impl Administrator {
    /// The properties of a path along this route; `None` if it does not match the request.
    pub(super) fn params(
        &mut self,
        world: &World<'_>,
        asked: &Asked<'_>,
        (from, to): (End, End),
        way: &Way,
    ) -> Option<Params> {
        let level = self.level(world, asked, from, to);
        let (mut mtu, mut rank_of) = (way.carries.mtu, way.carries.rank);
        if let Some(level) = &level {
            mtu = level.mtu_limit.map_or(mtu, |limit| mtu.min(limit));
            rank_of = level.rate_limit.map_or(rank_of, |limit| rank_of.min(rank(Rate(limit))));
        }
        let record = asked.record;
        if asked.selects(PathRecord::MTU_SELECTOR, PathRecord::MTU) {
            mtu = select(mtu, record.mtu_selector, record.mtu, below)?;
        }
        if asked.selects(PathRecord::RATE_SELECTOR, PathRecord::RATE) {
            rank_of = select_rate(rank_of, record.rate_selector, rank(record.rate))?;
        }
        let life = self.life(world, asked, level.as_ref(), from.entry == to.entry)?;
        let pkey = self.pkey(asked, level.as_ref(), from.entry, to.entry)?;
        let sl = self.sl(world, asked, level.as_ref(), pkey, (from, to), way.levels)?;
        let pkey = if asked.is_raw() { 0 } else { pkey };
        let rate = limited(ranked(rank_of), world.settings.max_rate_enum);
        Some(Params { mtu, rate, life, pkey, sl, hops: way.hops })
    }

    /// The QoS level of the path.
    fn level(&self, world: &World<'_>, asked: &Asked<'_>, from: End, to: End) -> Option<PathLevel> {
        let policy = world.policy.filter(|_| world.settings.qos)?;
        let (source, destination) = (self.index.entry(from.entry)?.guid, self.index.entry(to.entry)?.guid);
        policy.level(&PathQuestion { source, destination, asked: asked.record, mask: asked.mask })
    }

    /// Packet life time; 0 within a port (IBA 15.2.5.16).
    fn life(&self, world: &World<'_>, asked: &Asked<'_>, level: Option<&PathLevel>, loops: bool) -> Option<u8> {
        let set = level.and_then(|level| level.packet_life).unwrap_or(world.settings.subnet_timeout);
        let life = if loops { 0 } else { set };
        if !asked.selects(PathRecord::PACKET_LIFE_TIME_SELECTOR, PathRecord::PACKET_LIFE_TIME) {
            return Some(life);
        }
        select(life, asked.record.packet_life_time_selector, asked.record.packet_life_time, below)
    }

    /// The P_Key: the requested one, one that the QoS level allows, or any that both ends share.
    fn pkey(&mut self, asked: &Asked<'_>, level: Option<&PathLevel>, from: u32, to: u32) -> Option<u16> {
        let (a, b) = (self.index.entry(from)?.class, self.index.entry(to)?.class);
        if asked.is_raw() {
            return Some(self.index.classes.common(a, b).unwrap_or(0));
        }
        let ranges = level.map_or(&[][..], |level| &level.pkeys);
        let allowed = |pkey: u16| {
            let base = pkey & 0x7fff;
            ranges.is_empty() || ranges.iter().any(|(first, last)| (first & 0x7fff..=last & 0x7fff).contains(&base))
        };
        let classes = &mut self.index.classes;
        if asked.names(PathRecord::PKEY) {
            let pkey = asked.record.pkey;
            return (pkeys::share_this(classes.table(a), classes.table(b), pkey) && allowed(pkey)).then_some(pkey);
        }
        if ranges.is_empty() {
            return classes.common(a, b);
        }
        let (a, b) = (classes.table(a), classes.table(b));
        a.iter().copied().find(|pkey| allowed(*pkey) && b.iter().any(|other| pkeys::matches(*pkey, *other)))
    }

    /// The service level: the requested one, the QoS level's, or the partition's. A routing engine that needs a service
    /// level overrides it, except for the bits that the engine leaves free.
    fn sl(
        &self,
        world: &World<'_>,
        asked: &Asked<'_>,
        level: Option<&PathLevel>,
        pkey: u16,
        (from, to): (End, End),
        levels: u16,
    ) -> Option<u8> {
        let set = level.and_then(|level| level.sl);
        let sl = if asked.names(PathRecord::SL) {
            if set.is_some_and(|set| set != asked.record.sl) {
                return None;
            }
            asked.record.sl
        } else if let Some(set) = set {
            set
        } else if pkey != 0 {
            world.partitions.get(&(pkey & 0x7fff)).copied().unwrap_or(0)
        } else {
            levels.trailing_zeros() as u8 & 15
        };
        if world.settings.qos && levels >> (sl & 15) & 1 == 0 {
            return None;
        }
        let switch = |end: End| self.index.entry(end.entry).map(|entry| entry.switch);
        let needed = world.tables.service_level(switch(from)?, switch(to)?, to.lid);
        match needed.map(|needed| needed | sl & world.tables.free_levels) {
            Some(needed) if asked.names(PathRecord::SL) && needed != sl => None,
            Some(needed) => Some(needed),
            None => Some(sl),
        }
    }
}

/// The fastest rate that is no faster than `rate` and whose code is at most `most`.
pub(in crate::sa) fn limited(rate: Rate, most: u8) -> Rate {
    if rate.0 <= most {
        return rate;
    }
    let known = (0..=rank(rate)).rev().map(ranked).find(|rate| rate.0 <= most);
    known.unwrap_or(Rate::GBPS_2_5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_bend_what_there_is() {
        use Selector as S;
        for (value, selector, wanted, expected) in [
            (4, S::GREATER_THAN, 3, Some(4)),
            (4, S::GREATER_THAN, 4, None),
            (4, S::LESS_THAN, 5, Some(4)),
            (4, S::LESS_THAN, 4, Some(3)),
            (4, S::LESS_THAN, 1, None),
            (4, S::EXACTLY, 2, Some(2)),
            (4, S::EXACTLY, 5, None),
            (4, S::BEST, 5, Some(4)),
        ] {
            assert_eq!(select(value, selector, wanted, below), expected, "{value} {selector} {wanted}");
        }
        let rates = |rate: Rate, selector, wanted: Rate| select_rate(rank(rate), selector, rank(wanted)).map(ranked);
        assert_eq!(rates(Rate::GBPS_100, S::LESS_THAN, Rate::GBPS_100), Some(Rate::GBPS_80));
        assert_eq!(rates(Rate::GBPS_100, S::EXACTLY, Rate::GBPS_40), None);
        assert_eq!(rates(Rate::GBPS_100, S::GREATER_THAN, Rate::GBPS_40), Some(Rate::GBPS_100));
        assert_eq!(limited(Rate::GBPS_400, 18), Rate::GBPS_300);
        assert_eq!(limited(Rate::GBPS_400, u8::MAX), Rate::GBPS_400);
    }
}
