//! `eval $(weft env)`: prints only the variables, for users who want no namespace; `--shell` selects another shell's
//! syntax, and `--github` hands them to the later steps of a GitHub job.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};

use super::run::{audit, library_path};
use crate::{output, rdma_dir};

/// Options of `weft env`.
#[derive(Args, Debug, Default)]
pub struct EnvArgs {
    /// Print JSON
    #[arg(short, long, conflicts_with_all = ["shell", "github"])]
    json: bool,
    /// Print in the syntax of this shell
    #[arg(long, value_enum, default_value_t, value_name = "SHELL")]
    shell: Shell,
    /// Append to the files $GITHUB_ENV and $GITHUB_PATH: later steps of the job need no `weft run`
    #[arg(long, conflicts_with = "shell")]
    github: bool,
}

/// A family of shells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
enum Shell {
    /// sh, bash, dash, zsh: eval $(weft env)
    #[default]
    Sh,
    /// fish: weft env --shell fish | source
    Fish,
    /// csh, tcsh: eval `weft env --shell csh`
    Csh,
}

/// Runs the command.
pub fn run(args: &EnvArgs) -> ExitCode {
    match tell(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            crate::errln!("weft env: {e:#}");
            ExitCode::FAILURE
        }
    }
}

fn tell(args: &EnvArgs) -> Result<()> {
    let dir = rdma_dir::find()?;
    let text = |value: OsString| value.to_string_lossy().into_owned();
    let bin = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("weft"));
    let mut variables = vec![("LD_LIBRARY_PATH", text(library_path(&dir)))];
    variables.extend(audit(&dir).map(|list| ("LD_AUDIT", text(list))));
    variables.push(("WEFT_BIN", bin.to_string_lossy().into_owned()));
    if args.json {
        let all = variables.into_iter().map(|(name, value)| (name.to_owned(), value.into()));
        crate::outln!("{}", serde_json::Value::Object(all.collect()));
        return Ok(());
    }
    if args.github {
        let file = |name: &str| {
            std::env::var_os(name)
                .filter(|file| !file.is_empty())
                .with_context(|| format!("--github: {name} is not set; GitHub sets it in the steps of a job"))
        };
        let dir = bin.parent().unwrap_or(Path::new("/")).to_string_lossy().into_owned();
        append(Path::new(&file("GITHUB_ENV")?), &github_lines(&variables)?)?;
        return append(Path::new(&file("GITHUB_PATH")?), &format!("{dir}\n"));
    }
    let lines: String = variables.iter().map(|(name, value)| args.shell.line(name, value)).collect();
    output::print(&lines);
    Ok(())
}

fn append(file: &Path, text: &str) -> Result<()> {
    let written = File::options().append(true).create(true).open(file).and_then(|mut f| f.write_all(text.as_bytes()));
    written.with_context(|| format!("cannot append to {}", file.display()))
}

/// Lines for `$GITHUB_ENV`, which takes a name and a value a line.
fn github_lines(variables: &[(&str, String)]) -> Result<String> {
    let mut lines = String::new();
    for (name, value) in variables {
        // A line break would begin another variable.
        anyhow::ensure!(!value.contains(['\n', '\r']), "{name} holds a line break, which GitHub's files cannot hold");
        lines += &format!("{name}={value}\n");
    }
    Ok(lines)
}

impl Shell {
    /// The line that sets a variable. `eval $(weft env)` splits the output at blanks and joins it with blanks again, so
    /// each line ends with a semicolon in case the shell puts all of them on one line.
    fn line(self, name: &str, value: &str) -> String {
        match self {
            Shell::Sh => format!("export {name}={};\n", quoted(value, r"'\''")),
            // fish splits LD_LIBRARY_PATH, as every name that ends in PATH, at colons itself.
            Shell::Fish => format!("set -gx {name} {};\n", quoted(&value.replace('\\', r"\\"), r"\'")),
            // In csh an exclamation mark means history even in quotes.
            Shell::Csh => format!("setenv {name} {};\n", quoted(value, r"'\''").replace('!', r"\!")),
        }
    }
}

/// A word of a command line as sh reads it.
pub fn shell_word(word: &OsStr) -> String {
    if word.is_empty() { "''".to_owned() } else { quoted(&word.to_string_lossy(), r"'\''") }
}

/// Quotes a word; `quote` is how the shell writes a single quote inside single quotes.
fn quoted(text: &str, quote: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,=".contains(c);
    if text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', quote))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_characters_are_quoted() {
        assert_eq!(Shell::Sh.line("A", "/usr/lib/weft"), "export A=/usr/lib/weft;\n");
        assert_eq!(Shell::Sh.line("A", "/a b/it's"), "export A='/a b/it'\\''s';\n");
    }

    #[test]
    fn an_empty_word_stays_one() {
        assert_eq!([shell_word(OsStr::new("")), shell_word(OsStr::new("a b"))].join(" "), "'' 'a b'");
    }

    #[test]
    fn other_shells_have_their_own_syntax() {
        assert_eq!(Shell::Fish.line("A", "/a b/it's"), "set -gx A '/a b/it\\'s';\n");
        assert_eq!(Shell::Csh.line("A", "/a!/it's"), "setenv A '/a\\!/it'\\''s';\n");
    }

    #[test]
    fn a_line_break_cannot_smuggle_a_variable() {
        let of = |value: &str| github_lines(&[("A", value.to_owned())]);
        assert_eq!(of("/w").unwrap(), "A=/w\n");
        assert!(of("/w\nB=1").is_err());
    }
}
