//! The elements of the picture.

use std::fmt::{self, Write};

/// Writing that begins at (`x`, `y`).
pub(super) fn text(out: &mut String, x: f64, y: f64, class: &str, text: &str) -> fmt::Result {
    let text = escape(text);
    writeln!(
        out,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>"
    )
}

/// Writing around `x`.
pub(super) fn centred(out: &mut String, x: f64, y: f64, class: &str, text: &str) -> fmt::Result {
    let text = escape(text);
    writeln!(
        out,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{text}</text>"
    )
}

/// A filled rectangle: its upper left corner, width and height, and colour.
pub(super) fn rect(
    out: &mut String,
    (x, y): (f64, f64),
    (w, h): (f64, f64),
    fill: &str,
) -> fmt::Result {
    writeln!(
        out,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{w:.1}\" height=\"{h:.1}\" fill=\"{fill}\"/>"
    )
}

/// A line between two points.
pub(super) fn line(
    out: &mut String,
    class: &str,
    (x1, y1): (f64, f64),
    (x2, y2): (f64, f64),
) -> fmt::Result {
    writeln!(
        out,
        "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
    )
}

/// `text` as it may stand in SVG.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
