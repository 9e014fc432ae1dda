//! `animal-store --version --verbose`: the details that a bug report or an audit needs.

use super::outcome::Outcome;
use super::print;
use crate::store;

/// The commit that this was built from: of a release or a package, not of a debug build (`build.rs`).
const COMMIT: Option<&str> = option_env!("ANIMAL_STORE_COMMIT");

/// Whether the arguments are these two options.
pub(super) fn is_requested(args: &[std::ffi::OsString]) -> bool {
    let is_either =
        |arg: &std::ffi::OsString, names: [&str; 2]| names.iter().any(|name| arg == name);
    let version = |arg| is_either(arg, ["--version", "-V"]);
    let verbose = |arg| is_either(arg, ["--verbose", "-v"]);
    match args {
        [_, a, b] => (version(a) && verbose(b)) || (verbose(a) && version(b)),
        _ => false,
    }
}

pub(super) fn run() -> Outcome {
    let features = if cfg!(feature = "otel") {
        "otel"
    } else {
        "none"
    };
    let text = format!(
        "animal-store {version}\ncommit    {commit}\nfeatures  {features}\nSQLite    {sqlite}\nformats   SQLite {embedded}, PostgreSQL {shared}\n",
        version = env!("CARGO_PKG_VERSION"),
        commit = COMMIT.unwrap_or("unknown"),
        sqlite = store::sqlite_version(),
        embedded = store::FORMATS.0,
        shared = store::FORMATS.1,
    );
    print::bytes(text.as_bytes())
}
