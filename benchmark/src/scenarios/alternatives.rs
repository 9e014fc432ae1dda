//! Alternatives to the service: small programs in `benchmark/alternatives`, and ready-made tools.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tempfile::TempDir;

use super::{FEW, GET, LIST};
use crate::baselines::free_address;
use crate::bench::Bench;
use crate::contender::{Contender, compete};
use crate::cores::Affinity;
use crate::data::Data;
use crate::load::{self, Requests};
use crate::process::{Process, isolated};
use crate::results::{Alternative, AlternativeMeasurements};

/// An alternative: how to start it, and its paths.
struct Kind {
    name: &'static str,
    start: fn(&Setup<'_>) -> Result<Process>,
    list: &'static str,
    get: &'static str,
}

const KINDS: [Kind; 5] = [
    Kind {
        name: "animal-store",
        start: |setup| setup.data.serve(Affinity::Server, &[]),
        list: LIST,
        get: GET,
    },
    Kind {
        name: "Fastify, better-sqlite3",
        start: fastify,
        list: LIST,
        get: GET,
    },
    Kind {
        name: "FastAPI, uvicorn, sqlite3",
        start: fastapi,
        list: LIST,
        get: GET,
    },
    Kind {
        name: "json-server 0.17",
        start: json_server,
        list: "/pets?_limit=20",
        get: "/pets/1",
    },
    Kind {
        name: "Prism",
        start: prism,
        list: "/pets",
        get: "/pets/1",
    },
];

pub(super) fn run(bench: &Bench) -> Result<Vec<Alternative>> {
    let setup = Setup::new(bench)?;
    let tried: Vec<(&Kind, Result<()>)> =
        KINDS.iter().map(|kind| (kind, setup.check(kind))).collect();
    let works = tried.iter().filter(|(_, result)| result.is_ok());
    let start = || {
        works
            .clone()
            .map(|(kind, _)| (kind.start)(&setup))
            .collect()
    };
    let mut contenders = Vec::new();
    for (server, (kind, _)) in works.clone().enumerate() {
        for (what, path) in [("list", kind.list), ("get", kind.get)] {
            let requests = Requests::get(path, &setup.data.key);
            let name = format!("{what}, {}", kind.name);
            contenders.push(Contender::pinned(name, server, requests));
        }
    }
    let mut measured = compete(bench, "alternatives", start, contenders).map(Vec::into_iter);
    let mut alternatives = Vec::new();
    for (kind, result) in &tried {
        let measured = match (result, &mut measured) {
            (Ok(()), Ok(measurements)) => {
                let [list, get] = super::take(measurements.take(2).collect())?;
                Ok(AlternativeMeasurements { list, get })
            }
            (Err(why), _) => Err(format!("{why:#}")),
            (_, Err(why)) => Err(format!("{why:#}")),
        };
        alternatives.push(Alternative {
            name: kind.name.to_owned(),
            measured,
        });
    }
    Ok(alternatives)
}

/// The inputs of the alternatives: the animals as a database and as JSON, the OpenAPI document, and the installed tools.
struct Setup<'a> {
    bench: &'a Bench,
    data: Data,
    folder: TempDir,
    programs: PathBuf,
}

impl<'a> Setup<'a> {
    fn new(bench: &'a Bench) -> Result<Self> {
        let setup = Self {
            bench,
            data: Data::new(bench, FEW)?,
            folder: bench.folder()?,
            programs: Path::new("benchmark/alternatives")
                .canonicalize()
                .context("benchmark/alternatives not found: run ./bench")?,
        };
        let connection = setup.data.connect()?;
        let mut select = connection.prepare("SELECT id, name, category_id, status FROM pets")?;
        let pets = select.query_map([], |row| {
            let (id, name, category, status): (i64, String, i64, String) = row.try_into()?;
            Ok(json!({"id": id, "name": name, "categoryId": category, "status": status}))
        })?;
        let pets = pets.collect::<rusqlite::Result<Vec<_>>>()?;
        serde_json::to_writer(
            File::create(setup.folder.path().join("db.json"))?,
            &json!({"pets": pets}),
        )?;
        isolated(Command::new(bench.program("animal-store")).arg("openapi"))
            .stdout(File::create(setup.folder.path().join("openapi.json"))?)
            .stderr(Stdio::null())
            .status()?;
        Ok(setup)
    }

    /// Starts an alternative and tries both requests: if it does not work, it is not measured, and the report has the reason.
    fn check(&self, kind: &Kind) -> Result<()> {
        let step = format!("alternatives: {}", kind.name);
        self.bench.progress.set_message(step);
        let server = (kind.start)(self)?;
        for path in [kind.list, kind.get] {
            let mut requests = Requests::get(path, &self.data.key);
            load::round(&server, &mut requests, self.bench.scale.warm_up)?;
        }
        Ok(())
    }

    /// The path of an installed program.
    fn installed(&self, path: &str) -> Result<PathBuf> {
        let path = self.bench.installed(path);
        ensure!(path.exists(), "not installed");
        Ok(path)
    }

    /// Starts an installed Node.js program with a file.
    fn node(&self, program: &str, arguments: &[&str], file: &str) -> Result<Process> {
        let address = free_address()?;
        let mut command = Affinity::Server.command(self.installed(program)?);
        command
            .args(arguments)
            .args(["--host", "127.0.0.1", "--port", &address.port().to_string()])
            .arg(self.folder.path().join(file))
            .current_dir(self.folder.path())
            .env("NODE_ENV", "production");
        Process::listening_on(command, address)
    }
}

fn fastify(setup: &Setup<'_>) -> Result<Process> {
    let folder = setup.installed("bench-node/fastify")?;
    setup.installed("bench-node/fastify/installed.json")?;
    let address = free_address()?;
    let mut command = Affinity::Server.command("node");
    command
        .arg(setup.programs.join("fastify/server.mjs"))
        .current_dir(folder)
        .env("NODE_ENV", "production")
        .env("PORT", address.port().to_string())
        .env("PETS", setup.data.file());
    Process::listening_on(command, address)
}

fn fastapi(setup: &Setup<'_>) -> Result<Process> {
    let address = free_address()?;
    let mut command = Affinity::Server.command(setup.installed("bench-python/bin/uvicorn")?);
    command
        .args(["app:app", "--no-access-log", "--log-level", "warning"])
        .args(["--host", "127.0.0.1", "--port", &address.port().to_string()])
        .arg("--app-dir")
        .arg(setup.programs.join("fastapi"))
        .current_dir(setup.folder.path())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("PETS", setup.data.file());
    Process::listening_on(command, address)
}

fn json_server(setup: &Setup<'_>) -> Result<Process> {
    let program = "bench-node/json-server/node_modules/.bin/json-server";
    setup.node(program, &["--quiet"], "db.json")
}

fn prism(setup: &Setup<'_>) -> Result<Process> {
    let program = "bench-node/prism/node_modules/.bin/prism";
    setup.node(
        program,
        &["mock", "--verboseLevel", "silent"],
        "openapi.json",
    )
}
