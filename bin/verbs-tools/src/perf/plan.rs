//! The cases that a command line asks for.

use super::args::PerfArgs;
use super::case::{Case, Metric, Operation, Transport, default_depth};

const OPERATIONS: [Operation; 4] = [Operation::Send, Operation::Write, Operation::Read, Operation::Atomic];
const TRANSPORTS: [Transport; 3] = [Transport::Rc, Transport::Uc, Transport::Ud];
const METRICS: [Metric; 3] = [Metric::Bw, Metric::Lat, Metric::Rate];

/// Default message sizes in bytes.
const SIZE_BW: u32 = 65536;
const SIZE_SMALL: u32 = 8;

/// The cases that a command line asks for. `mtu` limits the size of datagrams.
pub fn plan(args: &PerfArgs, mtu: u32) -> Vec<Case> {
    fn or_all<T: Copy>(chosen: &[T], all: &[T]) -> Vec<T> {
        if chosen.is_empty() { all.to_vec() } else { chosen.to_vec() }
    }
    let mut cases = Vec::new();
    for transport in or_all(&args.transport, &TRANSPORTS) {
        for op in or_all(&args.op, &OPERATIONS).into_iter().filter(|&op| transport.has(op)) {
            for metric in or_all(&args.metric, &METRICS) {
                // The bandwidth of 8-byte operations is measured only on request.
                if op == Operation::Atomic && metric == Metric::Bw && args.metric.is_empty() {
                    continue;
                }
                for size in sizes(args, op, transport, metric, mtu) {
                    let depth = args.depth.unwrap_or_else(|| default_depth(size));
                    let qps = if metric == Metric::Lat { 1 } else { args.qps };
                    cases.push(Case { op, transport, metric, size, depth, qps, seconds: args.duration });
                }
            }
        }
    }
    cases
}

fn sizes(args: &PerfArgs, op: Operation, transport: Transport, metric: Metric, mtu: u32) -> Vec<u32> {
    if op == Operation::Atomic {
        return vec![8];
    }
    let wanted: Vec<u32> = if args.all_sizes {
        (1..=23).map(|n| 1 << n).collect()
    } else if args.size.is_empty() {
        vec![if metric == Metric::Bw { SIZE_BW } else { SIZE_SMALL }]
    } else {
        args.size.clone()
    };
    if transport != Transport::Ud {
        return wanted;
    }
    let mut fitting: Vec<u32> = wanted.iter().map(|&size| size.min(mtu)).collect();
    fitting.dedup();
    fitting
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: PerfArgs,
    }

    fn plan_of(line: &str) -> Vec<Case> {
        let args = Line::try_parse_from(line.split_whitespace()).map(|l| l.args);
        plan(&args.unwrap_or_else(|e| panic!("{e}")), 1024)
    }

    #[test]
    fn everything_that_transports_can_do_is_measured() {
        let cases = plan_of("perf --local");
        assert_eq!(cases.len(), 3 * 3 + 2 + 2 * 3 + 3);
        assert!(cases.iter().all(Case::is_sane));
    }

    #[test]
    fn a_choice_narrows_the_plan() {
        let cases = plan_of("perf --local -o write,read -t bw -s 64,4096 -c rc");
        assert_eq!(cases.len(), 4);
        let cases = plan_of("perf --local -o send -c ud -t bw -a");
        assert!(cases.iter().all(|c| c.size <= 1024));
        assert_eq!(cases.iter().filter(|c| c.size == 1024).count(), 1);
    }
}
