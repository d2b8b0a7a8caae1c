//! Style sheet of drawings: shapes of lines, and the colors of a light and of a dark page.

/// Colors of one kind of page, as CSS spells them.
struct Palette {
    ground: &'static str,
    text: &'static str,
    /// Background and border of groups.
    frame: (&'static str, &'static str),
    /// Links that carry data or are about to.
    healthy: &'static str,
    /// Trained links without a manager.
    init: &'static str,
    slow: &'static str,
    errors: &'static str,
    /// Links that are down or cut.
    dead: &'static str,
    /// Border of nodes.
    border: &'static str,
    switch: &'static str,
    host: &'static str,
    router: &'static str,
    /// Nodes without power.
    off: &'static str,
}

const LIGHT: Palette = Palette {
    ground: "#ffffff",
    text: "#111111",
    frame: ("#f3f6fa", "#6f88a3"),
    healthy: "#1b7837",
    init: "#2166ac",
    slow: "#a86b00",
    errors: "#d94801",
    dead: "#b2182b",
    border: "#333333",
    switch: "#dde8f5",
    host: "#fbe3c4",
    router: "#e3d6f0",
    off: "#bbbbbb",
};

const DARK: Palette = Palette {
    ground: "#14181d",
    text: "#e6edf3",
    frame: ("#1d242c", "#6d8299"),
    healthy: "#4cc38a",
    init: "#6cb2ff",
    slow: "#e5b454",
    errors: "#ff8a4c",
    dead: "#ff6b7a",
    border: "#c3ccd6",
    switch: "#24405c",
    host: "#5a4526",
    router: "#463a5c",
    off: "#4d555e",
};

/// Widths and dashes, the same on every page. Dashes and marks tell links apart without colors.
const SHAPES: &str = ".link { fill: none; stroke-width: 1.3 } .armed { stroke-dasharray: 6 3 }
.slow { stroke-width: 2.4 } .errors { stroke-width: 2.4; stroke-dasharray: 1 4; stroke-linecap: round }
.down { stroke-width: 2; stroke-dasharray: 6 3 } .cut { stroke-width: 2; stroke-dasharray: 2 4 }
.mark { stroke-dasharray: none; stroke-width: 1.6 } .off { stroke-dasharray: 2 2 }
text { font-size: 10px; stroke: none } .name { text-anchor: middle } .title { font-size: 15px; font-weight: bold }
";

/// Returns the style sheet. A browser takes the colors that its user prefers; other viewers show the light ones.
pub fn sheet() -> String {
    format!("{SHAPES}{}@media (prefers-color-scheme: dark) {{\n{}}}\n", LIGHT.colors(), DARK.colors())
}

impl Palette {
    fn colors(&self) -> String {
        let Palette { ground, text, frame, healthy, init, slow, errors, dead, border, switch, host, router, off } =
            self;
        let (inside, edge) = frame;
        format!(
            ".ground {{ fill: {ground} }} .frame {{ fill: {inside}; stroke: {edge} }} text {{ fill: {text} }}\n\
             .active, .armed {{ stroke: {healthy} }} .init {{ stroke: {init} }} .slow {{ stroke: {slow} }}\n\
             .errors {{ stroke: {errors} }} .down, .cut {{ stroke: {dead} }} .mark {{ fill: {ground} }}\n\
             .node {{ stroke: {border} }} .switch {{ fill: {switch} }} .host {{ fill: {host} }} .router {{ fill: {router} }}\n\
             .off {{ fill: {off} }}\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance (WCAG 2.2).
    fn luminance(color: &str) -> f64 {
        let channel = |at: usize| {
            let value = f64::from(u8::from_str_radix(&color[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    }

    fn contrast(a: &str, b: &str) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn names_and_links_can_be_read_on_both_pages() {
        assert!((contrast("#000000", "#ffffff") - 21.0).abs() < 0.01);
        for palette in [LIGHT, DARK] {
            for ground in [palette.ground, palette.frame.0, palette.switch, palette.host, palette.router, palette.off] {
                let found = contrast(palette.text, ground);
                assert!(found >= 4.5, "text {} on {ground}: {found:.1}", palette.text);
            }
            let lines = [palette.healthy, palette.init, palette.slow, palette.errors, palette.dead, palette.border];
            for line in lines {
                for ground in [palette.ground, palette.frame.0] {
                    let found = contrast(line, ground);
                    assert!(found >= 3.0, "line {line} on {ground}: {found:.1}");
                }
            }
            assert!(contrast(palette.frame.1, palette.ground) >= 3.0);
        }
    }
}
