//! The InfiniBand diagnostic tools, by name.
//!
//! Each tool has a file here and an entry in [`TOOLS`].

mod dump_fts;
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
mod perfquery;
mod saquery;
mod sminfo;
mod smpdump;
mod smpquery;
mod vendstat;

use weft_tool::Tool;

/// All of these tools.
pub const TOOLS: &[Tool] = &[
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
    perfquery::TOOL,
    saquery::TOOL,
    sminfo::TOOL,
    smpdump::TOOL,
    smpquery::TOOL,
    vendstat::TOOL,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_says_what_each_tool_does() {
        assert!(TOOLS.windows(2).all(|w| w[0].name < w[1].name));
        for tool in TOOLS {
            assert!(!tool.about.is_empty(), "{}", tool.name);
        }
    }
}
