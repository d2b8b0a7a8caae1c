//! Two services wired back to back.

mod lab;
