//! Output in the style of iproute2's `rdma`: a blank after each word, and iproute2's own spacing of JSON.

use std::fmt::Write;

use clap::Args;
use serde_json::Value;

/// The output options of `rdma`.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct OutputArgs {
    /// Print JSON
    #[arg(short, long)]
    pub json: bool,
    /// Indent JSON
    #[arg(short, long)]
    pub pretty: bool,
    /// Print more details
    #[arg(short, long)]
    pub details: bool,
}

/// An object's members in output order.
pub type Members = Vec<(&'static str, Value)>;

/// Formats a list of objects as iproute2 writes JSON, including the final newline.
pub fn json(objects: &[Members], pretty: bool) -> String {
    let mut out = String::new();
    if !pretty {
        let texts: Vec<String> = objects.iter().map(compact).collect();
        let _ = writeln!(out, "[{}]", texts.join(","));
        return out;
    }
    out.push_str("[ ");
    for (i, object) in objects.iter().enumerate() {
        out.push_str(if i > 0 { ",{\n" } else { "{\n" });
        let lines: Vec<String> =
            object.iter().map(|(key, value)| format!("        \"{key}\": {}", pretty_value(value))).collect();
        let _ = write!(out, "{}\n    }}", lines.join(",\n"));
    }
    out.push_str(if objects.is_empty() { "]\n" } else { " ]\n" });
    out
}

fn compact(object: &Members) -> String {
    let members: Vec<String> = object.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
    format!("{{{}}}", members.join(","))
}

fn pretty_value(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(Value::to_string).collect();
            format!("[ {} ]", items.join(","))
        }
        other => other.to_string(),
    }
}

/// Formats a GUID in groups of four digits.
pub fn guid(value: u64) -> String {
    let hex = format!("{value:016x}");
    [&hex[..4], &hex[4..8], &hex[8..12], &hex[12..]].join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_list_has_two_forms() {
        assert_eq!(json(&[], false), "[]\n");
        assert_eq!(json(&[], true), "[ ]\n");
    }

    #[test]
    fn objects_are_spaced_as_iproute2_does() {
        let objects = [vec![("a", Value::from(1))], vec![("b", Value::from("x"))]];
        assert_eq!(json(&objects, false), "[{\"a\":1},{\"b\":\"x\"}]\n");
        assert_eq!(json(&objects, true), "[ {\n        \"a\": 1\n    },{\n        \"b\": \"x\"\n    } ]\n");
    }
}
