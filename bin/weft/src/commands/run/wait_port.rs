//! `weft run --wait-port PORT`: starts a client only once its server listens, by TCP or through the RDMA connection
//! manager.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use weft_ipc::{Client, ConnectOptions, Spawn};

use crate::commands::resource;

/// Time limit for the server.
const LISTENS_WITHIN: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Waits until some program of the network namespace that this process is in listens on the port.
///
/// # Errors
/// None does within the time limit.
pub fn wait(port: u16, host: &str) -> Result<()> {
    let until = Instant::now() + LISTENS_WITHIN;
    while !is_listened_on(port, host) {
        if Instant::now() > until {
            let seconds = LISTENS_WITHIN.as_secs();
            bail!("--wait-port {port}: no program listens on it after {seconds} s; start the server, or name its port");
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// Returns whether some program of the network namespace that this process is in listens on the port.
pub fn is_listened_on(port: u16, host: &str) -> bool {
    listens_by_tcp(port) || listens_by_cm(port, host)
}

fn listens_by_tcp(port: u16) -> bool {
    let tables = ["/proc/self/net/tcp", "/proc/self/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    tables.iter().any(|table| listening_sockets(table).any(|(listening, _)| listening == port))
}

fn listens_by_cm(port: u16, host: &str) -> bool {
    cm_listeners(host).iter().any(|(_, listening)| *listening == port)
}

/// Processes that listen through the connection manager, with their ports.
pub fn cm_listeners(host: &str) -> Vec<(u32, u16)> {
    // A program starts the daemon, and listens nowhere before that.
    let options = ConnectOptions { host: host.to_owned(), spawn: Spawn::Never, ..ConnectOptions::default() };
    let Ok(mut client) = Client::connect(&options) else { return Vec::new() };
    resource::listeners(&mut client).unwrap_or_default()
}

/// Ports and inodes of the listening sockets in a table such as /proc/net/tcp.
pub fn listening_sockets(table: &str) -> impl Iterator<Item = (u16, &str)> {
    const LISTEN: &str = "0A";
    table.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (_, port) = fields.get(1)?.rsplit_once(':')?;
        let port = u16::from_str_radix(port, 16).ok()?;
        (fields.get(3) == Some(&LISTEN)).then(|| Some((port, *fields.get(9)?)))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listening_sockets_are_found_by_port_and_inode() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
                     0: 00000000:4855 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0 0 4711 1 0 100 0 0 10 0\n   \
                     1: 0100007F:4855 0100007F:9C40 01 00000000:00000000 00:00000000 00000000  0 0 4712 1 0 20 4 30 10 -1\n";
        assert_eq!(listening_sockets(table).collect::<Vec<_>>(), [(18517, "4711")]);
    }

    #[test]
    fn a_listener_is_waited_for() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(listens_by_tcp(port));
        drop(listener);
        // A child that another test's thread has just forked holds the listener, too, until it runs its program.
        let until = Instant::now() + LISTENS_WITHIN;
        while listens_by_tcp(port) && Instant::now() < until {
            std::thread::sleep(LOOK_EVERY);
        }
        assert!(!listens_by_tcp(port));
    }
}
