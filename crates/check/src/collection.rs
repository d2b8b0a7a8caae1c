//! The reports of all processes of a run.

use std::collections::BTreeMap;

use crate::report::{End, Line, Report};

/// Mode bit (the sticky one) of a file that lacks lines, because its process could not write them. The mode of a file can be
/// changed where a full disk has no room for another byte.
pub const INCOMPLETE_MODE: u32 = 0o1000;

/// A line that is no line of a file of reports.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {error}")]
pub struct LineError {
    line: usize,
    error: serde_json::Error,
}

/// Reports of several processes; the same rule at the same stack of the same program is one report with a count.
#[derive(Debug, Default)]
pub struct Collection {
    reports: Vec<Report>,
    places: BTreeMap<(String, String, Vec<String>), usize>,
    ends: Vec<End>,
}

impl Collection {
    /// Adds the contents of one process's file. Keeps the lines before a damaged one: a killed process may leave half a
    /// line.
    pub fn add_file(&mut self, text: &str) -> Result<(), LineError> {
        let mut own = Vec::new();
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let result = lines.into_iter().try_for_each(|(number, line)| {
            let line = serde_json::from_str(line).map_err(|error| LineError { line: number + 1, error })?;
            self.take(line, &mut own);
            Ok(())
        });
        own.into_iter().for_each(|report| self.add(report));
        result
    }

    fn take(&mut self, line: Line, own: &mut Vec<Report>) {
        match line {
            Line::Report(report) => own.push(*report),
            Line::End { end } => self.ends.push(end),
            Line::Repeat { repeat } => {
                let earlier = usize::try_from(repeat.report).ok().and_then(|index| own.get_mut(index));
                if let Some(report) = earlier {
                    report.count = report.count.max(repeat.count);
                }
            }
        }
    }

    /// Adds one report, or its count to that of an equal one.
    pub fn add(&mut self, report: Report) {
        let key = (report.rule.clone(), report.program.clone(), report.stack.clone());
        match self.places.get(&key).and_then(|place| self.reports.get_mut(*place)) {
            Some(equal) => equal.count = equal.count.saturating_add(report.count),
            None => {
                self.places.insert(key, self.reports.len());
                self.reports.push(report);
            }
        }
    }

    /// The reports, in the order of their files.
    pub fn reports(&self) -> &[Report] {
        &self.reports
    }

    /// The totals of the processes that ended in order.
    pub fn ends(&self) -> &[End] {
        &self.ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::tests::report;

    fn file(lines: &[Line]) -> String {
        lines.iter().map(|line| line.to_json() + "\n").collect()
    }

    #[test]
    fn the_same_rule_at_the_same_stack_is_counted() {
        let other = Report { stack: vec!["g (p+0x2)".into()], ..report() };
        let mut all = Collection::default();
        let end = End { pid: 7, ..End::default() };
        let lines = [Line::Report(report().into()), Line::Report(other.into()), Line::End { end: end.clone() }];
        all.add_file(&file(&lines)).expect("whole lines");
        all.add_file(&file(&lines)).expect("whole lines");
        assert_eq!(all.reports().iter().map(|r| r.count).collect::<Vec<_>>(), [2, 2]);
        assert_eq!(all.ends(), [end.clone(), end]);
    }

    #[test]
    fn later_counts_belong_to_reports_of_their_file() {
        let mut all = Collection::default();
        let repeat = |report, count| Line::Repeat { repeat: crate::Repeat { report, count } };
        all.add_file(&file(&[Line::Report(report().into()), repeat(0, 2), repeat(0, 5), repeat(9, 1)]))
            .expect("whole lines");
        assert_eq!(all.reports()[0].count, 5);
    }

    #[test]
    fn half_a_line_loses_itself_alone() {
        let text = file(&[Line::Report(report().into())]) + "{\"rule\":\"buf";
        let mut all = Collection::default();
        let error = all.add_file(&text).expect_err("half a line");
        assert!(error.to_string().starts_with("line 2: "), "{error}");
        assert_eq!(all.reports().len(), 1);
    }
}
