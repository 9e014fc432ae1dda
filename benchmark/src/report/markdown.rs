//! The report as Markdown.

use super::number::whole;
use super::plots::Plot;
use super::{Table, goals, tables};
use crate::results::Results;

/// The markers around notes that are written by hand and kept.
const NOTES: [&str; 2] = ["<!-- notes -->", "<!-- /notes -->"];

/// The whole report. `before` is the previous content of the file.
pub(super) fn report(results: &Results, plots: &[Plot], folder: &str, before: &str) -> String {
    let [begin, end] = NOTES;
    let mut text = format!(
        "# Performance\n\n\
         Written by `./bench`. The server runs on one core and the load generator on another, with 64 keep-alive connections. All\n\
         servers of a table are started several times and run in alternating rounds, and the figures are medians. A ratio is the\n\
         median of the ratios of adjacent rounds, so it can differ from the quotient of the two medians. The main figure is the\n\
         **CPU time of the server per request**, user and system. Absolute figures differ between machines, runs, and the tables of\n\
         one run, because the speed of a machine varies; ratios are more stable.\n\n\
         {begin}{}{end}\n",
        notes(before).unwrap_or("\n")
    );
    let shown = goals::table(results)
        .into_iter()
        .chain(tables::all(results));
    for table in shown {
        text.push_str(&section(&table));
        for plot in plots.iter().filter(|plot| plot.section == table.title) {
            text.push_str(&format!("\n![{}]({folder}/{})\n", plot.title, plot.file));
        }
    }
    text.push_str(&machine(results));
    text
}

fn notes(before: &str) -> Option<&str> {
    let [begin, end] = NOTES;
    let (_, rest) = before.split_once(begin)?;
    Some(rest.split_once(end)?.0)
}

fn section(table: &Table) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let head: Vec<String> = table.head.iter().map(|cell| (*cell).to_owned()).collect();
    let rule = vec!["---".to_owned(); head.len()];
    let mut text = format!("\n## {}\n\n{}\n\n", table.title, wrapped(&table.note));
    text.push_str(&line(&head));
    text.push_str(&line(&rule));
    for row in &table.rows {
        text.push_str(&line(row));
    }
    text
}

/// Wraps a text to lines of at most 120 characters.
fn wrapped(text: &str) -> String {
    let mut lines = String::new();
    let mut length = 0;
    for word in text.split_whitespace() {
        let more = word.chars().count();
        if length > 0 && length + 1 + more > 120 {
            lines.push('\n');
            length = 0;
        } else if length > 0 {
            lines.push(' ');
            length += 1;
        }
        lines.push_str(word);
        length += more;
    }
    lines
}

fn machine(results: &Results) -> String {
    let machine = &results.machine;
    let lines = [
        ("processor", machine.processor.clone()),
        ("cores", machine.cores.to_string()),
        (
            "memory",
            format!("{} GB", whole(machine.memory as f64 / 1e9)),
        ),
        ("Linux", machine.kernel.clone()),
        (
            "CPU use before the run",
            format!("{:.0} %", machine.busy * 100.0),
        ),
        (
            "CPU stolen by the host during the run",
            format!("{:.0} %", machine.stolen * 100.0),
        ),
        ("rustc", machine.rustc.clone()),
        ("hyper", machine.hyper.clone()),
        ("SQLite", machine.sqlite.clone()),
        (
            "nginx",
            machine.nginx.clone().unwrap_or("not installed".into()),
        ),
    ];
    let mut text =
        String::from("\n## Machine and versions\n\n| component | value |\n| --- | --- |\n");
    for (component, value) in lines {
        text.push_str(&format!("| {component} | {value} |\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_written_by_hand_are_found() {
        let page = "# P\n<!-- notes -->\nby hand\n<!-- /notes -->\nrest";
        assert_eq!(notes(page), Some("\nby hand\n"));
        assert_eq!(notes("nothing"), None);
    }

    #[test]
    fn lines_are_120_characters_at_most() {
        let text = "word ".repeat(100);
        let wrapped = wrapped(&text);
        assert!(wrapped.lines().all(|line| line.len() <= 120));
        assert_eq!(wrapped.split_whitespace().count(), 100);
    }
}
