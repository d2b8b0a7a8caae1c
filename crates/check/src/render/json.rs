//! Reports as JSON lines.

use crate::report::{Line, Report};

/// One JSON object a line, as in the files that processes write.
pub fn json_lines<'a>(reports: impl IntoIterator<Item = &'a Report>) -> String {
    reports.into_iter().map(|report| Line::Report(Box::new(report.clone())).to_json() + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::json_lines;
    use crate::Collection;
    use crate::render::tests::report;

    #[test]
    fn lines_can_be_read_again() {
        let mut again = Collection::default();
        again.add_file(&json_lines([&report()])).expect("whole lines");
        assert_eq!(again.reports(), [report()]);
    }
}
