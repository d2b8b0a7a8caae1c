//! torus-2QoS.conf: sizes of the dimensions, links that define their order and directions, and positions of the
//! datelines.

use super::find::Dimension;

/// Maximum number of dimensions.
pub const DIMENSIONS: usize = 3;
/// Maximum number of seeds in a file.
const SEEDS_MAX: usize = 64;

/// Seed: links from one switch that define the directions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seed {
    /// Links by dimension and direction, up first: from one switch, by GUID, to the other.
    pub links: [[Option<(u64, u64)>; 2]; DIMENSIONS],
    /// Distance of the dateline from the switch, by dimension.
    pub datelines: [i64; DIMENSIONS],
}

/// Content of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Sizes of the dimensions, and whether each is a ring.
    pub sizes: Vec<(u32, bool)>,
    /// The seeds; a later one applies if switches of the earlier ones are missing.
    pub seeds: Vec<Seed>,
    /// The order in which to use a switch's ports; empty if not set (`port_order`).
    pub port_order: Vec<u8>,
}

impl Config {
    /// Parses a file; `None` if it sets nothing.
    pub fn read(text: &str) -> Result<Option<Config>, String> {
        let mut config = Config::default();
        for (number, line) in (1..).zip(text.lines()) {
            let words: Vec<&str> = line.split('#').next().unwrap_or("").split_whitespace().collect();
            let [keyword, rest @ ..] = &words[..] else { continue };
            config.line(keyword, rest).map_err(|why| format!("torus_config, line {number}: {why}"))?;
        }
        if config == Config::default() {
            return Ok(None);
        }
        if config.sizes.is_empty() {
            return Err("torus_config: no line \"torus X Y Z\" or \"mesh X Y Z\" tells the size".to_owned());
        }
        Ok(Some(config))
    }

    fn line(&mut self, keyword: &str, rest: &[&str]) -> Result<(), String> {
        match (keyword, rest) {
            ("torus" | "mesh", sizes) if (1..=DIMENSIONS).contains(&sizes.len()) => {
                self.sizes = sizes.iter().map(|size| radix(size, keyword == "torus")).collect::<Result<_, _>>()?;
            }
            ("next_seed", []) => self.seed_more()?,
            ("portgroup_max_ports", [count]) => {
                // The number of ports in a group is not limited here.
                count.parse::<u32>().map_err(|_| format!("{count} is no number"))?;
            }
            ("port_order", ports) if !ports.is_empty() => {
                let port = |port: &&str| port.parse::<u8>().map_err(|_| format!("{port} is no port"));
                self.port_order = ports.iter().map(port).collect::<Result<_, _>>()?;
            }
            (_, [position]) if keyword.ends_with("_dateline") => {
                let dimension = dimension(keyword, "_dateline")?;
                let position = position.parse().map_err(|_| format!("{position} is no position"))?;
                self.seed()?.datelines[dimension] = position;
            }
            (_, [from, to]) if keyword.ends_with("p_link") || keyword.ends_with("m_link") => {
                let up = keyword.ends_with("p_link");
                let dimension = dimension(keyword, if up { "p_link" } else { "m_link" })?;
                let link = (guid(from)?, guid(to)?);
                self.seed()?.links[dimension][usize::from(!up)] = Some(link);
            }
            _ => return Err(format!("\"{keyword}\" is unknown, or has the wrong number of values")),
        }
        Ok(())
    }

    fn seed(&mut self) -> Result<&mut Seed, String> {
        if self.seeds.is_empty() {
            self.seed_more()?;
        }
        self.seeds.last_mut().ok_or_else(|| "no seed".to_owned())
    }

    fn seed_more(&mut self) -> Result<(), String> {
        if self.seeds.len() == SEEDS_MAX {
            return Err(format!("more than {SEEDS_MAX} seeds"));
        }
        // The first next_seed may precede everything else.
        if self.seeds.last() != Some(&Seed::default()) {
            self.seeds.push(Seed::default());
        }
        Ok(())
    }

    /// The sizes of dimensions with more than one switch.
    fn sizes(&self) -> impl Iterator<Item = (u32, bool)> + '_ {
        self.sizes.iter().copied().filter(|(size, _)| *size > 1)
    }

    /// Whether the dimensions found have the configured sizes, in any order.
    pub fn fits(&self, found: &[Dimension]) -> bool {
        let mut told: Vec<u32> = self.sizes().map(|(size, _)| size).collect();
        let mut sizes: Vec<u32> = found.iter().map(|dimension| dimension.size).collect();
        told.sort_unstable();
        sizes.sort_unstable();
        told == sizes
    }

    /// Number of seeds that make two dimensions of size two one ring of four: one has the seed's up link, the other its
    /// down link.
    pub fn pairs(&self, one: &Dimension, other: &Dimension, guids: &[u64]) -> usize {
        let place = |guid: u64| guids.binary_search(&guid).ok();
        let along = |dimension: &Dimension, (from, to): (u64, u64)| {
            let at = |guid| place(guid).map(|place| dimension.at[place]);
            matches!((at(from), at(to)), (Some(from), Some(to)) if from != to)
        };
        let links = self.seeds.iter().flat_map(|seed| seed.links);
        let both = links.filter(|links| match links {
            [Some(up), Some(down)] => along(one, *up) && along(other, *down) || along(one, *down) && along(other, *up),
            _ => false,
        });
        both.count()
    }

    /// Puts dimensions into the configured order and directions.
    pub fn arrange(&self, found: &mut Vec<Dimension>, guids: &[u64]) -> Result<(), String> {
        if !self.fits(found) {
            let told: Vec<String> = self.sizes().map(|(size, _)| size.to_string()).collect();
            let sizes: Vec<String> = found.iter().map(|dimension| dimension.size.to_string()).collect();
            return Err(format!("torus_config tells {}, the cables {}", told.join(" x "), sizes.join(" x ")));
        }
        let mut why = None;
        for seed in &self.seeds {
            match self.seeded(seed, found.clone(), guids) {
                Ok(arranged) => {
                    *found = arranged;
                    return self.rings(found);
                }
                Err(error) => why = why.or(Some(error)),
            }
        }
        if let Some(why) = why {
            return Err(why);
        }
        let seedless = self.seeded(&Seed::default(), found.clone(), guids)?;
        *found = seedless;
        self.rings(found)
    }

    /// Orders dimensions by the links of a seed; those without a link follow in port order.
    fn seeded(&self, seed: &Seed, mut left: Vec<Dimension>, guids: &[u64]) -> Result<Vec<Dimension>, String> {
        let place = |guid: u64| {
            let missing = || format!("torus_config: no switch {guid:#018x} of a seed");
            guids.binary_search(&guid).map_err(|_| missing())
        };
        let mut links = [None; DIMENSIONS];
        for (at, [up, down]) in seed.links.iter().enumerate() {
            let Some((link, up)) = up.map(|link| (link, true)).or(down.map(|link| (link, false))) else { continue };
            links[at] = Some((place(link.0)?, place(link.1)?, up));
        }
        let mut arranged = Vec::new();
        let told = self.sizes.iter().enumerate().filter(|(_, (size, _))| *size > 1);
        for (at, (size, _)) in told {
            let along = |dimension: &Dimension| match links[at] {
                Some((from, to, _)) => dimension.at[from] != dimension.at[to],
                None => !links.iter().flatten().any(|(from, to, _)| dimension.at[*from] != dimension.at[*to]),
            };
            let fit = left.iter().position(|dimension| dimension.size == *size && along(dimension));
            let name = ["x", "y", "z"][at.min(DIMENSIONS - 1)];
            let fit =
                fit.ok_or_else(|| format!("torus_config: the seed's {name} link is not in a dimension of {size}"))?;
            let mut dimension = left.remove(fit);
            if let Some((from, to, up)) = links[at] {
                turn(&mut dimension, from, to, up, seed.datelines[at]);
            }
            arranged.push(dimension);
        }
        Ok(arranged)
    }

    /// Checks that no dimension configured as a mesh is a ring.
    fn rings(&self, found: &[Dimension]) -> Result<(), String> {
        for (dimension, (size, ring)) in found.iter().zip(self.sizes()) {
            if dimension.wraps && !ring {
                return Err(format!("torus_config tells a mesh, but the dimension of {size} is cabled to a ring"));
            }
        }
        Ok(())
    }
}

/// Makes the link between two switches go up or down, and puts the dateline `dateline` hops above the first.
fn turn(dimension: &mut Dimension, from: usize, to: usize, up: bool, dateline: i64) {
    let size = dimension.size;
    let goes_up =
        (dimension.at[from] + 1) % size == dimension.at[to] && (dimension.wraps || dimension.at[from] + 1 < size);
    if goes_up != up {
        dimension.at.iter_mut().for_each(|at| *at = size - 1 - *at);
    }
    if dimension.wraps {
        let origin = (i64::from(dimension.at[from]) + dateline).rem_euclid(i64::from(size)) as u32;
        dimension.at.iter_mut().for_each(|at| *at = (*at + size - origin) % size);
    }
}

/// Parses a size like `4`, `4t` or `4m`.
fn radix(word: &str, ring: bool) -> Result<(u32, bool), String> {
    let digits = word.trim_end_matches(['t', 'T', 'm', 'M']);
    let ring = match &word[digits.len()..] {
        "" => ring,
        "t" | "T" => true,
        "m" | "M" => false,
        _ => return Err(format!("{word} is no size")),
    };
    match digits.parse() {
        Ok(size @ 1..=255) => Ok((size, ring)),
        _ => Err(format!("{word} is no size")),
    }
}

fn dimension(keyword: &str, end: &str) -> Result<usize, String> {
    let name = keyword.strip_suffix(end);
    ["x", "y", "z"].iter().position(|known| Some(*known) == name).ok_or_else(|| format!("\"{keyword}\" is unknown"))
}

fn guid(word: &str) -> Result<u64, String> {
    let digits = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")).unwrap_or(word);
    u64::from_str_radix(digits, 16).map_err(|_| format!("{word} is no GUID"))
}
