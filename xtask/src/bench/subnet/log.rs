//! The logs of both managers, which have the same format: `Nov 20 12:40:00 569913 [..] 0x80 -> SUBNET UP`.

use std::time::{SystemTime, UNIX_EPOCH};

const DAY_S: f64 = 86_400.0;

/// Returns the times of day, in seconds of UTC, at which the subnet was up.
pub fn ups(text: &str) -> impl Iterator<Item = f64> {
    text.lines().filter(|line| line.trim_end().ends_with("-> SUBNET UP")).filter_map(time_of_day)
}

fn time_of_day(line: &str) -> Option<f64> {
    let mut words = line.split_whitespace().skip(2);
    let clock = words.next()?.split(':').map(|part| part.parse().ok()).collect::<Option<Vec<f64>>>()?;
    let micros: f64 = words.next()?.parse().ok()?;
    let [hours, minutes, seconds] = clock[..] else { return None };
    Some(hours * 3600.0 + minutes * 60.0 + seconds + micros / 1e6)
}

/// Returns the seconds from a moment to a time of day, less than a day later.
pub fn since(moment: SystemTime, time_of_day: f64) -> f64 {
    let moment = moment.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64() % DAY_S;
    (time_of_day - moment).rem_euclid(DAY_S)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_line_tells_its_time() {
        let text = "Nov 22 02:16:06 945971 [B2B60740] 0x80 -> OpenSM 3.3.23\n\
                    Nov 22 02:16:07 250000 [B2B60740] 0x80 -> SUBNET UP\n\
                    Nov 22 23:59:59 900000 [0000002A] 0x02 -> SUBNET UP\n\
                    not a time -> SUBNET UP\n";
        assert_eq!(ups(text).collect::<Vec<_>>(), [8167.25, 86_399.9]);
    }

    #[test]
    fn midnight_may_come_between() {
        let moment = UNIX_EPOCH + Duration::from_millis(2 * 86_400_000 - 500);
        assert!((since(moment, 0.25) - 0.75).abs() < 1e-6);
        assert!((since(moment, 86_399.75) - 0.25).abs() < 1e-6);
    }
}
