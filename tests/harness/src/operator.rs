//! An operator: commands typed one after the other, on data of their own.

use std::path::Path;

use animal_store::store::Database;
use tempfile::TempDir;

use crate::app::{database_for, url_of};
use crate::process::{DATABASE, Output, run_on};
use crate::{ByHand, Process};

/// A folder to type in, and data: on the engine that the tests run on.
#[derive(Debug)]
pub struct Operator {
    program: &'static str,
    folder: TempDir,
    database: Database,
}

impl Operator {
    /// An operator with this program and an empty database.
    pub fn new(program: &'static str) -> Self {
        let operator = Self::without_data(program);
        operator.run(&["migrate"]).exits(0);
        operator
    }

    /// An operator with this program, and no database yet.
    pub fn without_data(program: &'static str) -> Self {
        let folder = TempDir::new().expect("a folder");
        let database = database_for(&folder);
        Self {
            program,
            folder,
            database,
        }
    }

    /// Runs the program with these words.
    pub fn run(&self, words: &[&str]) -> Output {
        let database = url_of(&self.database);
        run_on(&database, self.program, self.folder.path(), words)
    }

    /// The same with words that have spaces between them.
    pub fn typed(&self, words: &str) -> Output {
        self.run(&words.split_whitespace().collect::<Vec<_>>())
    }

    /// The same; it succeeds, and has nothing to say beside its result.
    #[track_caller]
    pub fn says(&self, words: &str) -> String {
        let output = self.typed(words).exits(0);
        assert_eq!(output.stderr, "");
        output.stdout.trim_end().to_owned()
    }

    /// Runs the program on a terminal of so many columns, where this is typed; gives its exit code and what the
    /// terminal shows.
    pub fn on_terminal(&self, columns: u16, words: &str, typed: &str) -> (Option<i32>, String) {
        let database = url_of(&self.database);
        let words = format!("stty cols {columns} rows 24; exec {} {words}", self.program);
        let vars = [(DATABASE, &*database)];
        crate::terminal::run(self.folder.path(), &words, &vars, typed)
    }

    /// A server on the same data.
    pub fn serve(&self, words: &[&str]) -> Process {
        let vars = [(DATABASE, &*url_of(&self.database))];
        Process::serve_with(self.program, self.folder.path(), words, &vars)
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The data as others have it open.
    pub fn by_hand(&self) -> ByHand {
        ByHand::open(&self.database)
    }
}
