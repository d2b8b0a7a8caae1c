//! Options of `weft nvme connect`: nvme-cli's.

use clap::Args;
use weft_nvme::limits::{IO_QUEUES_MAX, NVME_RDMA_PORT, QUEUE_ENTRIES_MAX};

/// Options of `weft nvme connect`.
#[derive(Args, Clone, Debug)]
pub struct ConnectArgs {
    /// Transport
    #[arg(short, long, value_name = "TRTYPE", value_parser = ["rdma"], default_value = "rdma")]
    pub transport: String,
    /// Address or name of the target
    #[arg(short = 'a', long = "traddr", value_name = "TRADDR")]
    pub address: String,
    /// Port of the target
    #[arg(short = 's', long = "trsvcid", value_name = "TRSVCID", default_value_t = NVME_RDMA_PORT)]
    pub service: u16,
    /// Name of the subsystem; `weft nvme discover` lists them
    #[arg(short = 'n', long, value_name = "NQN")]
    pub nqn: String,
    /// Name of this host [default: that of /etc/nvme/hostnqn, or one made from the machine]
    #[arg(short = 'q', long = "hostnqn", value_name = "NQN")]
    pub host_nqn: Option<String>,
    /// Identifier of this host: a UUID [default: that of /etc/nvme/hostid, or one made from the machine]
    #[arg(short = 'I', long = "hostid", value_name = "UUID")]
    pub host_id: Option<String>,
    /// I/O queues, each with a connection of its own; one thread serves them all
    #[arg(short = 'i', long = "nr-io-queues", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=i64::from(IO_QUEUES_MAX)))]
    pub io_queues: u16,
    /// Entries of an I/O queue
    #[arg(short = 'Q', long = "queue-size", value_name = "N", default_value_t = QUEUE_ENTRIES_MAX, value_parser = clap::value_parser!(u16).range(16..=i64::from(QUEUE_ENTRIES_MAX)))]
    pub queue_size: u16,
    /// Keep-alive timeout in seconds; 0: none
    #[arg(short = 'k', long = "keep-alive-tmo", value_name = "SECONDS", default_value_t = 5)]
    pub keep_alive: u32,
    /// Time between two attempts to connect again, in seconds
    #[arg(short = 'c', long = "reconnect-delay", value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub reconnect_delay: u32,
    /// Time without a connection after which the controller ends, in seconds; -1: it never does
    #[arg(short = 'l', long = "ctrl-loss-tmo", value_name = "SECONDS", default_value_t = 600, allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(-1..))]
    pub controller_loss: i32,
    /// Connect even if this host is connected to the subsystem at this address already
    #[arg(short = 'D', long)]
    pub duplicate_connect: bool,
    /// Stay in the foreground, and print a line about each loss of the connection
    #[arg(long)]
    pub foreground: bool,
    /// Separate from the terminal once connected
    #[arg(long, hide = true)]
    pub detached: bool,
    /// Use the system's libraries and real adapters, not Weft's
    #[arg(long)]
    pub system: bool,
}

impl ConnectArgs {
    /// Returns the words that start the process in the background with these options.
    pub fn words(&self) -> Vec<String> {
        let mut words =
            vec!["nvme".to_owned(), "connect".to_owned(), "--foreground".to_owned(), "--detached".to_owned()];
        let mut add = |name: &str, value: &str| words.push(format!("--{name}={value}"));
        add("transport", &self.transport);
        add("traddr", &self.address);
        add("trsvcid", &self.service.to_string());
        add("nqn", &self.nqn);
        add("nr-io-queues", &self.io_queues.to_string());
        add("queue-size", &self.queue_size.to_string());
        add("keep-alive-tmo", &self.keep_alive.to_string());
        add("reconnect-delay", &self.reconnect_delay.to_string());
        add("ctrl-loss-tmo", &self.controller_loss.to_string());
        self.host_nqn.iter().for_each(|name| add("hostnqn", name));
        self.host_id.iter().for_each(|id| add("hostid", id));
        let flags = [(self.duplicate_connect, "--duplicate-connect"), (self.system, "--system")];
        words.extend(flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, word)| word.to_owned()));
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ConnectArgs,
    }

    #[test]
    fn the_process_in_the_background_gets_the_same_options() {
        let words = "weft -t rdma -a host -s 4421 -n nqn.2026-01.io.weft:disk -i 4 -Q 32 -k 0 -c 1 -l -1 -q nqn.2014-08.org:x -D";
        let args = Line::parse_from(words.split(' ')).args;
        let again = Line::parse_from(std::iter::once("weft".to_owned()).chain(args.words().into_iter().skip(2))).args;
        let expected = ConnectArgs { foreground: true, detached: true, ..args };
        assert_eq!(format!("{again:?}"), format!("{expected:?}"));
    }
}
