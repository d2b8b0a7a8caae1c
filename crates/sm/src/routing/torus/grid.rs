//! A torus or a mesh of up to three dimensions: the place of each switch, and the number of hops before a gap.

use crate::routing::net::Net;

use super::config::{Config, DIMENSIONS};
use super::find::{Dimension, find};

/// Maximum number of dimensions before pairs of dimensions of size two are merged into rings of four.
const FOUND_MAX: usize = 6;

/// Coordinates of a switch.
pub type Place = [u32; DIMENSIONS];

/// A torus or a mesh.
#[derive(Clone, Debug)]
pub struct Grid {
    /// Size of each dimension; 1 if unused.
    pub sizes: Place,
    /// Whether the last coordinate is adjacent to the first.
    pub wraps: [bool; DIMENSIONS],
    /// Coordinates of each switch.
    pub places: Vec<Place>,
    /// The switch at each place.
    switches: Vec<Option<u32>>,
    /// By switch, dimension and direction (up first): number of hops before a link or a switch is missing; on a whole
    /// ring, the number of its switches.
    runs: Vec<[[u32; 2]; DIMENSIONS]>,
}

impl Grid {
    /// Finds the grid of a fabric and arranges it as configured.
    pub fn new(net: &Net, config: Option<&Config>, guids: &[u64]) -> Result<Grid, String> {
        let mut found = find(net)?;
        if found.len() > FOUND_MAX {
            return Err(format!("it has {} dimensions", found.len()));
        }
        pair_up(net, &mut found, config, guids);
        if found.len() > DIMENSIONS {
            return Err(format!("it has {} dimensions, {DIMENSIONS} can be routed", found.len()));
        }
        if let Some(config) = config {
            config.arrange(&mut found, guids)?;
        }
        let mut grid = Grid {
            sizes: [1; DIMENSIONS],
            wraps: [false; DIMENSIONS],
            places: vec![[0; DIMENSIONS]; net.switch_count()],
            switches: Vec::new(),
            runs: Vec::new(),
        };
        for (at, dimension) in found.iter().enumerate() {
            (grid.sizes[at], grid.wraps[at]) = (dimension.size, dimension.wraps);
            grid.places.iter_mut().zip(&dimension.at).for_each(|(place, coordinate)| place[at] = *coordinate);
        }
        grid.fill()?;
        grid.measure(net);
        Ok(grid)
    }

    /// The switch at a place.
    pub fn switch(&self, place: Place) -> Option<u32> {
        self.switches.get(self.index(place)).copied().flatten()
    }

    /// The adjacent place; `None` beyond the end of a row.
    pub fn beside(&self, mut place: Place, dimension: usize, up: bool) -> Option<Place> {
        let (at, size) = (place[dimension], self.sizes[dimension]);
        let edge = if up { at + 1 == size } else { at == 0 };
        if edge && !self.wraps[dimension] {
            return None;
        }
        place[dimension] = if up { (at + 1) % size } else { (at + size - 1) % size };
        Some(place)
    }

    /// Number of hops between two coordinates; `None` if the row ends between them.
    pub fn hops(&self, dimension: usize, from: u32, to: u32, up: bool) -> Option<u32> {
        let size = self.sizes[dimension];
        let straight = if up { to >= from } else { to <= from };
        (straight || self.wraps[dimension])
            .then(|| if up { (to + size - from) % size } else { (from + size - to) % size })
    }

    /// Number of hops possible from a switch in a direction.
    pub fn run(&self, switch: u32, dimension: usize, up: bool) -> u32 {
        self.runs[switch as usize][dimension][usize::from(!up)]
    }

    /// Whether no switch or link is missing.
    pub fn is_whole(&self) -> bool {
        let whole = |switch: usize| {
            (0..DIMENSIONS).filter(|dimension| self.sizes[*dimension] > 1).all(|dimension| {
                [true, false].into_iter().all(|up| {
                    let there = self.beside(self.places[switch], dimension, up);
                    there.is_none() || self.run(switch as u32, dimension, up) > 0
                })
            })
        };
        self.switches.iter().all(Option::is_some) && (0..self.places.len()).all(whole)
    }

    fn index(&self, place: Place) -> usize {
        let fold = |index: usize, (at, size): (&u32, &u32)| index * *size as usize + *at as usize;
        place.iter().zip(&self.sizes).fold(0, fold)
    }

    fn fill(&mut self) -> Result<(), String> {
        let count: u64 = self.sizes.iter().map(|size| u64::from(*size)).product();
        if count > 2 * self.places.len() as u64 {
            return Err(format!("{} of {count} switches are missing", count - self.places.len() as u64));
        }
        self.switches = vec![None; count as usize];
        for (switch, place) in (0u32..).zip(&self.places) {
            let index = self.index(*place);
            self.switches[index] = Some(switch);
        }
        Ok(())
    }

    fn measure(&mut self, net: &Net) {
        let count = self.places.len();
        self.runs = vec![[[0; 2]; DIMENSIONS]; count];
        for switch in 0..count as u32 {
            for dimension in 0..DIMENSIONS {
                for up in [true, false] {
                    self.runs[switch as usize][dimension][usize::from(!up)] = self.walk(net, switch, dimension, up);
                }
            }
        }
    }

    fn walk(&self, net: &Net, switch: u32, dimension: usize, up: bool) -> u32 {
        let (mut at, mut hops) = (switch, 0);
        while hops < self.sizes[dimension] {
            let there = self.beside(self.places[at as usize], dimension, up).and_then(|place| self.switch(place));
            let Some(there) = there.filter(|there| *there != at) else { break };
            if !net.channels[net.of(at as usize)].iter().any(|way| way.to == there) {
                break;
            }
            (at, hops) = (there, hops + 1);
        }
        hops
    }
}

/// Merges two dimensions of size two into one ring of four. Cables that continue through the same port or the
/// configuration select the pair; without either, pairs are merged only while there are too many dimensions.
fn pair_up(net: &Net, found: &mut Vec<Dimension>, config: Option<&Config>, guids: &[u64]) {
    let wanted = |found: &[Dimension]| match config {
        Some(config) => !config.fits(found),
        None => true,
    };
    loop {
        let two: Vec<usize> = (0..found.len()).filter(|at| found[*at].size == 2).collect();
        let pairs = two.iter().enumerate().flat_map(|(at, one)| two[at + 1..].iter().map(|other| (*one, *other)));
        let votes = |pair: &(usize, usize)| {
            let (one, other) = (&found[pair.0], &found[pair.1]);
            let told = config.map_or(0, |config| config.pairs(one, other, guids));
            (told, straight(net, one, other))
        };
        let Some((votes, (one, other))) =
            pairs.map(|pair| (votes(&pair), pair)).max_by_key(|(votes, pair)| (*votes, std::cmp::Reverse(*pair)))
        else {
            return;
        };
        if !wanted(found) || (found.len() <= DIMENSIONS && votes == (0, 0) && config.is_none()) {
            return;
        }
        let second = found.remove(other);
        let first = &mut found[one];
        (first.size, first.wraps, first.port) = (4, true, first.port.min(second.port));
        let gray = |a: u32, b: u32| if a == 0 { b } else { 3 - b };
        first.at = first.at.iter().zip(&second.at).map(|(a, b)| gray(*a, *b)).collect();
    }
}

/// Number of paths through the same port of two switches that use one dimension first and then the other.
fn straight(net: &Net, one: &Dimension, other: &Dimension) -> usize {
    let along = |dimension: &Dimension, from: u32, to: u32| dimension.at[from as usize] != dimension.at[to as usize];
    let goes_on = |way: &&crate::routing::net::Channel| {
        let on = net.channels[net.of(way.to as usize)].iter().find(|on| on.port == way.port);
        on.is_some_and(|on| along(one, way.from, way.to) && along(other, on.from, on.to))
    };
    net.channels.iter().filter(goes_on).count()
}
