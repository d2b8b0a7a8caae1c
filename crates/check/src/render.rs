//! Reports for people and programs.

mod json;
mod sarif;
mod text;

pub use json::json_lines;
pub use sarif::sarif;
pub use text::{rule_list, summary, text};

#[cfg(test)]
pub(crate) mod tests {
    use crate::report::{HistoryEntry, Report};
    use crate::rules;

    /// A report as a process writes it.
    pub fn report() -> Report {
        let rule = &rules::BUFFER_CHANGED;
        Report {
            rule: rule.name.into(),
            severity: rule.severity,
            message: "the program changed byte 3 of 64".into(),
            object: "qp 0x000011 (RC, weft0)".into(),
            call: "ibv_poll_cq".into(),
            stack: vec!["wait (/usr/lib/libping.so.1+0x12)".into(), "main (/bin/ping+0x20)".into()],
            history: vec![HistoryEntry {
                what: "posted SEND wr_id 7, 64 bytes".into(),
                stack: vec!["main (/bin/ping+0x10)".into()],
            }],
            clause: rule.clause.into(),
            advice: rule.advice.into(),
            count: 1,
            program: "/bin/ping".into(),
            pid: 12,
            thread: 13,
        }
    }
}
