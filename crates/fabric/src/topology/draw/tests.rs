//! Drawings show what there is.

use super::super::generate::{Extra, Plan, Shape};
use super::super::{Picture, Topology};
use super::*;
use crate::topology::LinkState;

fn made(kind: &str, parameters: &str) -> Topology {
    Plan::new(Shape::parse(kind, parameters, Extra::default()).expect(kind)).generate().expect(kind)
}

#[test]
fn names_are_shortened_to_what_they_were() {
    assert_eq!(in_short(["node1", "node2", "node3", "leaf7", "x"]), "x leaf7 node[1-3]");
    assert_eq!(in_short(["n10", "n9", "n08", "n1"]), "n08 n1 n[9-10]");
    assert_eq!(in_short([]), "");
}

#[test]
fn text_shows_rows_and_links() {
    let mut picture = Picture::of(made("fat-tree", "4,2"));
    picture.links[0] = LinkState::Cut;
    picture.nodes[0].powered = false;
    let text = ascii(&picture);
    let expected = "fat-tree 4,2
8 adapters, 6 switches, 16 cables (15 init, 1 cut)

                                         [spine1] [spine2]
                                  [leaf1] [leaf2] [leaf3] [leaf4]
                                             node[1-8]

spine1  4xNDR init: leaf[1-4]
spine2  4xNDR init: leaf[1-4]
leaf1   powered off; 4xNDR init: node2 spine[1-2]; cut: node1
leaf2   4xNDR init: node[3-4] spine[1-2]
leaf3   4xNDR init: node[5-6] spine[1-2]
leaf4   4xNDR init: node[7-8] spine[1-2]
";
    assert_eq!(text, expected);
    assert!(ascii(&Picture::of(made("pair", ""))).ends_with("node1  4xNDR init: node2\nnode2  4xNDR init: node1\n"));
}

#[test]
fn every_node_and_cable_is_drawn() {
    for (kind, parameters) in
        [("fat-tree", "4,3"), ("torus", "3x3"), ("pair", ""), ("star", "3"), ("dragonfly", "2,1,1")]
    {
        let topology = made(kind, parameters);
        let (nodes, cables) = (topology.nodes.len(), topology.cables.len());
        let picture = Picture::of(topology);
        let (dot, svg) = (dot(&picture), svg(&picture));
        assert_eq!(dot.matches("shape=").count(), nodes, "{kind}");
        assert_eq!(dot.matches(" -- ").count(), cables, "{kind}");
        assert_eq!(svg.matches("<line ").count(), cables, "{kind}");
        assert_eq!(svg.matches("<circle ").count() + svg.matches("<rect ").count(), nodes, "{kind}");
        assert!(!svg.contains("NaN"), "{kind}");
    }
}

#[test]
fn names_cannot_break_out() {
    let mut topology = made("pair", "");
    topology.nodes[0].name = "a\"\\<b>&".to_owned();
    let picture = Picture::of(topology);
    assert!(dot(&picture).contains("label=\"a\\\"\\\\<b>&\""));
    assert!(svg(&picture).contains("a&quot;\\&lt;b&gt;&amp;"));
}
