//! The columns of each view, in the order from left to right.

use std::cmp::Ordering;

use super::activity::{PortRow, ProcessRow, QpRow};
use super::units::{short, time};

/// Heading of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Heading {
    /// Its text.
    pub title: &'static str,
    /// Its width in characters; the last column takes the rest.
    pub width: usize,
    /// Whether cells start at the left.
    pub left: bool,
    /// Columns with the highest rank leave first where the width does not do for all.
    pub rank: u8,
    /// Whether the column leaves if all its cells are empty.
    pub optional: bool,
}

/// A column of rows of type `R`.
pub struct Column<R: 'static> {
    title: &'static str,
    width: usize,
    left: bool,
    rank: u8,
    optional: bool,
    /// Returns the cell's text.
    pub show: fn(&R) -> String,
    /// Compares two rows.
    pub order: fn(&R, &R) -> Ordering,
}

impl<R> Column<R> {
    /// Returns its heading.
    pub fn heading(&self) -> Heading {
        let Column { title, width, left, rank, optional, .. } = *self;
        Heading { title, width, left, rank, optional }
    }
}

/// A column of numbers.
const fn number<R>(
    title: &'static str,
    width: usize,
    rank: u8,
    show: fn(&R) -> String,
    order: fn(&R, &R) -> Ordering,
) -> Column<R> {
    Column { title, width, left: false, rank, optional: false, show, order }
}

/// A column of texts.
const fn text<R>(
    title: &'static str,
    width: usize,
    rank: u8,
    show: fn(&R) -> String,
    order: fn(&R, &R) -> Ordering,
) -> Column<R> {
    Column { title, width, left: true, rank, optional: false, show, order }
}

/// A column that leaves if all its cells are empty.
const fn optional<R>(column: Column<R>) -> Column<R> {
    Column { optional: true, ..column }
}

/// Column of [`PROCESSES`] and of [`QUEUE_PAIRS`] that gives the order at first, the traffic; and of [`PORTS`].
pub const FIRST_SORT: [usize; 3] = [5, 9, 4];

/// Columns of processes.
pub const PROCESSES: &[Column<ProcessRow>] = &[
    number("PID", 7, 0, |r| id(r.pid), |a, b| a.pid.cmp(&b.pid)),
    optional(text("HOST", 8, 1, |r| r.host.clone(), |a, b| a.host.cmp(&b.host))),
    number("UID", 6, 8, |r| r.uid.map_or("-".to_owned(), |uid| uid.to_string()), |a, b| a.uid.cmp(&b.uid)),
    number("QPS", 4, 2, |r| r.qps.to_string(), |a, b| a.qps.cmp(&b.qps)),
    number("MRS", 4, 9, |r| r.mrs.to_string(), |a, b| a.mrs.cmp(&b.mrs)),
    number("B/s", 6, 0, |r| short(r.rates.bytes()), |a, b| a.rates.bytes().total_cmp(&b.rates.bytes())),
    number("SEND/s", 7, 3, |r| short(r.rates.sent), |a, b| a.rates.sent.total_cmp(&b.rates.sent)),
    number("RECV/s", 7, 3, |r| short(r.rates.received), |a, b| a.rates.received.total_cmp(&b.rates.received)),
    number("COPY/s", 7, 3, |r| short(r.rates.copied), |a, b| a.rates.copied.total_cmp(&b.rates.copied)),
    number("PKT/s", 6, 6, |r| short(r.rates.packets), |a, b| a.rates.packets.total_cmp(&b.rates.packets)),
    number("WR/s", 6, 4, |r| short(r.posted), |a, b| a.posted.total_cmp(&b.posted)),
    number(
        "RETX/s",
        7,
        1,
        |r| short(r.rates.retransmitted),
        |a, b| a.rates.retransmitted.total_cmp(&b.rates.retransmitted),
    ),
    number("ERR/s", 6, 7, |r| short(r.errors), |a, b| a.errors.total_cmp(&b.errors)),
    number("RTT", 7, 1, |r| time(r.round_trip_ns), |a, b| a.round_trip_ns.cmp(&b.round_trip_ns)),
    text("PROGRAM", 11, 0, |r| r.program.clone(), |a, b| a.program.cmp(&b.program)),
];

/// Columns of queue pairs.
pub const QUEUE_PAIRS: &[Column<QpRow>] = &[
    number("QPN", 8, 0, |r| r.qpn.to_string(), |a, b| a.qpn.cmp(&b.qpn)),
    optional(text("HOST", 8, 1, |r| r.host.clone(), |a, b| a.host.cmp(&b.host))),
    text("DEVICE", 10, 8, |r| r.device.clone(), |a, b| a.device.cmp(&b.device)),
    text("TYPE", 4, 5, |r| r.kind.to_owned(), |a, b| a.kind.cmp(b.kind)),
    text("STATE", 5, 1, |r| r.state.to_owned(), |a, b| a.state.cmp(b.state)),
    number(
        "DEST",
        8,
        9,
        |r| r.dest_qpn.map_or("-".to_owned(), |qpn| qpn.to_string()),
        |a, b| a.dest_qpn.cmp(&b.dest_qpn),
    ),
    text("PEER", 15, 10, |r| r.peer.clone(), |a, b| a.peer.cmp(&b.peer)),
    text("PATH", 21, 11, |r| r.path.clone(), |a, b| a.path.cmp(&b.path)),
    number("PID", 7, 6, |r| id(r.pid), |a, b| a.pid.cmp(&b.pid)),
    number("B/s", 6, 0, |r| short(r.rates.bytes()), |a, b| a.rates.bytes().total_cmp(&b.rates.bytes())),
    number("SEND/s", 7, 3, |r| short(r.rates.sent), |a, b| a.rates.sent.total_cmp(&b.rates.sent)),
    number("RECV/s", 7, 3, |r| short(r.rates.received), |a, b| a.rates.received.total_cmp(&b.rates.received)),
    number("COPY/s", 7, 3, |r| short(r.rates.copied), |a, b| a.rates.copied.total_cmp(&b.rates.copied)),
    number("PKT/s", 6, 12, |r| short(r.rates.packets), |a, b| a.rates.packets.total_cmp(&b.rates.packets)),
    number("WR/s", 6, 4, |r| short(r.posted), |a, b| a.posted.total_cmp(&b.posted)),
    number("RNR/s", 6, 13, |r| short(r.rnr_naks), |a, b| a.rnr_naks.total_cmp(&b.rnr_naks)),
    number(
        "RETX/s",
        7,
        1,
        |r| short(r.rates.retransmitted),
        |a, b| a.rates.retransmitted.total_cmp(&b.rates.retransmitted),
    ),
    number(
        "RETX",
        6,
        14,
        |r| short(r.retransmitted_total as f64),
        |a, b| a.retransmitted_total.cmp(&b.retransmitted_total),
    ),
    number("RTT", 7, 1, |r| time(r.round_trip_ns), |a, b| a.round_trip_ns.cmp(&b.round_trip_ns)),
    text("PROGRAM", 11, 2, |r| r.program.clone(), |a, b| a.program.cmp(&b.program)),
];

/// Columns of ports.
pub const PORTS: &[Column<PortRow>] = &[
    text("PORT", 14, 0, |r| r.name.clone(), |a, b| natural(&a.name, &b.name)),
    text("STATE", 6, 1, |r| r.state.to_owned(), |a, b| a.state.cmp(b.state)),
    number("Gb/s", 5, 4, |r| gbps(r.link_bps), |a, b| a.link_bps.total_cmp(&b.link_bps)),
    number("LOAD", 5, 2, |r| percent(r.load(), r.link_bps), |a, b| a.load().total_cmp(&b.load())),
    number("SEND/s", 7, 0, |r| short(r.sent), |a, b| (a.sent + a.received).total_cmp(&(b.sent + b.received))),
    number("RECV/s", 7, 0, |r| short(r.received), |a, b| a.received.total_cmp(&b.received)),
    number("PKT OUT/s", 9, 5, |r| short(r.packets_sent), |a, b| a.packets_sent.total_cmp(&b.packets_sent)),
    number("PKT IN/s", 8, 5, |r| short(r.packets_received), |a, b| a.packets_received.total_cmp(&b.packets_received)),
    number("ERR/s", 6, 3, |r| short(r.errors), |a, b| a.errors.total_cmp(&b.errors)),
    number("ERRORS", 7, 6, |r| short(r.errors_total as f64), |a, b| a.errors_total.cmp(&b.errors_total)),
    text("PEER", 10, 3, |r| r.peer.clone(), |a, b| natural(&a.peer, &b.peer)),
];

fn id(pid: u32) -> String {
    if pid == 0 { "?".to_owned() } else { pid.to_string() }
}

fn gbps(bps: f64) -> String {
    if bps > 0.0 { format!("{:.0}", bps / 1e9) } else { "-".to_owned() }
}

fn percent(load: f64, link_bps: f64) -> String {
    if link_bps > 0.0 { format!("{:.0}%", load * 100.0) } else { "-".to_owned() }
}

/// Compares names so that numbers in them count as numbers: `node2:1` comes before `node10:1`.
fn natural(a: &str, b: &str) -> Ordering {
    let parts = |text: &str| {
        let mut parts: Vec<(String, u64)> = vec![(String::new(), 0)];
        for c in text.chars() {
            let Some((word, number)) = parts.last_mut() else { continue };
            match c.to_digit(10) {
                Some(digit) => *number = number.saturating_mul(10).saturating_add(digit.into()),
                None if *number == 0 => word.push(c),
                None => parts.push((c.to_string(), 0)),
            }
        }
        parts
    };
    parts(a).cmp(&parts(b)).then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_the_order_of_their_numbers() {
        let mut names = ["node10:1", "node2:10", "node2:9", "leaf1:3", "rxe0/1"];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(names, ["leaf1:3", "node2:9", "node2:10", "node10:1", "rxe0/1"]);
    }

    #[test]
    fn the_first_order_is_that_of_traffic() {
        assert_eq!(PROCESSES[FIRST_SORT[0]].title, "B/s");
        assert_eq!(QUEUE_PAIRS[FIRST_SORT[1]].title, "B/s");
        assert_eq!(PORTS[FIRST_SORT[2]].title, "SEND/s");
    }
}
