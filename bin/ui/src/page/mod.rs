//! The page: files that the browser loads, all of them in the program.

/// A file.
#[derive(Debug)]
pub struct File {
    /// Its address.
    pub path: &'static str,
    /// Its type.
    pub content_type: &'static str,
    /// Its content.
    pub content: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// All files.
pub const FILES: &[File] = &[
    File { path: "/", content_type: HTML, content: include_str!("index.html") },
    File { path: "/style.css", content_type: CSS, content: include_str!("style.css") },
    File { path: "/app.js", content_type: SCRIPT, content: include_str!("app.js") },
    File { path: "/state.js", content_type: SCRIPT, content: include_str!("state.js") },
    File { path: "/drawing.js", content_type: SCRIPT, content: include_str!("drawing.js") },
    File { path: "/detail.js", content_type: SCRIPT, content: include_str!("detail.js") },
    File { path: "/tables.js", content_type: SCRIPT, content: include_str!("tables.js") },
    File { path: "/chart.js", content_type: SCRIPT, content: include_str!("chart.js") },
    File { path: "/flows.js", content_type: SCRIPT, content: include_str!("flows.js") },
    File { path: "/dom.js", content_type: SCRIPT, content: include_str!("dom.js") },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_needs_no_other_server() {
        for file in FILES {
            for word in ["https://", "//cdn", "@import", "eval(", "innerHTML"] {
                assert!(!file.content.contains(word), "{} in {}", word, file.path);
            }
            let foreign = file.content.match_indices("http://").filter(|(at, _)| {
                // The name of SVG's namespace, which no browser fetches.
                !file.content[*at..].starts_with("http://www.w3.org/2000/svg")
            });
            assert_eq!(foreign.count(), 0, "{}", file.path);
        }
    }

    #[test]
    fn every_module_that_is_imported_is_there() {
        for file in FILES.iter().filter(|file| file.content_type == SCRIPT) {
            for import in file.content.lines().filter(|line| line.starts_with("import ")) {
                let name = import.split('"').nth(1).expect("a module").trim_start_matches('.');
                assert!(FILES.iter().any(|other| other.path == name), "{import} in {}", file.path);
            }
        }
    }
}
