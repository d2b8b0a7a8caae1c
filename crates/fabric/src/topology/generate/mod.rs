//! Generated topologies: fat trees, tori, dragonflies, and small ones. A [`Shape`] gives kind and size; a [`Plan`] adds
//! link speeds and names. Each shape has its own file.

mod cluster;
mod dragonfly;
mod fat_tree;
mod parse;
mod plan;
mod random;
mod torus;

pub use cluster::{ADAPTER_ID, SWITCH_ID, VENDOR_ID};
pub use parse::{Extra, KINDS};
pub use plan::{Plan, Shape};

use super::{Builder, Result, Topology, limits};

impl Plan {
    /// Generates the network.
    pub fn generate(&self) -> Result<Topology> {
        let mut builder = Builder::new(self.shape.to_string());
        self.generate_into(&mut builder)?;
        Ok(builder.finish())
    }

    /// Adds the network to a builder.
    pub fn generate_into(&self, builder: &mut Builder) -> Result<()> {
        if !(1..=limits::RAILS_MAX).contains(&self.rails) {
            return plan::refuse(
                format!("{} adapters for each host", self.rails),
                format!("a host has 1 to {}: choose another number of rails", limits::RAILS_MAX),
            );
        }
        let mut cluster = cluster::Cluster::new(self, builder);
        self.draw(&mut cluster)?;
        cluster.finish()
    }

    fn draw(&self, cluster: &mut cluster::Cluster<'_>) -> Result<()> {
        let rails = u32::from(self.rails);
        match &self.shape {
            Shape::Pair => cluster.pair(),
            Shape::Star { hosts } => cluster.star(hosts.saturating_mul(rails)),
            Shape::FatTree { radix, levels, hosts, hosts_per_leaf } => {
                let ends = hosts.map(|hosts| hosts.saturating_mul(rails));
                fat_tree::draw(cluster, *radix, *levels, ends, *hosts_per_leaf)
            }
            Shape::Torus { sizes, hosts_per_switch, wraps } => torus::draw(cluster, sizes, *hosts_per_switch, *wraps),
            Shape::Dragonfly { switches_per_group, hosts_per_switch, global_per_switch, groups } => {
                let (a, p, h) = (*switches_per_group, *hosts_per_switch, *global_per_switch);
                dragonfly::draw(cluster, a, p, h, *groups)
            }
            Shape::Random { switches, degree, hosts_per_switch, seed } => {
                random::draw(cluster, *switches, *degree, *hosts_per_switch, *seed)
            }
        }
    }
}

#[cfg(test)]
mod tests;
