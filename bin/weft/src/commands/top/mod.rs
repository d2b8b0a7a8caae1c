//! `weft top`: processes, queue pairs and ports by their present traffic, as top shows processes.
//!
//! `collect` takes reports, `activity` compares two of them, `table` makes rows and `draw` the screen; `state` holds what
//! the keys chose. None of these but the first touches the system. `live` and `terminal` are the rest.

mod activity;
mod batch;
mod collect;
mod columns;
mod draw;
mod input;
mod live;
mod state;
mod summary;
mod table;
mod terminal;
mod units;

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use super::devices::HostArg;
use crate::output;
use state::{DELAY_MAX, DELAY_MIN, State, View};

/// Options of `weft top`.
#[derive(Args, Debug)]
pub struct TopArgs {
    #[command(flatten)]
    host: HostArg,
    /// Print reports as text, for scripts; each shows the rates since the report before
    #[arg(short, long)]
    batch: bool,
    /// Number of reports in batch mode [default: until interrupted]
    #[arg(short = 'n', long, value_name = "COUNT", requires = "batch")]
    count: Option<u64>,
    /// Time between two reports
    #[arg(short, long, value_name = "SECONDS", default_value = "2", value_parser = delay)]
    delay: Duration,
    /// Objects to show first
    #[arg(short, long, value_enum, default_value_t)]
    view: View,
    /// Column that gives the order, by its heading [default: the traffic]
    #[arg(short, long, value_name = "COLUMN")]
    sort: Option<String>,
    /// Show only rows that contain this text
    #[arg(short, long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    filter: String,
    /// Width of lines in batch mode [default: room for every column]
    #[arg(short, long, value_name = "COLUMNS", requires = "batch", value_parser = clap::value_parser!(u16).range(20..=1000))]
    width: Option<u16>,
}

/// Runs the command.
pub fn run(args: &TopArgs) -> ExitCode {
    let ended = starting_state(args).and_then(|state| match args.batch {
        true => print(args, &state).map(|()| ExitCode::SUCCESS),
        false => live::run(args.host.host.clone(), state).map_err(|error| error.to_string()),
    });
    ended.unwrap_or_else(|message| {
        crate::errln!("weft top: {message}");
        ExitCode::FAILURE
    })
}

fn starting_state(args: &TopArgs) -> Result<State, String> {
    let filter = args.filter.clone();
    let mut state = State { view: args.view, delay: args.delay, filter, ..State::default() };
    if let Some(column) = &args.sort
        && !state.sort_by_title(column)
    {
        let titles: Vec<&str> = state.view.columns().into_iter().map(|(title, _)| title).collect();
        return Err(format!("--sort {column}: no such column; columns are {}", titles.join(", ")));
    }
    Ok(state)
}

fn print(args: &TopArgs, state: &State) -> Result<(), String> {
    let mut source = collect::Source::new(args.host.host.clone());
    let mut before = source.take()?;
    let width = args.width.map_or(batch::WIDTH, usize::from);
    for number in 0..args.count.unwrap_or(u64::MAX) {
        std::thread::sleep(state.delay);
        let report = source.take()?;
        let seconds = report.taken.duration_since(before.taken).as_secs_f64();
        let activity = activity::compare(Some(&before), &report, seconds);
        let text = batch::text(&report, &activity, state, &collect::time_of_day(), width);
        output::print(&if number > 0 { format!("\n{text}") } else { text });
        before = report;
    }
    Ok(())
}

fn delay(text: &str) -> Result<Duration, String> {
    let range = || format!("seconds from {} to {}", DELAY_MIN.as_secs_f64(), DELAY_MAX.as_secs());
    let delay = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    delay.filter(|delay| (DELAY_MIN..=DELAY_MAX).contains(delay)).ok_or_else(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_bounded() {
        assert_eq!(delay("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["0", "0.01", "x", "-1", "nan", "1e9"] {
            assert_eq!(delay(wrong), Err("seconds from 0.1 to 3600".to_owned()), "{wrong}");
        }
    }
}
