//! Description of this machine.

use super::wire::{Conf, VERSION};

/// The configuration of this machine.
pub fn here() -> Conf {
    let file = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let system = format!("{} {}", file("/proc/sys/kernel/ostype"), file("/proc/sys/kernel/osrelease"));
    let [major, minor, increment] = VERSION;
    let qperf = format!("{major}.{minor}.{increment}");
    Conf([file("/proc/sys/kernel/hostname"), processor(&file("/proc/cpuinfo")), system, qperf])
}

/// `2 Cores: Intel Xeon 2.4GHz`, from `/proc/cpuinfo`.
fn processor(cpuinfo: &str) -> String {
    let values = |key: &str| -> Vec<&str> {
        let of = |line: &'_ str| line.starts_with(key);
        cpuinfo.lines().filter(|line| of(line)).filter_map(|line| Some(line.split_once(':')?.1.trim())).collect()
    };
    let (names, speeds) = (values("model name"), values("cpu MHz"));
    let cores = match names.len() {
        1 => String::new(),
        n => format!("{n} Cores: "),
    };
    let Some(first) = names.first() else { return String::new() };
    if names.iter().any(|name| name != first) {
        return format!("{cores}Mixed CPUs");
    }
    let name = plain(first);
    let speed = match speeds.first().and_then(|mhz| mhz.split('.').next()?.parse::<u32>().ok()) {
        Some(mhz) if speeds.iter().all(|s| s == &speeds[0]) && !name.ends_with("Hz") => match mhz {
            0..1000 => format!(" {mhz}MHz"),
            _ => format!(" {:.1}GHz", f64::from(mhz) / 1000.),
        },
        _ => String::new(),
    };
    format!("{cores}{name}{speed}")
}

/// A processor name without trade marks and filler words.
fn plain(name: &str) -> String {
    let mut out = String::new();
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        let lower = rest.to_ascii_lowercase();
        let noise = ["(r)", "(tm)", "cpu ", "processor "].iter().find(|noise| lower.starts_with(**noise));
        rest = match noise {
            Some(noise) => &rest[noise.len()..],
            None => {
                if !(c == ' ' && out.ends_with(' ')) {
                    out.push(c);
                }
                &rest[c.len_utf8()..]
            }
        };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_is_told_in_a_line() {
        let core = "model name\t: Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz\ncpu MHz\t\t: 2399.9\n";
        assert_eq!(processor(core), "Intel Xeon E5-2680 v4 @ 2.40GHz");
        let amd = "model name : AMD EPYC Processor 7B13\ncpu MHz : 2449.998\n";
        assert_eq!(processor(&amd.repeat(2)), "2 Cores: AMD EPYC 7B13 2.4GHz");
        assert_eq!(processor(&format!("{core}{amd}")), "2 Cores: Mixed CPUs");
        assert_eq!(here().0[3], "0.4.11");
    }
}
