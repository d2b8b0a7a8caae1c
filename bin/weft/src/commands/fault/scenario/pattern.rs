//! Patterns of steps that wait for an event of the program: a regular expression, and which of its lines counts.

use regex::bytes::{Regex, RegexBuilder};

/// Memory of one compiled pattern, and of the automaton that grows while it matches.
const PATTERN_BYTES_MAX: usize = 1 << 20;
/// Patterns of a scenario.
pub(super) const PATTERNS_MAX: usize = 64;

/// A pattern of the program's events.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    regex: Regex,
    /// The matching line that counts; the first is 1.
    nth: u64,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        (self.regex.as_str(), self.nth) == (other.regex.as_str(), other.nth)
    }
}

impl Eq for Pattern {}

impl Pattern {
    /// Compiles a pattern; the error is a sentence for the user.
    pub fn parse(text: &str, nth: Option<u64>) -> Result<Pattern, String> {
        // A pattern that matches every line is a mistake, since the empty text is one.
        if text.is_empty() {
            return Err("seen: the pattern is empty; \"^state .*to=Rts\" is one".to_owned());
        }
        if nth == Some(0) {
            return Err("nth: 0 is no line; the first that matches is 1".to_owned());
        }
        let mut builder = RegexBuilder::new(text);
        builder.unicode(false).size_limit(PATTERN_BYTES_MAX).dfa_size_limit(PATTERN_BYTES_MAX);
        let regex = builder.build().map_err(|error| match error {
            regex::Error::CompiledTooBig(limit) => {
                format!("seen: the pattern needs more than {limit} bytes; make its repetitions shorter")
            }
            error => format!("seen: \"{text}\" is no regular expression: {}", reason(&error)),
        })?;
        Ok(Pattern { regex, nth: nth.unwrap_or(1) })
    }

    fn matches(&self, line: &[u8]) -> bool {
        self.regex.is_match(line)
    }
}

/// The last line of an error; those before it draw the place.
fn reason(error: &regex::Error) -> String {
    let text = error.to_string();
    text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

/// Patterns that steps still wait for, by the steps' places.
#[derive(Debug, Default)]
pub(super) struct Watch {
    waiting: Vec<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    place: usize,
    pattern: Pattern,
    /// Lines that have matched.
    count: u64,
}

impl Watch {
    pub fn new(patterns: impl IntoIterator<Item = (usize, Pattern)>) -> Watch {
        let waiting = patterns.into_iter().map(|(place, pattern)| Waiting { place, pattern, count: 0 });
        Watch { waiting: waiting.collect() }
    }

    /// Whether no step waits.
    pub fn is_done(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Compares a line of the trace, and adds the steps that waited for it to `seen`.
    pub fn on_line(&mut self, line: &[u8], seen: &mut Vec<usize>) {
        // Patterns match the text after the time.
        let text = line.iter().position(|byte| *byte == b' ').and_then(|space| line.get(space + 1..)).unwrap_or(line);
        self.waiting.retain_mut(|waiting| {
            waiting.count += u64::from(waiting.pattern.matches(text));
            let is_seen = waiting.count >= waiting.pattern.nth;
            if is_seen {
                seen.push(waiting.place);
            }
            !is_seen
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str, nth: u64) -> Pattern {
        Pattern::parse(text, Some(nth)).unwrap()
    }

    #[test]
    fn the_nth_line_counts_once() {
        let mut watch = Watch::new([(3, pattern("^cqe .*status=Success", 2)), (5, pattern("to=Rts$", 1))]);
        let mut seen = Vec::new();
        let mut look = |line: &str| {
            watch.on_line(line.as_bytes(), &mut seen);
            (std::mem::take(&mut seen), watch.is_done())
        };
        assert_eq!(look("1.000000 cqe qp=0x000041 wr_id=1 status=Success"), (vec![], false));
        assert_eq!(look("1.000000 cqe qp=0x000041 wr_id=1 status=WrFlushErr"), (vec![], false));
        assert_eq!(look("1.000000 state qp=0x000041 from=Rtr to=Rts"), (vec![5], false));
        assert_eq!(look("1.000000 state qp=0x000042 from=Rtr to=Rts"), (vec![], false));
        assert_eq!(look("1.000001 cqe qp=0x000042 wr_id=1 status=Success"), (vec![3], true));
    }

    #[test]
    fn bytes_that_are_no_text_match_as_well() {
        let mut seen = Vec::new();
        Watch::new([(0, pattern(r"\w=\d+.x", 1))]).on_line(b"1.0 a=12\xffx", &mut seen);
        assert_eq!(seen, [0]);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, nth, part) in [
            ("", None, "seen: the pattern is empty"),
            ("to=Rts", Some(0), "nth: 0 is no line"),
            ("to=(Rts", None, "seen: \"to=(Rts\" is no regular expression: unclosed group"),
            (r"\w{999}{999}", None, "seen: the pattern needs more than 1048576 bytes"),
        ] {
            let error = Pattern::parse(text, nth).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
