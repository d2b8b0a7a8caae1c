//! A logarithmic axis: the positions of values, and the values that get a mark.

/// Values from `low` to `high`, at positions from `from` to `to`.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// Creates an axis that contains all `values` between whole powers of `base`. Ignores values that are not positive,
    /// as they have no logarithm.
    pub fn around(values: impl Iterator<Item = f64>, base: f64, from: f64, to: f64) -> Option<Axis> {
        let (low, high) = values
            .filter(|value| value.is_finite() && *value > 0.0)
            .fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        if low > high {
            return None;
        }
        let below = (low.ln() / base.ln() + 1e-9).floor();
        let above = (high.ln() / base.ln() - 1e-9).ceil().max(below + 1.0);
        Some(Axis { low: base.powf(below), high: base.powf(above), from, to })
    }

    /// Returns the position of a value.
    pub fn place(&self, value: f64) -> f64 {
        let share = (value / self.low).ln() / (self.high / self.low).ln();
        self.from + share * (self.to - self.from)
    }

    /// Returns the powers of `base` on the axis.
    pub fn powers(&self, base: f64) -> Vec<f64> {
        let first = (self.low.ln() / base.ln() - 1e-9).ceil() as i32;
        let last = (self.high.ln() / base.ln() + 1e-9).floor() as i32;
        (first..=last).map(|power| base.powi(power)).collect()
    }
}

/// Formats a size for people.
pub fn bytes(size: f64) -> String {
    let size = size.round() as u64;
    match size {
        0..1024 => format!("{size} B"),
        1024..0x10_0000 => format!("{} KiB", size >> 10),
        _ => format!("{} MiB", size >> 20),
    }
}

/// Formats a power of ten without needless zeros.
pub fn decimal(value: f64) -> String {
    if value >= 1.0 { format!("{value:.0}") } else { format!("{value:.6}").trim_end_matches('0').to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_is_as_far_from_the_next_as_from_the_last() {
        let axis = Axis::around([0.05, 30.0].into_iter(), 10.0, 0.0, 400.0).expect("values");
        let places: Vec<_> = axis.powers(10.0).into_iter().map(|value| axis.place(value).round()).collect();
        assert_eq!(places, [0.0, 100.0, 200.0, 300.0, 400.0]);
    }

    #[test]
    fn bounds_that_are_powers_stay_and_a_single_value_has_room() {
        let axis = Axis::around([1.0, 100.0].into_iter(), 10.0, 0.0, 1.0).expect("values");
        assert_eq!(axis.powers(10.0), [1.0, 10.0, 100.0]);
        let one = Axis::around([8.0].into_iter(), 8.0, 0.0, 1.0).expect("a value");
        assert_eq!(one.powers(8.0), [8.0, 64.0]);
        assert!(Axis::around([0.0, f64::NAN, -1.0].into_iter(), 10.0, 0.0, 1.0).is_none());
    }

    #[test]
    fn labels_are_short() {
        assert_eq!([8.0, 4096.0, 1_048_576.0].map(bytes), ["8 B", "4 KiB", "1 MiB"]);
        assert_eq!([0.01, 1.0, 1000.0].map(decimal), ["0.01", "1", "1000"]);
    }
}
