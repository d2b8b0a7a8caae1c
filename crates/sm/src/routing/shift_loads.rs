//! Link loads of each shift permutation, and of all shifts together, which is all-to-all traffic.

use crate::graph::{Graph, Peer};

use super::net::{Net, Target};
use super::trees::Tree;

/// Loads, one for each channel and shift, that are worth their memory.
const LOADS_MAX: usize = 1 << 24;

/// Loads of channels in every shift.
pub(super) struct ShiftLoads<'a> {
    net: &'a Net,
    /// Number of end ports, and so of shifts.
    pub count: u32,
    /// Positions in shift order of the end ports at each switch.
    pub sources: Vec<Vec<u32>>,
    /// Number of paths, by channel and shift.
    by_shift: Vec<u16>,
    /// Number of paths of all shifts, by channel.
    pub all: Vec<u32>,
}

impl<'a> ShiftLoads<'a> {
    /// Creates empty loads. `order` lists end ports by index in shift order. Returns `None` if the fabric is too large.
    pub fn new(net: &'a Net, graph: &Graph, order: &[u32]) -> Option<ShiftLoads<'a>> {
        let count = order.len();
        let loads = count.checked_mul(net.channels.len()).filter(|loads| *loads <= LOADS_MAX && count > 1)?;
        let mut sources = vec![Vec::new(); net.switch_count()];
        for (place, end) in (0u32..).zip(order) {
            sources[graph.ends[*end as usize].switch as usize].push(place);
        }
        let all = vec![0; net.channels.len()];
        Some(ShiftLoads { net, count: count as u32, sources, by_shift: vec![0; loads], all })
    }

    /// Indices of the trees to the first LIDs of end ports, with the end ports' positions in shift order.
    pub fn targets(&self, graph: &Graph, order: &[u32], trees: &[Tree]) -> Vec<(usize, u32)> {
        let mut places = vec![u32::MAX; graph.ends.len()];
        (0u32..).zip(order).for_each(|(place, end)| places[*end as usize] = place);
        let of = |(tree, target): (usize, &Target)| {
            let port = graph.switches[target.switch as usize].ports.get(usize::from(target.port))?;
            let Peer::End(end) = port.peer else { return None };
            (target.end && target.rank == 0).then_some((tree, places[end as usize]))
        };
        let trees = self.net.targets.iter().take(trees.len()).enumerate();
        trees.filter_map(of).filter(|(_, place)| *place != u32::MAX).collect()
    }

    /// The shift in which an end port sends to another.
    pub fn shift(&self, from: u32, to: u32) -> usize {
        (if to >= from { to - from } else { to + self.count - from }) as usize
    }

    /// Adds the paths from a switch's end ports or removes them.
    pub fn weigh_from(&mut self, from: usize, ways: &[u8], to: u32, add: bool) {
        let mut at = from;
        while let Some(channel) = self.net.channel(at, ways[at]) {
            for source in &self.sources[from] {
                let at = channel * self.count as usize + self.shift(*source, to);
                let load = &mut self.by_shift[at];
                *load = if add { *load + 1 } else { *load - 1 };
            }
            let paths = self.sources[from].len() as u32;
            self.all[channel] = if add { self.all[channel] + paths } else { self.all[channel] - paths };
            at = self.net.channels[channel].to as usize;
        }
    }

    /// The loads of a channel, by shift.
    pub fn row(&self, channel: usize) -> &[u16] {
        &self.by_shift[channel * self.count as usize..][..self.count as usize]
    }

    /// Adds paths of these shifts to a channel or removes them.
    pub fn weigh_channel(&mut self, channel: usize, shifts: &[u32], add: bool) {
        let row = &mut self.by_shift[channel * self.count as usize..][..self.count as usize];
        for shift in shifts {
            let load = &mut row[*shift as usize];
            *load = if add { *load + 1 } else { *load - 1 };
        }
        let (all, paths) = (&mut self.all[channel], shifts.len() as u32);
        *all = if add { *all + paths } else { *all - paths };
    }

    /// Sum over all shifts of the worst link's load.
    pub fn worst(&self) -> u64 {
        self.worst_by_shift().into_iter().map(u64::from).sum()
    }

    /// Load of the worst link in each shift.
    pub fn worst_by_shift(&self) -> Vec<u16> {
        let mut worst = vec![0u16; self.count as usize];
        for row in self.by_shift.chunks_exact(self.count as usize) {
            worst.iter_mut().zip(row).for_each(|(worst, load)| *worst = (*worst).max(*load));
        }
        worst
    }
}
