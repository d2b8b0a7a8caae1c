//! Finds the functions that a library exports: lines `pub extern "C" fn NAME` or `pub unsafe extern "C" fn NAME` in its
//! sources. Call-table entries and helpers are excluded because they are not `pub`.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

/// Maps the name of every such function under `src` to its Rust path (`crate::pd::ibv_alloc_pd`).
pub fn exported_functions(src: &Path) -> io::Result<BTreeMap<String, String>> {
    let mut functions = BTreeMap::new();
    scan(src, "crate", &mut functions)?;
    Ok(functions)
}

fn scan(dir: &Path, module: &str, functions: &mut BTreeMap<String, String>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let stem = path.file_stem().and_then(|s| s.to_str()).unwrap_or_default();
        let inner = match stem {
            "lib" | "mod" => module.to_owned(),
            _ => format!("{module}::{stem}"),
        };
        if path.is_dir() {
            scan(&path, &inner, functions)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            for name in functions_in(&fs::read_to_string(&path)?) {
                functions.insert(name.to_owned(), format!("{inner}::{name}"));
            }
        }
    }
    Ok(())
}

fn functions_in(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let rest = line.strip_prefix("pub ")?;
        let rest = rest.strip_prefix("unsafe ").unwrap_or(rest).strip_prefix("extern \"C\" fn ")?;
        rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_c_functions_count() {
        let text = "pub extern \"C\" fn a(x: i32) {}\npub unsafe extern \"C\" fn b_1(\nextern \"C\" fn c() {}\n\
                    pub(crate) extern \"C\" fn d() {}\n    pub extern \"C\" fn e() {}\npub fn f() {}\n";
        assert_eq!(functions_in(text).collect::<Vec<_>>(), ["a", "b_1"]);
    }
}
