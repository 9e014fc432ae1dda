//! An operator, who runs commands on a database of their own.

use std::path::Path;

use animal_store::store::Database;
use tempfile::TempDir;

use crate::app::{database_for, url_of};
use crate::process::{DATABASE, Output, run_on};
use crate::{Process, SqlClient};

/// A working folder, and a database of the engine that the tests run on.
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

    /// Runs the program with these arguments.
    pub fn run(&self, args: &[&str]) -> Output {
        let database = url_of(&self.database);
        run_on(&database, self.program, self.folder.path(), args)
    }

    /// Runs the program with arguments that are separated by spaces.
    pub fn run_line(&self, args: &str) -> Output {
        self.run(&args.split_whitespace().collect::<Vec<_>>())
    }

    /// Returns what a command prints. It must succeed, and print nothing to standard error.
    #[track_caller]
    pub fn stdout_of(&self, args: &str) -> String {
        let output = self.run_line(args).exits(0);
        assert_eq!(output.stderr, "");
        output.stdout.trim_end().to_owned()
    }

    /// Runs the program on a terminal of this width, where this is typed. Returns its exit code and what the terminal shows.
    pub fn on_terminal(&self, columns: u16, args: &str, typed: &str) -> (Option<i32>, String) {
        let database = url_of(&self.database);
        let args = format!("stty cols {columns} rows 24; exec {} {args}", self.program);
        let vars = [(DATABASE, &*database)];
        crate::terminal::run(self.folder.path(), &args, &vars, typed)
    }

    /// A server on the same data.
    pub fn serve(&self, args: &[&str]) -> Process {
        let vars = [(DATABASE, &*url_of(&self.database))];
        Process::serve_with(self.program, self.folder.path(), args, &vars)
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Another client of the database.
    pub fn sql_client(&self) -> SqlClient {
        SqlClient::open(&self.database)
    }
}
