//! The RDMA tools in the `weft` binary, started as `weft NAME …` or through a link called NAME.
//!
//! Each has an entry in one of [`TABLES`].

pub use weft_tool::Tool;

/// The tables of tools.
const TABLES: &[&[Tool]] = &[weft_diags::tools::TOOLS, weft_verbs_tools::tools::TOOLS];

/// All tools, sorted by name.
pub fn all() -> Vec<&'static Tool> {
    let mut tools: Vec<_> = TABLES.iter().copied().flatten().collect();
    tools.sort_by_key(|tool| tool.name);
    tools
}

/// The tool with this name.
pub fn find(name: &str) -> Option<&'static Tool> {
    TABLES.iter().copied().flatten().find(|tool| tool.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_have_names_of_their_own_and_say_what_they_do() {
        let tools = all();
        assert!(tools.windows(2).all(|w| w[0].name < w[1].name));
        for tool in tools {
            assert!(!tool.about.is_empty(), "{}", tool.name);
            assert!(find(tool.name).is_some_and(|found| found.about == tool.about));
        }
    }
}
