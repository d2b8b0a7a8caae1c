//! Requests that `weft run` cannot serve: an unknown option, which would otherwise be taken for the program, and
//! faults, captures and forced packets on a fabric's host, where they have no effect.

use std::ffi::OsStr;

/// Options offered in the hint.
const OPTIONS: [&str; 9] =
    ["--host", "--fault", "--strict", "--pcap", "--system", "--verbose", "--ld-library-path", "--help", "--version"];

/// Minimum common prefix of a mistyped option and its suggestion, including the hyphens.
const ALIKE_MIN: usize = 4;

/// The error for a program name that looks like an option.
pub fn unknown_option(program: &OsStr) -> Option<String> {
    let word = program.to_str().filter(|word| word.starts_with('-'))?;
    let name = word.split('=').next().unwrap_or(word);
    let alike = |option: &&&str| option.bytes().zip(name.bytes()).take_while(|(a, b)| a == b).count();
    let nearest = OPTIONS.iter().max_by_key(alike).filter(|option| alike(option) >= ALIKE_MIN);
    Some(match nearest {
        Some(option) => format!("unknown option {name}: did you mean {option}? A program of that name is ./{name}"),
        None => {
            format!("unknown option {name}: `weft run --help` lists the options; a program of that name is ./{name}")
        }
    })
}

/// Options and variables that have no effect on a fabric's host.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wished<'a> {
    /// The option or variable that asks for faults: `--fault` or `WEFT_FAULT`.
    pub fault: Option<&'a str>,
    /// The option or variable that asks for a capture.
    pub pcap: Option<&'a str>,
    /// Whether `WEFT_LOOPBACK=wire` is set.
    pub wire: bool,
}

impl Wished<'_> {
    /// One line for each setting that has no effect; `packets`: individual packets cross the fabric's switches.
    pub fn without_effect(self, packets: bool) -> Vec<String> {
        let mut lines = Vec::new();
        lines.extend(self.fault.map(|from| {
            format!("{from} has no effect on a fabric's packets: `weft cable errors` and `weft cable drop` damage its cables")
        }));
        lines.extend(self.pcap.filter(|_| !packets).map(|from| {
            format!("{from} captures nothing: no packets pass on this fabric; `weft up --packets` sends every packet")
        }));
        if self.wire {
            let hint = if packets {
                "its packets cross the switches anyway"
            } else {
                "`weft up --packets` sends every packet"
            };
            lines.push(format!("WEFT_LOOPBACK=wire has no effect on a fabric: {hint}"));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_an_option_is_no_program() {
        let hint = unknown_option(OsStr::new("--hosts")).unwrap();
        assert!(hint.starts_with("unknown option --hosts: did you mean --host?"), "{hint}");
        let hint = unknown_option(OsStr::new("--faults=loss=1%")).unwrap();
        assert!(hint.starts_with("unknown option --faults: did you mean --fault?"), "{hint}");
        let hint = unknown_option(OsStr::new("-x")).unwrap();
        assert!(hint.starts_with("unknown option -x: `weft run --help`"), "{hint}");
        assert_eq!(unknown_option(OsStr::new("ls")), None);
    }

    #[test]
    fn what_a_fabric_swallows_is_told() {
        let all = Wished { fault: Some("--fault"), pcap: Some("WEFT_PCAP"), wire: true };
        let lines = all.without_effect(false);
        assert_eq!(lines.len(), 3);
        assert!(lines[0].starts_with("--fault has no effect on a fabric's packets"), "{lines:?}");
        assert!(lines[1].starts_with("WEFT_PCAP captures nothing"), "{lines:?}");
        let lines = all.without_effect(true);
        assert_eq!(lines.len(), 2, "a capture works where packets pass: {lines:?}");
        assert!(Wished::default().without_effect(false).is_empty());
    }
}
