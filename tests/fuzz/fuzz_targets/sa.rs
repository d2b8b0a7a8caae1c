#![no_main]
//! Fuzz target `sa`: requests from strangers to the subnet administration; see the example fuzz_sa of weft_sm.

#[path = "../../../crates/sm/src/sa/tests/fixture.rs"]
mod fixture;
#[path = "../../../crates/sm/examples/fuzz_sa/stranger.rs"]
mod stranger;

use fixture::Fixture;
use weft_fabric::topology::generate::{Plan, Shape};
use weft_sm as sm;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let shape = Shape::FatTree { radix: 4, levels: 2, hosts: None, hosts_per_leaf: None };
    let topology = Plan::new(shape).generate().expect("a topology");
    let mut stranger = stranger::Stranger::new(Fixture::numbered(&topology));
    stranger.play(bytes);
    stranger.restart();
});
