//! A tool's usage text, printed on standard error.

use std::fmt::Write;
use std::process::ExitCode;

use super::spec::{EXTRA, Opt, Spec};

/// Width of the option column; two blanks and the description follow.
const COLUMN: usize = 24;
/// Columns of a line.
const WIDTH: usize = 74;

/// Prints the usage and returns the exit code.
pub fn show(spec: &Spec) -> ExitCode {
    crate::output::complain_text(&text(spec));
    ExitCode::from(2)
}

fn text(spec: &Spec) -> String {
    let mut text = format!("\nUsage: {} [options] {}\n\nOptions:\n", spec.program, spec.usage);
    for option in spec.options.iter().chain(spec.common()).chain(EXTRA) {
        line(&mut text, option);
    }
    if !spec.examples.is_empty() {
        text += "\nExamples:\n";
        for example in spec.examples {
            let _ = writeln!(text, "  {} {example}", spec.program);
        }
    }
    text + "\n"
}

fn line(text: &mut String, option: &Opt) {
    let mut head = format!("  --{}", option.long);
    if option.letter.is_ascii_graphic() {
        let _ = write!(head, ", -{}", option.letter);
    }
    if let Some(arg) = option.arg {
        let _ = write!(head, " {arg}");
    }
    if !option.help.is_empty() {
        let _ = write!(head, "{:1$}  ", "", COLUMN.saturating_sub(head.len()));
        let column = head.len();
        head += &wrapped(option.help, column);
    }
    *text += &head;
    *text += "\n";
}

/// Wraps words from `column` on; the blank before a line break stays.
fn wrapped(mut words: &str, column: usize) -> String {
    let room = WIDTH.saturating_sub(column);
    let mut text = String::new();
    loop {
        words = words.trim_start();
        let blanks = words.char_indices().skip(1).filter(|(_, c)| *c == ' ').map(|(at, _)| at);
        let blanks: Vec<usize> = blanks.collect();
        let Some(beyond) = blanks.iter().position(|&at| at >= room) else {
            return text + words;
        };
        let end = if beyond == 0 { blanks[0] } else { blanks[beyond - 1] + 1 };
        let _ = write!(text, "{}\n{:column$}", &words[..end], "");
        words = &words[end..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ib::spec::{opt, opt_arg};

    #[test]
    fn lines_are_laid_out_as_the_original_does() {
        let of = |option: &Opt| {
            let mut text = String::new();
            line(&mut text, option);
            text
        };
        assert_eq!(
            of(&opt("Lid", 'L', "use LID address argument")),
            "  --Lid, -L               use LID address argument\n"
        );
        assert_eq!(
            of(&opt_arg("node-name-map", '\u{1}', "<file>", "node name map file")),
            "  --node-name-map <file>  node name map file\n"
        );
        assert_eq!(of(&opt("string", 's', "")), "  --string, -s\n");
        // A word that would end beyond the line's end starts a new line, unless it is the last word.
        assert_eq!(wrapped("aaaa bbbb cccc", WIDTH - 8), format!("aaaa \n{:66}bbbb cccc", ""));
        assert_eq!(wrapped("aaaa bbbbbbbbbbbb", WIDTH - 8), "aaaa bbbbbbbbbbbb");
    }
}
