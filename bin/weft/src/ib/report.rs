//! Warnings, and how a tool ends: in the words and with the codes of infiniband-diags.

use std::io;
use std::process::ExitCode;

use crate::errno;
use crate::output;

/// What `exit(-1)` becomes.
const FAILED: u8 = 255;
/// The code after the usage.
const USAGE: u8 = 2;

/// A line on standard error; `function` is the name that the original has there.
pub fn warn(function: &str, text: &str) {
    crate::errln!("ibwarn: [{}] {function}: {text}", std::process::id());
}

/// A line on standard output for who asked for more with `-v`.
pub fn verbose(function: &str, text: &str) {
    output::print(&format!("[{}] {function}: {text}\n", std::process::id()));
}

/// Why a tool ends.
#[derive(Debug)]
pub enum End {
    /// It could not do what it was asked to: a line on standard output.
    Failed {
        /// The function that the original names with `-d`.
        function: &'static str,
        /// What failed.
        text: String,
    },
    /// The library or the kernel refused: a line on standard error.
    Panic {
        /// The function that the original names.
        function: &'static str,
        /// What failed.
        text: String,
        /// Why.
        error: io::Error,
    },
    /// The command line is wrong: the usage was or is to be printed.
    Usage,
    /// All has been said.
    Code(u8),
}

/// What a tool's steps return.
pub type Outcome<T> = Result<T, End>;

/// A failure of a tool's own `main`.
pub fn failed<T>(text: impl Into<String>) -> Outcome<T> {
    Err(End::failed(text))
}

impl End {
    /// A failure of a tool's own `main`.
    pub fn failed(text: impl Into<String>) -> End {
        End::Failed { function: "main", text: text.into() }
    }

    /// A refusal in a tool's own `main`.
    pub fn panic(text: impl Into<String>, error: io::Error) -> End {
        End::Panic { function: "main", text: text.into(), error }
    }

    /// Says it, and returns the exit code.
    pub fn report(&self, program: &str, debug: bool, json: bool) -> ExitCode {
        match self {
            End::Failed { text, .. } if json => {
                output::print(&format!("{}\n", serde_json::json!({"error": text})));
                ExitCode::from(FAILED)
            }
            End::Failed { function, text } => {
                let pid = std::process::id();
                let middle = if debug { format!("[pid {pid}] {function}: ") } else { String::new() };
                output::print(&format!("{program}: iberror: {middle}failed: {text}\n"));
                ExitCode::from(FAILED)
            }
            End::Panic { function, text, error } => {
                let reason = match error.raw_os_error() {
                    Some(0) => "Success".to_owned(),
                    _ => errno::text(error),
                };
                crate::errln!("ibpanic: [{}] {function}: {text}: {reason}", std::process::id());
                ExitCode::from(FAILED)
            }
            End::Usage => ExitCode::from(USAGE),
            End::Code(code) => ExitCode::from(*code),
        }
    }
}
