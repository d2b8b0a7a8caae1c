//! Warnings, and a tool's exit, with the texts and codes of infiniband-diags.

use std::io;
use std::process::ExitCode;

use crate::errno;
use crate::output;

/// Exit code of C's `exit(-1)`.
const FAILED: u8 = 255;
/// Exit code after printing the usage.
const USAGE: u8 = 2;

/// Prints a line on standard error; `function` is the original's function name.
pub fn warn(function: &str, text: &str) {
    crate::errln!("ibwarn: [{}] {function}: {text}", std::process::id());
}

/// Prints a line on standard output, for `-v`.
pub fn verbose(function: &str, text: &str) {
    output::print(&format!("[{}] {function}: {text}\n", std::process::id()));
}

/// Why a tool ends.
#[derive(Debug)]
pub enum End {
    /// The operation failed: a line on standard output.
    Failed {
        /// The function that the original prints with `-d`.
        function: &'static str,
        /// The operation that failed.
        text: String,
    },
    /// The library or the kernel refused: a line on standard error.
    Panic {
        /// The function that the original prints.
        function: &'static str,
        /// The operation that failed.
        text: String,
        /// The reason.
        error: io::Error,
    },
    /// The command line is wrong: the usage has been printed, or the caller prints it.
    Usage,
    /// Ends with this exit code; all messages are already printed.
    Code(u8),
}

/// Result of a tool's step.
pub type Outcome<T> = Result<T, End>;

/// A failure of a tool's own `main`.
pub fn failed<T>(text: impl Into<String>) -> Outcome<T> {
    Err(End::failed(text))
}

impl End {
    /// A failure in a tool's own `main`.
    pub fn failed(text: impl Into<String>) -> End {
        End::Failed { function: "main", text: text.into() }
    }

    /// A refusal in a tool's own `main`.
    pub fn panic(text: impl Into<String>, error: io::Error) -> End {
        End::Panic { function: "main", text: text.into(), error }
    }

    /// Prints the message and returns the exit code.
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
