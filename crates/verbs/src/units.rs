//! Parser of shares, times and rates with units: `1%`, `500ppm`, `20us`, `1.5s`, `10Gbit`. A number without a unit is refused, since
//! `loss=1` could mean one percent or all packets; zero needs no unit.

use crate::Duration;

/// A share of 100%, in parts per million.
pub const PPM_MAX: u32 = 1_000_000;

/// Units of shares, in parts per million.
const SHARES: [(&str, f64); 2] = [("%", 1e4), ("ppm", 1.0)];
/// Units of times, in nanoseconds. `s` comes last, because other units end in it.
const TIMES: [(&str, f64); 4] = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
/// Units of rates, in bits per second.
const RATES: [(&str, f64); 3] = [("kbit", 1e3), ("Mbit", 1e6), ("Gbit", 1e9)];
/// Largest rate: no adapter has more.
const RATE_MAX: f64 = 1e13;

/// Parses a share into parts per million: `1%`, `0.1%`, `500ppm`.
///
/// # Errors
/// The reason, with the correct form.
pub fn share_ppm(text: &str) -> Result<u32, String> {
    let ppm = match quantity(text, &SHARES) {
        Quantity::Measured(ppm) => ppm,
        Quantity::Bare(number) => {
            return Err(format!("a share needs its unit; write {number}% or {number}ppm"));
        }
        Quantity::Unclear => return Err("a share is a number with a unit, % or ppm, such as 1% or 500ppm".to_owned()),
    };
    if !(0.0..=f64::from(PPM_MAX)).contains(&ppm) {
        return Err("a share lies between 0% and 100%".to_owned());
    }
    Ok(ppm.round() as u32)
}

/// Parses a time of at most `max`: `10ns`, `20us`, `1ms`, `0.5s`.
///
/// # Errors
/// The reason, with the correct form.
pub fn time(text: &str, max: Duration) -> Result<Duration, String> {
    let nanoseconds = match quantity(text, &TIMES) {
        Quantity::Measured(nanoseconds) => nanoseconds,
        Quantity::Bare(number) => return Err(format!("a time needs its unit; write {number}ms or {number}s")),
        Quantity::Unclear => return Err("a time is a number with a unit, ns, us, ms or s, such as 1ms".to_owned()),
    };
    if !(0.0..=max.as_nanos() as f64).contains(&nanoseconds) {
        return Err(format!("a time lies between 0 and {}s here", max.as_nanos() / 1_000_000_000));
    }
    Ok(Duration::from_nanos(nanoseconds.round() as u64))
}

/// Parses a rate in bits per second: `500kbit`, `100Mbit`, `2.5Gbit`.
///
/// # Errors
/// The reason, with the correct form.
pub fn bits_per_second(text: &str) -> Result<u64, String> {
    let rate = match quantity(text, &RATES) {
        Quantity::Measured(rate) => rate,
        Quantity::Bare(number) => return Err(format!("a rate needs its unit; write {number}Mbit or {number}Gbit")),
        Quantity::Unclear => {
            return Err("a rate is a number with a unit, kbit, Mbit or Gbit, such as 100Mbit".to_owned());
        }
    };
    if !(1e3..=RATE_MAX).contains(&rate) {
        return Err("a rate lies between 1kbit and 10000Gbit".to_owned());
    }
    Ok(rate.round() as u64)
}

enum Quantity<'a> {
    Measured(f64),
    /// A number without a unit.
    Bare(&'a str),
    Unclear,
}

fn quantity<'a>(text: &'a str, units: &[(&str, f64)]) -> Quantity<'a> {
    let text = text.trim();
    let measured = units.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, *scale)));
    let (number, scale) = measured.unwrap_or((text, 0.0));
    match (number.trim().parse::<f64>(), measured) {
        (Ok(value), Some(_)) => Quantity::Measured(value * scale),
        (Ok(0.0), None) => Quantity::Measured(0.0),
        (Ok(value), None) if value.is_finite() => Quantity::Bare(text),
        (Ok(_), None) | (Err(_), _) => Quantity::Unclear,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_a_unit() {
        for (text, ppm) in [("1%", 10_000), ("0.1 %", 1000), ("500ppm", 500), ("100%", PPM_MAX), ("0", 0), ("0%", 0)] {
            assert_eq!(share_ppm(text), Ok(ppm), "{text}");
        }
        assert_eq!(share_ppm("1").unwrap_err(), "a share needs its unit; write 1% or 1ppm");
        assert!(share_ppm("0.01").unwrap_err().contains("unit"));
        for wrong in ["", "x", "%", "101%", "-1%", "NaN%", "inf%", "1s"] {
            assert!(share_ppm(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_have_a_unit() {
        let max = Duration::from_secs(60);
        for (text, nanoseconds) in
            [("10ns", 10), ("20us", 20_000), ("1.5ms", 1_500_000), ("1s", 1_000_000_000), ("0", 0)]
        {
            assert_eq!(time(text, max), Ok(Duration::from_nanos(nanoseconds)), "{text}");
        }
        assert_eq!(time("100", max).unwrap_err(), "a time needs its unit; write 100ms or 100s");
        assert_eq!(time("61s", max).unwrap_err(), "a time lies between 0 and 60s here");
        for wrong in ["", "s", "ms", "-1s", "infs", "NaNs", "5%", "1h"] {
            assert!(time(wrong, max).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rates_have_a_unit() {
        for (text, rate) in [("500kbit", 500_000), ("100Mbit", 100_000_000), ("2.5 Gbit", 2_500_000_000)] {
            assert_eq!(bits_per_second(text), Ok(rate), "{text}");
        }
        assert_eq!(bits_per_second("100").unwrap_err(), "a rate needs its unit; write 100Mbit or 100Gbit");
        for wrong in ["", "Mbit", "-1Mbit", "NaNGbit", "infGbit", "0", "1bit", "1e9Gbit"] {
            assert!(bits_per_second(wrong).is_err(), "{wrong}");
        }
    }
}
