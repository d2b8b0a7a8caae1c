//! Fuzzes whole tools with a hostile fabric (`fuzz_umad`): no tool panics or sends requests forever, and no
//! control characters that a terminal would obey reach the output.
//!
//! `WEFT_ROUNDS` sets how often every command line runs, `WEFT_SEED` the first seed; a failure prints its own seed.

use std::ffi::OsString;

use super::TOOLS;
use crate::fuzz_umad;
use crate::output::heard;

/// Default number of rounds.
const ROUNDS: u64 = 1;
/// Number of findings that ends the test.
const FINDINGS_MAX: usize = 20;

/// Tools with operands and options: `|` separates alternatives, `+` stands for a blank within one; each combination is
/// a command line.
const LINES: &[&str] = &[
    "smpquery ND|NI|PI|PIE|SI|PKeys|SL2VL|VLArb|GI|MEPI 5|-D+0,1|-G+0x10|-c+5+0,1 |2|255|-x |--json",
    "perfquery -x|-X|-S|-D|-E|-T|-c|-a|-l|-r|-R|--oprcvcounters|--flowctlcounters|--vloppackets |5|5+1|5+1-10|5+1,4+0xffff |--json",
    "perfquery --vlopdata|--vlxmitflowctlerrors|--vlxmitcounters|--swportvlcong|--rcvcc|--slrcvfecn|--slrcvbecn|--xmitcc|--vlxmittimecc|-lx|-ax |5+1|5+255 |--json",
    "saquery CPI|NR|PIR|SL2VL|PKTR|VLAR|IIR|LR|SR|PR|MCMR|LFTR|MFTR|GIR|SWIR|SMIR |-K |--json",
    "saquery -L|-l|-G|-O|-U|-s|-g|-m|-D|-p|-N|-x|-c|-S|-I |honest|5|0x10 |--json",
    "ibnetdiscover |-l|-g|-H|-S|-R|-p|-f|-s|-m |--json",
    "iblinkinfo |-l|-d|-p|-D+0,1|-S+0x10|-G+0x10|--switches-only|--cas-only |--json",
    "ibqueryerrors |-r|-k|-K|-c|--data|--details|--counters|--skip-sl|-D+0,1|-G+0x10 |--switch|--ca|--router |--json",
    "ibhosts|ibnodes|ibrouters|ibswitches |--json",
    "ibidsverify |--json",
    "ibtracert |-n|-f|-m+0xc000|-f+-m+0xc000 1+5|5+5|-G+0x1+0x10 |--json",
    "ibroute |-a|-n|-M|-M+-n 5|-D+0,1|-G+0x10 |0+0xffff|0xc000+0xffff |--json",
    "dump_fts|dump_lfts|dump_mfts |-a|-n|-M |--json",
    "ibportstate |-D 0|5 0|1|255 query|enable|disable|reset|speed+1|espeed+1|fdr10+1|width+1|vls+1|mtu+1|lid+5|lmc+1|mkey+1|arm",
    "vendstat |-N|-w|-i|-c+0,1|-R+1,1|-W+1,1,1 5|5+12|-G+0x10 |--json",
    "ibping -f+-c+3|-S|-o+7+-f+-c+1 5|-G+0x10 |--json",
    "ibsysstat 5|5+host|5+cpu|-S |--json",
    "sminfo |5|-D+0,1|-s+1|-p+3|-a+1 |--json",
    "smpdump |-s 5+0x10|-D+0,1+0x15+1|-D+0,1+0xff90 |--json",
    "ibaddr |-g|-l|-L |5|-D+0,1|-G+0x10 |--json",
    "ibstat |-l|-s|-p |liar0|liar0+1",
];

/// All command lines that a line of the table stands for.
fn combinations(line: &str) -> Vec<String> {
    line.split(' ').fold(vec![String::new()], |sofar, alternatives| {
        let with = |before: &String| {
            let before = before.clone();
            alternatives.split('|').map(move |one| format!("{before} {}", one.replace('+', " ")))
        };
        sofar.iter().flat_map(with).collect()
    })
}

/// Prints the seed and command line of a run that panics.
struct Culprit<'a>(u64, &'a str);

impl Drop for Culprit<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            fuzz_umad::silence();
            eprintln!("seed {}:{} (it had printed {} bytes)", self.0, self.1, heard::take().len());
        }
    }
}

fn attack(seed: u64, line: &str) -> usize {
    let culprit = Culprit(seed, line);
    let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
    let tool = TOOLS.iter().find(|tool| words[0] == tool.name).expect("a tool");
    fuzz_umad::tell(seed);
    heard::listen();
    (tool.run)(&words[1..]);
    let endless = fuzz_umad::silence();
    let said = heard::take();
    drop(culprit);
    assert!(!endless, "seed {seed}:{line} asks for ever");
    let obeyed = said.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t'));
    assert_eq!(obeyed, None, "seed {seed}:{line} sends {obeyed:?} to the terminal:\n{said:?}");
    said.len()
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}

#[test]
fn no_tool_is_harmed_by_a_fabric_that_lies() {
    let (first, rounds) = (number("WEFT_SEED", 1), number("WEFT_ROUNDS", ROUNDS));
    let lines: Vec<String> = LINES.iter().flat_map(|line| combinations(line)).collect();
    let (mut printed, mut findings) = (0, 0);
    for (seed, line) in (first..first + rounds * lines.len() as u64).zip(lines.iter().cycle()) {
        match std::panic::catch_unwind(|| attack(seed, line)) {
            Ok(len) => printed += len,
            Err(_) => findings += 1,
        }
        assert!(findings < FINDINGS_MAX, "many findings");
    }
    assert!(printed > 0, "no tool said anything");
    assert_eq!(findings, 0, "findings");
    eprintln!("{} runs of {} command lines, {printed} bytes printed", rounds * lines.len() as u64, lines.len());
}
