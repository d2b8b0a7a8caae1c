//! The language of comments and pages: no sentence opens with a pronoun that hides its actor ("Who ...", "What ...").
//!
//! Such sentences must be read twice. The check reads comments of Rust sources and the pages that users read.

use anyhow::Result;

/// Openings that hide the actor of a sentence.
const BANNED_OPENINGS: &[&str] = &["Who", "Whoever", "Whom", "Whose", "What", "Whatever", "Nobody", "Somebody"];

/// Sentences that open badly, as `file:line: opening: text`.
pub fn breaches() -> Result<Vec<String>> {
    let mut breaches = Vec::new();
    for path in crate::sources::tracked(&["*.rs", "*.md"])? {
        let text = std::fs::read_to_string(crate::cargo::root().join(&path))?;
        let sentence = if path.extension().is_some_and(|e| e == "rs") { comment } else { prose };
        breaches.extend(judge(&text, sentence).map(|(line, opening)| {
            format!("{}:{line}: a sentence begins with \"{opening}\"; name the actor", path.display())
        }));
    }
    Ok(breaches)
}

/// The comment that a line of Rust holds.
fn comment(line: &str) -> Option<&str> {
    // A URL or a string is no comment.
    let is_code = |at: &usize| line.get(..*at).is_some_and(|before| !in_text(before));
    let at = line.match_indices("//").map(|(at, _)| at).find(is_code)?;
    line.get(at..).map(|text| text.trim_start_matches(['/', '!']).trim_start())
}

/// Whether the end of this beginning of a line is in a string or in a URL.
fn in_text(before: &str) -> bool {
    before.ends_with(':') || before.matches('"').count() % 2 == 1
}

/// The sentence that a line of Markdown holds; code is indented or in fences, and has no sentences.
fn prose(line: &str) -> Option<&str> {
    Some(line.trim_start_matches(|c: char| c.is_whitespace() || "#-*>|".contains(c)))
}

fn judge<'a>(
    text: &'a str,
    sentence: impl Fn(&'a str) -> Option<&'a str> + 'a,
) -> impl Iterator<Item = (usize, &'static str)> + 'a {
    text.lines().enumerate().filter_map(move |(number, line)| {
        let text = sentence(line)?;
        let begins =
            text.match_indices(['.', '?', '!', ':']).filter_map(|(at, _)| text.get(at + 1..)?.strip_prefix(' '));
        let opening = std::iter::once(text).chain(begins).find_map(opening)?;
        Some((number + 1, opening))
    })
}

/// The banned word that a sentence begins with.
fn opening(sentence: &str) -> Option<&'static str> {
    let word = sentence.split(|c: char| !c.is_alphanumeric()).next()?;
    BANNED_OPENINGS.iter().copied().find(|banned| *banned == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_name_their_actors() {
        assert_eq!(breaches().expect("readable sources"), Vec::<String>::new());
    }

    #[test]
    fn an_opening_is_found_at_the_start_and_within_a_line() {
        let text = "/// What it sends.\nlet url = \"http://x. Who\"; // Fine. Whoever waits\nlet whatever = 1; // What's left\n// somebody";
        let found: Vec<_> = judge(text, comment).collect();
        assert_eq!(found, [(1, "What"), (2, "Whoever"), (3, "What")]);
    }
}
