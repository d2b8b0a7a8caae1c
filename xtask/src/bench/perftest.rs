//! Ours: Debian's unmodified perftest under `weft run`, in namespaces.

use super::program::{Program, unless_installed, words};
use super::room::Room;
use super::unit::Unit;
use anyhow::{Context, Result};
use weft_interop::Pair;

/// Seconds that a client may take in addition to its run time.
const PATIENCE: u64 = 30;

/// perftest counts bandwidth in MiB.
pub const MIB: f64 = 1_048_576.0;

/// A perftest tool with its arguments.
#[derive(Clone, Copy, Debug)]
pub struct Perftest {
    pub tool: &'static str,
    /// Bytes in a message.
    pub size: u64,
    /// Further arguments.
    pub extra: &'static str,
    /// Environment variables of both sides.
    pub env: &'static [(&'static str, &'static str)],
    pub amount: Amount,
    pub column: Column,
}

/// Length of a run.
#[derive(Clone, Copy, Debug)]
pub enum Amount {
    /// The requested number of seconds (`-D`).
    Seconds,
    /// This many messages (`-n`).
    Messages(u64),
}

/// The column of the result line that contains the figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// `BW average[MB/sec]`
    Bandwidth,
    /// `MsgRate[Mpps]`
    Rate,
    /// `t_typical[usec]`, the median of half the round trips.
    Latency,
}

impl Column {
    /// Returns its index in the line, and the factor of its number.
    fn place(self) -> (usize, f64) {
        match self {
            Column::Bandwidth => (3, MIB),
            Column::Rate => (4, 1e6),
            Column::Latency => (4, 1.0),
        }
    }

    /// Returns the unit of its figures.
    pub fn unit(self) -> Unit {
        match self {
            Column::Bandwidth => Unit::BytesPerSecond,
            Column::Rate => Unit::MessagesPerSecond,
            Column::Latency => Unit::Microseconds,
        }
    }

    /// Reads the figure from perftest's output.
    pub fn read(self, text: &str) -> Option<f64> {
        let row = text.split("#bytes").nth(1)?.lines().nth(1)?;
        let (column, scale) = self.place();
        Some(row.split_whitespace().nth(column)?.parse::<f64>().ok()? * scale)
    }
}

impl Perftest {
    /// Returns its arguments for both sides.
    pub fn arguments(&self, seconds: u32) -> String {
        let amount = match self.amount {
            Amount::Seconds => format!("-D {seconds}"),
            Amount::Messages(count) => format!("-n {count}"),
        };
        let all = format!("-s {} {} {amount}", self.size, self.extra);
        words(&all).join(" ")
    }
}

impl Program for Perftest {
    fn name(&self) -> String {
        let env: String = self.env.iter().map(|(key, value)| format!("{key}={value} ")).collect();
        let extra = if self.extra.is_empty() { String::new() } else { format!(" {}", self.extra) };
        format!("{env}{} -s {}{extra}", self.tool, self.size)
    }

    fn command(&self, seconds: u32) -> String {
        let env: String = self.env.iter().map(|(key, value)| format!("{key}={value} ")).collect();
        format!("{env}weft run -- {} {} SERVER", self.tool, self.arguments(seconds))
    }

    fn unit(&self) -> Unit {
        self.column.unit()
    }

    fn missing(&self) -> Option<&'static str> {
        unless_installed(self.tool, "perftest")
    }

    fn measure(&self, room: &Room) -> Result<f64> {
        let lab = room.lab()?;
        let pair = Pair::new(self.tool, &self.arguments(room.seconds)).devices(lab)?;
        let mut pair = pair.within(PATIENCE + u64::from(room.seconds));
        pair.server = room.on_server_core(&pair.server);
        pair.client = room.on_client_core(&pair.client);
        for (key, value) in self.env {
            pair = pair.env(key, value);
        }
        let outcome = pair.succeed(lab)?;
        self.column.read(&outcome.client.text).with_context(|| format!("no result: {}", outcome.report()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BANDWIDTH: &str = "\
 GID: 00:00:00:00:00:00:00:00:00:00:255:255:10:77:00:01
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 4096       393800           0.00               769.11 \t\t   0.196891
---------------------------------------------------------------------------------------
";

    const LATENCY: &str = "\
---------------------------------------------------------------------------------------
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]\x20
 8       20000          5.46           4047.60      6.58     \t       29.99       \t214.37 \t\t1537.20 \t\t2509.99
---------------------------------------------------------------------------------------
";

    #[test]
    fn its_tables_are_read() {
        assert_eq!(Column::Bandwidth.read(BANDWIDTH), Some(769.11 * MIB));
        assert_eq!(Column::Rate.read(BANDWIDTH).map(f64::round), Some(196_891.0));
        assert_eq!(Column::Latency.read(LATENCY), Some(6.58));
        assert_eq!(Column::Latency.read("Couldn't connect to 10.77.0.2:18515\n"), None);
    }

    #[test]
    fn the_command_is_what_a_person_types() {
        let program = Perftest {
            tool: "ib_write_bw",
            size: 8,
            extra: "-q 1000",
            env: &[("WEFT_SHARE", "off")],
            amount: Amount::Seconds,
            column: Column::Rate,
        };
        assert_eq!(program.command(3), "WEFT_SHARE=off weft run -- ib_write_bw -s 8 -q 1000 -D 3 SERVER");
        assert_eq!(program.name(), "WEFT_SHARE=off ib_write_bw -s 8 -q 1000");
    }
}
