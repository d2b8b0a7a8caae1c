//! Failures of nmcli, with its exit codes and its words.

/// Codes of nmcli(1).
const UNKNOWN: u8 = 1;
const INPUT: u8 = 2;
const ACTIVATION: u8 = 4;
const DEACTIVATION: u8 = 5;
const NOT_RUNNING: u8 = 8;
const MISSING: u8 = 10;

/// A failure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Exit code.
    pub code: u8,
    /// The line on standard error.
    pub text: String,
}

impl Failure {
    fn new(code: u8, text: &str) -> Failure {
        Failure { code, text: format!("Error: {text}") }
    }

    /// A wrong command line.
    pub fn input(text: &str) -> Failure {
        Failure::new(INPUT, text)
    }

    /// A word that the command does not know.
    pub fn not_understood(word: &str) -> Failure {
        Failure::new(INPUT, &format!("argument '{word}' not understood. Try passing --help instead."))
    }

    /// A command of an object that exists, but not in the stand-in.
    pub fn unsupported(command: &str) -> Failure {
        Failure::new(INPUT, &format!("'{command}' is not supported on a host of a fabric; nmcli help lists what is."))
    }

    /// Something that only NetworkManager itself does.
    pub fn not_running() -> Failure {
        Failure::new(NOT_RUNNING, "NetworkManager is not running.")
    }

    /// A request that failed.
    pub fn request(text: &str) -> Failure {
        Failure::new(UNKNOWN, text)
    }

    /// A profile that was not activated.
    pub fn activation(text: &str) -> Failure {
        Failure::new(ACTIVATION, &format!("Connection activation failed: {text}"))
    }

    /// A profile that stayed active.
    pub fn deactivation(text: &str) -> Failure {
        Failure::new(DEACTIVATION, text)
    }

    /// No such profile or device.
    pub fn missing(text: &str) -> Failure {
        Failure::new(MISSING, text)
    }
}

/// Errors of a session, which are texts for the user.
pub trait Refused<T> {
    /// Makes them failures of a request.
    fn refused(self) -> Result<T, Failure>;
}

impl<T> Refused<T> for Result<T, String> {
    fn refused(self) -> Result<T, Failure> {
        self.map_err(|text| Failure::request(&text))
    }
}
