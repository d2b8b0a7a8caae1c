//! The table of results, and the short forms of its numbers.

use super::options::Shape;

/// Its heading.
pub const HEAD: &str = "name      bytes   xfers   iters   total       time     Gb/sec    usec/xfer\n";

/// A size in its shortest form: `64`, `1.5k`, `1m`.
pub fn size_text(size: u64) -> String {
    let (base, mark) = match size {
        _ if size >= 1 << 30 => (1 << 30, "g"),
        _ if size >= 1 << 20 => (1 << 20, "m"),
        _ if size >= 1 << 10 => (1 << 10, "k"),
        _ => (1, ""),
    };
    let fraction = if size / base < 10 { (size % base) * 10 / base } else { 0 };
    match fraction {
        0 => format!("{}{mark}", size / base),
        _ => format!("{}.{fraction}{mark}", size / base),
    }
}

fn count_text(count: u32) -> String {
    match count {
        1_000_000_000.. => format!("{}b", count / 1_000_000_000),
        1_000_000.. => format!("{}m", count / 1_000_000),
        1000.. => format!("{}k", count / 1000),
        _ => count.to_string(),
    }
}

/// A line of the table.
pub fn line(name: &str, shape: Shape, us: f32) -> String {
    let Shape { size, count, iterations } = shape;
    let bytes = u64::from(iterations) * u64::from(count) * size as u64 * 2;
    let us = f64::from(us);
    format!(
        "{name:<10}{:<8}{:<8}{:<8}{:<8}{:8.2}s{:10.2}{:11.2}\n",
        size_text(size as u64),
        count_text(count),
        count_text(iterations),
        size_text(bytes),
        us / 1e6,
        (bytes * 8) as f64 / (1000. * us),
        us / f64::from(iterations) / (f64::from(count) * 2.),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let sizes = [64, 192, 1024, 1536, 3 << 19, 1 << 30, 128 << 20, 11 * 1024 + 600].map(size_text);
        assert_eq!(sizes, ["64", "192", "1k", "1.5k", "1.5m", "1g", "128m", "11k"]);
        assert_eq!([1, 999, 1000, 100_000, 2_000_000].map(count_text), ["1", "999", "1k", "100k", "2m"]);
    }

    #[test]
    fn columns_stand_where_the_originals_do() {
        let shape = Shape { size: 64, count: 1, iterations: 100_000 };
        let line = line("64_lat", shape, 2_500_000.);
        assert_eq!(line, "64_lat    64      1       100k    12m         2.50s      0.04      12.50\n");
        assert!(HEAD.starts_with("name      bytes   xfers   iters   total       time     Gb/sec    usec/xfer"));
    }
}
