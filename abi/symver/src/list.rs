//! The list of a library's versioned symbols.
//!
//! A line is `NAME NODE VISIBILITY ANSWER`; `#` starts a comment.
//!
//! - NODE is the version, such as `IBVERBS_1.1`.
//! - VISIBILITY is `default` for the version that new programs link against (`name@@NODE`) or `hidden` for one that
//!   only old programs use (`name@NODE`).
//! - ANSWER is `real` if the library implements the call, or the kind of stub that stands in for it: `ptr` (null and
//!   errno), `neg` (-1 and errno), `err` (an errno value), `void`, or `data` (one zero byte). Every stub fails with
//!   EOPNOTSUPP, as rdma-core does for a driver that lacks the call.
//!
//! `repeat OLD NEW` repeats every symbol of the node OLD as a hidden one of NEW: rdma-core renames its private node
//! when drivers must be rebuilt, while the few private calls that programs use stay the same.

use std::collections::BTreeMap;

/// The implementation behind a symbol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    Real,
    Ptr,
    Neg,
    Err,
    Void,
    Data,
}

/// One versioned symbol.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Symbol {
    pub name: String,
    pub node: String,
    pub default: bool,
    pub answer: Answer,
}

/// Reads a list; an error names the line.
pub fn parse(text: &str) -> Result<Vec<Symbol>, String> {
    let mut symbols: Vec<Symbol> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().collect();
        let wrong = |what: &str| format!("line {}: {what}: `{line}`", number + 1);
        match words[..] {
            [] => {}
            ["repeat", old, new] => {
                let repeated = repeat(&symbols, old, new);
                if repeated.is_empty() {
                    return Err(wrong("no symbol of that node stands above"));
                }
                symbols.extend(repeated);
            }
            [name, node, visibility, answer] => symbols.push(Symbol {
                name: name.to_owned(),
                node: node.to_owned(),
                default: match visibility {
                    "default" => true,
                    "hidden" => false,
                    _ => return Err(wrong("visibility is `default` or `hidden`")),
                },
                answer: match answer {
                    "real" => Answer::Real,
                    "ptr" => Answer::Ptr,
                    "neg" => Answer::Neg,
                    "err" => Answer::Err,
                    "void" => Answer::Void,
                    "data" => Answer::Data,
                    _ => return Err(wrong("answer is one of real, ptr, neg, err, void, data")),
                },
            }),
            _ => return Err(wrong("expected NAME NODE VISIBILITY ANSWER")),
        }
    }
    Ok(symbols)
}

/// Returns the symbols of `old` under the node `new`. A name that contains the node's number gets the new one.
fn repeat(symbols: &[Symbol], old: &str, new: &str) -> Vec<Symbol> {
    let number = |node: &str| format!("_{}", node.rsplit('_').next().unwrap_or_default());
    let of_old = symbols.iter().filter(|s| s.node == old);
    of_old
        .map(|s| match s.name.strip_suffix(&number(old)) {
            Some(stem) => {
                Symbol { name: stem.to_owned() + &number(new), node: new.to_owned(), default: true, ..s.clone() }
            }
            None => Symbol { node: new.to_owned(), default: false, ..s.clone() },
        })
        .collect()
}

/// Returns the disagreements between the list and the library's functions (name to path), one sentence each.
pub fn check(symbols: &[Symbol], functions: &BTreeMap<String, String>) -> Vec<String> {
    let mut complaints = Vec::new();
    for s in symbols {
        match functions.get(&s.name) {
            None if s.answer == Answer::Real => {
                complaints.push(format!("{} is listed as real, but no `pub extern \"C\" fn {}` exists", s.name, s.name))
            }
            Some(path) if s.answer != Answer::Real && s.default => {
                complaints.push(format!("{} is listed as a stub, but {path} implements it: list it as real", s.name));
            }
            _ => {}
        }
    }
    for (name, path) in functions {
        if !symbols.iter().any(|s| s.name == *name) {
            complaints.push(format!("{path} is public, but {name} is not listed: add it or make it private"));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_symbols_comments_and_repeats() {
        let symbols = parse(
            "# head\nf V_1.0 hidden ptr\nf V_1.1 default real # tail\n\
             g V_PRIVATE_34 default err\nreg_34 V_PRIVATE_34 default void\nrepeat V_PRIVATE_34 V_PRIVATE_57\n",
        )
        .unwrap();
        let short: Vec<_> = symbols.iter().map(|s| (s.name.as_str(), s.node.as_str(), s.default, s.answer)).collect();
        assert_eq!(
            short,
            [
                ("f", "V_1.0", false, Answer::Ptr),
                ("f", "V_1.1", true, Answer::Real),
                ("g", "V_PRIVATE_34", true, Answer::Err),
                ("reg_34", "V_PRIVATE_34", true, Answer::Void),
                ("g", "V_PRIVATE_57", false, Answer::Err),
                ("reg_57", "V_PRIVATE_57", true, Answer::Void),
            ]
        );
    }

    #[test]
    fn wrong_lines_are_named() {
        assert!(parse("f V_1.0 default real\nf V_1.1 best real\n").unwrap_err().starts_with("line 2:"));
        assert!(parse("repeat V_1 V_2\n").is_err());
        assert!(parse("f V_1\n").is_err());
    }

    #[test]
    fn disagreement_is_told_from_both_sides() {
        let symbols = parse("f V_1 default real\ng V_1 default err\nh V_0 hidden err\n").unwrap();
        let functions: BTreeMap<_, _> = ["g", "h", "i"].map(|n| (n.to_owned(), format!("crate::{n}"))).into();
        let complaints = check(&symbols, &functions);
        assert_eq!(complaints.len(), 3, "{complaints:?}");
    }
}
