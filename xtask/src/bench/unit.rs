//! Units of figures, and their formatting.

use serde::Serialize;

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Unit {
    #[serde(rename = "bytes/s")]
    BytesPerSecond,
    #[serde(rename = "us")]
    Microseconds,
    #[serde(rename = "messages/s")]
    MessagesPerSecond,
    #[serde(rename = "SMPs/s")]
    DatagramsPerSecond,
    #[serde(rename = "% of a core")]
    Percent,
    #[serde(rename = "sleeps/completion")]
    SleepsPerCompletion,
    #[serde(rename = "s")]
    Seconds,
    #[serde(rename = "bytes")]
    Bytes,
}

impl Unit {
    /// Returns the divisor of the number, its decimals, and the unit's sign.
    fn shape(self) -> (f64, usize, &'static str) {
        match self {
            Unit::BytesPerSecond => (1e9, 2, "GB/s"),
            Unit::Microseconds => (1.0, 2, "µs"),
            Unit::MessagesPerSecond => (1e6, 2, "M/s"),
            Unit::DatagramsPerSecond => (1e3, 0, "k/s"),
            Unit::Percent => (1.0, 1, "%"),
            Unit::SleepsPerCompletion => (1.0, 2, "sleeps"),
            Unit::Seconds => (1.0, 2, "s"),
            Unit::Bytes => (f64::from(1 << 20), 1, "MiB"),
        }
    }

    /// Returns the divisor of a figure; the quotient has the unit's sign.
    pub fn scale(self) -> f64 {
        self.shape().0
    }

    /// Returns the sign behind figures.
    pub fn sign(self) -> &'static str {
        self.shape().2
    }

    /// Formats the figure with its unit.
    pub fn show(self, value: f64) -> String {
        format!("{} {}", self.number(value), self.sign())
    }

    /// Formats the figure without its unit, in the same scale.
    pub fn number(self, value: f64) -> String {
        let (scale, decimals, _) = self.shape();
        let value = value / scale;
        // Small bandwidths and shared memory latencies need more decimals than usual.
        let decimals = if decimals > 0 && value != 0.0 && value.abs() < 0.1 { decimals + 2 } else { decimals };
        format!("{value:.decimals$}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_in_the_units_of_the_field() {
        assert_eq!(Unit::BytesPerSecond.show(45.29e9), "45.29 GB/s");
        assert_eq!(Unit::BytesPerSecond.show(9_489_896.0), "0.0095 GB/s");
        assert_eq!(Unit::MessagesPerSecond.show(8e6), "8.00 M/s");
        assert_eq!(Unit::Microseconds.show(0.06), "0.0600 µs");
        assert_eq!(Unit::Percent.show(0.0), "0.0 %");
        assert_eq!((Unit::Seconds.show(0.0312), Unit::Seconds.show(29.2)), ("0.0312 s".into(), "29.20 s".into()));
        assert_eq!(Unit::Bytes.show(750.0 * 1048576.0), "750.0 MiB");
    }
}
