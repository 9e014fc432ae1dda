//! Plots as SVG. Colors follow the light or dark theme of the page.

use std::fmt::Write;

use super::number::micros;

const WIDTH: f64 = 720.0;
const LEFT: f64 = 150.0;
const RIGHT: f64 = 110.0;
const TOP: f64 = 44.0;

/// Classes with colors that are readable on white and on black.
const STYLE: &str = "
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.title { font-weight: 600; font-size: 15px }
.quiet { fill: #59636e }
.grid { stroke: #d1d9e0; stroke-width: 1 }
.s0 { fill: #0969da; stroke: #0969da } .s1 { fill: #bf6a02; stroke: #bf6a02 } .s2 { fill: #1a7f37; stroke: #1a7f37 }
text.s0, text.s1, text.s2 { stroke: none }
.line { fill: none; stroke-width: 2.5 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .quiet { fill: #9198a1 } .grid { stroke: #3d444d }
  .s0 { fill: #58a6ff; stroke: #58a6ff } .s1 { fill: #e3a03c; stroke: #e3a03c } .s2 { fill: #3fb950; stroke: #3fb950 }
}
";

/// A group of bars.
pub(super) struct Group {
    pub(super) name: String,
    pub(super) bars: Vec<(String, f64)>,
}

/// One line: its name, and its value at each position.
pub(super) type Line = (&'static str, Vec<f64>);

/// Horizontal bars in microseconds.
pub(super) fn bars(title: &str, groups: &[Group]) -> String {
    const BAR: f64 = 20.0;
    const STEP: f64 = 26.0;
    const GAP: f64 = 34.0;
    let all = groups.iter().flat_map(|group| &group.bars);
    let most = all.map(|bar| bar.1).fold(f64::MIN_POSITIVE, f64::max);
    let mut body = String::new();
    let mut y = TOP;
    for group in groups {
        text(&mut body, "quiet", "start", 16.0, y + 16.0, &group.name);
        y += STEP;
        for (place, (name, value)) in group.bars.iter().enumerate() {
            let length = (WIDTH - LEFT - RIGHT) * value / most;
            text(&mut body, "", "end", LEFT - 10.0, y + 15.0, name);
            let _ = writeln!(
                body,
                r#"<rect class="s{}" x="{LEFT}" y="{y:.1}" width="{length:.1}" height="{BAR}" rx="2"/>"#,
                place % 3
            );
            let label = micros(*value);
            text(
                &mut body,
                "",
                "start",
                LEFT + length + 10.0,
                y + 15.0,
                &label,
            );
            y += STEP;
        }
        y += GAP - STEP;
    }
    page(title, y + 8.0, &body)
}

/// Lines in microseconds over equally spaced positions.
pub(super) fn lines(title: &str, places: &[String], lines: &[Line]) -> String {
    const HEIGHT: f64 = 260.0;
    const LEFT: f64 = 70.0;
    const RIGHT: f64 = 190.0;
    let all = lines.iter().flat_map(|(_, heights)| heights);
    let most = ceiling(all.copied().fold(f64::MIN_POSITIVE, f64::max));
    let apart = (WIDTH - LEFT - RIGHT) / (places.len().max(2) - 1) as f64;
    let x = |place: usize| LEFT + apart * place as f64;
    let y = |value: f64| TOP + HEIGHT * (1.0 - value / most);

    let mut body = String::new();
    for mark in 0..=4 {
        let value = most * f64::from(mark) / 4.0;
        let (end, y) = (WIDTH - RIGHT, y(value));
        let _ = writeln!(
            body,
            r#"<line class="grid" x1="{LEFT}" y1="{y:.1}" x2="{end}" y2="{y:.1}"/>"#
        );
        let label = format!("{} µs", (value * 10.0).round() / 10.0);
        text(&mut body, "quiet", "end", LEFT - 8.0, y + 4.0, &label);
    }
    for (place, name) in places.iter().enumerate() {
        text(
            &mut body,
            "quiet",
            "middle",
            x(place),
            TOP + HEIGHT + 22.0,
            name,
        );
    }
    let ends = lines.iter().map(|(_, heights)| heights.last().copied());
    let labels = without_overlap(ends.map(|end| y(end.unwrap_or(0.0))).collect());
    for (number, ((name, heights), label)) in lines.iter().zip(labels).enumerate() {
        let mut points = String::new();
        for (place, value) in heights.iter().enumerate() {
            let (x, y) = (x(place), y(*value));
            let _ = write!(points, "{x:.1},{y:.1} ");
            let _ = writeln!(
                body,
                r#"<circle class="s{number}" cx="{x:.1}" cy="{y:.1}" r="3.5"/>"#
            );
        }
        let points = points.trim_end();
        let _ = writeln!(
            body,
            r#"<polyline class="s{number} line" style="fill:none" points="{points}"/>"#
        );
        if let Some(value) = heights.last() {
            let name = format!("{name} {}", micros(*value));
            let class = format!("s{number}");
            text(
                &mut body,
                &class,
                "start",
                WIDTH - RIGHT + 12.0,
                label + 4.0,
                &name,
            );
        }
    }
    page(title, TOP + HEIGHT + 40.0, &body)
}

/// The positions of labels, moved so that none overlap, in the same order.
fn without_overlap(heights: Vec<f64>) -> Vec<f64> {
    const LINE: f64 = 17.0;
    let mut order: Vec<usize> = (0..heights.len()).collect();
    // From the bottom up: the lowest label is not moved.
    order.sort_by(|a, b| heights[*b].total_cmp(&heights[*a]));
    let mut moved = heights.clone();
    let mut below = f64::INFINITY;
    for place in order {
        moved[place] = heights[place].min(below - LINE);
        below = moved[place];
    }
    moved
}

/// The next round number.
fn ceiling(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 4.0, 6.0, 8.0, 10.0];
    let step = steps.iter().find(|step| **step * power >= value);
    step.map_or(value, |step| step * power)
}

fn text(body: &mut String, class: &str, anchor: &str, x: f64, y: f64, text: &str) {
    let _ = writeln!(
        body,
        r#"<text class="{class}" text-anchor="{anchor}" x="{x:.1}" y="{y:.1}">{text}</text>"#
    );
}

fn page(title: &str, height: f64, body: &str) -> String {
    let mut head = String::new();
    text(&mut head, "title", "start", 16.0, 24.0, title);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" width=\"{WIDTH}\" \
         role=\"img\" aria-label=\"{title}\">\n<style>{STYLE}</style>\n{head}{body}</svg>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_ends_at_a_round_number() {
        for (value, end) in [
            (7.3, 8.0),
            (10.0, 10.0),
            (11.0, 20.0),
            (41.0, 60.0),
            (0.3, 0.4),
        ] {
            assert!((ceiling(value) - end).abs() < 1e-9, "{value}");
        }
    }

    #[test]
    fn labels_do_not_overlap() {
        assert_eq!(
            without_overlap(vec![100.0, 98.0, 10.0]),
            [100.0, 83.0, 10.0]
        );
    }
}
