//! YAML documents as trees, over the events of saphyr-parser. Only what configuration files use: no anchors, aliases and
//! tags, so that no document is larger than its text.

use saphyr_parser::{Event, Parser, ScalarStyle};

/// Longest document in bytes.
pub const BYTES_MAX: usize = 256 << 10;

/// Levels of a document.
const DEPTH_MAX: usize = 32;

/// A node of a document.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// Line that it begins in, counted from 1.
    pub line: usize,
    /// Its value.
    pub value: Value,
}

/// The value of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// Text; YAML's types of plain scalars are their readers' matter.
    Scalar(String),
    /// No value: `key:`, `~` or `null`.
    Null,
    /// List.
    List(Vec<Node>),
    /// Map in the document's order; keys are unique.
    Map(Vec<(String, Node)>),
}

/// A list or map whose end has not come yet.
enum Open {
    List(Vec<Node>),
    Map { entries: Vec<(String, Node)>, key: Option<String> },
}

/// Parses all documents of a text.
///
/// # Errors
/// The text names the line and the fault.
pub fn parse(text: &str) -> Result<Vec<Node>, String> {
    if text.len() > BYTES_MAX {
        return Err(format!("the file has {} bytes: at most {BYTES_MAX} are read", text.len()));
    }
    let (mut documents, mut open): (Vec<Node>, Vec<(usize, Open)>) = (Vec::new(), Vec::new());
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| format!("line {}: {}", error.marker().line(), error.info()))?;
        let line = span.start.line();
        let node = match event {
            Event::Scalar(text, style, anchor, tag) => {
                refuse(line, anchor != 0 || tag.is_some())?;
                let is_null = style == ScalarStyle::Plain && matches!(&*text, "" | "~" | "null" | "Null" | "NULL");
                let value = if is_null { Value::Null } else { Value::Scalar(text.into_owned()) };
                Node { line, value }
            }
            Event::SequenceStart(anchor, tag) => {
                refuse(line, anchor != 0 || tag.is_some())?;
                push(&mut open, line, Open::List(Vec::new()))?;
                continue;
            }
            Event::MappingStart(anchor, tag) => {
                refuse(line, anchor != 0 || tag.is_some())?;
                push(&mut open, line, Open::Map { entries: Vec::new(), key: None })?;
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some((line, Open::List(nodes))) => Node { line, value: Value::List(nodes) },
                Some((line, Open::Map { entries, .. })) => Node { line, value: Value::Map(entries) },
                None => continue,
            },
            Event::Alias(_) => return refuse(line, true).map(|()| Vec::new()),
            _ => continue,
        };
        match open.last_mut() {
            Some((_, parent)) => parent.add(node)?,
            None => documents.push(node),
        }
    }
    Ok(documents)
}

fn refuse(line: usize, is_fancy: bool) -> Result<(), String> {
    if is_fancy {
        Err(format!("line {line}: anchors, aliases and tags are not supported: write the value out"))
    } else {
        Ok(())
    }
}

fn push(open: &mut Vec<(usize, Open)>, line: usize, one: Open) -> Result<(), String> {
    if open.len() >= DEPTH_MAX {
        return Err(format!("line {line}: more than {DEPTH_MAX} levels"));
    }
    open.push((line, one));
    Ok(())
}

impl Open {
    fn add(&mut self, node: Node) -> Result<(), String> {
        match self {
            Open::List(nodes) => nodes.push(node),
            Open::Map { entries, key } => match key.take() {
                Some(key) => entries.push((key, node)),
                None => match node.value {
                    Value::Scalar(text) if entries.iter().any(|(known, _)| *known == text) => {
                        return Err(format!("line {}: the key {text} is twice in one map", node.line));
                    }
                    Value::Scalar(text) => *key = Some(text),
                    _ => return Err(format!("line {}: the key of a map is not a text", node.line)),
                },
            },
        }
        Ok(())
    }
}

impl Node {
    /// Returns the entry of a map.
    pub fn get(&self, key: &str) -> Option<&Node> {
        match &self.value {
            Value::Map(entries) => entries.iter().find(|(name, _)| name == key).map(|(_, node)| node),
            _ => None,
        }
    }

    /// Returns the text of a scalar; `what` names it in the error.
    ///
    /// # Errors
    /// It is a list, a map, or empty.
    pub fn text(&self, what: &str) -> Result<&str, String> {
        match &self.value {
            Value::Scalar(text) => Ok(text),
            _ => Err(format!("line {}: {what} is not a text or a number", self.line)),
        }
    }

    /// Returns the nodes of a list, or a single scalar as a list of one.
    ///
    /// # Errors
    /// It is a map.
    pub fn list(&self, what: &str) -> Result<&[Node], String> {
        match &self.value {
            Value::List(nodes) => Ok(nodes),
            Value::Scalar(_) => Ok(std::slice::from_ref(self)),
            Value::Null => Ok(&[]),
            Value::Map(_) => Err(format!("line {}: {what} is a map, not a list", self.line)),
        }
    }

    /// Returns the entries of a map.
    ///
    /// # Errors
    /// It is not a map.
    pub fn map(&self, what: &str) -> Result<&[(String, Node)], String> {
        match &self.value {
            Value::Map(entries) => Ok(entries),
            Value::Null => Ok(&[]),
            _ => Err(format!("line {}: {what} is not a map", self.line)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn documents_become_trees() {
        let all = parse("a: 0x8002\nb:\n  - x\n  - 'yes'\nc:\nd: {e: f}\n").unwrap();
        let root = &all[0];
        assert_eq!(root.get("a").unwrap().text("a"), Ok("0x8002"));
        let list = root.get("b").unwrap();
        assert_eq!((list.list("b").unwrap().len(), list.list("b").unwrap()[1].text("x")), (2, Ok("yes")));
        assert_eq!(root.get("c").unwrap().value, Value::Null);
        assert_eq!(root.get("d").unwrap().get("e").unwrap().line, 6);
        assert_eq!(parse("--- 1\n--- 2\n").unwrap().len(), 2);
    }

    #[test]
    fn hostile_documents_are_refused() {
        for (text, part) in [
            ("a: &x 1\nb: *x\n", "line 1: anchors"),
            ("a: !!python/object x\n", "line 1: anchors"),
            ("a: 1\na: 2\n", "line 2: the key a is twice"),
            ("? [1]\n: 2\n", "line 1: the key of a map"),
            ("a: [1\n", "line "),
            ("a: b: c\n", "line 1"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{text:?}: {error}");
        }
        assert!(parse(&"[".repeat(DEPTH_MAX + 1)).unwrap_err().contains("more than 32 levels"));
        assert!(parse(&"[".repeat(10_000)).is_err());
        assert!(parse(&"- ".repeat(10_000)).is_err());
        assert!(parse(&" ".repeat(BYTES_MAX + 1)).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "[-:a?\\[\\]{}&*!|>'\"#%@, \n\t]{0,60}") {
            let _ = parse(&text);
        }
    }
}
