//! Source of a fabric's description: a file in any of the formats, or a generator with its parameters.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use weft_fabric::topology::generate::{Extra, Plan, Shape};
use weft_fabric::topology::net::Files;
use weft_fabric::topology::{Error, Speed, Topology, Width, file, limits, net};

/// A file or a generator, and the parameters of a generated fabric.
#[derive(Args, Debug, Default)]
pub struct SourceArgs {
    /// Description file: TOML, ibnetdiscover's output, or an ibsim net file; - is standard input
    file: Option<PathBuf>,
    /// Two hosts back to back
    #[arg(long, group = "shape", conflicts_with = "file")]
    pair: bool,
    /// One switch with this many hosts
    #[arg(long, value_name = "HOSTS", group = "shape", conflicts_with = "file")]
    star: Option<String>,
    /// A fat tree: ports per switch, levels of switches
    #[arg(long, value_name = "RADIX,LEVELS", group = "shape", conflicts_with = "file")]
    fat_tree: Option<String>,
    /// A torus: number of switches along each dimension
    #[arg(long, value_name = "AxBxC", group = "shape", conflicts_with = "file")]
    torus: Option<String>,
    /// A mesh: a torus without wrap-around cables
    #[arg(long, value_name = "AxBxC", group = "shape", conflicts_with = "file")]
    mesh: Option<String>,
    /// A dragonfly: switches per group, hosts per switch, global cables per switch, groups
    #[arg(long, value_name = "SWITCHES,HOSTS,GLOBAL[,GROUPS]", group = "shape", conflicts_with = "file")]
    dragonfly: Option<String>,
    /// A random regular network: switches, cables of each to other switches
    #[arg(long, value_name = "SWITCHES,DEGREE[,SEED]", group = "shape", conflicts_with = "file")]
    random: Option<String>,
    /// Number of hosts of a fat tree [default: as many as fit]
    #[arg(long, value_name = "N", requires = "shape")]
    hosts: Option<u32>,
    /// Hosts per switch of a torus, mesh or random network [default: 1], or per leaf of a fat tree
    #[arg(long, value_name = "N", requires = "shape")]
    hosts_per_switch: Option<u8>,
    /// Adapters of each generated host, on neighbouring switches
    #[arg(long, value_name = "N", default_value_t = 1, requires = "shape")]
    rails: u8,
    /// Family of the generated adapters' names: mlx4 for mlx4_0, mlx4_1
    #[arg(long, value_name = "NAME", default_value = "weft", requires = "shape")]
    adapter: String,
    /// Width of generated links: 1x, 2x, 4x, 8x or 12x
    #[arg(long, default_value = "4x", requires = "shape")]
    width: String,
    /// Speed of generated links: SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR or XDR
    #[arg(long, default_value = "NDR", requires = "shape")]
    speed: String,
}

impl SourceArgs {
    /// A description file.
    pub fn of_file(file: PathBuf) -> SourceArgs {
        SourceArgs { file: Some(file), ..SourceArgs::default() }
    }

    /// Whether neither a file nor a generator is given.
    pub fn is_empty(&self) -> bool {
        self.file.is_none() && self.shape().is_none()
    }

    /// Loads the description; errors are messages for the user.
    pub fn load(&self) -> Result<Topology, String> {
        match (&self.file, self.shape()) {
            (Some(path), _) => load_file(path),
            (None, Some((kind, parameters))) => self.generate(kind, parameters).map_err(|error| error.to_string()),
            (None, None) => Err("say what to bring up: a file, or a generator such as --fat-tree 36,2".to_owned()),
        }
    }

    /// Name and parameters of the generator.
    fn shape(&self) -> Option<(&'static str, &str)> {
        let shapes = [
            ("star", &self.star),
            ("fat-tree", &self.fat_tree),
            ("torus", &self.torus),
            ("mesh", &self.mesh),
            ("dragonfly", &self.dragonfly),
            ("random", &self.random),
        ];
        let mut given = shapes.into_iter().filter_map(|(kind, text)| Some((kind, text.as_deref()?)));
        if self.pair { Some(("pair", "")) } else { given.next() }
    }

    fn generate(&self, kind: &str, parameters: &str) -> Result<Topology, Error> {
        let extra = Extra { hosts: self.hosts, hosts_per_switch: self.hosts_per_switch };
        let bad = |what: &str, words: &str| Error::of(what, format!("choose one of {words}"));
        let plan = Plan {
            width: Width::parse(&self.width).ok_or_else(|| bad("no such width", "1x 2x 4x 8x 12x"))?,
            speed: Speed::parse(&self.speed)
                .ok_or_else(|| bad("no such speed", "SDR DDR QDR FDR10 FDR EDR HDR NDR XDR"))?,
            rails: self.rails,
            adapter: self.adapter.clone(),
            ..Plan::new(Shape::parse(kind, parameters, extra)?)
        };
        plan.generate()
    }
}

fn load_file(path: &Path) -> Result<Topology, String> {
    let shown = path.display();
    let text = read(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
    let title = path.file_stem().map_or("fabric".into(), |stem| stem.to_string_lossy());
    let loaded = if is_net(&text) {
        net::read(&title, &text, &mut Beside(path.parent().unwrap_or(Path::new(""))))
    } else {
        file::read(&title, &text)
    };
    loaded.map_err(|error| format!("{shown}: {error}"))
}

fn read(path: &Path) -> std::io::Result<String> {
    let limit = limits::FILE_LEN_MAX as u64 + 1;
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        std::io::stdin().lock().take(limit).read_to_end(&mut bytes)?;
    } else {
        std::fs::File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    }
    // A NodeDescription may hold any bytes.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Whether a text is ibnetdiscover's or ibsim's, by the start of its first significant line. In TOML an equals sign and
/// a value in quotes or brackets follow a word.
fn is_net(text: &str) -> bool {
    const ASSIGNMENTS: [&str; 9] =
        ["vendid=", "devid=", "sysimgguid=", "switchguid", "caguid", "hcaguid", "rtguid", "width=", "speed="];
    const STARTS: [&str; 9] = ["Switch", "Ca\t", "Ca ", "Hca", "Rt", "DR path ", "Non-Chassis", "Chassis ", "include "];
    let mut lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.next().is_some_and(|line| {
        let number = |line: &str| line.split('=').nth(1).is_some_and(|v| v.starts_with(|c: char| c.is_ascii_digit()));
        STARTS.iter().any(|start| line.starts_with(start))
            || (ASSIGNMENTS.iter().any(|start| line.starts_with(start)) && number(line))
    })
}

/// Resolves included files beside the file that includes them.
struct Beside<'a>(&'a Path);

impl Files for Beside<'_> {
    fn text(&mut self, name: &str) -> Result<String, String> {
        read(&self.0.join(name)).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_apart_by_their_first_words() {
        for net in [
            "#\n# Topology\n\nvendid=0x2c9\n",
            "Switch\t8 \"S\"\n",
            "Ca 1 \"H\"\n",
            "switchguid=0x2(2)\n",
            "DR path slid 0\n",
            "width=8\n",
        ] {
            assert!(is_net(net), "{net}");
        }
        for toml in
            ["", "# nothing\n", "speed = \"EDR\"\n", "speed=\"EDR\"\n", "[[switch]]\nname = \"x\"\n", "cables = []"]
        {
            assert!(!is_net(toml), "{toml}");
        }
    }
}
