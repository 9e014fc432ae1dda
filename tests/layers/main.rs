//! What depends on what in `src/`: no layer imports a higher one, no files import each other in a cycle, only the
//! transport uses hyper, and `ARCHITECTURE.md` shows the imports as they are.

#![expect(clippy::expect_used, reason = "a test that cannot continue has failed")]

mod cycles;
mod program;
mod tokens;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use program::{Import, Program};

/// The layers, the highest first. Modules of one layer may use each other, but not in a cycle.
const LAYERS: &[&[&str]] = &[
    &["cli"],
    &["server", "admin"],
    &["health", "metrics"],
    &["config"],
    &["keys", "api", "access"],
    &["store"],
    &["limit"],
    &["log"],
    &["pet", "order", "page", "plan", "key"],
    &LEAVES,
];

/// Modules that any layer may use, even the transport. They use only each other.
const LEAVES: [&str; 15] = [
    "blocking",
    "clock",
    "counter",
    "fault",
    "files",
    "hosts",
    "mutex",
    "names",
    "network",
    "new_file",
    "percent",
    "staggered",
    "systemd",
    "tls",
    "trace",
];

/// The transport is separate: it uses only the leaves, and only the services use all of it.
const TRANSPORT: &str = "http";
const SERVICES: [&str; 2] = ["server", "admin"];

/// The types of requests and responses: all that other modules may use of the transport.
const MESSAGES: [&str; 6] = [
    "http::asset",
    "http::head",
    "http::header",
    "http::rejection",
    "http::request_body",
    "http::response",
];
const USE_MESSAGES: [&str; 4] = ["health", "metrics", "api", "access"];

/// Crates that only the transport uses.
const TRANSPORT_CRATES: [&str; 5] = ["h2", "http_body", "http_body_util", "hyper", "hyper_util"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn program() -> Program {
    Program::read(&root().join("src"))
}

fn top(module: &str) -> &str {
    module.split("::").next().unwrap_or(module)
}

/// The depth of a module's layer: the higher the layer, the smaller.
fn depth(module: &str) -> Option<usize> {
    let module = top(module);
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// Whether an import is one that the order of layers forbids.
fn is_forbidden(import: &Import) -> bool {
    let (by, from) = (top(&import.by), top(&import.from));
    if by == from || by == "main" {
        false
    } else if from.is_empty() {
        // Paths through it lead to any layer.
        true
    } else if by == TRANSPORT {
        !LEAVES.contains(&from)
    } else if from == TRANSPORT {
        let is_message = USE_MESSAGES.contains(&by) && MESSAGES.contains(&&*import.from);
        !SERVICES.contains(&by) && !is_message
    } else {
        depth(by) > depth(from)
    }
}

/// All violations in a program, one line each.
fn violations(program: &Program) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for module in LAYERS.iter().copied().flatten() {
        if !program.modules().any(|known| known == module) {
            found.insert(format!("{module} is not a module"));
        }
    }
    for module in program.modules() {
        let is_known = depth(module).is_some() || ["", "main", TRANSPORT].contains(&top(module));
        if !is_known {
            found.insert(format!("{module} belongs to no layer"));
        }
    }
    let imports = program.imports();
    for import in imports.iter().filter(|import| is_forbidden(import)) {
        let Import { by, from, name } = import;
        found.insert(if from.is_empty() {
            format!("{by} imports the crate's root")
        } else {
            format!("{by} imports {name} from {from}")
        });
    }
    for user in program.users_of(&TRANSPORT_CRATES) {
        if top(user) != TRANSPORT {
            found.insert(format!("{user} uses hyper"));
        }
    }
    let between_modules = imports
        .iter()
        .map(|import| (top(&import.by), top(&import.from)));
    let between_files = imports.iter().map(|import| (&*import.by, &*import.from));
    for cycle in cycles::of(between_modules.filter(|(by, from)| by != from)) {
        found.insert(format!("{} import each other", cycle.join(", ")));
    }
    for cycle in cycles::of(between_files) {
        // The loop above has reported modules already.
        if cycle.iter().all(|file| top(file) == top(cycle[0])) {
            found.insert(format!("{} import each other", cycle.join(", ")));
        }
    }
    found
}

#[test]
fn no_layer_imports_a_higher_one_and_no_files_import_each_other_in_a_cycle() {
    let found: Vec<String> = violations(&program()).into_iter().collect();
    assert!(
        found.is_empty(),
        "against the order of layers:\n  {}",
        found.join("\n  ")
    );
}

/// The violations of a program that has these files, and every module empty that has none.
fn violations_of(files: &[(&str, &str)]) -> Vec<String> {
    let is_given = |module: &str| files.iter().any(|(given, _)| *given == module);
    let modules = LAYERS.iter().copied().flatten().chain(&MESSAGES);
    let empty = modules.filter(|module| !is_given(module));
    let files: Vec<_> = empty
        .map(|module| (*module, ""))
        .chain(files.iter().copied())
        .map(|(module, text)| (module.to_owned(), text.to_owned()))
        .collect();
    violations(&Program::parse(&files)).into_iter().collect()
}

#[test]
fn every_kind_of_violation_is_found() {
    let cases = [
        (
            "limit::window",
            "use crate::store::Store;",
            "limit::window imports Store from store",
        ),
        (
            "pet",
            "fn a() { crate::clock::now(); crate::api::error() }",
            "pet imports error from api",
        ),
        (
            "http::listen",
            "use crate::key::KeyId;",
            "http::listen imports KeyId from key",
        ),
        (
            "store",
            "use crate::http::head::Head;",
            "store imports Head from http::head",
        ),
        (
            "api",
            "use crate::http::{head::Head, listen::Listener};",
            "api imports Listener from http::listen",
        ),
        (
            "api::get_pet",
            "use hyper::Request;",
            "api::get_pet uses hyper",
        ),
        (
            "api::get_pet",
            "fn a(b: u8) -> ::hyper::Request { b as ::hyper::Number }",
            "api::get_pet uses hyper",
        ),
        (
            "api::get_pet",
            "fn a() { ::hyper::new() }",
            "api::get_pet uses hyper",
        ),
        (
            "api::get_pet",
            "extern crate hyper as transport;",
            "api::get_pet uses hyper",
        ),
        (
            "api::get_pet",
            "use http_body::Body;",
            "api::get_pet uses hyper",
        ),
        (
            "api::get_pet",
            "fn a() { http_body_util::Full::new(b) }",
            "api::get_pet uses hyper",
        ),
        (
            "pet",
            "pub use crate::store::Store;",
            "pet imports Store from store",
        ),
        (
            "pet::name",
            "pub(crate) use super::super::store::{Store as Animals};",
            "pet::name imports Store from store",
        ),
        ("pet", "use crate as c;", "pet imports the crate's root"),
        (
            "pet::name",
            "pub(super) use crate::{self as c};",
            "pet::name imports the crate's root",
        ),
        ("pet", "use crate::*;", "pet imports the crate's root"),
        ("pet", "use super::*;", "pet imports the crate's root"),
        (
            "pet",
            "use self::super::store::Store;",
            "pet imports Store from store",
        ),
        (
            "pet",
            "mod a { use super::*; fn b() { super::super::store::open() } }",
            "pet imports open from store",
        ),
        ("room", "", "room belongs to no layer"),
    ];
    for (module, text, violation) in cases {
        let listen = ("http::listen", "");
        let files = [(module, text), listen];
        let files = if module == listen.0 {
            &files[..1]
        } else {
            &files
        };
        assert_eq!(violations_of(files), [violation]);
    }
    let cycles = [
        ("server", "use crate::admin::A;"),
        ("admin", "use crate::server::B;"),
        ("store::writer", "use super::pets::A;"),
        ("store::pets", "use super::writer::A;"),
    ];
    let expected = [
        "admin, server import each other",
        "store::pets, store::writer import each other",
    ];
    assert_eq!(violations_of(&cycles), expected);
}

/// The table in `ARCHITECTURE.md`: all that each module imports, both in the order of layers.
fn table(imports: &BTreeSet<Import>) -> String {
    let (leaves, above) = LAYERS.split_last().expect("layers");
    let above = above.iter().copied().flatten();
    let modules: Vec<&str> = above.chain(&[TRANSPORT]).chain(*leaves).copied().collect();
    let mut table = String::from("| module | imports |\n|---|---|\n");
    for module in &modules {
        let imports_from = |from: &&&str| {
            let found = |import: &Import| top(&import.by) == *module && top(&import.from) == **from;
            *from != module && imports.iter().any(found)
        };
        let imported: Vec<_> = modules
            .iter()
            .filter(imports_from)
            .map(|from| format!("`{from}`"))
            .collect();
        writeln!(table, "| `{module}` | {} |", imported.join(" ")).expect("text");
    }
    table
}

#[test]
fn the_table_in_the_architecture_shows_the_imports() {
    const BEGIN: &str = "| module | imports |\n";
    let path = root().join("ARCHITECTURE.md");
    let page = std::fs::read_to_string(&path).expect("a page");
    let expected = table(&program().imports());
    let begin = page.find(BEGIN).expect("a table of modules and imports");
    let end = page[begin..]
        .find("\n\n")
        .map_or(page.len(), |end| begin + end + 1);
    if std::env::var_os("ANIMAL_STORE_TEST_WRITE").is_some() {
        let page = [&page[..begin], &expected, &page[end..]].concat();
        std::fs::write(&path, page).expect("the page is written");
        return;
    }
    assert_eq!(
        &page[begin..end],
        expected,
        "ANIMAL_STORE_TEST_WRITE=1 ./test layers writes the table anew"
    );
}

#[test]
fn every_source_file_that_a_page_names_exists() {
    let folders = [root(), root().join("docs")];
    let pages = folders.iter().flat_map(|folder| {
        let entries = std::fs::read_dir(folder).expect("a folder");
        entries.map(|entry| entry.expect("an entry").path())
    });
    let mut missing = Vec::new();
    for page in pages.filter(|page| page.extension().is_some_and(|end| end == "md")) {
        let text = std::fs::read_to_string(&page).expect("a page");
        for name in text.split('`').skip(1).step_by(2) {
            let is_file = name.contains('/') && name.ends_with(".rs");
            let exists = |folder: &str| root().join(folder).join(name).exists();
            if is_file && !exists("") && !exists("src") {
                missing.push(format!("{}: {name}", page.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}
