//! Sessions with the daemon about the running fabric, and how commands word their results.

use std::process::ExitCode;

use weft_ipc::ethernet::{ETHERNET_SOCKET_NAME, ETHERNET_VARIABLE};
use weft_ipc::{Client, ConnectError, ConnectOptions, RequestError, SOCKET_NAME, Spawn};

/// The abstract name of the machine's daemon: on an Ethernet host the usual one belongs to the host's own daemon.
pub fn machine_socket_name() -> &'static str {
    let is_on_ethernet_host = std::env::var_os(ETHERNET_VARIABLE).is_some_and(|host| !host.is_empty());
    if is_on_ethernet_host { ETHERNET_SOCKET_NAME } else { SOCKET_NAME }
}

/// Opens a session for commands about the fabric, whichever host this program runs as.
///
/// # Errors
/// No fabric is up and `spawn` starts no daemon, or the daemon cannot be reached; the text is for the user.
pub fn session(spawn: Spawn) -> Result<Client, String> {
    crate::announce::announce_daemon();
    let options = ConnectOptions {
        program: "weft".to_owned(),
        host: String::new(),
        spawn,
        socket_name: machine_socket_name().to_owned(),
        ..ConnectOptions::default()
    };
    Client::connect(&options).map_err(|error| match error {
        ConnectError::NotRunning => "no fabric is up in this network namespace: bring one up with `weft up`".to_owned(),
        error => error.to_string(),
    })
}

/// Formats a failed request's error for the user.
pub fn spell(error: RequestError) -> String {
    match error {
        RequestError::Refused(refusal) if !refusal.text.is_empty() => refusal.text,
        error => error.to_string(),
    }
}

/// Returns success, or prints the error with the command's name.
pub fn finish(name: &str, result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            crate::errln!("{name}: {message}");
            ExitCode::FAILURE
        }
    }
}
