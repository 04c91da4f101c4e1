//! The matrix for people.

use probe_user::tunnels::Verdict;

use crate::api::TunnelMatrix;

/// A cell: what a node sees of another one. `None`: nothing can be said.
type Cell = Option<Verdict>;

/// The lines of the matrix, each node's view of the others a line, and below it what deserves
/// attention.
pub(super) fn lines(matrix: &TunnelMatrix, colour: bool) -> Vec<String> {
    let names: Vec<&str> = matrix.nodes.iter().map(|it| it.node.as_str()).collect();
    let longest = names.iter().map(|name| name.chars().count()).max();
    let width = longest.unwrap_or_default().max(symbol(None).len());
    let row = |row: &str, cells: Vec<String>| {
        let line = format!("{row:width$}  {}", cells.join("  "));
        line.trim_end().to_owned()
    };
    let heading = names.iter().map(|name| format!("{name:width$}"));
    let mut lines = vec![row("", heading.collect())];
    for node in &names {
        let cell = |peer: &&str| match node == peer {
            true => format!("{:width$}", ""),
            false => paint(cell(matrix, node, peer), width, colour),
        };
        lines.push(row(node, names.iter().map(cell).collect()));
    }
    lines.push(String::new());
    lines.push(legend());
    lines.extend(notes(matrix));
    lines
}

/// What `node` sees of `peer`.
pub(super) fn cell(matrix: &TunnelMatrix, node: &str, peer: &str) -> Cell {
    if let Some(pair) = matrix.pair(node, peer) {
        return Some(pair.verdict);
    }
    let known = matrix.nodes.iter().find(|it| it.node == node);
    known
        .is_some_and(|node| node.problem.is_none())
        .then_some(Verdict::Idle)
}

fn symbol(cell: Cell) -> &'static str {
    match cell {
        Some(Verdict::BothWays) => "<->",
        Some(Verdict::SentOnly) => "-->",
        Some(Verdict::ReceivedOnly) => "<--",
        Some(Verdict::Idle) => "...",
        None => "???",
    }
}

fn paint(cell: Cell, width: usize, colour: bool) -> String {
    let text = format!("{:width$}", symbol(cell));
    if !colour {
        return text;
    }
    let code = match cell {
        Some(Verdict::BothWays) => 32,
        Some(Verdict::SentOnly) => 31,
        Some(Verdict::ReceivedOnly) => 33,
        Some(Verdict::Idle) | None => 90,
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}

fn legend() -> String {
    let verdicts = [
        Verdict::BothWays,
        Verdict::SentOnly,
        Verdict::ReceivedOnly,
        Verdict::Idle,
    ];
    let words = verdicts.map(|it| format!("{} {}", symbol(Some(it)), it.label()));
    format!("{}, {} not known", words.join(", "), symbol(None))
}

fn notes(matrix: &TunnelMatrix) -> Vec<String> {
    let problems = matrix.nodes.iter().filter_map(|node| {
        let problem = node.problem.as_ref()?;
        Some(format!("{}: {problem}", node.node))
    });
    let mut notes: Vec<_> = problems.chain(matrix.sentences(None)).collect();
    if !notes.is_empty() {
        notes.insert(0, String::new());
    }
    notes
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::api::{Timestamp, TunnelDetail, TunnelNode, TunnelPair, TunnelTraffic};

    /// Three nodes: n1's packets do not arrive at n2, and n3 does not answer.
    pub(in crate::cli::tunnels) fn matrix() -> TunnelMatrix {
        let node = |name: &str, problem: Option<&str>| TunnelNode {
            node: name.to_owned(),
            addresses: Vec::new(),
            problem: problem.map(str::to_owned),
        };
        let traffic = |age| TunnelTraffic {
            packets: 7,
            bytes: 700,
            last_seen_ms: Some(age),
        };
        let pair = |node: &str, peer: &str, verdict, received| TunnelPair {
            node: node.to_owned(),
            peer: peer.to_owned(),
            verdict,
            tunnels: vec![TunnelDetail {
                encap: "vxlan".to_owned(),
                verdict,
                received: traffic(received),
                sent: traffic(100),
            }],
        };
        TunnelMatrix {
            at: Timestamp(SystemTime::UNIX_EPOCH),
            nodes: vec![
                node("n1", None),
                node("n2", None),
                node("n3", Some("no answer in time")),
            ],
            pairs: vec![
                pair("n1", "n2", Verdict::ReceivedOnly, 50),
                pair("n2", "n1", Verdict::SentOnly, 4000),
            ],
        }
    }

    #[test]
    fn each_node_has_a_line_and_what_is_one_way_has_a_sentence() {
        let expected = [
            "     n1   n2   n3",
            "n1        <--  ...",
            "n2   -->       ...",
            "n3   ???  ???",
            "",
            "<-> both ways, --> sent only, <-- received only, ... idle, ??? not known",
            "",
            "n3: no answer in time",
            "n1 receives vxlan packets from n2, but none of its own arrive there: of what it sends the \
             last packet was 0.1 s ago",
            "n2 sends vxlan packets to n1, but receives none from it: the last packet was 4.0 s ago",
        ];
        assert_eq!(lines(&matrix(), false), expected);
    }

    #[test]
    fn colour_changes_nothing_but_colour() {
        let bare = |line: String| {
            let codes = [31, 32, 33, 90, 0].map(|code| format!("\x1b[{code}m"));
            codes.iter().fold(line, |line, code| line.replace(code, ""))
        };
        let coloured = lines(&matrix(), true);
        assert!(coloured[1].contains("\x1b[33m<--\x1b[0m"), "{coloured:?}");
        let bare: Vec<_> = coloured.into_iter().map(bare).collect();
        assert_eq!(bare, lines(&matrix(), false));
    }
}
