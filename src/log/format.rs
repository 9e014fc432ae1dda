//! The format and the level of the log.

/// The format of lines: for people, or one JSON object each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
#[expect(missing_docs, reason = "a comment here would become help text")]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

/// The least severe level that is written. Requests are written at `Info`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
#[expect(missing_docs, reason = "a comment here would become help text")]
pub enum LogLevel {
    Error,
    Warn,
    #[default]
    Info,
    Debug,
    Trace,
}
