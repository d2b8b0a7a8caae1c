//! Fat trees: up to a common ancestor and down again, each destination over its own ancestor, so that shifts do not
//! collide. Hosts are ordered by cabling, missing hosts count as present, and trees may lack links and switches.
//! Compute nodes come first, so that storage nodes do not spoil their balance.

use crate::graph::Graph;
use crate::tables::Tables;

use super::levels::Lapses;
use super::links::Links;
use super::order::{Group, Target, groups};
use super::patch::is_steady;
use super::spread::spread;
use super::updn::{is_right, told, told_or_tree};
use super::{Engine, Request, RouteError};

/// `ftree`.
pub const ENGINE: Engine = Engine {
    name: "ftree",
    about: "fat trees of any number of levels, thinned or incomplete: no shift collides on a full one",
    run,
};

fn run(request: &Request<'_>) -> Result<Tables, RouteError> {
    let graph = request.graph;
    let links = Links::ordered(request);
    told(ENGINE.name, request)?;
    let levels = told_or_tree(request, graph, &links)
        .ok_or_else(|| refuse("it has links that do not join neighbouring levels: take auto or updn"))?;
    let steady = is_steady(request, &links, &levels, |old| told_or_tree(request, old, &Links::new(old)));
    let mut groups = by_class(request, groups(graph, &links, request.options));
    fill_up(graph, &mut groups);
    let lapses = Lapses::new(graph);
    let reverse = u32::from(request.options.max_reverse_hops);
    let io = io_switches(request);
    let hops = |to: u32| if io.get(to as usize).copied().unwrap_or(false) { reverse } else { 0 };
    let tables =
        spread(ENGINE.name, request, &links, &groups, steady, &|to| levels.toward(&links, to, &lapses, hops(to)));
    if !is_right(request, &tables, &lapses) {
        return Err(refuse(
            "some hosts have no common ancestor: fix the links, let max_reverse_hops and io_guid_file lead to them, \
             or take auto or updn",
        ));
    }
    Ok(tables)
}

fn refuse(why: &str) -> RouteError {
    RouteError { engine: ENGINE.name, why: format!("the fabric is no fat tree: {why}") }
}

/// Moves compute nodes to the front, if they are configured.
fn by_class(request: &Request<'_>, groups: Vec<Group>) -> Vec<Group> {
    let (graph, options) = (request.graph, request.options);
    if options.cn_guids.is_empty() {
        return groups;
    }
    let is_compute = |target: &Target| {
        let end = target.end.and_then(|end| graph.ends.get(end as usize));
        end.is_some_and(|end| options.cn_guids.contains(&end.guid) || options.cn_guids.contains(&end.node_guid))
    };
    let (mut first, mut then) = (Vec::new(), Vec::new());
    for group in groups {
        let (compute, other) = group.targets.into_iter().partition(is_compute);
        first.push(Group { switch: group.switch, targets: compute });
        then.push(Group { switch: group.switch, targets: other });
    }
    // Switches without end ports stay last.
    then.sort_by_key(|group| group.targets.iter().all(|target| target.end.is_none()));
    first.into_iter().chain(then).filter(|group| !group.targets.is_empty()).collect()
}

/// Adds a phantom wherever a leaf lacks an end port that other leaves have, if leaves are nearly full.
fn fill_up(graph: &Graph, groups: &mut [Group]) {
    let mut used: Vec<u8> = graph.ends.iter().map(|end| end.port).collect();
    used.sort_unstable();
    used.dedup();
    let most = graph.switches.iter().map(|switch| switch.hung().count()).max().unwrap_or(0);
    if used.len() > most + most / 8 || graph.ends.iter().any(|end| end.lmc > 0) {
        return;
    }
    for group in groups.iter_mut().filter(|group| group.targets.iter().any(|target| target.end.is_some())) {
        let own: Vec<Target> = group.targets.iter().copied().filter(Target::is_free).collect();
        let at = |port: u8| group.targets.iter().find(|target| target.end.is_some() && target.port == port);
        let hung: Vec<Target> = used.iter().map(|port| at(*port).copied().unwrap_or_else(Target::phantom)).collect();
        if hung.iter().filter(|target| !target.is_phantom()).count() == group.targets.len() - own.len() {
            group.targets = hung.into_iter().chain(own).collect();
        }
    }
}

/// Whether each switch has I/O nodes.
fn io_switches(request: &Request<'_>) -> Vec<bool> {
    let mut io = vec![false; request.graph.switch_count()];
    let guids = &request.options.io_guids;
    let ends = request.graph.ends.iter().filter(|end| guids.contains(&end.guid) || guids.contains(&end.node_guid));
    ends.for_each(|end| io[end.switch as usize] = true);
    io
}
