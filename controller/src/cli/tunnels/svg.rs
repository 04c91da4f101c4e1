//! The matrix as a picture: a square for each pair, in the colour of what flows.

use std::fmt::Write as _;

use probe_user::tunnels::Verdict;

use super::table::cell;
use crate::api::TunnelMatrix;

/// Side of a square, in pixels.
const SQUARE: usize = 18;
/// Room for a name, by character.
const CHARACTER: usize = 8;
const MARGIN: usize = 12;
/// Height of the legend.
const LEGEND: usize = 40;

const VERDICTS: [Option<Verdict>; 5] = [
    Some(Verdict::BothWays),
    Some(Verdict::SentOnly),
    Some(Verdict::ReceivedOnly),
    Some(Verdict::Idle),
    None,
];

/// The whole document.
pub(super) fn draw(matrix: &TunnelMatrix) -> String {
    let names: Vec<&str> = matrix.nodes.iter().map(|it| it.node.as_str()).collect();
    let longest = names.iter().map(|name| name.chars().count()).max();
    let labels = longest.unwrap_or_default() * CHARACTER + MARGIN;
    let side = names.len() * SQUARE;
    let width = (labels + side + MARGIN).max(VERDICTS.len() * 110 + MARGIN);
    let height = labels + side + LEGEND;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (place, name) in names.iter().enumerate() {
        let middle = labels + place * SQUARE + SQUARE * 2 / 3;
        let (name, end) = (escaped(name), labels - 4);
        // Writing to a string cannot fail.
        let _ = write!(
            svg,
            "<text x=\"{end}\" y=\"{middle}\" text-anchor=\"end\">{name}</text>\n\
             <text transform=\"translate({middle},{end}) rotate(-90)\">{name}</text>\n"
        );
    }
    for (row, node) in names.iter().enumerate() {
        for (column, peer) in names
            .iter()
            .enumerate()
            .filter(|(column, _)| *column != row)
        {
            let (x, y) = (labels + column * SQUARE, labels + row * SQUARE);
            let verdict = cell(matrix, node, peer);
            let title = format!("{node} with {peer}: {}", words(verdict));
            square(&mut svg, (x, y), verdict, &title);
        }
    }
    for (place, verdict) in VERDICTS.into_iter().enumerate() {
        let (x, y) = (MARGIN + place * 110, labels + side + MARGIN);
        square(&mut svg, (x, y), verdict, words(verdict));
        let (x, y) = (x + SQUARE + 4, y + SQUARE * 2 / 3);
        let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y}\">{}</text>", words(verdict));
    }
    svg.push_str("</svg>\n");
    svg
}

fn square(svg: &mut String, (x, y): (usize, usize), verdict: Option<Verdict>, title: &str) {
    let (side, colour, title) = (SQUARE - 1, colour(verdict), escaped(title));
    let _ = writeln!(
        svg,
        "<rect x=\"{x}\" y=\"{y}\" width=\"{side}\" height=\"{side}\" fill=\"{colour}\">\
         <title>{title}</title></rect>"
    );
}

const fn words(verdict: Option<Verdict>) -> &'static str {
    match verdict {
        Some(verdict) => verdict.label(),
        None => "not known",
    }
}

const fn colour(verdict: Option<Verdict>) -> &'static str {
    match verdict {
        Some(Verdict::BothWays) => "#2e9e4f",
        Some(Verdict::SentOnly) => "#d43a2f",
        Some(Verdict::ReceivedOnly) => "#e8a33d",
        Some(Verdict::Idle) => "#e4e7ea",
        None => "#9aa3ab",
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::matrix;
    use super::*;

    #[test]
    fn every_pair_has_a_square_that_says_what_it_is() {
        let mut matrix = matrix();
        matrix.nodes[2].node = "<n3>".to_owned();
        let svg = draw(&matrix);
        // Two for each pair of three nodes, five in the legend, and the ground.
        assert_eq!(svg.matches("<rect").count(), 6 + 5 + 1);
        for title in [
            "n1 with n2: received only",
            "n2 with n1: sent only",
            "n1 with &lt;n3&gt;: idle",
            "&lt;n3&gt; with n2: not known",
        ] {
            assert!(
                svg.contains(&format!("<title>{title}</title>")),
                "{title}: {svg}"
            );
        }
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    }
}
