//! Numbers as short texts with units.

/// Returns a number in at most five characters, with a decimal prefix: `0`, `12`, `1.23k`, `45.6M`, `789G`.
pub fn short(value: f64) -> String {
    const PREFIXES: [&str; 5] = ["", "k", "M", "G", "T"];
    if !value.is_finite() || value <= 0.0 {
        return "0".to_owned();
    }
    let (mut value, mut place) = (value, 0);
    while value >= 999.5 && place + 1 < PREFIXES.len() {
        value /= 1000.0;
        place += 1;
    }
    let prefix = PREFIXES[place];
    match value {
        // Without a prefix a fraction is of interest for rare events alone.
        value if place == 0 && value >= 9.95 => format!("{value:.0}"),
        value if place == 0 => format!("{value:.1}").trim_end_matches(".0").to_owned(),
        value if value >= 99.95 => format!("{value:.0}{prefix}"),
        value if value >= 9.995 => format!("{value:.1}{prefix}"),
        value => format!("{value:.2}{prefix}"),
    }
}

/// Returns a time in at most six characters: `-` for none, `850ns`, `12.3us`, `4.56ms`, `1.2s`.
pub fn time(ns: u64) -> String {
    const UNITS: [(&str, f64); 4] = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    if ns == 0 {
        return "-".to_owned();
    }
    let ns = ns as f64;
    let (unit, size) = UNITS.into_iter().rev().find(|(_, size)| ns >= *size).unwrap_or(UNITS[0]);
    match ns / size {
        value if size == 1.0 || value >= 99.95 => format!("{value:.0}{unit}"),
        value => format!("{value:.1}{unit}"),
    }
}

/// Returns a duration in seconds as `1:02:03`, or `02:03` below an hour.
pub fn clock(seconds: u64) -> String {
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes:02}:{seconds:02}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (value, expected) in [
            (0.0, "0"),
            (-1.0, "0"),
            (f64::NAN, "0"),
            (0.04, "0"),
            (0.25, "0.2"),
            (3.0, "3"),
            (9.96, "10"),
            (999.4, "999"),
            (999.6, "1.00k"),
            (1_234.0, "1.23k"),
            (45_600_000.0, "45.6M"),
            (789e9, "789G"),
            (1e15, "1000T"),
        ] {
            assert_eq!(short(value), expected, "{value}");
        }
    }

    #[test]
    fn times_have_units() {
        for (ns, expected) in [
            (0, "-"),
            (850, "850ns"),
            (12_300, "12.3us"),
            (250_000, "250us"),
            (4_560_000, "4.6ms"),
            (1_200_000_000, "1.2s"),
        ] {
            assert_eq!(time(ns), expected);
        }
        assert_eq!((clock(63), clock(3_723)), ("01:03".to_owned(), "1:02:03".to_owned()));
    }
}
