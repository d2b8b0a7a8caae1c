//! Metrics for Prometheus: [`Exposition`] writes its text format, [`Endpoint`] serves a page of it over HTTP.
//!
//! Every metric of Weft passes through here; the commands choose names and values.

#![forbid(unsafe_code)]

mod endpoint;
mod exposition;
mod request;

pub use endpoint::Endpoint;
pub use exposition::{Exposition, Kind, Sample};
