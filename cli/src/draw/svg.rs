//! Shapes, as the text of an SVG.

use std::fmt::Write as _;

/// A picture under way. Units are those of the picture.
#[derive(Debug, Default)]
pub struct Svg {
    body: String,
}

/// Where a text stands against its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// It begins there.
    Start,
    /// Its middle is there.
    Middle,
    /// It ends there.
    End,
}

// Writing to a String cannot fail.
impl Svg {
    /// A filled rectangle.
    pub fn rectangle(&mut self, [x, y, width, height]: [f64; 4], colour: &str) {
        let _ = writeln!(
            self.body,
            r#"<rect x="{x:.2}" y="{y:.2}" width="{width:.2}" height="{height:.2}" fill="{colour}"/>"#
        );
    }

    /// A straight line.
    pub fn line(&mut self, [x1, y1, x2, y2]: [f64; 4], colour: &str, width: f64, dashed: bool) {
        let dashes = if dashed { r#" stroke-dasharray="4 3""# } else { "" };
        let _ = writeln!(
            self.body,
            r#"<line x1="{x1:.2}" y1="{y1:.2}" x2="{x2:.2}" y2="{y2:.2}" stroke="{colour}" stroke-width="{width}"{dashes}/>"#
        );
    }

    /// Lines from point to point.
    pub fn path(&mut self, points: &[(f64, f64)], colour: &str, width: f64) {
        let mut list = String::new();
        for (x, y) in points {
            let _ = write!(list, "{x:.2},{y:.2} ");
        }
        let _ = writeln!(
            self.body,
            r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="{width}" stroke-linejoin="round"/>"#,
            list.trim_end()
        );
    }

    /// A small triangle that points down to a point.
    pub fn triangle(&mut self, x: f64, y: f64, colour: &str) {
        let _ = writeln!(
            self.body,
            r#"<path d="M{:.2} {:.2} h6 l-3 5 z" fill="{colour}"/>"#,
            x - 3.0,
            y - 5.0
        );
    }

    /// A text; `y` is its base line.
    pub fn text(&mut self, x: f64, y: f64, size: f64, colour: &str, anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let _ = writeln!(
            self.body,
            r#"<text x="{x:.2}" y="{y:.2}" font-size="{size}" fill="{colour}" text-anchor="{anchor}">{}</text>"#,
            escape(text)
        );
    }

    /// The whole picture, on white.
    pub fn finish(self, width: f64, height: f64) -> String {
        format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0}" height="{height:.0}" viewBox="0 0 {width:.0} {height:.0}" font-family="sans-serif">
<rect width="100%" height="100%" fill="#ffffff"/>
{}</svg>
"##,
            self.body
        )
    }
}

/// How wide a text is, about.
pub fn text_width(text: &str, size: f64) -> f64 {
    0.5 * size * text.chars().count() as f64
}

fn escape(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    // No document may have these, however they are written.
    let is_banned = |letter: char| letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}');
    text.replace(is_banned, "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_cannot_break_the_picture() {
        let mut svg = Svg::default();
        svg.text(0.0, 0.0, 10.0, "#000000", Anchor::Start, "a<b & c>\u{1}d");
        let text = svg.finish(10.0, 10.0);
        assert!(text.contains("a&lt;b &amp; c&gt;\u{fffd}d"), "{text}");
    }
}
