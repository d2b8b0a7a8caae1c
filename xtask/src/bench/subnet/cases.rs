//! The sizes of fat trees for the comparison of our manager with OpenSM. OpenSM runs with every engine that suits a fat
//! tree, with few and with many SMPs outstanding; its best result counts.

use super::super::case::{Case, Rival};
use super::super::room::Place;
use super::{Figure, Manager, Subnet, Tree};

/// Goal: share of OpenSM's time until the subnet is up.
const UP: f64 = 0.35;
/// Goal: share of its time after a cable is cut.
const AGAIN: f64 = 0.3;
/// Goal: share of its memory.
const PEAK: f64 = 0.5;

macro_rules! rivals {
    ($tree:expr, $figure:expr, $bound:expr, [$(($engine:literal, $smps:literal)),*]) => {
        &[$(Rival::at_most(
            $bound,
            &Subnet { tree: $tree, figure: $figure, manager: Manager::OpenSm($engine, $smps) },
        )),*]
    };
}

macro_rules! cases {
    ($place:expr, $name:literal, $tree:expr, $opensm:tt) => {
        [
            Case {
                name: concat!("subnet of ", $name, " hosts: up"),
                place: $place,
                ours: &Subnet { tree: $tree, figure: Figure::Up, manager: Manager::Weft },
                rivals: rivals!($tree, Figure::Up, UP, $opensm),
                aim: None,
            },
            Case {
                name: concat!("subnet of ", $name, " hosts: after a cut"),
                place: $place,
                ours: &Subnet { tree: $tree, figure: Figure::Again, manager: Manager::Weft },
                rivals: rivals!($tree, Figure::Again, AGAIN, $opensm),
                aim: None,
            },
            Case {
                name: concat!("subnet of ", $name, " hosts: peak memory"),
                place: $place,
                ours: &Subnet { tree: $tree, figure: Figure::Peak, manager: Manager::Weft },
                rivals: rivals!($tree, Figure::Peak, PEAK, $opensm),
                aim: None,
            },
        ]
    };
}

const fn tree(pods: Option<usize>) -> Tree {
    Tree { radix: 36, pods }
}

/// All cases.
pub const ALL: &[[Case; 3]] = &[
    cases!(
        Place::Subnet { large: false },
        "648",
        tree(None),
        [("minhop", 4), ("minhop", 64), ("ftree", 4), ("ftree", 64), ("updn", 4), ("updn", 64)]
    ),
    cases!(
        Place::Subnet { large: false },
        "1,944",
        tree(Some(6)),
        [("minhop", 4), ("minhop", 64), ("ftree", 4), ("ftree", 64), ("updn", 4), ("updn", 64)]
    ),
    cases!(
        Place::Subnet { large: true },
        "5,832",
        tree(Some(18)),
        [("minhop", 4), ("minhop", 64), ("ftree", 4), ("ftree", 64), ("updn", 4), ("updn", 64)]
    ),
    cases!(
        Place::Subnet { large: true },
        "11,664",
        tree(Some(36)),
        [("minhop", 4), ("minhop", 64), ("ftree", 4), ("ftree", 64), ("updn", 4), ("updn", 64)]
    ),
];
