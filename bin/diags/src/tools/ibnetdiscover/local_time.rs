//! The date in the format of C's ctime.

use std::mem::MaybeUninit;

const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Formats seconds since 1970 as local time, `Fri Nov 20 12:40:06 2026`.
pub fn ctime(seconds: i64) -> String {
    let mut parts = MaybeUninit::<libc::tm>::zeroed();
    let seconds: libc::time_t = seconds;
    // SAFETY: both pointers are to values that outlive the call; a zeroed struct tm is valid.
    let parts = unsafe {
        libc::localtime_r(&seconds, parts.as_mut_ptr());
        parts.assume_init()
    };
    let word = |words: &[&'static str], at: i32| {
        usize::try_from(at).ok().and_then(|at| words.get(at).copied()).unwrap_or("???")
    };
    format!(
        "{} {} {:2} {:02}:{:02}:{:02} {}",
        word(&DAYS, parts.tm_wday),
        word(&MONTHS, parts.tm_mon),
        parts.tm_mday,
        parts.tm_hour,
        parts.tm_min,
        parts.tm_sec,
        1900 + parts.tm_year
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_of_one_digit_has_a_blank_before_it() {
        let text = ctime(86_400 * 5 + 43_200);
        assert_eq!(text.len(), 24);
        assert!(text.starts_with("Tue Jan  6 ") || text.starts_with("Mon Jan  5 "), "{text}");
        assert!(text.ends_with(" 1970"));
    }
}
