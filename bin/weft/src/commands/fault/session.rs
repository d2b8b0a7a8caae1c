//! The session with the daemon that keeps the faults.

use weft_ipc::{Client, ConnectError, ConnectOptions, Spawn};

/// Opens a session with the daemon that the user's programs have.
pub fn connect(spawn: Spawn) -> Result<Client, String> {
    weft_tool::announce::announce_daemon();
    let options =
        ConnectOptions { program: "weft".to_owned(), host: String::new(), spawn, ..ConnectOptions::default() };
    Client::connect(&options).map_err(|error| match error {
        ConnectError::NotRunning => "no daemon runs in this network namespace, so there are no faults".to_owned(),
        error => error.to_string(),
    })
}
