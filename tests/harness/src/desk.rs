//! An operator's desk: commands typed one after the other, on data of their own.

use animal_store::store::Database;
use tempfile::TempDir;

use crate::ByHand;
use crate::app::{database_for, url_of};
use crate::process::{Output, run_on};

/// A folder to type in, and data: on the engine that the tests run on.
#[derive(Debug)]
pub struct Desk {
    program: &'static str,
    folder: TempDir,
    database: Database,
}

impl Desk {
    /// A desk with this program, and data with one key in it.
    #[track_caller]
    pub fn new(program: &'static str) -> Self {
        let folder = TempDir::new().expect("a folder");
        let database = database_for(&folder);
        let desk = Self {
            program,
            folder,
            database,
        };
        desk.typed("keys create --name first --plan free").exits(0);
        desk
    }

    /// Runs the program with these words, spaces between them.
    pub fn typed(&self, words: &str) -> Output {
        let words: Vec<_> = words.split(' ').collect();
        let database = url_of(&self.database);
        run_on(&database, self.program, self.folder.path(), &words)
    }

    /// The same; it succeeds, and has nothing to say beside its result.
    #[track_caller]
    pub fn says(&self, words: &str) -> String {
        let output = self.typed(words).exits(0);
        assert_eq!(output.stderr, "");
        output.stdout.trim_end().to_owned()
    }

    /// The data as others have it open.
    pub fn by_hand(&self) -> ByHand {
        ByHand::open(&self.database)
    }
}
