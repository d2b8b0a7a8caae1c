//! Fuzz target: descriptions of fabrics. See [`weft_wire::fuzzing`].

use crate::topology::generate::{Extra, KINDS, Plan, Shape};
use crate::topology::net::{self, NoFiles};
use crate::topology::{Node, Picture, Topology, draw, file};

/// Largest fabric, in nodes, that the target draws and writes; larger ones only cost time.
const NODES_MAX: usize = 500;

/// Checks that no text panics as a description of a fabric, in any format, and that a valid one survives a write and a
/// second read unchanged.
pub fn topology(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    // A text that asks for a large fabric is valid, but takes too long.
    if text.contains("generate") && asks_for_many(&text) {
        return;
    }
    for read in [file::read("fuzz", &text), net::read("fuzz", &text, &mut NoFiles)].into_iter().flatten() {
        again(&read);
    }
    if let Some((kind, parameters)) = text.split_once(' ') {
        let known = KINDS.iter().any(|(name, ..)| *name == kind) && !asks_for_many(parameters);
        let shape = known.then(|| Shape::parse(kind, parameters, Extra { hosts: None, hosts_per_switch: Some(1) }));
        if let Some(Ok(made)) = shape.and_then(Result::ok).map(|shape| Plan::new(shape).generate()) {
            again(&made);
        }
    }
}

/// Returns whether the text has a number of more than two digits.
fn asks_for_many(text: &str) -> bool {
    text.split(|c: char| !c.is_ascii_digit()).any(|digits| digits.trim_start_matches('0').len() > 2)
}

fn again(topology: &Topology) {
    if topology.nodes.len() > NODES_MAX {
        return;
    }
    let written = file::write(topology);
    let read = file::read("again", &written).expect("what was written can be read");
    // A file lists nodes by their kind; generators number them in an order of their own.
    assert_eq!(file::write(&read), written);
    assert_eq!(by_guid(&read), by_guid(topology), "{written}");
    assert_eq!(read.cables.len(), topology.cables.len(), "{written}");
    let _ = net::write(topology, &net::NoLids);
    let _ = draw::ascii(&Picture::of(topology.clone()));
}

fn by_guid(topology: &Topology) -> Vec<&Node> {
    let mut nodes: Vec<_> = topology.nodes.iter().collect();
    nodes.sort_by_key(|node| node.guid);
    nodes
}

#[cfg(test)]
mod tests {
    use super::topology;

    #[test]
    fn every_generated_shape_survives_its_file() {
        for text in
            ["pair", "star 3", "fat-tree 4,2", "mesh  3", "mesh 2x3", "torus 3x3", "hypercube 3", "dragonfly 2,2,1"]
        {
            topology(text.as_bytes());
        }
    }

    #[test]
    fn pieces_of_valid_files_in_any_order_are_survived() {
        let samples = [include_str!("../testdata/fabric.net"), include_str!("../testdata/ibnetdiscover.txt")];
        let lines: Vec<&str> = samples.iter().flat_map(|sample| sample.lines()).take(400).collect();
        let pick = |script: &mut weft_wire::fuzzing::Script<'_>| {
            let line = lines[script.below(lines.len())];
            let cut = script.below(4 * line.len() + 1).min(line.len());
            line.chars().take(cut).collect::<String>()
        };
        weft_wire::fuzzing::random_scripts(topology, 5, 300, 200);
        let mut seed = [7u8; 4096];
        for round in 0..100u32 {
            seed.iter_mut().zip(0u32..).for_each(|(byte, at)| *byte = (round.wrapping_mul(at * at + 31) >> 3) as u8);
            let mut script = weft_wire::fuzzing::Script::new(&seed);
            let text: Vec<String> = (0..20).map(|_| pick(&mut script)).collect();
            topology(text.join("\n").as_bytes());
        }
    }
}
