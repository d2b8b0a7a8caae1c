//! Counts with their nouns, in drawings and in what commands print.

/// Formats a count with its noun: `1 switch`, `2 switches`, `3 hosts`.
pub fn counted(count: impl std::fmt::Display, thing: &str) -> String {
    let count = count.to_string();
    let ending = match count.as_str() {
        "1" => "",
        _ if thing.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{count} {thing}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_singular() {
        for (text, said) in [
            (counted(1, "host"), "1 host"),
            (counted(2, "host"), "2 hosts"),
            (counted(1, "switch"), "1 switch"),
            (counted(0, "switch"), "0 switches"),
        ] {
            assert_eq!(text, said);
        }
    }
}
