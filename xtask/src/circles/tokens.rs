//! Words and signs of a Rust source: without comments, the contents of strings, and unit tests.

/// A word, `::`, or a single sign, and its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) text: &'a str,
    pub(super) line: usize,
}

impl Token<'_> {
    pub(super) fn is_word(&self) -> bool {
        self.text.starts_with(is_word_char)
    }
}

/// The tokens of shipped code: what follows `#[cfg(test)]` or `#[cfg(loom)]` is left out.
pub(super) fn shipped(text: &str) -> Vec<Token<'_>> {
    let all = tokens(text);
    let mut kept = Vec::with_capacity(all.len());
    let mut at = 0;
    while let Some(token) = all.get(at) {
        if is_test_attribute(all.get(at..).unwrap_or_default()) {
            at = item_end(&all, at);
        } else {
            kept.push(*token);
            at += 1;
        }
    }
    kept
}

fn is_test_attribute(tokens: &[Token<'_>]) -> bool {
    let begins = |pattern: &[&str]| {
        tokens.len() >= pattern.len() && tokens.iter().zip(pattern).all(|(token, text)| token.text == *text)
    };
    ["test", "loom"].iter().any(|name| {
        begins(&["#", "[", "cfg", "(", name, ")"]) || begins(&["#", "[", "cfg", "(", "all", "(", name, ","])
    })
}

/// Where the item ends whose attribute is at `at`: after its semicolon, comma or closing brace, or before the brace that
/// closes the list that the item is in.
fn item_end(tokens: &[Token<'_>], at: usize) -> usize {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(at) {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" if depth == 0 => return index,
            ")" | "]" => depth -= 1,
            "}" => {
                depth -= 1;
                if depth == 0 {
                    return index + 1;
                }
            }
            ";" | "," if depth == 0 => return index + 1,
            _ => {}
        }
    }
    tokens.len()
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let (mut rest, mut line) = (text, 1);
    while let Some(first) = rest.chars().next() {
        let (length, is_token) = next(rest, first);
        let (token, after) = rest.split_at(length);
        if is_token {
            found.push(Token { text: token, line });
        }
        line += token.matches('\n').count();
        rest = after;
    }
    found
}

/// The length of what comes next, and whether it is a token rather than space, a comment, a literal or a lifetime.
fn next(text: &str, first: char) -> (usize, bool) {
    if let Some(length) = comment(text).or_else(|| literal(text)) {
        return (length, false);
    }
    let word = |text: &str| text.find(|c: char| !is_word_char(c)).unwrap_or(text.len());
    if let Some(lifetime) = text.strip_prefix('\'') {
        return (1 + word(lifetime), false);
    }
    if is_word_char(first) {
        return (word(text), true);
    }
    if text.starts_with("::") {
        return (2, true);
    }
    (first.len_utf8(), !first.is_whitespace())
}

fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn comment(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    let mut rest = text.strip_prefix("/*")?;
    let mut depth = 1_usize;
    while depth > 0 && !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix("/*") {
            (rest, depth) = (inner, depth + 1);
        } else if let Some(outer) = rest.strip_prefix("*/") {
            (rest, depth) = (outer, depth - 1);
        } else {
            rest = rest.get(rest.chars().next().map_or(0, char::len_utf8)..).unwrap_or_default();
        }
    }
    Some(text.len() - rest.len())
}

/// The length of the string or character that the text begins with. A lifetime is none.
fn literal(text: &str) -> Option<usize> {
    let unprefixed = text.strip_prefix(['b', 'c']).filter(|rest| rest.starts_with(['"', '\'', 'r'])).unwrap_or(text);
    let prefix = text.len() - unprefixed.len();
    if let Some(raw) = unprefixed.strip_prefix('r') {
        let quoted = raw.trim_start_matches('#');
        let body = quoted.strip_prefix('"')?;
        let end = format!("\"{}", "#".repeat(raw.len() - quoted.len()));
        let length = body.find(&end).map_or(body.len(), |at| at + end.len());
        return Some(text.len() - body.len() + length);
    }
    let quote = unprefixed.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let mut escaped = false;
    for (at, c) in unprefixed.char_indices().skip(1) {
        if c == quote && !escaped {
            return Some(prefix + at + 1);
        }
        // 'a is a lifetime, 'a' a character; an escape such as \u{10FFFF} is at most ten bytes long.
        if quote == '\'' && at > if unprefixed.starts_with("'\\") { 10 } else { c.len_utf8() } {
            return None;
        }
        escaped = c == '\\' && !escaped;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<&str> {
        shipped(text).into_iter().map(|token| token.text).collect()
    }

    #[test]
    fn comments_and_literals_are_left_out() {
        let text = "a // b\n/* c /* d */ e */ f(\"g \\\" h\", 'i', '\\'', b\"j\", r#\"k \" l\"#) <'m> br 'é' n";
        assert_eq!(words(text), ["a", "f", "(", ",", ",", ",", ",", ")", "<", ">", "br", "n"]);
    }

    #[test]
    fn code_after_tests_is_kept() {
        assert_eq!(words("#[cfg(test)]\nmod tests; use a::b;"), ["use", "a", "::", "b", ";"]);
        assert_eq!(words("#[cfg(all(test, not(loom)))] #[allow(x)] mod t { fn f() {} } g"), ["g"]);
        assert_eq!(words("S { #[cfg(test)] a: T, b }"), ["S", "{", "b", "}"]);
        assert_eq!(words("#[cfg(not(test))] a"), ["#", "[", "cfg", "(", "not", "(", "test", ")", ")", "]", "a"]);
    }

    #[test]
    fn tokens_know_their_lines() {
        let lines: Vec<usize> = shipped("a\n\"\n\"\nb").iter().map(|token| token.line).collect();
        assert_eq!(lines, [1, 4]);
    }
}
