//! The tables of the file. Unknown keys are refused by name.

use serde::Deserialize;
use toml::Spanned;

/// The whole file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct File {
    pub title: Option<String>,
    pub width: Option<Spanned<String>>,
    pub speed: Option<Spanned<String>>,
    #[serde(default)]
    pub cables: Vec<Spanned<String>>,
    #[serde(default)]
    pub generate: Vec<Spanned<Generate>>,
    #[serde(default)]
    pub switch: Vec<Spanned<Node>>,
    #[serde(default)]
    pub host: Vec<Spanned<Node>>,
    #[serde(default)]
    pub router: Vec<Spanned<Node>>,
    #[serde(default)]
    pub cable: Vec<Spanned<Cable>>,
}

/// A generated network: one of the shapes, and its properties.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Generate {
    pub pair: Option<Spanned<String>>,
    pub star: Option<Spanned<String>>,
    pub fat_tree: Option<Spanned<String>>,
    pub torus: Option<Spanned<String>>,
    pub mesh: Option<Spanned<String>>,
    pub dragonfly: Option<Spanned<String>>,
    pub random: Option<Spanned<String>>,
    pub hosts: Option<u32>,
    pub hosts_per_switch: Option<u8>,
    pub width: Option<Spanned<String>>,
    pub speed: Option<Spanned<String>>,
    pub prefix: Option<String>,
    pub rails: Option<u8>,
    pub adapter: Option<String>,
}

impl Generate {
    /// Returns the shapes with the given parameters.
    pub fn shapes(&self) -> [(&'static str, Option<&Spanned<String>>); 7] {
        [
            ("pair", self.pair.as_ref()),
            ("star", self.star.as_ref()),
            ("fat-tree", self.fat_tree.as_ref()),
            ("torus", self.torus.as_ref()),
            ("mesh", self.mesh.as_ref()),
            ("dragonfly", self.dragonfly.as_ref()),
            ("random", self.random.as_ref()),
        ]
    }
}

/// A host's adapters: their number, or their names.
#[derive(Clone, Deserialize)]
#[serde(untagged, expecting = "adapters is a number, or a list of names such as [\"mlx4_0\"]")]
pub enum Adapters {
    Count(u8),
    Names(Vec<String>),
}

impl Adapters {
    pub fn count(&self) -> usize {
        match self {
            Adapters::Count(count) => usize::from(*count),
            Adapters::Names(names) => names.len(),
        }
    }

    /// Returns the name of adapter `number`.
    pub fn name(&self, number: usize) -> Option<&str> {
        match self {
            Adapters::Count(_) => None,
            Adapters::Names(names) => names.get(number).map(String::as_str),
        }
    }
}

/// A switch, host or router, or several of a kind.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Node {
    pub name: Spanned<String>,
    /// Number of nodes, which get a number after the name.
    pub count: Option<u32>,
    /// The adapter's host, if it differs from the name.
    pub host: Option<String>,
    /// A host's adapters.
    pub adapters: Option<Adapters>,
    pub ports: Option<u8>,
    pub description: Option<String>,
    pub guid: Option<Spanned<String>>,
    pub system_image_guid: Option<Spanned<String>>,
    #[serde(default)]
    pub port_guids: Vec<Spanned<String>>,
    pub vendor: Option<u32>,
    pub device: Option<u16>,
    pub enhanced_port0: Option<bool>,
    pub lmc_max: Option<u8>,
    pub width: Option<Spanned<String>>,
    pub speed: Option<Spanned<String>>,
    /// Width and speed of each port, `4xEDR`.
    #[serde(default)]
    pub links: Vec<Spanned<String>>,
}

/// A cable with properties.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Cable {
    pub ends: Spanned<Vec<String>>,
    pub width: Option<Spanned<String>>,
    pub speed: Option<Spanned<String>>,
    pub latency_ns: Option<u32>,
    pub errors_ppm: Option<u32>,
}
