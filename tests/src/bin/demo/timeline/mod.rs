//! The story as a picture: one lane per node, its states as bands, what was done to it as marks; and
//! a lane for the egress IP, with its owners.
//!
//! Pure: observations in, SVG out.

mod svg;

use std::fmt::{self, Write};
use std::time::Duration;

use controller::api::State;

use self::svg::{centred, escape, line, rect, text};

const WIDTH: f64 = 1480.0;
const LEFT: f64 = 150.0;
const RIGHT: f64 = 30.0;
const TITLE_HEIGHT: f64 = 74.0;
const LABEL_HEIGHT: f64 = 24.0;
const LANE_HEIGHT: f64 = 78.0;
const BAND_HEIGHT: f64 = 34.0;
const PROBE_HEIGHT: f64 = 8.0;
const AXIS_HEIGHT: f64 = 44.0;
const LEGEND_HEIGHT: f64 = 40.0;
/// Width of a character of the small font; on the safe side.
const CHARACTER: f64 = 7.0;
/// Likewise of the smallest.
const SMALL_CHARACTER: f64 = 6.5;

const STYLE: &str = "\
text{font-family:system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;font-size:13px;\
fill:#1f2933}\
.title{font-size:20px;font-weight:600}\
.quiet{fill:#616e7c}\
.lane{font-size:15px;font-weight:600}\
.band{font-size:12px;font-weight:600;fill:#fff}\
.gap{font-size:11px;fill:#616e7c}\
.axis{stroke:#cbd2d9;stroke-width:1}\
.grid{stroke:#e4e7eb;stroke-width:1}\
.mark{stroke:#3e4c59;stroke-width:1;stroke-dasharray:3 3}\
.dot{fill:#1f2933}";

/// What a lane shows of a stretch of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Band {
    /// A node's state.
    State(State),
    /// The node that owns the egress IP; none: nobody.
    Owner(Option<String>),
}

impl Band {
    fn label(&self) -> &str {
        match self {
            Self::State(state) => state.as_str(),
            Self::Owner(owner) => owner.as_deref().unwrap_or("nobody"),
        }
    }

    fn colour(&self) -> &'static str {
        match self {
            Self::State(state) => colour(*state),
            Self::Owner(None) => colour(State::Unknown),
            Self::Owner(Some(name)) => {
                let sum = name.bytes().fold(0, |sum, byte| sum + usize::from(byte));
                OWNERS[sum % OWNERS.len()]
            }
        }
    }
}

/// A node's life, or the egress IP's.
pub(crate) struct Lane {
    /// Its name.
    pub(crate) name: String,
    /// What it is, in few words.
    pub(crate) role: String,
    /// What began when, in order; each lasts until the next.
    pub(crate) bands: Vec<(Duration, Band)>,
    /// From when to when its kernel answered, or packets through it came back, in order.
    pub(crate) answers: Vec<(Duration, Duration)>,
}

/// Something that was done.
#[derive(Clone)]
pub(crate) struct Mark {
    /// When.
    pub(crate) at: Duration,
    /// In few words.
    pub(crate) label: String,
    /// To which lane, by its index.
    pub(crate) lane: usize,
}

/// The whole picture.
pub(crate) struct Timeline {
    /// The line above it.
    pub(crate) title: String,
    /// A quieter line below the title.
    pub(crate) subtitle: String,
    /// From top to bottom.
    pub(crate) lanes: Vec<Lane>,
    /// In order of time.
    pub(crate) marks: Vec<Mark>,
    /// When the story ends.
    pub(crate) end: Duration,
}

impl Timeline {
    /// The picture as SVG.
    pub(crate) fn svg(&self) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = self.draw(&mut out);
        out
    }

    fn draw(&self, out: &mut String) -> fmt::Result {
        let rows = self.label_rows();
        let row_count = rows.iter().max().map_or(0, |row| row + 1);
        let top = TITLE_HEIGHT + row_count as f64 * LABEL_HEIGHT + 12.0;
        let bottom = top + self.lanes.len() as f64 * LANE_HEIGHT;
        let height = bottom + AXIS_HEIGHT + LEGEND_HEIGHT;
        writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             width=\"{WIDTH}\" height=\"{height}\" role=\"img\">\n<title>{}</title>\n\
             <style>{STYLE}</style>\n\
             <rect width=\"{WIDTH}\" height=\"{height}\" rx=\"8\" fill=\"#fff\"/>",
            escape(&self.title)
        )?;
        text(out, 24.0, 34.0, "title", &self.title)?;
        text(out, 24.0, 56.0, "quiet", &self.subtitle)?;
        self.draw_axis(out, top, bottom)?;
        for (index, lane) in self.lanes.iter().enumerate() {
            self.draw_lane(out, lane, top + index as f64 * LANE_HEIGHT)?;
        }
        for (mark, row) in self.marks.iter().zip(rows) {
            let y = TITLE_HEIGHT + row as f64 * LABEL_HEIGHT;
            self.draw_mark(out, mark, y, top)?;
        }
        draw_legend(out, bottom + AXIS_HEIGHT)?;
        writeln!(out, "</svg>")
    }

    /// Where `time` is drawn.
    fn x(&self, time: Duration) -> f64 {
        let share = time.as_secs_f64() / self.end.as_secs_f64().max(0.001);
        LEFT + share.min(1.0) * (WIDTH - LEFT - RIGHT)
    }

    /// For each mark the lowest row in which its label overlaps no earlier one.
    fn label_rows(&self) -> Vec<usize> {
        let mut ends: Vec<f64> = Vec::new();
        let mut rows = Vec::new();
        for mark in &self.marks {
            let (start, end) = self.label_span(mark);
            let row = ends
                .iter()
                .position(|taken| *taken < start)
                .unwrap_or(ends.len());
            ends.resize(ends.len().max(row + 1), 0.0);
            ends[row] = end;
            rows.push(row);
        }
        rows
    }

    /// From where to where a mark's label reaches: to the right of its line, unless the picture
    /// ends there.
    fn label_span(&self, mark: &Mark) -> (f64, f64) {
        let width = mark.label.chars().count() as f64 * CHARACTER + 12.0;
        let x = self.x(mark.at);
        if x + width <= WIDTH - 8.0 {
            (x, x + width)
        } else {
            (x - width, x)
        }
    }

    fn draw_axis(&self, out: &mut String, top: f64, bottom: f64) -> fmt::Result {
        for second in 0..=self.end.as_secs() {
            let x = self.x(Duration::from_secs(second));
            line(out, "grid", (x, top), (x, bottom))?;
            centred(out, x, bottom + 20.0, "quiet", &second.to_string())?;
        }
        line(out, "axis", (LEFT, bottom), (WIDTH - RIGHT, bottom))?;
        text(out, 24.0, bottom + 20.0, "quiet", "seconds")
    }

    fn draw_lane(&self, out: &mut String, lane: &Lane, y: f64) -> fmt::Result {
        text(out, 24.0, y + 32.0, "lane", &lane.name)?;
        text(out, 24.0, y + 51.0, "quiet", &lane.role)?;
        let band = y + 14.0;
        for (index, (from, what)) in lane.bands.iter().enumerate() {
            let until = lane.bands.get(index + 1).map_or(self.end, |next| next.0);
            let (x, width) = (self.x(*from), self.x(until) - self.x(*from));
            rect(out, (x, band), (width, BAND_HEIGHT), what.colour())?;
            let lasts = until.saturating_sub(*from).as_secs_f64();
            let label = format!("{} {lasts:.2} s", what.label());
            let labels = [label.as_str(), what.label()];
            if let Some(label) = labels.into_iter().find(|label| fits(label, width)) {
                centred(out, x + width / 2.0, band + 22.0, "band", label)?;
            }
        }
        for (from, until) in &lane.answers {
            let x = self.x(*from);
            let size = ((self.x(*until) - x).max(0.5), PROBE_HEIGHT);
            rect(out, (x, band + BAND_HEIGHT + 4.0), size, ANSWERED)?;
        }
        self.draw_gaps(out, lane, band + BAND_HEIGHT + 4.0 + PROBE_HEIGHT)
    }

    /// Says how long it was silent, where there is room for that.
    fn draw_gaps(&self, out: &mut String, lane: &Lane, y: f64) -> fmt::Result {
        for pair in lane.answers.windows(2) {
            let (from, until) = (pair[0].1, pair[1].0);
            let label = format!("{:.2} s", until.saturating_sub(from).as_secs_f64());
            let (left, right) = (self.x(from), self.x(until));
            if label.chars().count() as f64 * SMALL_CHARACTER <= right - left {
                centred(out, (left + right) / 2.0, y, "gap", &label)?;
            }
        }
        Ok(())
    }

    fn draw_mark(&self, out: &mut String, mark: &Mark, y: f64, top: f64) -> fmt::Result {
        let x = self.x(mark.at);
        let foot = top + mark.lane as f64 * LANE_HEIGHT + 14.0;
        line(out, "mark", (x, y + 4.0), (x, foot))?;
        writeln!(
            out,
            "<circle class=\"dot\" cx=\"{x:.1}\" cy=\"{foot:.1}\" r=\"3.5\"/>"
        )?;
        let (start, _) = self.label_span(mark);
        text(out, start + 6.0, y + 16.0, "label", &mark.label)
    }
}

/// The colour of what was answered.
const ANSWERED: &str = "#7b8794";
/// The colours of owners.
const OWNERS: [&str; 3] = ["#2d6cdf", "#8b4fc6", "#0f8b8d"];

fn colour(state: State) -> &'static str {
    match state {
        State::Unknown => "#9aa5b1",
        State::Available => "#2f9e61",
        State::Unavailable => "#d98c0a",
        State::Unreachable => "#cf3b3b",
    }
}

fn draw_legend(out: &mut String, y: f64) -> fmt::Result {
    let entries = [
        (
            colour(State::Available),
            BAND_HEIGHT / 2.0,
            "AVAILABLE: dataplane and agent",
        ),
        (
            colour(State::Unavailable),
            BAND_HEIGHT / 2.0,
            "UNAVAILABLE: dataplane only",
        ),
        (
            colour(State::Unreachable),
            BAND_HEIGHT / 2.0,
            "UNREACHABLE: no dataplane",
        ),
        (
            ANSWERED,
            PROBE_HEIGHT,
            "answers, 1,000 a second: of kernels to probes, to the client through the egress IP",
        ),
    ];
    let mut x = LEFT;
    for (fill, height, label) in entries {
        rect(out, (x, y + 8.0 - height / 2.0), (22.0, height), fill)?;
        text(out, x + 30.0, y + 12.0, "legend", label)?;
        x += 62.0 + label.chars().count() as f64 * CHARACTER;
    }
    Ok(())
}

fn fits(label: &str, width: f64) -> bool {
    label.chars().count() as f64 * (CHARACTER + 1.0) + 8.0 <= width
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    fn mark(milliseconds: u64, label: &str) -> Mark {
        Mark {
            at: at(milliseconds),
            label: label.into(),
            lane: 0,
        }
    }

    fn timeline(marks: Vec<Mark>) -> Timeline {
        Timeline {
            title: "A <title> & more".into(),
            subtitle: String::new(),
            lanes: vec![Lane {
                name: "n1".into(),
                role: "node".into(),
                bands: vec![
                    (at(500), Band::State(State::Available)),
                    (at(5_000), Band::State(State::Unreachable)),
                ],
                answers: vec![(at(0), at(4_000))],
            }],
            marks,
            end: at(10_000),
        }
    }

    #[test]
    fn labels_that_would_overlap_stand_in_different_rows() {
        let marks = vec![
            mark(1_000, "first"),
            mark(1_100, "second"),
            mark(6_000, "third"),
        ];
        assert_eq!(timeline(marks).label_rows(), [0, 1, 0]);
    }

    #[test]
    fn a_label_at_the_right_edge_stays_inside() {
        let timeline = timeline(Vec::new());
        let (_, end) = timeline.label_span(&mark(9_990, "a label of some length"));
        assert!(end <= WIDTH);
    }

    #[test]
    fn a_silence_is_labelled_with_its_length_where_there_is_room() {
        let mut timeline = timeline(Vec::new());
        timeline.lanes[0].answers = vec![
            (at(0), at(4_000)),
            (at(5_080), at(7_000)),
            (at(7_020), at(9_000)),
        ];
        let svg = timeline.svg();
        assert!(svg.contains("1.08 s") && !svg.contains("0.02 s"), "{svg}");
    }

    #[test]
    fn owners_are_told_apart() {
        let owner = |name: &str| Band::Owner(Some(name.into())).colour();
        assert_ne!(owner("n2"), owner("n3"));
    }

    #[test]
    fn text_is_escaped() {
        let svg = timeline(Vec::new()).svg();
        assert!(svg.contains("A &lt;title&gt; &amp; more"), "{svg}");
    }

    #[test]
    fn a_band_lasts_until_the_next_one_and_the_last_until_the_end() {
        let svg = timeline(Vec::new()).svg();
        assert!(
            svg.contains("AVAILABLE 4.50 s") && svg.contains("UNREACHABLE 5.00 s"),
            "{svg}"
        );
    }
}
