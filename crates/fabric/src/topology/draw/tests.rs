//! Drawings show every part of a fabric.

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
        let (legend, drawing) = (svg.matches("class=\"legend\"").count(), svg.matches("class=\"link ").count());
        assert_eq!(drawing - legend, cables, "{kind}");
        assert_eq!(svg.matches("class=\"node ").count(), nodes, "{kind}");
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

/// Returns width and height of a drawing.
fn size(svg: &str) -> (f64, f64) {
    let number = |name: &str| {
        let rest = svg.split_once(&format!(" {name}=\"")).expect(name).1;
        rest.split('"').next().and_then(|number| number.parse().ok()).expect(name)
    };
    (number("width"), number("height"))
}

#[test]
fn large_fabrics_are_folded_into_a_bounded_width() {
    for (kind, parameters) in [
        ("fat-tree", "36,2"),
        ("fat-tree", "36,3"),
        ("torus", "16x16"),
        ("torus", "200x3"),
        ("torus", "8x8x8"),
        ("dragonfly", "8,4,4"),
        ("random", "300,4"),
        ("star", "200"),
    ] {
        let svg = svg(&Picture::of(made(kind, parameters)));
        let (width, height) = size(&svg);
        assert!(width <= 1800.0 && height <= 8000.0, "{kind} {parameters}: {width} x {height}");
        assert!(!svg.contains("NaN"), "{kind}");
    }
}

#[test]
fn switches_of_a_grid_stand_in_lines_and_groups_in_frames() {
    let svg = |kind, parameters| svg(&Picture::of(made(kind, parameters)));
    let heights = |text: &str| {
        let tops = text
            .split("class=\"node switch\"")
            .skip(1)
            .filter_map(|rest| rest.split(" y=\"").nth(1)?.split('"').next());
        tops.map(str::to_owned).collect::<std::collections::BTreeSet<_>>().len()
    };
    assert_eq!(heights(&svg("mesh", "5x4")), 4);
    assert_eq!(heights(&svg("torus", "6")), 1);
    assert_eq!(svg("dragonfly", "4,2,2").matches("class=\"frame\"").count(), 9);
    assert_eq!(svg("torus", "3x3x4").matches("class=\"frame\"").count(), 4);
    assert!(heights(&svg("random", "10,4")) > 4);
}

#[test]
fn damage_shows_and_the_legend_explains_it() {
    let mut picture = Picture::of(made("fat-tree", "4,2"));
    picture.links[0] = LinkState::Cut;
    picture.topology.cables[1].errors_ppm = 7;
    picture.topology.cables[2].speed = Some(crate::topology::Speed::Sdr);
    picture.nodes[0].powered = false;
    let svg = svg(&picture);
    for class in ["cut", "errors", "slow"] {
        assert_eq!(svg.matches(&format!("class=\"link {class}\"")).count(), 2, "{class}");
        assert_eq!(svg.matches(&format!("class=\"mark {class}\"")).count(), 2, "{class}");
    }
    assert!(svg.contains("damages 7 ppm of packets") && svg.contains("switch off") && svg.contains("class=\"ground\""));
}

#[test]
fn a_drawing_in_letters_fits_a_terminal() {
    for (kind, parameters) in [("fat-tree", "8,2"), ("star", "12"), ("torus", "4x4")] {
        let text = ascii(&Picture::of(made(kind, parameters)));
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
