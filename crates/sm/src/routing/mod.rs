//! Routing engines: pure functions from a graph to forwarding tables, each with its own file and an entry in
//! [`ENGINES`].

mod auto;
pub mod chain;
mod dfsssp;
mod dor;
mod dragonfly;
mod engine;
#[cfg(test)]
mod figures;
pub mod file;
mod ftree;
#[cfg(test)]
mod irregular;
mod kept;
mod lanes;
mod lash;
pub mod levels;
pub mod links;
#[cfg(test)]
mod matrix;
mod minhop;
mod moves;
mod net;
mod nue;
pub mod order;
mod patch;
mod polish;
pub mod quality;
#[cfg(test)]
mod record;
mod relief;
mod shift_loads;
mod shifts;
pub mod spread;
mod sssp;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub(crate) mod torus;
#[cfg(test)]
mod trades;
mod trees;
mod updn;
pub mod ways;
pub mod work;

pub use engine::{Engine, Previous, Request, RouteError, RoutingOptions};

/// Every engine.
pub const ENGINES: &[Engine] = &[
    minhop::ENGINE, //
    dor::ENGINE,
    sssp::ENGINE,
    dfsssp::ENGINE,
    lash::ENGINE,
    dragonfly::ENGINE,
    torus::ENGINE,
    updn::UPDN,
    updn::DNUP,
    ftree::ENGINE,
    file::ENGINE,
    auto::ENGINE,
    nue::ENGINE,
];

/// The engine with this name.
pub fn engine(name: &str) -> Option<&'static Engine> {
    ENGINES.iter().find(|engine| engine.name == name)
}
