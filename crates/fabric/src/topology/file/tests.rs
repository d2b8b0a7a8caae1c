//! Valid files, and every kind of mistake in them.

use proptest::prelude::*;

use super::super::{LinkLayer, NodeKind, Result, Topology, Width, net};
use super::*;

const FABRIC: &str = include_str!("../../../testdata/fabric.net");

fn topology(text: &str) -> Result<Topology> {
    read("test", text)
}

fn cables(topology: &Topology) -> Vec<String> {
    let mut all: Vec<String> = topology
        .cables
        .iter()
        .map(|cable| format!("{} - {}", topology.spell(cable.a), topology.spell(cable.b)))
        .collect();
    all.sort();
    all
}

#[test]
fn a_short_file_is_a_network() {
    let text = r#"
        title = "two leaves"
        speed = "EDR"
        cables = ["node[1-2] - leaf1", "node[3-4]:1 - leaf2", "leaf[1-2]:4 - spine1"]
        switch = [{ name = "leaf", count = 2, ports = 4 }, { name = "spine1", ports = 2, speed = "HDR" }]
        host = [{ name = "node", count = 4 }]
    "#;
    let topology = topology(text).expect("the file");
    assert_eq!(topology.title, "two leaves");
    let expected = [
        "leaf1:4 - spine1:1",
        "leaf2:4 - spine1:2",
        "node1:1 - leaf1:1",
        "node2:1 - leaf1:2",
        "node3:1 - leaf2:1",
        "node4:1 - leaf2:2",
    ];
    assert_eq!(cables(&topology), expected);
    assert!(topology.cables.iter().all(|cable| topology.trained(cable) == Some((Width::X4, Speed::Edr))));
}

#[test]
fn everything_about_nodes_and_cables_can_be_said() {
    let text = r#"
        [[host]]
        name = "a"
        adapters = 2
        ports = 2
        [[host]]
        name = "b"
        guid = "0x0002c90300000010"
        port-guids = ["0x0002c90300000099"]
        description = "b HCA-1"
        vendor = 0x2c9
        [[router]]
        name = "r"
        ports = 2
        links = ["1xSDR", "12xQDR"]
        lmc-max = 3
        [[switch]]
        name = "s"
        ports = 3
        enhanced-port0 = false
        [[cable]]
        ends = ["a/weft1:2", "s:3"]
        width = "2x"
        speed = "hdr"
        latency-ns = 500
        errors-ppm = 7
        [[generate]]
        pair = ""
        prefix = "p-"
    "#;
    let topology = topology(text).expect("the file");
    let node = |name: &str| &topology.nodes[topology.by_name(name).expect(name) as usize];
    assert_eq!((node("a/weft0").host.as_str(), node("a/weft1").description.as_str()), ("a", "a weft1"));
    assert_eq!((node("b").ports[0].guid, node("b").vendor_id), (0x2_c903_0000_0099, 0x2c9));
    assert_eq!((node("r").kind, node("r").ports[1].width, node("r").lmc_max), (NodeKind::Router, Width::X12, 3));
    assert!(!node("s").enhanced_port0);
    let cable = topology.cables.iter().find(|cable| cable.latency_ns == 500).expect("the cable");
    assert_eq!((cable.errors_ppm, topology.trained(cable)), (7, Some((Width::X2, Speed::Hdr))));
    assert!(topology.by_name("p-node2").is_some());
    assert_eq!(topology.check(), Ok(()));
    assert_eq!(sorted(&read("test", &write(&topology)).expect("written")), sorted(&topology));
}

/// Returns a network in a canonical order.
fn sorted(topology: &Topology) -> (Vec<String>, Vec<String>) {
    let mut nodes: Vec<String> = topology.nodes.iter().map(|node| format!("{node:?}")).collect();
    nodes.sort();
    (nodes, cables(topology))
}

#[test]
fn a_net_file_survives_the_way_through_toml() {
    let made = net::read("net", FABRIC, &mut net::NoFiles).expect("the file");
    assert_eq!(sorted(&topology(&write(&made)).expect("written")), sorted(&made));
}

#[test]
fn names_with_everything_in_them_survive() {
    let names = ["MF0;sw-a:SX6036/U1", "a - b", "q\"uo\\te", "node[1-2]", "ü:7", "SwitchX -  Mellanox"];
    let mut text = String::from("[[switch]]\nname = \"hub\"\nports = 9\n");
    for name in names {
        text.push_str(&format!("[[switch]]\nname = '{name}'\nports = 2\n[[cable]]\nends = ['{name}:2', 'hub']\n"));
    }
    let made = topology(&text).expect("the file");
    assert_eq!(made.cables.len(), names.len());
    assert_eq!(sorted(&topology(&write(&made)).expect("written")), sorted(&made));
}

/// A mistake: the file's text, the line of the error, and words of the message.
const MISTAKES: &[(&str, u32, &str)] = &[
    ("", 1, "describes no nodes"),
    ("title = \"x\"\nnonsense\n", 2, "expected"),
    ("hots = []\n", 1, "unknown field `hots`"),
    ("width = \"3x\"\n", 1, "no width"),
    ("speed = \"LUDICROUS\"\n", 1, "no speed"),
    ("[[host]]\n", 1, "missing field `name`"),
    ("[[host]]\nname = \"a\"\nprots = 2\n", 3, "unknown field `prots`"),
    ("[[host]]\nname = \"a\"\nports = \"two\"\n", 3, "invalid type"),
    ("[[host]]\nname = \"a\"\nports = 999\n", 3, "invalid value"),
    ("[[host]]\nname = \"a\"\n[[host]]\nname = \"a\"\n", 4, "two nodes are named"),
    ("[[host]]\nname = \"\"\n", 2, "no name"),
    ("[[host]]\nname = \"a\"\nports = 0\n", 2, "has 0 ports"),
    ("[[host]]\nname = \"a\"\nguid = \"12\"\n", 3, "no GUID"),
    ("[[host]]\nname = \"a\"\nguid = \"0x0\"\n", 3, "no GUID"),
    ("[[host]]\nname = \"a\"\nguid = \"0x1\"\n[[host]]\nname = \"b\"\nguid = \"0x1\"\n", 5, "given twice"),
    ("[[host]]\nname = \"a\"\ncount = 2\nguid = \"0x1\"\n", 2, "one GUID"),
    ("[[host]]\nname = \"a\"\ncount = 0\n", 2, "a count"),
    ("[[host]]\nname = \"a\"\ncount = 4000000000\n", 2, "a count"),
    ("[[host]]\nname = \"a\"\nadapters = 0\n", 2, "without adapters"),
    ("[[host]]\nname = \"a\"\nenhanced-port0 = true\n", 2, "a switch's"),
    ("[[host]]\nname = \"a\"\nlinks = [\"4xEDR\", \"4xEDR\"]\n", 1, "2 entries for 1 ports"),
    ("[[host]]\nname = \"a\"\nlinks = [\"EDR\"]\n", 3, "no width and speed"),
    ("[[host]]\nname = \"a\"\nlmc-max = 8\n", 2, "too large"),
    ("[[switch]]\nname = \"s\"\n", 2, "without its number of ports"),
    ("[[switch]]\nname = \"s\"\nports = 255\n", 2, "255 ports"),
    ("[[switch]]\nname = \"s\"\nports = 2\nadapters = 1\n", 2, "a host's"),
    ("[[host]]\nname = \"a\"\nadapters = [\"x\", \"x\"]\n", 2, "are named"),
    ("[[host]]\nname = \"a\"\nadapters = [\"x/y\"]\n", 2, "no name for the adapter"),
    ("[[host]]\nname = \"a\"\nadapters = \"x\"\n", 3, "a number, or a list of names"),
    ("cables = [\n\"a-b\"]\nhost = [{ name = \"a\" }]\n", 2, "no cable"),
    ("cables = [\n\"a - b\"]\nhost = [{ name = \"a\" }]\n", 2, "there is no node \"b\""),
    ("cables = [\n\"a:2 - a\"]\nhost = [{ name = \"a\" }]\n", 2, "has no port 2"),
    ("cables = [\n\"a:1 - a:1\"]\nhost = [{ name = \"a\" }]\n", 2, "both ends"),
    ("cables = [\n\"a - a\"]\nhost = [{ name = \"a\" }]\n", 2, "all 1 ports of a"),
    ("cables = [\n\"a:99999 - a\"]\nhost = [{ name = \"a\" }]\n", 2, "has no port"),
    (
        "cables = [\"a:1 - b:1\",\n\"a:1 - b:2\"]\nhost = [{ name = \"a\" }, { name = \"b\", ports = 2 }]\n",
        2,
        "has a cable already",
    ),
    ("cables = [\n\"a[1-2] - a[1-3]\"]\nhost = [{ name = \"a\", count = 3 }]\n", 2, "2 ends here and 3 there"),
    ("cables = [\n\"a[2-1] - a1\"]\nhost = [{ name = \"a\", count = 3 }]\n", 2, "no range"),
    ("cables = [\n\"a[0-4000000000] - a1\"]\nhost = [{ name = \"a\", count = 3 }]\n", 2, "no range"),
    ("host = [{ name = \"a\" }]\n[[cable]]\nends = [\"a\"]\n", 3, "1 ends"),
    ("host = [{ name = \"a\", count = 2 }]\n[[cable]]\nends = [\"a1\", \"a2\"]\nerrors-ppm = 1000001\n", 3, "too much"),
    ("[[generate]]\nhosts = 3\n", 1, "0 generators"),
    ("[[generate]]\npair = \"\"\nstar = \"3\"\n", 1, "2 generators"),
    ("[[generate]]\nfat-tree = \"36\"\n", 2, "does not take"),
    ("[[generate]]\nfat-tree = \"35,2\"\n", 1, "odd radix"),
    ("[[generate]]\npair = \"\"\n[[generate]]\npair = \"\"\n", 3, "two nodes are named"),
];

#[test]
fn every_mistake_is_named_with_its_line_and_its_mend() {
    for (text, line, words) in MISTAKES {
        let error = topology(text).expect_err(text);
        assert!(error.what.contains(words), "{text:?}: {error}");
        assert_eq!(error.line, *line, "{text:?}: {error}");
        assert!(!error.mend.is_empty(), "{text:?}");
    }
}

proptest! {
    #[test]
    fn any_text_is_survived(text in "\\PC{0,200}") {
        let _ = topology(&text);
    }

    #[test]
    fn damaged_files_are_survived(pick in 0usize..43, at in 0usize..100, with: char) {
        let mut text: Vec<char> = MISTAKES[pick % MISTAKES.len()].0.chars().collect();
        if at < text.len() {
            text[at] = with;
        }
        if let Ok(topology) = topology(&text.into_iter().collect::<String>()) {
            prop_assert!(topology.check().is_ok());
        }
    }
}

#[test]
fn adapters_have_the_names_that_a_file_gives() {
    let text = "[[host]]\nname = \"n\"\ncount = 2\nadapters = [\"mlx4_0\", \"hfi1_0\"]\n\
                [[host]]\nname = \"far\"\nhost = \"n1\"\n[[host]]\nname = \"m\"\nadapters = 2\n";
    let topology = read("t", text).expect("a file");
    let names: Vec<_> = topology.nodes.iter().map(|node| (node.name.as_str(), node.adapter.as_str())).collect();
    let expected = [
        ("n1/mlx4_0", "mlx4_0"),
        ("n1/hfi1_0", "hfi1_0"),
        ("n2/mlx4_0", "mlx4_0"),
        ("n2/hfi1_0", "hfi1_0"),
        ("far", "weft2"),
        ("m/weft0", "weft0"),
        ("m/weft1", "weft1"),
    ];
    assert_eq!(names, expected);
    assert_eq!(topology.nodes[1].description, "n1 hfi1_0");
    let again = read("t", &write(&topology)).expect("what it wrote");
    assert_eq!(again, Topology { title: "t".to_owned(), ..topology });
}

#[test]
fn an_adapter_s_port_may_be_ethernet() {
    let text = "[[host]]\nname = \"n\"\nports = 2\nlinks = [\"4xFDR\", \"Ethernet\"]\n[[host]]\nname = \"m\"\n";
    let topology = read("t", &format!("cables = [\"n - m\"]\n{text}")).expect("a file");
    assert_eq!(topology.nodes[0].ports[1].link_layer, LinkLayer::Ethernet);
    assert_eq!(topology.cables[0].a.port, 1);
    let again = read("t", &write(&topology)).expect("what it wrote");
    assert_eq!(again, Topology { title: "t".to_owned(), ..topology });
    for (text, what) in [
        (format!("cables = [\"n:2 - m\"]\n{text}"), "n:2 is an Ethernet port"),
        ("[[switch]]\nname = \"s\"\nports = 1\nlinks = [\"ethernet\"]\n".to_owned(), "an Ethernet port of a switch"),
    ] {
        let error = read("t", &text).expect_err("a refusal").to_string();
        assert!(error.contains(what), "{error}");
    }
}
