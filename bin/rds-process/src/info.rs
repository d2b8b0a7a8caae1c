//! `weft rds info`: rds-info's lists.

use std::net::Ipv4Addr;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use weft_rds::{InfoKind, InfoTable};
use weft_tool::outln;

use crate::service_client::ServiceClient;

/// Options of `weft rds info`; without any, all lists.
#[derive(Args, Clone, Copy, Debug)]
pub struct InfoArgs {
    /// Print counters
    #[arg(short = 'c')]
    counters: bool,
    /// Print sockets
    #[arg(short = 'k')]
    sockets: bool,
    /// Print connections
    #[arg(short = 'n')]
    connections: bool,
    /// Print datagrams that wait for programs
    #[arg(short = 'r')]
    received: bool,
    /// Print datagrams that wait to be sent
    #[arg(short = 's')]
    send: bool,
    /// Print datagrams that the peer has not acknowledged
    #[arg(short = 't')]
    unacknowledged: bool,
}

/// Prints lists.
///
/// # Errors
/// No service runs.
pub fn run(args: &InfoArgs) -> Result<ExitCode> {
    let Some(client) = ServiceClient::connect()? else {
        bail!("there is no RDS service; `weft rds start` starts one, and so do programs of `weft run --rds`");
    };
    let lists = [
        (args.counters, InfoKind::Counters),
        (args.sockets, InfoKind::Sockets),
        (args.connections, InfoKind::Connections),
        (args.received, InfoKind::ReceivedMessages),
        (args.send, InfoKind::SendMessages),
        (args.unacknowledged, InfoKind::UnacknowledgedMessages),
    ];
    let all = lists.iter().all(|(is_wanted, _)| !is_wanted);
    for (_, kind) in lists.iter().filter(|(is_wanted, _)| all || *is_wanted) {
        print(*kind, &client.info(*kind)?);
    }
    Ok(ExitCode::SUCCESS)
}

fn print(kind: InfoKind, table: &InfoTable) {
    outln!("\n{}", title(kind));
    for entry in table.bytes.chunks_exact(table.entry_bytes) {
        outln!("{}", line(kind, &Fields(entry)));
    }
}

fn title(kind: InfoKind) -> String {
    let messages = |queue: &str| {
        format!(
            "{queue} Message Queue:\n{:>15} {:>5} {:>15} {:>5} {:>4} {:>16} {:>10}",
            "LocalAddr", "LPort", "RemoteAddr", "RPort", "Tos", "Seq", "Bytes"
        )
    };
    match kind {
        InfoKind::Counters => format!("Counters:\n{:>25} {:>16}", "CounterName", "Value"),
        InfoKind::Sockets => format!(
            "RDS Sockets:\n{:>15} {:>5} {:>15} {:>5} {:>10} {:>10} {:>8}",
            "BoundAddr", "BPort", "ConnAddr", "CPort", "SndBuf", "RcvBuf", "Inode"
        ),
        InfoKind::Connections => format!(
            "RDS Connections:\n{:>15} {:>15} {:>4} {:>16} {:>16} {:>4}",
            "LocalAddr", "RemoteAddr", "Tos", "NextTX", "NextRX", "Flgs"
        ),
        InfoKind::ReceivedMessages => messages("Receive"),
        InfoKind::SendMessages => messages("Send"),
        InfoKind::UnacknowledgedMessages => messages("Retransmit"),
    }
}

fn line(kind: InfoKind, entry: &Fields<'_>) -> String {
    match kind {
        InfoKind::Counters => format!("{:>25} {:>16}", entry.text(0, 32), entry.long(32)),
        InfoKind::Sockets => format!(
            "{:>15} {:>5} {:>15} {:>5} {:>10} {:>10} {:>8}",
            entry.address(4),
            entry.port(12),
            entry.address(8),
            entry.port(14),
            entry.word(0),
            entry.word(16),
            entry.long(20)
        ),
        InfoKind::Connections => {
            let flags = entry.byte(40);
            let flag = |bit: u8, letter: char| if flags & bit != 0 { letter } else { '-' };
            format!(
                "{:>15} {:>15} {:>4} {:>16} {:>16} {}{}{}{}",
                entry.address(16),
                entry.address(20),
                entry.byte(41),
                entry.long(0),
                entry.long(8),
                flag(1, 's'),
                flag(2, 'c'),
                flag(4, 'C'),
                flag(8, 'E')
            )
        }
        InfoKind::ReceivedMessages | InfoKind::SendMessages | InfoKind::UnacknowledgedMessages => format!(
            "{:>15} {:>5} {:>15} {:>5} {:>4} {:>16} {:>10}",
            entry.address(12),
            entry.port(20),
            entry.address(16),
            entry.port(22),
            entry.byte(25),
            entry.long(0),
            entry.word(8)
        ),
    }
}

/// Fields of an entry, by their offsets in bytes.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn at<const N: usize>(&self, at: usize) -> [u8; N] {
        self.0.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
    }

    fn byte(&self, at: usize) -> u8 {
        u8::from_ne_bytes(self.at(at))
    }

    fn word(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.at(at))
    }

    fn long(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.at(at))
    }

    fn port(&self, at: usize) -> u16 {
        u16::from_be_bytes(self.at(at))
    }

    fn address(&self, at: usize) -> String {
        // A width applies to a string alone.
        Ipv4Addr::from(self.at::<4>(at)).to_string()
    }

    fn text(&self, at: usize, length: usize) -> String {
        let bytes = self.0.get(at..at + length).unwrap_or_default();
        String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_rds_infos() {
        let mut counter = [0; 40];
        counter[..9].copy_from_slice(b"recv_ping");
        counter[32] = 5;
        assert_eq!(line(InfoKind::Counters, &Fields(&counter)), "                recv_ping                5");
        let mut connection = [0; 42];
        connection[0] = 7;
        connection[16..24].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        connection[40] = 4;
        assert_eq!(
            line(InfoKind::Connections, &Fields(&connection)),
            "       10.0.0.1        10.0.0.2    0                7                0 --C-"
        );
    }
}
