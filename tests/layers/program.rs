//! The files of `src/`, and what each of them imports from which other.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::tokens::{Token, tokens};

/// A module by its path below the crate, such as `store::sqlite::writer`. That of the crate's root is empty.
pub(crate) type Module = String;

/// Re-exports of re-exports are followed this far.
const REEXPORTS: usize = 8;

/// The modules of the program.
pub(crate) struct Program {
    files: BTreeMap<Module, Source>,
}

#[derive(Default)]
struct Source {
    /// Paths in code and in `use` declarations that lead to another place in the crate.
    imports: Vec<Vec<String>>,
    /// Names that `use` imports into the file, with their paths.
    names: BTreeMap<String, Vec<String>>,
    /// Other crates that paths begin with.
    crates: BTreeSet<String>,
}

/// What one file imports from another: a function or type, or, where `name` is empty, the module itself.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Import {
    pub(crate) by: Module,
    pub(crate) from: Module,
    pub(crate) name: String,
}

impl Program {
    pub(crate) fn read(folder: &Path) -> Self {
        let mut texts = Vec::new();
        read_folder(folder, "", &mut texts);
        Self::parse(&texts)
    }

    pub(crate) fn parse(texts: &[(Module, String)]) -> Self {
        let known: BTreeSet<&str> = texts.iter().map(|(module, _)| &**module).collect();
        let files = texts
            .iter()
            .map(|(module, text)| (module.clone(), Source::parse(module, text, &known)));
        Self {
            files: files.collect(),
        }
    }

    pub(crate) fn modules(&self) -> impl Iterator<Item = &Module> {
        self.files.keys()
    }

    /// Modules with a path that begins with one of these crates.
    pub(crate) fn users_of<'a>(&'a self, crates: &'a [&str]) -> impl Iterator<Item = &'a Module> {
        let uses = |source: &Source| crates.iter().any(|name| source.crates.contains(*name));
        let users = self.files.iter().filter(move |(_, source)| uses(source));
        users.map(|(module, _)| module)
    }

    /// What each file imports from another. A name that is re-exported counts as imported from where it is defined.
    pub(crate) fn imports(&self) -> BTreeSet<Import> {
        let mut imports = BTreeSet::new();
        for (by, source) in &self.files {
            for path in &source.imports {
                let (from, name) = self.origin(path, 0);
                let is_own_of_root = from.is_empty() && !name.is_empty();
                if from != *by && !is_own_of_root {
                    let by = by.clone();
                    imports.insert(Import { by, from, name });
                }
            }
        }
        imports
    }

    /// The module that a path leads to, and the name that is defined there.
    fn origin(&self, path: &[String], depth: usize) -> (Module, String) {
        let modules = (0..=path.len())
            .rev()
            .find(|length| self.files.contains_key(&path[..*length].join("::")))
            .unwrap_or(0);
        let module = path[..modules].join("::");
        let Some(name) = path.get(modules) else {
            return (module, String::new());
        };
        let elsewhere = self
            .files
            .get(&module)
            .and_then(|file| file.names.get(name));
        match elsewhere {
            Some(target) if depth < REEXPORTS => {
                let whole = [target, &path[modules + 1..]].concat();
                self.origin(&whole, depth + 1)
            }
            _ => (module, name.clone()),
        }
    }
}

impl Source {
    fn parse(module: &str, text: &str, known: &BTreeSet<&str>) -> Self {
        let mut source = Self::default();
        let tokens = tokens(text);
        let file = module.split("::").filter(|word| !word.is_empty());
        let file: Vec<String> = file.map(str::to_owned).collect();
        // The path of the module that the tokens are in, and for each open brace, whether a module in the file began with it.
        let (mut here, mut braces) = (file.clone(), Vec::new());
        let mut at = 0;
        while at < tokens.len() {
            let before = at.checked_sub(1).map(|before| &*tokens[before]);
            if tokens[at] == "use" && tokens.get(at + 1).is_some_and(|next| next != "<") {
                let is_reexport = before == Some("pub") || before == Some(")");
                let mut leaves = Vec::new();
                at = use_tree(&tokens, at + 1, &[], &mut leaves);
                for (name, path) in leaves {
                    let path = source.absolute(&here, path, known);
                    source.names.insert(name, path.clone());
                    if !(is_reexport && path.starts_with(&file)) {
                        source.imports.push(path);
                    }
                }
            } else if is_word(&tokens[at]) && before != Some("mod") {
                let path = words(&tokens[at..]);
                at += 2 * path.len() - 1;
                if path.len() > 1 || before == Some("crate") {
                    let path = source.absolute(&here, path, known);
                    source.imports.push(path);
                }
            } else {
                match &*tokens[at] {
                    "{" => {
                        let is_module = at >= 2 && tokens[at - 2] == "mod";
                        here.extend(is_module.then(|| tokens[at - 1].clone()));
                        braces.push(is_module);
                    }
                    "}" if braces.pop() == Some(true) => drop(here.pop()),
                    _ => {}
                }
                at += 1;
            }
        }
        source
    }

    /// The path from the crate's root. One that begins with another crate, or with a name that the file defines or imports, counts as
    /// one in the file.
    fn absolute(
        &mut self,
        here: &[String],
        path: Vec<String>,
        known: &BTreeSet<&str>,
    ) -> Vec<String> {
        if path[0] == "crate" {
            return path[1..].to_vec();
        }
        let own = usize::from(path[0] == "self");
        let rest = &path[own..];
        let levels = rest.iter().take_while(|word| *word == "super").count();
        let here = &here[..here.len().saturating_sub(levels)];
        let absolute = [here, &rest[levels..]].concat();
        if own + levels == 0 && !known.contains(&*absolute[..=here.len()].join("::")) {
            self.crates.insert(path[0].clone());
        }
        absolute
    }
}

/// Reads the tree of a `use` from its first token: each name that it imports, with its path. Returns where it ends.
fn use_tree(
    tokens: &[Token],
    mut at: usize,
    prefix: &[String],
    leaves: &mut Vec<(String, Vec<String>)>,
) -> usize {
    let mut path = prefix.to_vec();
    while let Some(token) = tokens.get(at) {
        match &**token {
            "::" => {}
            "{" => {
                at += 1;
                while tokens[at] != "}" {
                    at = use_tree(tokens, at, &path, leaves);
                    at += usize::from(tokens[at] == ",");
                }
                return at + 1;
            }
            "as" => {
                leaves.push((tokens[at + 1].clone(), path));
                return at + 2;
            }
            // In braces: the module before them.
            "self" if !path.is_empty() => {}
            word if is_word(word) => path.push(word.to_owned()),
            // Of a glob: the module before it.
            "*" => {}
            _ => break,
        }
        at += 1;
    }
    leaves.push((path.last().cloned().unwrap_or_default(), path));
    at
}

/// The path that begins with this word.
fn words(tokens: &[Token]) -> Vec<String> {
    let mut path = vec![tokens[0].clone()];
    let mut rest = &tokens[1..];
    while let [sign, word, ..] = rest
        && sign == "::"
        && is_word(word)
    {
        path.push(word.clone());
        rest = &rest[2..];
    }
    path
}

fn is_word(token: &str) -> bool {
    token.starts_with(|first: char| first.is_alphanumeric() || first == '_')
}

/// Reads the modules of a folder, and of those below it.
fn read_folder(folder: &Path, prefix: &str, texts: &mut Vec<(Module, String)>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().expect("a name").to_string_lossy();
        let module = format!("{prefix}{name}");
        if path.is_dir() {
            read_folder(&path, &format!("{module}::"), texts);
        } else if name != "tests" && path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a source file");
            let module = if module == "lib" {
                Module::new()
            } else {
                module
            };
            texts.push((module, text));
        }
    }
}

#[test]
fn every_way_to_name_another_file_is_an_import() {
    let files = [
        ("", "pub mod store; pub mod key;"),
        ("key", "pub struct Id; pub fn new() {}"),
        (
            "store",
            "pub mod cache; mod keys; pub use keys::{Key, Found as Hit}; use crate::key::Id; fn a() { cache::clear() }",
        ),
        (
            "store::cache",
            "fn d() { parent::keys::e() } use super::{Id, Key, b, self as parent}; use hyper::Request;",
        ),
        (
            "store::keys",
            "fn c() { crate::key::new(); super::Hit::new() } use crate::store::cache::*;",
        ),
    ];
    let files = files.map(|(module, text)| (module.to_owned(), text.to_owned()));
    let program = Program::parse(&files);
    let imports = program.imports().into_iter();
    let imports: Vec<_> = imports
        .map(|import| format!("{} {} {}", import.by, import.from, import.name))
        .collect();
    let expected = [
        "store key Id",
        "store store::cache clear",
        "store::cache key Id",
        "store::cache store ",
        "store::cache store b",
        "store::cache store::keys Key",
        "store::cache store::keys e",
        "store::keys key new",
        "store::keys store::cache ",
    ];
    assert_eq!(imports, expected);
    assert!(program.users_of(&["hyper"]).eq(["store::cache"]));
}
