//! Patterns with `*` and `?`.

/// Returns whether `pattern` matches all of `text`: `*` stands for any characters, `?` for one.
pub fn is_match(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // The place after the last `*`, and the text that it has not swallowed yet.
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                p += 1;
                retry = Some((p, t));
            }
            Some(c) if *c == '?' || *c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((after, from)) = retry else { return false };
                (p, t) = (after, from + 1);
                retry = Some((after, from + 1));
            }
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::is_match;

    #[test]
    fn stars_and_marks() {
        for (pattern, text, matches) in [
            ("", "", true),
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abcb", false),
            ("*libucs*", "ucs_init (/usr/lib/libucs.so.0+0x1)", true),
            ("?b", "ab", true),
            ("?b", "b", false),
            ("a*b*c", "axbxbxc", true),
            ("main", "main_loop", false),
        ] {
            assert_eq!(is_match(pattern, text), matches, "{pattern} {text}");
        }
    }
}
