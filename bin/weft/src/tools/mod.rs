//! The RDMA tools that the one binary contains: `weft NAME …`, or a link called NAME.
//!
//! A tool is a file here and a line in [`TOOLS`].

use std::ffi::OsString;
use std::process::ExitCode;

mod cmtime;
mod dump_fts;
pub mod getopt;
mod ibcacheedit;
mod ibidsverify;
mod iblinkinfo;
mod ibnetdiscover;
mod ibnodes;
mod ibqueryerrors;
mod ibv_devices;
mod ibv_devinfo;
mod ibv_rc_pingpong;
mod ibv_srq_pingpong;
mod ibv_uc_pingpong;
mod ibv_ud_pingpong;
mod ibv_xsrq_pingpong;
mod mckey;
mod qperf;
mod rping;
mod rstream;
mod saquery;
mod ucmatose;
mod udaddy;

/// A tool.
#[derive(Clone, Copy)]
pub struct Tool {
    /// What it is called.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// Runs it with its arguments.
    pub run: fn(&[OsString]) -> ExitCode,
}

/// All tools.
pub const TOOLS: &[Tool] = &[
    cmtime::TOOL,
    dump_fts::FTS,
    dump_fts::LFTS,
    dump_fts::MFTS,
    ibcacheedit::TOOL,
    ibnodes::HOSTS,
    ibidsverify::TOOL,
    iblinkinfo::TOOL,
    ibnetdiscover::TOOL,
    ibnodes::NODES,
    ibqueryerrors::TOOL,
    ibnodes::ROUTERS,
    ibnodes::SWITCHES,
    ibv_devices::TOOL,
    ibv_devinfo::TOOL,
    ibv_rc_pingpong::TOOL,
    ibv_srq_pingpong::TOOL,
    ibv_uc_pingpong::TOOL,
    ibv_ud_pingpong::TOOL,
    ibv_xsrq_pingpong::TOOL,
    mckey::TOOL,
    qperf::TOOL,
    rping::TOOL,
    rstream::TOOL,
    saquery::TOOL,
    ucmatose::TOOL,
    udaddy::TOOL,
];

/// The tool of that name.
pub fn find(name: &str) -> Option<&'static Tool> {
    TOOLS.iter().find(|tool| tool.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_says_what_each_tool_does() {
        assert!(TOOLS.windows(2).all(|w| w[0].name < w[1].name));
        for tool in TOOLS {
            assert!(!tool.about.is_empty(), "{}", tool.name);
            assert!(find(tool.name).is_some());
        }
    }
}
