//! Net files of other programs and of Weft, and every kind of mistake.

use proptest::prelude::*;

use super::super::generate::{Plan, Shape};
use super::super::{NodeKind, Result, Speed, Topology, Width, limits};
use super::*;

const FABRIC: &str = include_str!("../../../testdata/fabric.net");
/// ibnetdiscover's output for this fabric, by its options.
const DISCOVERED: [(&str, &str); 5] = [
    ("", include_str!("../../../testdata/ibnetdiscover.txt")),
    ("--full", include_str!("../../../testdata/ibnetdiscover_f.txt")),
    ("--grouping", include_str!("../../../testdata/ibnetdiscover_g.txt")),
    ("--show", include_str!("../../../testdata/ibnetdiscover_s.txt")),
    ("--max_hops", include_str!("../../../testdata/ibnetdiscover_m.txt")),
];

fn topology(text: &str) -> Result<Topology> {
    read("test", text, &mut NoFiles)
}

/// Returns a network in a canonical order.
fn sorted(topology: &Topology) -> (Vec<String>, Vec<String>) {
    let mut nodes: Vec<String> = topology.nodes.iter().map(|node| format!("{node:?}")).collect();
    let mut cables: Vec<String> = topology
        .cables
        .iter()
        .map(|cable| {
            let mut ends = [topology.spell(cable.a), topology.spell(cable.b)];
            ends.sort();
            format!("{ends:?} {:?}", topology.trained(cable))
        })
        .collect();
    nodes.sort();
    cables.sort();
    (nodes, cables)
}

#[test]
fn every_form_of_ibnetdiscover_is_the_same_network() {
    let made = topology(FABRIC).expect("the file");
    assert_eq!((made.count(NodeKind::Switch), made.count(NodeKind::Ca), made.cables.len()), (4, 6, 10));
    for (options, text) in DISCOVERED {
        assert_eq!(sorted(&topology(text).expect(options)), sorted(&made), "ibnetdiscover {options}");
    }
}

#[test]
fn a_dump_says_everything_about_a_node() {
    let topology = topology(FABRIC).expect("the file");
    let leaf = &topology.nodes[topology.by_name("leaf0001").expect("a leaf") as usize];
    assert_eq!((leaf.guid, leaf.vendor_id, leaf.device_id), (0x2_c903_0010_0000, 0x2c9, 0xcb20));
    assert_eq!((leaf.ports.len(), leaf.enhanced_port0), (8, true));
    let host = &topology.nodes[topology.by_name("h00002").expect("a host") as usize];
    assert_eq!((host.host.as_str(), host.description.as_str()), ("h00002", "h00002 HCA-1"));
    assert_eq!(
        (host.ports[0].guid, host.ports[0].speed, host.ports[0].width),
        (0x2_c903_0a00_0011, Speed::Edr, Width::X4)
    );
}

#[test]
fn what_is_written_is_what_was_read() {
    let body = |text: &str| text.lines().skip_while(|line| line.starts_with('#')).collect::<Vec<_>>().join("\n");
    assert_eq!(body(&write(&topology(FABRIC).expect("the file"), &NoLids)), body(FABRIC));
}

#[test]
fn generated_networks_survive_the_way_through_a_file() {
    for (kind, parameters) in [("fat-tree", "4,2"), ("torus", "3x3"), ("dragonfly", "2,1,1"), ("pair", "")] {
        for speed in Speed::ALL {
            let plan = Plan { speed, ..Plan::new(Shape::parse(kind, parameters, Default::default()).expect(kind)) };
            let made = plan.generate().expect(kind);
            let text = write(&made, &NoLids);
            let again = topology(&text).expect(&text);
            assert_eq!(sorted(&again), sorted(&made), "{kind}");
        }
    }
}

#[test]
fn ibsims_short_form_is_read_as_ibsim_does() {
    let text = "Switch\t8 \"Switch1\"\n[1]\t\"Hca1\"[1] w=1\n[2]\t\"Hca 2\"\n\nHca\t2 \"Hca1\"\n[1]\t\"Switch1\"[1]\n\n\
                width=8\nspeed=2\nHca 2 \"Hca 2\"\n[1] \"Switch1\"[2]\t# \"said\" lid 1 4xXDR s=4 w=2 v=4\n";
    let topology = topology(text).expect("the file");
    let names: Vec<&str> = topology.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["Switch1", "Hca1", "Hca 2"]);
    let trained: Vec<_> = topology.cables.iter().map(|cable| topology.trained(cable)).collect();
    assert_eq!(trained, [Some((Width::X1, Speed::Sdr)), Some((Width::X4, Speed::Sdr))]);
    let last = &topology.nodes[2];
    assert_eq!(last.ports[0].speed, Speed::Xdr);
    assert_eq!((last.ports[1].width, last.ports[1].speed), (Width::X4, Speed::Xdr));
}

#[test]
fn adapters_of_a_host_and_nodes_of_one_description_are_told_apart() {
    let text = "Switch 4 \"S-0000000000000001\" # \"sw\" base port 0 lid 1 lmc 0\n[1] \"H-0000000000000010\"[1]\n\
                [2] \"H-0000000000000020\"[1]\n[3] \"H-0000000000000030\"[1]\n[4] \"H-0000000000000040\"[1]\n\n\
                Ca 1 \"H-0000000000000010\" # \"a HCA-1\"\n[1] \"S-0000000000000001\"[1]\n\n\
                Ca 1 \"H-0000000000000020\" # \"a mlx5_0\"\n[1] \"S-0000000000000001\"[2]\n\n\
                Ca 1 \"H-0000000000000030\" # \"MT25408 ConnectX Mellanox Technologies\"\n[1] \"S-0000000000000001\"[3]\n\n\
                Ca 1 \"H-0000000000000040\" # \"MT25408 ConnectX Mellanox Technologies\"\n[1] \"S-0000000000000001\"[4]\n";
    let topology = topology(text).expect("the file");
    let names: Vec<_> = topology.nodes.iter().map(|node| (node.name.as_str(), node.host.as_str())).collect();
    let lone = |id| (id, id);
    assert_eq!(names[..3], [("sw", ""), ("a/HCA-1", "a"), ("a/mlx5_0", "a")]);
    // A driver's name for a device stays; another word is none.
    let adapters: Vec<_> = topology.nodes.iter().map(|node| node.adapter.as_str()).collect();
    assert_eq!(adapters, ["", "weft0", "mlx5_0", "weft0", "weft0"]);
    assert_eq!(names[3..], [lone("H-0000000000000030"), lone("H-0000000000000040")]);
    assert!(!topology.nodes[0].enhanced_port0);
}

/// A mistake: the file's text, the line of the error, and words of the message.
const MISTAKES: &[(&str, u32, &str)] = &[
    ("", 1, "no node"),
    ("hello world\n", 1, "nothing that this format has"),
    ("vendid=0x2c9000000\n", 1, "too large"),
    ("devid=banana\n", 1, "no number"),
    ("width=99\n", 1, "no width or speed"),
    ("speed=9\n", 1, "no width or speed"),
    ("extspeed=16\n", 1, "no width or speed"),
    ("Switch 8 nameless\n", 1, "ID in quotes"),
    ("Switch eight \"S\"\n", 1, "no number of ports"),
    ("Switch 0 \"S\"\n", 1, "no number of ports"),
    ("Switch 255 \"S\"\n", 1, "no number of ports"),
    ("caguid=0x1\nSwitch 8 \"S\"\n", 2, "another kind of node"),
    ("[1] \"S\"[1]\n", 1, "belongs to no node"),
    ("Switch 2 \"S\"\n\n[1] \"S\"[1]\n", 3, "belongs to no node"),
    ("Switch 2 \"S\"\n[3] \"S\"[1]\n", 2, "which has 2"),
    ("Switch 2 \"S\"\n[0] \"S\"[1]\n", 2, "no port number"),
    ("Switch 2 \"S\"\n[1 \"S\"[1]\n", 2, "has no ']'"),
    ("Switch 2 \"S\"\n[1](xyz) \"S\"[1]\n", 2, "no GUID"),
    ("Switch 2 \"S\"\n[1] S[1]\n", 2, "in quotes"),
    ("Switch 2 \"S\"\n[1] \"S\"[2]\n[1] \"S\"[2]\n", 3, "a second line for port 1"),
    ("Switch 2 \"S\"\n[1] \"T\"[2]\n", 2, "which has no block"),
    ("Switch 2 \"S\"\n[1] \"S\"[9]\n", 2, "has no port 9"),
    ("Switch 2 \"S\"\n[1] \"S\"[1]\n", 2, "both ends"),
    ("Switch 2 \"S\"\n[1] \"S\"[2] w=99\n", 2, "no width or speed"),
    ("Switch 2 \"S\"\n[1] \"S\"[2] z=1\n", 2, "option"),
    ("Switch 2 \"S\"\n[1] \"S\"[2] w\n", 2, "behind a port"),
    ("Switch 2 \"S\"\n[1] \"S\"[2] # \"S\" lid 0 4xWARP\n", 2, "no width and speed"),
    ("Switch 2 \"S\"\n[1] \"S\"[2] # \"S\" lid 0 5xEDR\n", 2, "no width and speed"),
    ("Switch 2 \"S\"\n\nSwitch 2 \"S\"\n", 3, "a second block"),
    ("Ca 1 \"A\"\n[1] \"B\"[1]\n\nCa 1 \"B\"\n[1] \"C\"[1]\n\nCa 1 \"C\"\n[1] \"B\"[1]\n", 2, "but line 5"),
    ("Ca 1 \"A\"\n[1](1) \"B\"[1](3)\n\nCa 1 \"B\"\n[1](2) \"A\"[1](1)\n", 2, "GUID 3 here and 2"),
    ("Ca 2 \"A\"\n[1] \"B\"[1]\n[2] \"B\"[1]\n\nCa 1 \"B\"\n", 3, "has a cable already"),
    ("caguid=1\nCa 1 \"A\"\n\ncaguid=1\nCa 1 \"B\"\n", 5, "given twice"),
    ("include nothing\n", 1, "include without a file"),
    ("include \"x\"\n", 1, "cannot include"),
    ("do link\n", 1, "ibsim's console"),
    ("module=\"x\"\n", 1, "prefix"),
    ("Switch 2 \"S\"\n@[1] \"x\"\n", 2, "alias"),
    (
        "Switch 2 \"S\" # \"0123456789012345678901234567890123456789012345678901234567890123456789\"\n",
        1,
        "does not fit",
    ),
];

#[test]
fn every_mistake_is_named_with_its_line_and_its_mend() {
    for (text, line, words) in MISTAKES {
        let error = topology(text).expect_err(text);
        assert_eq!(error.line, *line, "{text:?}: {error}");
        assert!(error.what.contains(words), "{text:?}: {error}");
        assert!(!error.mend.is_empty(), "{text:?}");
    }
}

struct Itself;

impl Files for Itself {
    fn text(&mut self, _: &str) -> std::result::Result<String, String> {
        Ok("include \"me\"\ninclude \"me\"\n".to_owned())
    }
}

#[test]
fn a_file_that_includes_itself_ends() {
    let error = read("test", "include \"me\"\n", &mut Itself).expect_err("no end");
    assert!(error.what.contains("inside each other"), "{error}");
}

#[test]
fn a_file_that_is_too_long_is_not_read() {
    let text = "#".repeat(limits::FILE_LEN_MAX + 1);
    assert!(topology(&text).expect_err("too long").what.contains("too long"));
}

proptest! {
    #[test]
    fn any_text_is_survived(text in "\\PC{0,200}") {
        let _ = topology(&text);
    }

    /// Lines of a real file, shuffled and damaged.
    #[test]
    fn damaged_files_are_survived(picks in prop::collection::vec((0usize..60, 0usize..80, any::<char>()), 0..60)) {
        let lines: Vec<&str> = FABRIC.lines().collect();
        let mut text = String::new();
        for (line, at, with) in picks {
            let mut damaged: Vec<char> = lines[line % lines.len()].chars().collect();
            if at < damaged.len() {
                damaged[at] = with;
            }
            text.extend(damaged);
            text.push('\n');
        }
        if let Ok(topology) = topology(&text) {
            prop_assert!(topology.check().is_ok());
        }
    }
}
