//! Chain of engines: the first one that can route the fabric is used, as in `routing_engine a,b`.

use crate::tables::Tables;

use super::{Engine, Request, RouteError, engine};

/// The engine to use if none is configured, or if all configured ones refuse.
pub const DEFAULT: &str = "auto";

/// Engines in the order to try them.
#[derive(Clone)]
pub struct Chain {
    engines: Vec<&'static Engine>,
    fallback: bool,
}

/// Result of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routed {
    /// The tables, if any engine succeeded.
    pub tables: Option<Tables>,
    /// Errors of the engines tried before.
    pub refused: Vec<RouteError>,
}

impl Default for Chain {
    fn default() -> Chain {
        Chain::new(&[], true)
    }
}

impl Chain {
    /// Creates a chain from names in `routing_engine`. Ignores unknown names; without any known name the chain is
    /// [`DEFAULT`]. Without `fallback` (`no_fallback`), no other engine is tried when all refuse.
    pub fn new(names: &[&str], fallback: bool) -> Chain {
        let mut engines: Vec<&'static Engine> = names.iter().filter_map(|name| engine(name)).collect();
        if engines.is_empty() {
            engines.extend(engine(DEFAULT));
        }
        Chain { engines, fallback }
    }

    /// Names of the engines in the order to try them.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        let last = engine(DEFAULT).filter(|last| self.fallback && !self.engines.iter().any(|e| e.name == last.name));
        self.engines.iter().copied().chain(last).map(|engine| engine.name)
    }

    /// Tables of the first engine that succeeds.
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

    /// The engine that succeeded, and the number that refused before it.
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
