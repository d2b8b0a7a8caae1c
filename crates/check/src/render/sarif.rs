//! Reports as SARIF 2.1.0, which code hosts and editors show. Stacks name modules and offsets, so locations are logical.

use serde_json::{Value, json};

use crate::report::Report;
use crate::rules::{self, Rule, Severity};

/// One run of the checker as a SARIF log. `version` is the checker's.
pub fn sarif<'a>(reports: impl IntoIterator<Item = &'a Report>, version: &str) -> String {
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "weft check",
                "version": version,
                "rules": rules::all().map(rule).collect::<Vec<_>>(),
            }},
            "results": reports.into_iter().map(result).collect::<Vec<_>>(),
        }],
    });
    format!("{log:#}\n")
}

fn level(severity: Severity) -> &'static str {
    severity.as_str()
}

fn rule(rule: &Rule) -> Value {
    json!({
        "id": rule.name,
        "shortDescription": {"text": rule.summary},
        "help": {"text": format!("{} ({})", rule.advice, rule.clause)},
        "defaultConfiguration": {"level": level(rule.severity)},
    })
}

fn result(report: &Report) -> Value {
    let message = format!("{} ({})", report.message, report.object);
    let mut stacks = vec![stack(&report.call, &report.stack)];
    stacks.extend(report.history.iter().map(|entry| stack(&entry.what, &entry.stack)));
    json!({
        "ruleId": report.rule,
        "ruleIndex": rules::all().position(|rule| rule.name == report.rule),
        "level": level(report.severity),
        "message": {"text": message},
        "locations": [location(report.stack.first().unwrap_or(&report.program), &report.program)],
        "stacks": stacks,
        "occurrenceCount": report.count,
        "properties": {
            "call": report.call,
            "object": report.object,
            "pid": report.pid,
            "thread": report.thread,
            "program": report.program,
        },
    })
}

fn location(frame: &str, program: &str) -> Value {
    json!({
        "physicalLocation": {"artifactLocation": {"uri": uri(program)}},
        "logicalLocations": [{"fullyQualifiedName": frame}],
    })
}

/// A path as a URI reference (RFC 3986): other bytes than those of a path's segments are encoded.
fn uri(path: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=@/".contains(&byte);
    let byte = |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    path.bytes().map(byte).collect()
}

fn stack(what: &str, frames: &[String]) -> Value {
    let frame = |frame: &String| json!({"location": {"logicalLocations": [{"fullyQualifiedName": frame}]}});
    json!({"message": {"text": what}, "frames": frames.iter().map(frame).collect::<Vec<_>>()})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::tests::report;

    #[test]
    fn paths_are_uris() {
        assert_eq!(uri("/home/a b/x%y#z/caf\u{e9}"), "/home/a%20b/x%25y%23z/caf%C3%A9");
        assert_eq!(uri("/usr/bin/ib_write_bw+1"), "/usr/bin/ib_write_bw+1");
    }

    #[test]
    fn results_point_at_their_rules() {
        let log: Value = serde_json::from_str(&sarif([&report()], "1.0")).expect("JSON");
        let run = &log["runs"][0];
        let result = &run["results"][0];
        let index = result["ruleIndex"].as_u64().expect("an index") as usize;
        assert_eq!(run["tool"]["driver"]["rules"][index]["id"], result["ruleId"]);
        assert_eq!(result["occurrenceCount"], 1);
        assert_eq!(result["stacks"].as_array().map(Vec::len), Some(2));
    }
}
