//! The modules of a crate, and which of them needs which.

use super::imports::{File, Mention};
use std::collections::{BTreeMap, BTreeSet};

/// Source files of a crate by module: "a::b", or "" for the crate's root.
pub(super) type Modules = BTreeMap<String, File>;

/// Where a module names another.
pub(super) type Arrows<'m> = BTreeMap<&'m str, BTreeMap<&'m str, Vec<&'m Mention>>>;

/// A re-export of a re-export ends somewhere.
const RE_EXPORTS_MAX: usize = 8;

/// Which module needs which: it imports a name of the other, or mentions one in a path.
///
/// A re-export is no need, and a name that comes by re-exports (or by the parent's imports) leads to its definition.
/// Calls of methods are not seen: they name no module.
pub(super) fn arrows(modules: &Modules) -> Arrows<'_> {
    let mut arrows = Arrows::new();
    for (module, file) in modules {
        let imported = file.imports.iter().filter(|import| !import.is_passed_on).map(|import| &import.mention);
        for mention in imported.chain(&file.mentions) {
            if let Some(other) = definition(modules, module, &mention.path, 0).filter(|other| other != module) {
                arrows.entry(module).or_default().entry(other).or_default().push(mention);
            }
        }
    }
    arrows
}

/// The module that a path written in `module` leads to, if it is in the crate.
fn definition<'m>(modules: &'m Modules, module: &str, path: &[String], re_exports: usize) -> Option<&'m str> {
    let mut at: Vec<&str> = module.split("::").filter(|part| !part.is_empty()).collect();
    match path.first()?.as_str() {
        "crate" | "super" | "self" => {}
        child => {
            modules
                .contains_key(at.iter().copied().chain([child]).collect::<Vec<_>>().join("::").as_str())
                .then_some(())?;
        }
    }
    for part in path {
        match part.as_str() {
            "crate" => at.clear(),
            "super" => {
                at.pop()?;
            }
            "self" => {}
            name => at.push(name),
        }
    }
    // The longest beginning that is a file; the rest is a name in it.
    let found = (0..=at.len()).rev().find_map(|length| {
        let (found, file) = modules.get_key_value(at.get(..length)?.join("::").as_str())?;
        Some((found.as_str(), file, at.get(length..)?))
    });
    let (found, file, rest) = found?;
    let Some((name, rest)) = rest.split_first() else { return Some(found) };
    if file.defines.contains(*name) || file.macros.contains(*name) || re_exports == RE_EXPORTS_MAX {
        return Some(found);
    }
    let follow = |path: &[String], rest: &[&str]| {
        let path: Vec<String> = path.iter().cloned().chain(rest.iter().map(|part| (*part).to_owned())).collect();
        definition(modules, found, &path, re_exports + 1)
    };
    if let Some(import) = file.imports.iter().find(|import| import.name == *name) {
        // None: the parent's import of another crate's name.
        return follow(&import.mention.path, rest);
    }
    let globs = file.imports.iter().filter(|import| import.name == "*");
    let by_glob =
        globs.filter_map(|import| follow(&import.mention.path, &[name])).find(|other| defines(modules, other, name));
    let by_macro = || modules.iter().find(|(_, file)| file.macros.contains(*name)).map(|(module, _)| module.as_str());
    by_glob.or_else(by_macro).or(Some(found))
}

fn defines(modules: &Modules, module: &str, name: &str) -> bool {
    modules.get(module).is_some_and(|file| file.defines.contains(name))
}

/// The modules that reach each other, one set for each knot of circles.
pub(super) fn circles<'m>(arrows: &Arrows<'m>) -> Vec<BTreeSet<&'m str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        arrows.keys().map(|module| (*module, reached(arrows, module))).collect();
    let reaches = |from: &str, to: &str| reached.get(from).is_some_and(|modules| modules.contains(to));
    let mut circles = Vec::new();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for (module, others) in &reached {
        if reaches(module, module) && !seen.contains(module) {
            let circle: BTreeSet<&str> = others.iter().copied().filter(|other| reaches(other, module)).collect();
            seen.extend(&circle);
            circles.push(circle);
        }
    }
    circles
}

fn reached<'m>(arrows: &Arrows<'m>, from: &str) -> BTreeSet<&'m str> {
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        for next in arrows.get(module).into_iter().flat_map(BTreeMap::keys) {
            if seen.insert(*next) {
                open.push(next);
            }
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_circles(files: &[(&str, &str)]) -> Vec<String> {
        let modules: Modules = files.iter().map(|(module, text)| ((*module).to_owned(), File::read(text))).collect();
        let arrows = arrows(&modules);
        circles(&arrows).into_iter().flatten().map(str::to_owned).collect()
    }

    #[test]
    fn a_circle_of_three_is_found_and_its_users_are_not_in_it() {
        let files = [
            ("a", "use crate::b::{self, T};"),
            ("b", "fn f() -> crate::c::d::T {}"),
            ("c::d", "use super::super::a::{U as V};"),
            ("user", "use crate::{a, c::d};"),
        ];
        assert_eq!(in_circles(&files), ["a", "b", "c::d"]);
    }

    #[test]
    fn a_parent_that_calls_its_child_is_in_a_circle_if_the_child_uses_its_type() {
        let child = ("a::b", "use super::T; pub fn f(t: T) {}");
        assert_eq!(in_circles(&[("a", "mod b; pub struct T; fn g() { b::f(T) }"), child]), ["a", "a::b"]);
        assert_eq!(in_circles(&[("a", "mod b; pub use b::f; pub struct T;"), child]), [""; 0]);
        assert_eq!(in_circles(&[("a", "mod b; pub use b::f; pub struct T; fn g() { f(T) }"), child]), ["a", "a::b"]);
    }

    #[test]
    fn a_name_leads_through_re_exports_to_its_definition() {
        let files = [
            ("", "pub use a::T; pub use c::*;"),
            ("a", "use crate::C; pub struct T;"),
            ("c", "use crate::T; pub const C: u8 = 1;"),
            ("d", "use crate::{C, T};"),
        ];
        assert_eq!(in_circles(&files), ["a", "c"]);
    }

    #[test]
    fn imports_of_other_crates_and_comments_lead_nowhere() {
        let files =
            [("a", "// crate::a::b\nuse std::fmt; mod b; pub use b::f;"), ("a::b", "use super::fmt::Debug; fn f() {}")];
        assert_eq!(in_circles(&files), [""; 0]);
    }
}
