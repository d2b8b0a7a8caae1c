//! `eval $(weft env)`: prints only the variables, for users who want no namespace.

use std::process::ExitCode;

use clap::Args;

use super::run::library_path;
use crate::{output, rdma_dir};

/// Options of `weft env`.
#[derive(Args, Debug, Default)]
pub struct EnvArgs {
    /// Print JSON
    #[arg(short, long)]
    json: bool,
}

/// Prints export lines.
pub fn run(args: &EnvArgs) -> ExitCode {
    let dir = match rdma_dir::find() {
        Ok(dir) => dir,
        Err(e) => {
            crate::errln!("weft env: {e:#}");
            return ExitCode::FAILURE;
        }
    };
    let bin =
        std::env::current_exe().map(|exe| exe.to_string_lossy().into_owned()).unwrap_or_else(|_| "weft".to_owned());
    if args.json {
        let path = library_path(&dir);
        crate::outln!("{}", serde_json::json!({"LD_LIBRARY_PATH": path.to_string_lossy(), "WEFT_BIN": bin}));
        return ExitCode::SUCCESS;
    }
    output::print(&format!(
        "export LD_LIBRARY_PATH={}\nexport WEFT_BIN={}\n",
        quoted(&library_path(&dir).to_string_lossy()),
        quoted(&bin)
    ));
    ExitCode::SUCCESS
}

/// Quotes a word for the shell. `eval $(weft env)` splits the output at blanks and joins it with blanks again, so each
/// line ends with a semicolon in case the shell puts all of them on one line.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,=".contains(c);
    if text.chars().all(plain) {
        return format!("{text};");
    }
    format!("'{}';", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_characters_are_quoted() {
        assert_eq!(quoted("/usr/lib/weft"), "/usr/lib/weft;");
        assert_eq!(quoted("/a b/it's"), r"'/a b/it'\''s';");
    }
}
