//! The lines above the table: the daemon, the fabric, and the traffic of all processes.

use weft_fabric::topology::counted;

use super::activity::Activity;
use super::state::State;
use super::units::{clock, short};
use crate::commands::fabric_summary;
use crate::commands::report::Report;

/// Returns the lines; `time` is the time of day.
pub fn lines(report: &Report, activity: &Activity, state: &State, time: &str) -> Vec<String> {
    let status = &report.status;
    let paused = if state.paused { ", PAUSED" } else { "" };
    let mut lines = vec![format!(
        "weft top {time}, every {}s{paused}; daemon {}, pid {}, up {}",
        seconds(state),
        status.version,
        status.pid,
        clock(status.uptime_s)
    )];
    if let Some(fabric) = &report.fabric {
        lines.push(format!("fabric: {}, up {}", fabric_summary::summary(fabric), clock(fabric.uptime_s)));
    }
    let qps = activity.queue_pairs.len();
    let untold = match activity.untold {
        0 => String::new(),
        untold => format!(" and {untold} not listed"),
    };
    let ports = counted(activity.ports.len(), "port");
    let more = if report.has_more_ports { " and more" } else { "" };
    lines.push(format!(
        "{}, {}{untold}, {ports}{more}",
        counted_as(activity.processes.len(), "process", "processes"),
        counted(qps, "queue pair")
    ));
    let total = &activity.total;
    lines.push(format!(
        "B/s: {} sent, {} received, {} copied; {} packets/s, {} retransmitted/s",
        short(total.sent),
        short(total.received),
        short(total.copied),
        short(total.packets),
        short(total.retransmitted)
    ));
    lines
}

/// Returns the line that says what the table shows.
pub fn view_line(state: &State) -> String {
    let mut line = state.view.title().to_owned();
    if let Some((_, program)) = &state.only {
        line += &format!(" of {program} (Esc: all)");
    }
    if !state.filter.is_empty() {
        line += &format!(" with \"{}\"", state.filter);
    }
    line
}

fn seconds(state: &State) -> String {
    format!("{:.1}", state.delay.as_secs_f64()).trim_end_matches(".0").to_owned()
}

fn counted_as(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::report::tests::{fabric_report, report};
    use crate::commands::top::activity::compare;

    #[test]
    fn the_lines_fit_a_terminal() {
        let (before, after) = (fabric_report(0), fabric_report(987_654_321));
        let activity = compare(Some(&before), &after, 1.0);
        let state = State { paused: true, ..State::default() };
        for line in lines(&after, &activity, &state, "12:34:56") {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }

    #[test]
    fn a_machine_without_fabric_has_three_lines() {
        let after = report(3_000);
        let activity = compare(Some(&report(1_000)), &after, 2.0);
        let expected = [
            "weft top 12:34:56, every 2s; daemon 0.1.0, pid 42, up 00:07",
            "1 process, 1 queue pair, 1 port",
            "B/s: 1.00M sent, 0 received, 0 copied; 1.00k packets/s, 100 retransmitted/s",
        ];
        assert_eq!(lines(&after, &activity, &State::default(), "12:34:56"), expected);
    }

    #[test]
    fn the_view_says_what_it_leaves_out() {
        let state = State { only: Some((1, "rping".to_owned())), filter: "RTS".to_owned(), ..State::default() };
        assert_eq!(view_line(&state), "Processes of rping (Esc: all) with \"RTS\"");
    }
}
