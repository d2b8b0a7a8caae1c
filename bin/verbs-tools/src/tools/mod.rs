//! Tools with the names, options and output of the example programs of libibverbs and librdmacm, and of qperf.
//!
//! Each tool has a file here and an entry in [`TOOLS`].

mod cmtime;
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
mod ucmatose;
mod udaddy;

use weft_tool::Tool;

/// All of these tools.
pub const TOOLS: &[Tool] = &[
    cmtime::TOOL,
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
    ucmatose::TOOL,
    udaddy::TOOL,
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
