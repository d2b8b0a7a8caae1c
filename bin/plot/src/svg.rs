//! The few elements of SVG 1.1 that a plot needs.

use std::fmt::{Display, Write};

/// A picture under construction.
pub struct Svg {
    text: String,
}

/// Alignment of a text to its position.
#[derive(Clone, Copy, Debug)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    /// Creates an empty picture on white.
    pub fn new(width: f64, height: f64) -> Svg {
        let text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"Helvetica, Arial, sans-serif\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
        );
        Svg { text }
    }

    fn add(&mut self, element: impl Display) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{element}");
    }

    /// Adds a straight line.
    pub fn line(&mut self, [x1, y1]: [f64; 2], [x2, y2]: [f64; 2], colour: &str, width: f64) {
        self.add(format_args!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\" \
             stroke-width=\"{width}\"/>"
        ));
    }

    /// Adds a line through points; dashed if `dashes` is not empty.
    pub fn curve(&mut self, points: &[[f64; 2]], colour: &str, width: f64, dashes: &str) {
        let points: Vec<_> = points.iter().map(|[x, y]| format!("{x:.1},{y:.1}")).collect();
        let dashes = if dashes.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{dashes}\"") };
        self.add(format_args!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"{dashes}/>",
            points.join(" ")
        ));
    }

    /// Adds a dot with `title` as its tooltip.
    pub fn dot(&mut self, [x, y]: [f64; 2], radius: f64, colour: &str, title: &str) {
        self.add(format_args!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"{colour}\"><title>{}</title></circle>",
            escaped(title)
        ));
    }

    /// Adds a text.
    pub fn text(&mut self, [x, y]: [f64; 2], size: f64, anchor: Anchor, colour: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.add(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\" fill=\"{colour}\">{}</text>",
            escaped(text)
        ));
    }

    /// Returns the whole file.
    pub fn finish(mut self) -> String {
        self.add("</svg>");
        self.text
    }
}

/// Escapes XML's special characters.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_the_picture_ends() {
        let mut svg = Svg::new(100.0, 50.0);
        svg.text([1.0, 2.0], 10.0, Anchor::Start, "#000000", "a < b & \"c\"");
        svg.curve(&[[0.0, 1.0], [2.0, 3.25]], "#112233", 2.0, "4 3");
        let text = svg.finish();
        assert!(text.contains(">a &lt; b &amp; &quot;c&quot;</text>"));
        assert!(text.contains("points=\"0.0,1.0 2.0,3.2\"") && text.contains("stroke-dasharray=\"4 3\""));
        assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"));
    }
}
