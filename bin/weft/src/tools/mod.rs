//! The RDMA tools in the `weft` binary, started as `weft NAME …` or through a link called NAME.
//!
//! Each tool has a file here and an entry in [`TOOLS`].

use std::ffi::OsString;
use std::process::ExitCode;

mod cmtime;
mod dump_fts;
pub mod getopt;
#[cfg(test)]
mod hostile;
mod ibaddr;
mod ibcacheedit;
mod ibidsverify;
mod iblinkinfo;
pub mod ibnetdiscover;
mod ibnodes;
mod ibping;
mod ibportstate;
mod ibqueryerrors;
mod ibroute;
mod ibstat;
mod ibstatus;
mod ibsysstat;
mod ibtracert;
mod ibv_devices;
mod ibv_devinfo;
mod ibv_rc_pingpong;
mod ibv_srq_pingpong;
mod ibv_uc_pingpong;
mod ibv_ud_pingpong;
mod ibv_xsrq_pingpong;
mod mckey;
mod perfquery;
mod qperf;
mod rping;
mod rstream;
mod saquery;
mod sminfo;
mod smpdump;
mod smpquery;
mod ucmatose;
mod udaddy;
mod vendstat;

/// A tool.
#[derive(Clone, Copy)]
pub struct Tool {
    /// Its command name.
    pub name: &'static str,
    /// Its one-line description.
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
    ibaddr::TOOL,
    ibcacheedit::TOOL,
    ibnodes::HOSTS,
    ibidsverify::TOOL,
    iblinkinfo::TOOL,
    ibnetdiscover::TOOL,
    ibnodes::NODES,
    ibping::TOOL,
    ibportstate::TOOL,
    ibqueryerrors::TOOL,
    ibroute::TOOL,
    ibnodes::ROUTERS,
    ibstat::TOOL,
    ibstatus::TOOL,
    ibnodes::SWITCHES,
    ibsysstat::TOOL,
    ibtracert::TOOL,
    ibv_devices::TOOL,
    ibv_devinfo::TOOL,
    ibv_rc_pingpong::TOOL,
    ibv_srq_pingpong::TOOL,
    ibv_uc_pingpong::TOOL,
    ibv_ud_pingpong::TOOL,
    ibv_xsrq_pingpong::TOOL,
    mckey::TOOL,
    perfquery::TOOL,
    qperf::TOOL,
    rping::TOOL,
    rstream::TOOL,
    saquery::TOOL,
    sminfo::TOOL,
    smpdump::TOOL,
    smpquery::TOOL,
    ucmatose::TOOL,
    udaddy::TOOL,
    vendstat::TOOL,
];

/// The tool with this name.
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
