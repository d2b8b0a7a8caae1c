//! The pure part of rsockets, compiled alone: the library itself is a `cdylib`, which no test can link.

#![allow(missing_docs, dead_code, reason = "only the tests inside are of interest here")]

#[path = "../src/rsocket/proto/mod.rs"]
mod proto;
