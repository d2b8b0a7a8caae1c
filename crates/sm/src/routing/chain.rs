//! Engines one after another: the first that has tables for the fabric is taken, as `routing_engine a,b` says it.

use crate::tables::Tables;

use super::{Engine, Request, RouteError, engine};

/// The engine that is taken when no other is named, and when all that are named refuse.
pub const DEFAULT: &str = "auto";

/// Engines in the order in which they are tried.
#[derive(Clone)]
pub struct Chain {
    engines: Vec<&'static Engine>,
    fallback: bool,
}

/// What a chain comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routed {
    /// The tables, if any engine has some.
    pub tables: Option<Tables>,
    /// The engines that were to be taken before, and why they were not.
    pub refused: Vec<RouteError>,
}

impl Default for Chain {
    fn default() -> Chain {
        Chain::new(&[], true)
    }
}

impl Chain {
    /// Engines by their names in `routing_engine`; words that are no engine's do not count, and none at all mean
    /// [`DEFAULT`]. Without `fallback` (`no_fallback`) no other is taken when all refuse.
    pub fn new(names: &[&str], fallback: bool) -> Chain {
        let mut engines: Vec<&'static Engine> = names.iter().filter_map(|name| engine(name)).collect();
        if engines.is_empty() {
            engines.extend(engine(DEFAULT));
        }
        Chain { engines, fallback }
    }

    /// The engines' names, in the order in which they are tried.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        let last = engine(DEFAULT).filter(|last| self.fallback && !self.engines.iter().any(|e| e.name == last.name));
        self.engines.iter().copied().chain(last).map(|engine| engine.name)
    }

    /// Tables of the first engine that has some.
    pub fn route(&self, request: &Request<'_>) -> Routed {
        let mut refused = Vec::new();
        for engine in self.names().filter_map(engine) {
            match (engine.run)(request) {
                Ok(tables) => return Routed { tables: Some(tables), refused },
                Err(why) => refused.push(why),
            }
        }
        Routed { tables: None, refused }
    }
}

#[cfg(test)]
mod tests {
    use weft_fabric::topology::generate::Shape;

    use super::Chain;
    use crate::parallel::Sequential;
    use crate::routing::{Request, RoutingOptions};
    use crate::testing::generated;

    /// The engine that was taken, and how many refused before.
    fn taken(names: &[&str], fallback: bool, shape: Shape) -> (Option<&'static str>, usize) {
        let (graph, options) = (generated(shape), RoutingOptions::default());
        let routed = Chain::new(names, fallback).route(&Request::new(&graph, &options, &Sequential));
        (routed.tables.map(|tables| tables.engine), routed.refused.len())
    }

    fn tree() -> Shape {
        Shape::FatTree { radix: 4, levels: 2, hosts: None, hosts_per_leaf: None }
    }

    fn ring() -> Shape {
        Shape::Torus { sizes: vec![5], hosts_per_switch: 1, wraps: true }
    }

    #[test]
    fn the_first_that_has_tables_is_taken() {
        assert_eq!(taken(&["ftree", "updn"], true, tree()), (Some("ftree"), 0));
        assert_eq!(taken(&["ftree", "updn"], true, ring()), (Some("updn"), 1));
        assert_eq!(taken(&["ftree"], false, ring()), (None, 1));
        assert_eq!(taken(&[], true, tree()), (Some("ftree"), 0));
        assert!(matches!(taken(&["ftree"], true, ring()), (Some(name), 1) if name != "ftree"));
    }

    #[test]
    fn words_that_are_no_engine_do_not_count() {
        assert_eq!(Chain::new(&["updn", "fattree"], false).names().collect::<Vec<_>>(), ["updn"]);
        assert_eq!(Chain::new(&["fattree"], true).names().collect::<Vec<_>>(), ["auto"]);
    }
}
