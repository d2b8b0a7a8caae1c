//! Engines one after another: the first that has tables for the fabric is taken, as `routing_engine a,b` says it.

use crate::tables::Tables;

use super::{ENGINES, Engine, Request, RouteError, engine};

/// The word among engines that forbids to take another when all refuse.
pub const NO_FALLBACK: &str = "no_fallback";

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
    /// The tables.
    pub tables: Tables,
    /// The engines that were to be taken before, and why they were not.
    pub refused: Vec<RouteError>,
}

impl Chain {
    /// Reads `routing_engine`; `Err` tells the word that is no engine. `(null)`, as opensm.conf has it for nothing, and
    /// no word at all mean [`DEFAULT`].
    pub fn parse(text: &str) -> Result<Chain, String> {
        let mut chain = Chain { engines: Vec::new(), fallback: true };
        for word in text.split([',', ' ', '\t']).map(str::trim).filter(|word| !word.is_empty() && *word != "(null)") {
            match engine(word) {
                _ if word == NO_FALLBACK => chain.fallback = false,
                Some(engine) => chain.engines.push(engine),
                None => {
                    let names: Vec<&str> = ENGINES.iter().map(|engine| engine.name).collect();
                    return Err(format!("there is no routing engine {word}: there are {}", names.join(", ")));
                }
            }
        }
        if chain.engines.is_empty() {
            chain.engines.extend(engine(DEFAULT));
        }
        Ok(chain)
    }

    /// Tables of the first engine that has some; `Err` if none does, with what each says.
    pub fn route(&self, request: &Request<'_>) -> Result<Routed, Vec<RouteError>> {
        let last = engine(DEFAULT).filter(|last| self.fallback && !self.engines.iter().any(|e| e.name == last.name));
        let mut refused = Vec::new();
        for engine in self.engines.iter().copied().chain(last) {
            match (engine.run)(request) {
                Ok(tables) => return Ok(Routed { tables, refused }),
                Err(why) => refused.push(why),
            }
        }
        Err(refused)
    }
}

#[cfg(test)]
mod tests {
    use weft_fabric::topology::generate::Shape;

    use super::Chain;
    use crate::parallel::Sequential;
    use crate::routing::{Request, RoutingOptions};
    use crate::testing::generated;

    fn engines(chain: &str, shape: Shape) -> Result<(&'static str, usize), usize> {
        let (graph, options) = (generated(shape), RoutingOptions::default());
        let routed = Chain::parse(chain).expect("engines").route(&Request::new(&graph, &options, &Sequential));
        routed.map(|routed| (routed.tables.engine, routed.refused.len())).map_err(|refused| refused.len())
    }

    fn tree() -> Shape {
        Shape::FatTree { radix: 4, levels: 2, hosts: None, hosts_per_leaf: None }
    }

    fn ring() -> Shape {
        Shape::Torus { sizes: vec![5], hosts_per_switch: 1, wraps: true }
    }

    #[test]
    fn the_first_that_has_tables_is_taken() {
        assert_eq!(engines("ftree,updn", tree()), Ok(("ftree", 0)));
        assert_eq!(engines("ftree updn", ring()), Ok(("updn", 1)));
        assert_eq!(engines("ftree,no_fallback", ring()), Err(1));
        assert_eq!(engines("(null)", tree()), Ok(("ftree", 0)));
        assert!(matches!(engines("ftree", ring()), Ok((name, 1)) if name != "ftree"));
    }

    #[test]
    fn a_word_that_is_no_engine_is_named() {
        let error = Chain::parse("updn,fattree").err().expect("an error");
        assert!(error.contains("fattree") && error.contains("ftree"), "{error}");
    }
}
