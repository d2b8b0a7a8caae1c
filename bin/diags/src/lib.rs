//! The InfiniBand diagnostics: tools with the names, options and output of infiniband-diags, and their library.
//!
//! - [`tools`] has a file for each tool and the table of them;
//! - [`ib`] sends management datagrams for the tools: their options, addresses, requests and fields;
//! - [`ibnet`] discovers a fabric, and knows its cache files, chassis and links.

pub mod ib;
pub mod ibnet;
pub mod tools;

#[cfg(test)]
mod fuzz_umad;

// The modules name these `crate::output`, `crate::errln!` and so on.
use weft_tool::{errln, errno, getopt, named_file, outln, output};
