//! The names that a source file defines, imports, re-exports and uses.

use super::tokens::{Token, shipped};
use std::collections::BTreeSet;

/// A path as it is written, and its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mention {
    pub(super) path: Vec<String>,
    pub(super) line: usize,
}

/// A `use`, one for each name of a group in braces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Import {
    pub(super) mention: Mention,
    /// The name that the file has for it, or "*".
    pub(super) name: String,
    /// Whether the file passes the name on (`pub use`) without using it.
    pub(super) is_passed_on: bool,
}

/// The names and paths of a source file.
#[derive(Debug, Default)]
pub(super) struct File {
    pub(super) imports: Vec<Import>,
    /// Paths of two words and more in code, outside of imports.
    pub(super) mentions: Vec<Mention>,
    pub(super) defines: BTreeSet<String>,
    pub(super) macros: BTreeSet<String>,
}

/// Words after which a name is defined.
const DEFINING: &[&str] = &["struct", "enum", "union", "trait", "type", "const", "static", "fn", "mod"];

impl File {
    pub(super) fn read(text: &str) -> Self {
        let tokens = shipped(text);
        let (mut file, mut used) = (Self::default(), BTreeSet::new());
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            let rest = tokens.get(at..).unwrap_or_default();
            let before = tokens.get(..at).unwrap_or_default();
            if token.text == "use" && rest.get(1).is_some_and(|next| next.text != "<") {
                let length = rest.iter().position(|token| token.text == ";").unwrap_or(rest.len());
                let is_public = before.last().is_some_and(|last| last.text == "pub") || follows_restricted_pub(before);
                let mut tree = Tree { tokens: rest.get(1..length).unwrap_or_default(), is_public };
                tree.expand(&[], &mut file.imports);
                at += length;
            } else if token.is_word() {
                at += file.read_word(before, rest, &mut used);
            } else {
                at += 1;
            }
        }
        for import in &mut file.imports {
            import.is_passed_on &= !used.contains(&import.name);
        }
        file
    }

    /// Notes the path or the word that `rest` begins with. Returns how many tokens it is.
    fn read_word(&mut self, before: &[Token<'_>], rest: &[Token<'_>], used: &mut BTreeSet<String>) -> usize {
        let Some(first) = rest.first() else { return 1 };
        let last = before.last().map_or("", |token| token.text);
        // `*const T` defines nothing.
        let is_pointer = before.iter().rev().nth(1).is_some_and(|token| token.text == "*");
        if DEFINING.contains(&last) && !is_pointer {
            self.defines.insert(first.text.to_owned());
            return 1;
        }
        if last == "!" && before.iter().rev().nth(1).is_some_and(|token| token.text == "macro_rules") {
            self.macros.insert(first.text.to_owned());
            return 1;
        }
        if matches!(last, "." | "::" | "$") {
            return 1;
        }
        used.insert(first.text.to_owned());
        let path = path(rest);
        let length = path.len() * 2 - 1;
        if path.len() > 1 {
            self.mentions.push(Mention { path, line: first.line });
        }
        length
    }
}

/// The path that the tokens begin with: words with `::` between them.
fn path(tokens: &[Token<'_>]) -> Vec<String> {
    let mut path: Vec<String> = tokens.first().map(|first| first.text.to_owned()).into_iter().collect();
    for pair in tokens.get(1..).unwrap_or_default().chunks(2) {
        match pair {
            [colons, word] if colons.text == "::" && word.is_word() => path.push(word.text.to_owned()),
            _ => break,
        }
    }
    path
}

/// Whether the tokens end with `pub(...)`.
fn follows_restricted_pub(before: &[Token<'_>]) -> bool {
    let open = before.iter().rposition(|token| token.text == "(");
    let closed = before.last().is_some_and(|last| last.text == ")");
    closed && open.and_then(|open| before.get(open.checked_sub(1)?)).is_some_and(|token| token.text == "pub")
}

/// The rest of a `use` that is being read.
struct Tree<'t, 'a> {
    tokens: &'t [Token<'a>],
    is_public: bool,
}

impl<'a> Tree<'_, 'a> {
    fn take(&mut self) -> Option<Token<'a>> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(*first)
    }

    fn expand(&mut self, prefix: &[String], found: &mut Vec<Import>) {
        let mut path = prefix.to_vec();
        let mut name = None;
        let mut line = 0;
        while let Some(token) = self.tokens.first().copied() {
            match token.text {
                "," | "}" => break,
                "{" => {
                    self.take();
                    while self.tokens.first().is_some_and(|token| token.text != "}") {
                        self.expand(&path, found);
                        if self.tokens.first().is_some_and(|token| token.text == ",") {
                            self.take();
                        }
                    }
                    self.take();
                    return;
                }
                "as" => {
                    self.take();
                    name = self.tokens.first().map(|token| token.text.to_owned());
                }
                "*" => name = Some("*".to_owned()),
                // `self` in a group is the module before the braces.
                "::" => {}
                "self" if !path.is_empty() => {}
                word => {
                    path.push(word.to_owned());
                }
            }
            line = token.line;
            self.take();
        }
        if let Some(name) = name.or_else(|| path.last().cloned()) {
            found.push(Import { mention: Mention { path, line }, name, is_passed_on: self.is_public });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imports(text: &str) -> Vec<(String, String, bool)> {
        let file = File::read(text);
        let row = |import: Import| (import.mention.path.join("::"), import.name, import.is_passed_on);
        file.imports.into_iter().map(row).collect()
    }

    fn row(path: &str, name: &str, is_passed_on: bool) -> (String, String, bool) {
        (path.to_owned(), name.to_owned(), is_passed_on)
    }

    #[test]
    fn groups_are_taken_apart() {
        let rows = [row("a::b", "b", false), row("a::c", "d", false), row("a::e", "*", false), row("f", "f", false)];
        assert_eq!(imports("use a::{b::{self}, c as d, e::*,};\nuse f;"), rows);
    }

    #[test]
    fn a_name_that_is_only_re_exported_is_passed_on() {
        let text = "pub(crate) use a::B;\npub use c::D;\nmod B;\nfn f(d: D) -> impl Sized + use<> {}";
        assert_eq!(imports(text), [row("a::B", "B", true), row("c::D", "D", false)]);
    }

    #[test]
    fn paths_in_code_are_mentions_and_fields_are_none() {
        let file = File::read("fn f() { child::g(x.super::y, crate::a::<T>()); $crate::h::i!() }");
        let paths: Vec<String> = file.mentions.iter().map(|mention| mention.path.join("::")).collect();
        assert_eq!(paths, ["child::g", "crate::a"]);
        assert!(file.defines.contains("f"));
    }

    #[test]
    fn lifetimes_and_pointers_define_nothing() {
        let file = File::read("fn f(a: &'static T, b: *const U) {} const C: u8 = 0;");
        assert_eq!(file.defines.into_iter().collect::<Vec<_>>(), ["C", "f"]);
    }
}
