//! `WEFT_SHARE`: whether registered memory may be shared with other processes of the host, page by page.

/// The registered memory that may be shared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Policy {
    /// Nothing, ever.
    Off,
    /// Memory that can be shared without any risk for the program.
    #[default]
    Auto,
    /// All memory that can be shared.
    On,
}

impl Policy {
    /// Parses the variable's text; an empty one means `auto`.
    pub fn parse(text: &str) -> Result<Policy, String> {
        match text {
            "" | "auto" => Ok(Policy::Auto),
            "off" => Ok(Policy::Off),
            "on" => Ok(Policy::On),
            other => Err(format!("{other:?} is none of auto, off, on")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_words_and_nothing_else() {
        assert_eq!(Policy::parse(""), Ok(Policy::Auto));
        assert_eq!(Policy::parse("auto"), Ok(Policy::Auto));
        assert_eq!(Policy::parse("off"), Ok(Policy::Off));
        assert_eq!(Policy::parse("on"), Ok(Policy::On));
        assert!(Policy::parse("yes").is_err_and(|text| text.contains("auto, off, on")));
    }
}
