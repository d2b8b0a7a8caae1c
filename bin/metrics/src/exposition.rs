//! Prometheus' text format, version 0.0.4: families of samples, each family with its help and type.

use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Content type of the format.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Type of a metric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A sum that only grows, until its process starts again. Names end in `_total`.
    Counter,
    /// A value that rises and falls.
    Gauge,
}

impl Kind {
    const fn word(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        }
    }
}

/// Value of a time series at one time.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample<'a> {
    labels: Vec<(&'a str, &'a str)>,
    value: f64,
    /// An integer that `f64` would round.
    exact: Option<u64>,
}

impl<'a> Sample<'a> {
    /// Makes a sample of an integer.
    pub fn integer(labels: impl Into<Vec<(&'a str, &'a str)>>, value: u64) -> Sample<'a> {
        Sample { labels: labels.into(), value: value as f64, exact: Some(value) }
    }

    /// Makes a sample of an integer, for a family with one time series.
    pub fn plain(value: u64) -> Sample<'a> {
        Sample { labels: Vec::new(), value: value as f64, exact: Some(value) }
    }

    /// Makes a sample of a measured value.
    pub fn real(labels: impl Into<Vec<(&'a str, &'a str)>>, value: f64) -> Sample<'a> {
        Sample { labels: labels.into(), value, exact: None }
    }
}

/// A page of metrics.
#[derive(Debug, Default)]
pub struct Exposition {
    text: String,
    names: BTreeSet<String>,
}

impl Exposition {
    /// Makes an empty page.
    pub fn new() -> Exposition {
        Exposition::default()
    }

    /// Adds a family: all samples of one metric. A family without samples leaves no trace.
    ///
    /// The format wants each family once: the samples of a second one with the same name are dropped.
    pub fn family<'a>(&mut self, name: &str, kind: Kind, help: &str, samples: impl IntoIterator<Item = Sample<'a>>) {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() || !self.names.insert(name.to_owned()) {
            return;
        }
        let _ = writeln!(self.text, "# HELP {name} {}", escaped(help, false));
        let _ = writeln!(self.text, "# TYPE {name} {}", kind.word());
        for sample in samples {
            self.text.push_str(name);
            self.labels(&sample.labels);
            let _ = match sample.exact {
                Some(value) => writeln!(self.text, " {value}"),
                None => writeln!(self.text, " {}", sample.value),
            };
        }
    }

    /// Returns the text.
    pub fn finish(self) -> String {
        self.text
    }

    fn labels(&mut self, labels: &[(&str, &str)]) {
        let mut opening = '{';
        for (name, value) in labels {
            let _ = write!(self.text, "{opening}{name}=\"{}\"", escaped(value, true));
            opening = ',';
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
    }
}

/// Returns a text with the characters escaped that would end a line, or a label's value.
fn escaped(text: &str, quoted: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if quoted => out.push_str("\\\""),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_has_help_type_and_samples() {
        let mut page = Exposition::new();
        let samples = [Sample::integer([("port", "a:1"), ("peer", "b\"\\\n")], u64::MAX), Sample::plain(2)];
        page.family("weft_x_total", Kind::Counter, "Things of a\nkind.", samples);
        page.family("weft_none", Kind::Gauge, "Nothing.", []);
        page.family("weft_y_seconds", Kind::Gauge, "Time.", [Sample::real(Vec::new(), 0.25)]);
        page.family("weft_y_seconds", Kind::Gauge, "Again.", [Sample::plain(1)]);
        let expected = "# HELP weft_x_total Things of a\\nkind.\n# TYPE weft_x_total counter\n\
                        weft_x_total{port=\"a:1\",peer=\"b\\\"\\\\\\n\"} 18446744073709551615\nweft_x_total 2\n\
                        # HELP weft_y_seconds Time.\n# TYPE weft_y_seconds gauge\nweft_y_seconds 0.25\n";
        assert_eq!(page.finish(), expected);
    }
}
