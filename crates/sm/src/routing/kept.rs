//! Entries preserved from previous tables: those whose port still leads to the same switch on a path that is still
//! allowed. After a link failure, few other entries change. If links were added, nothing is preserved, so that the new
//! links are used.

use crate::graph::{Graph, Peer};
use crate::tables::{NO_PATH, Tables};

use super::links::Links;
use super::{Previous, Request};

/// Entries of the previous tables.
#[derive(Clone)]
pub struct Kept<'a> {
    before: Option<&'a Tables>,
    graph: &'a Graph,
    /// Index that each switch had.
    was: Vec<Option<u32>>,
    /// Whether a LID has the same owner as before.
    same: Vec<bool>,
}

impl<'a> Kept<'a> {
    /// Reads the previous tables of a request; they only help if the same engine made them.
    pub fn new(request: &Request<'a>) -> Kept<'a> {
        let graph = request.graph;
        let Some(Previous { graph: old, tables }) = request.previous else {
            return Kept { before: None, graph, was: Vec::new(), same: Vec::new() };
        };
        let was: Vec<Option<u32>> = (0..graph.switch_count() as u32).map(|at| was_at(graph, old, at)).collect();
        if has_more(graph, old, &was) {
            return Kept { before: None, graph, was: Vec::new(), same: Vec::new() };
        }
        let (now, then) = (owners(graph), owners(old));
        let same = now.iter().enumerate().map(|(lid, owner)| *owner != 0 && then.get(lid) == Some(owner)).collect();
        Kept { before: Some(tables), graph: old, was, same }
    }

    /// Whether there are previous entries.
    pub fn is_any(&self) -> bool {
        self.before.is_some()
    }

    /// The link that a switch used for a LID, if it is in `places`.
    pub fn link(&self, links: &Links, switch: u32, places: &[u32], lid: u16) -> Option<u32> {
        let before = self.before?;
        if !self.same.get(usize::from(lid)).copied().unwrap_or(false) {
            return None;
        }
        let was = self.was.get(switch as usize).copied().flatten()?;
        let port = *before.lfts.get(was as usize)?.get(usize::from(lid))?;
        let Peer::Switch { switch: peer, .. } =
            self.graph.switches.get(was as usize)?.ports.get(usize::from(port))?.peer
        else {
            return None;
        };
        let leads = |place: &u32| {
            let link = links.at(*place);
            port != NO_PATH && link.port == port && self.was.get(link.peer as usize).copied().flatten() == Some(peer)
        };
        places.iter().copied().find(leads)
    }
}

/// Whether a graph has links that the old one lacks: then all paths are spread anew, to use them.
fn has_more(graph: &Graph, old: &Graph, was: &[Option<u32>]) -> bool {
    graph.switches.iter().zip(was).any(|(switch, was)| {
        let before = was.and_then(|was| old.switches.get(was as usize));
        switch.links().any(|(port, peer, back)| {
            let peer = was_at(graph, old, peer);
            let then = before.and_then(|before| before.ports.get(usize::from(port))).map(|port| port.peer);
            peer.is_none_or(|switch| then != Some(Peer::Switch { switch, port: back }))
        })
    })
}

/// Index in the old graph of a switch.
fn was_at(graph: &Graph, old: &Graph, switch: u32) -> Option<u32> {
    let guid = graph.switches.get(switch as usize)?.guid;
    old.switches.binary_search_by_key(&guid, |switch| switch.guid).ok().map(|at| at as u32)
}

/// Owner GUID of every LID.
fn owners(graph: &Graph) -> Vec<u64> {
    let mut owners = vec![0; usize::from(graph.lid_top()) + 1];
    for switch in &graph.switches {
        switch.lids().for_each(|lid| owners[usize::from(lid)] = switch.guid);
    }
    for end in &graph.ends {
        end.lids().for_each(|lid| owners[usize::from(lid)] = end.guid);
    }
    owners
}
