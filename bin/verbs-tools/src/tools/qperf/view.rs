//! Formatting of results: names, numbers of a few digits, units.

use std::fmt::Write;

/// Amount of detail, and units.
#[derive(Clone, Debug)]
pub struct Style {
    /// Digits of a number.
    pub precision: usize,
    /// Show bits instead of bytes.
    pub bits: bool,
    /// Show everything in the smallest unit.
    pub unify_units: bool,
    /// Show the sides as local and remote, not as sender and receiver.
    pub unify_nodes: bool,
    /// Detail of the configuration: 0 none, 1 more, 2 all.
    pub conf: u8,
    /// Detail of the statistics.
    pub stat: u8,
    /// Detail of the times.
    pub time: u8,
    /// Detail of the parameters.
    pub used: u8,
}

impl Default for Style {
    fn default() -> Style {
        Style { precision: 3, bits: false, unify_units: false, unify_nodes: false, conf: 0, stat: 0, time: 0, used: 0 }
    }
}

/// Level of detail that shows a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    Always,
    Stat,
    StatMore,
    Time,
    TimeMore,
    Used,
}

struct Row {
    name: String,
    data: String,
    unit: Option<&'static str>,
    exact: Option<String>,
}

/// Rows of results.
pub struct View<'a> {
    style: &'a Style,
    rows: Vec<Row>,
}

impl<'a> View<'a> {
    /// Creates an empty view.
    pub fn new(style: &'a Style) -> View<'a> {
        View { style, rows: Vec::new() }
    }

    fn shown(&self, when: When, value: f64) -> bool {
        let style = self.style;
        when == When::Always
            || value > 0.
                && match when {
                    When::Always => true,
                    When::Stat => style.stat >= 1,
                    When::StatMore => style.stat >= 2,
                    When::Time => style.time >= 1,
                    When::TimeMore => style.time >= 2,
                    When::Used => style.used >= 1,
                }
    }

    fn scaled(&mut self, name: &str, mut value: f64, units: &[&'static str]) {
        let mut at = 0;
        while !self.style.unify_units && value >= 1000. && at + 1 < units.len() {
            value /= 1000.;
            at += 1;
        }
        self.place(name, value, units[at]);
    }

    fn place(&mut self, name: &str, value: f64, unit: &'static str) {
        let data = self.commas(digits(value, self.style.precision));
        self.rows.push(Row { name: name.to_owned(), data, unit: Some(unit), exact: None });
    }

    fn commas(&self, number: String) -> String {
        if self.style.unify_units { number } else { commas(&number) }
    }

    /// Adds a bandwidth in bytes per second.
    pub fn band(&mut self, when: When, name: &str, value: f64) {
        if self.shown(when, value) {
            match self.style.bits {
                true => self.scaled(name, value * 8., &["bits/sec", "Kb/sec", "Mb/sec", "Gb/sec", "Tb/sec"]),
                false => self.scaled(name, value, &["bytes/sec", "KB/sec", "MB/sec", "GB/sec", "TB/sec"]),
            }
        }
    }

    /// Adds a message rate per second.
    pub fn rate(&mut self, when: When, name: &str, value: f64) {
        if self.shown(when, value) {
            self.scaled(name, value, &["/sec", "K/sec", "M/sec", "G/sec", "T/sec"]);
        }
    }

    /// Adds a time in seconds.
    pub fn time(&mut self, when: When, name: &str, seconds: f64) {
        if self.shown(when, seconds) {
            self.scaled(name, seconds * 1e9, &["ns", "us", "ms", "sec"]);
        }
    }

    /// Adds a cost in processor seconds per gigabyte.
    pub fn cost(&mut self, when: When, name: &str, seconds: f64) {
        if self.shown(when, seconds) {
            self.scaled(name, seconds * 1e9, &["ns/GB", "us/GB", "ms/GB", "sec/GB"]);
        }
    }

    /// Adds a number of processors.
    pub fn cpus(&mut self, when: When, name: &str, value: f64) {
        if self.shown(when, value) {
            self.place(name, value * 100., "% cpus");
        }
    }

    /// Adds a count.
    pub fn count(&mut self, when: When, name: &str, value: u64) {
        let value = value as f64;
        if !self.shown(when, value) {
            return;
        }
        match value >= 1e6 {
            true => self.scaled(name, value, &["", "thousand", "million", "billion", "trillion"]),
            false => self.place(name, value, ""),
        }
    }

    /// Adds a size in bytes: in KiB, MiB and so on if it is a whole multiple of the unit, else in KB, MB and so on.
    pub fn size(&mut self, when: When, name: &str, value: u64) {
        if !self.shown(when, value as f64) {
            return;
        }
        if let Some((number, unit)) = binary(value).filter(|_| !self.style.unify_units) {
            let exact = Some(commas(&value.to_string()));
            self.rows.push(Row { name: name.to_owned(), data: commas(&number.to_string()), unit: Some(unit), exact });
            return;
        }
        self.scaled(name, value as f64, &["bytes", "KB", "MB", "GB", "TB"]);
    }

    /// Adds a text.
    pub fn text(&mut self, name: &str, value: &str) {
        self.rows.push(Row { name: name.to_owned(), data: value.to_owned(), unit: None, exact: None });
    }

    /// Returns all rows in columns.
    pub fn finish(self) -> String {
        let widest = |of: &dyn Fn(&Row) -> usize| self.rows.iter().map(of).max().unwrap_or(0);
        let names = widest(&|row| row.name.len());
        let data = widest(&|row| if row.unit.is_some() { row.data.len() } else { 0 });
        let mut out = String::new();
        for row in &self.rows {
            let _ = match row.unit {
                Some(unit) => write!(out, "    {:<names$}  =  {:>data$} {unit}", row.name, row.data),
                None => write!(out, "    {:<names$}  =  {}", row.name, row.data),
            };
            if let Some(exact) = &row.exact {
                let _ = write!(out, " ({exact})");
            }
            out.push('\n');
        }
        out
    }
}

/// A number with `precision` digits in total (more if its integer part needs them), without trailing zeroes.
fn digits(value: f64, precision: usize) -> String {
    let whole = format!("{value:.0}");
    let behind = precision.saturating_sub(whole.trim_start_matches('-').len());
    if behind == 0 {
        return whole;
    }
    let text = format!("{value:.behind$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A number with commas between thousands.
fn commas(number: &str) -> String {
    let (whole, rest) = number.split_at(number.find('.').unwrap_or(number.len()));
    let mut out = String::new();
    for (at, c) in whole.chars().enumerate() {
        let left = whole.len() - at;
        if at > 0 && left % 3 == 0 && !out.ends_with('-') {
            out.push(',');
        }
        out.push(c);
    }
    out + rest
}

fn binary(value: u64) -> Option<(u64, &'static str)> {
    let mut number = value;
    let mut found = None;
    for unit in ["KiB", "MiB", "GiB", "TiB"] {
        if number < 1024 {
            break;
        }
        if !number.is_multiple_of(1024) {
            return None;
        }
        number /= 1024;
        found = Some((number, unit));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_look_as_in_the_original() {
        let looks = [(12.345, "12.3"), (1.0, "1"), (0.0, "0"), (1234.5, "1234"), (99.95, "100"), (0.5, "0.5")];
        for (value, text) in looks {
            assert_eq!(digits(value, 3), text);
        }
        let numbers = ["1", "123", "1234", "1234567.5", "999999"].map(commas);
        assert_eq!(numbers, ["1", "123", "1,234", "1,234,567.5", "999,999"]);
        assert_eq!(
            [1024, 65536, 3 << 20, 1025, 1000].map(binary),
            [Some((1, "KiB")), Some((64, "KiB")), Some((3, "MiB")), None, None]
        );
    }

    #[test]
    fn rows_stand_in_columns() {
        let style = Style { stat: 1, ..Style::default() };
        let mut view = View::new(&style);
        view.band(When::Always, "bw", 1.5e9);
        view.rate(When::Stat, "msg_rate", 22_900.);
        view.time(When::Time, "hidden", 1.);
        assert_eq!(view.finish(), "    bw        =   1.5 GB/sec\n    msg_rate  =  22.9 K/sec\n");
    }
}
