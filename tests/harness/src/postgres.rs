//! A PostgreSQL server of the tests' own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::statvfs;
use rustix::process::{Signal, geteuid};
use tempfile::TempDir;

use crate::daemon::{Daemon, TIMEOUT, free_port};
use crate::{Signed, eventually};

/// The user that runs the server if the tests run as root, as which PostgreSQL does not start.
const USER: &str = "postgres";

/// The options of `initdb`. Small segments are copied faster. After a change, `cargo clean` removes the template made before.
const INITDB: [&str; 9] = [
    "--no-sync",
    "--no-instructions",
    "--auth=trust",
    "--username=animals",
    "--encoding=UTF8",
    "--locale=C",
    // As databases usually have it: letters besides those of ASCII have a lower case.
    "--lc-ctype=C.UTF-8",
    "--wal-segsize=1",
    "--pgdata=data",
];

/// Small and quick to start. `fsync` stays on: a commit survives whatever a test does to the server, in memory, too.
const SETTINGS: [&str; 5] = [
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=..",
    "max_connections=200",
    "shared_buffers=16MB",
    "full_page_writes=off",
];

/// Where clusters are, if it has enough room: a cluster is a thousand files, and what is in memory survives the crash of a server, too.
const MEMORY: &str = "/dev/shm";

/// More than the clusters of tests that run at the same time take.
const MIN_ROOM: u64 = 4 << 30;

/// A PostgreSQL server with an empty cluster. It stops when this is dropped, or when the test process ends.
#[derive(Debug)]
pub struct Postgres {
    binaries: PathBuf,
    port: u16,
    // Before the folder: a server that is dropped first leaves nothing in it.
    daemon: Mutex<Option<Daemon>>,
    folder: TempDir,
    has_tls: bool,
}

impl Postgres {
    /// Creates a cluster, starts its server on a free port, and waits until it accepts connections.
    #[track_caller]
    pub fn start() -> Self {
        let postgres = Self::new(false);
        postgres.create_cluster();
        postgres.start_again();
        postgres
    }

    /// The same with TLS. Clients are admitted by these rules of `pg_hba.conf`; on its Unix socket, all are.
    #[track_caller]
    pub fn start_with_tls(certificate: &Signed, rules: &str) -> Self {
        let postgres = Self::new(true);
        postgres.create_cluster();
        postgres.set_certificate(certificate);
        let rules = format!("local all all trust\n{rules}\n");
        std::fs::write(postgres.data().join("pg_hba.conf"), rules).expect("a file");
        postgres.chown();
        postgres.start_again();
        postgres
    }

    fn new(has_tls: bool) -> Self {
        Self {
            binaries: binaries(),
            port: free_port(),
            daemon: Mutex::new(None),
            folder: TempDir::with_prefix_in("postgres-", parent()).expect("a folder"),
            has_tls,
        }
    }

    /// Gives it another certificate, which it uses from its next start on.
    pub fn set_certificate(&self, certificate: &Signed) {
        let Signed { cert, key, ca } = certificate;
        for (from, name) in [(cert, "server.crt"), (key, "server.key"), (ca, "ca.crt")] {
            copy(from, &self.data().join(name));
        }
        self.chown();
    }

    /// A second server that follows this one, on a port of its own. From now on a commit returns when both have it, so
    /// that nothing is lost when this one is, and the other is [promoted](Self::promote).
    #[track_caller]
    pub fn standby(&self) -> Self {
        let standby = Self::new(false);
        standby.chown();
        let mut backup = standby.command("pg_basebackup");
        backup.args(["--pgdata=data", "--write-recovery-conf", "--no-sync"]);
        backup.args(["--checkpoint=fast", "--username=animals"]);
        backup.args(["--host=127.0.0.1", &format!("--port={}", self.port)]);
        run(backup);
        standby.start_again();
        // Only here, after the copy was made: the standby must not wait for one of its own.
        let wait = "alter system set synchronous_standby_names = '*'";
        self.psql("postgres", wait);
        self.psql("postgres", "select pg_reload_conf()");
        eventually(TIMEOUT, "the standby follows", || {
            let state = "select sync_state from pg_stat_replication";
            self.psql("postgres", state) == "sync"
        });
        standby
    }

    /// Makes a standby receive nothing any more, so that the server that it follows continues alone.
    #[track_caller]
    pub fn detach(&self, primary: &Self) {
        for server in [
            (self, "alter system set primary_conninfo = ''"),
            (primary, "alter system set synchronous_standby_names = ''"),
        ] {
            server.0.psql("postgres", server.1);
            server.0.psql("postgres", "select pg_reload_conf()");
        }
        eventually(TIMEOUT, "the standby receives nothing", || {
            let followers = "select count(*) from pg_stat_replication";
            primary.psql("postgres", followers) == "0"
        });
    }

    /// Makes a standby accept writes, and waits until it does.
    #[track_caller]
    pub fn promote(&self) {
        assert_eq!(self.psql("postgres", "select pg_promote()"), "t");
    }

    /// The URL of the database `postgres`.
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// Its port on 127.0.0.1. It stays the same.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Creates an empty database, and returns its URL.
    #[track_caller]
    pub fn create_database(&self, name: &str) -> String {
        self.psql("postgres", &format!("create database \"{name}\""));
        self.url_of(name)
    }

    /// What `psql` prints for these statements: a line for each row, a `|` between columns. Panics if one fails.
    #[track_caller]
    pub fn psql(&self, database: &str, sql: &str) -> String {
        let mut psql = Command::new(self.binaries.join("psql"));
        psql.args(["-XAtq", "--set=ON_ERROR_STOP=1"])
            .args(["--username=animals", "--host"])
            .arg(self.folder.path())
            .arg(format!("--port={}", self.port))
            .arg(format!("--dbname={database}"))
            .arg(format!("--command={sql}"))
            .env("PGCONNECT_TIMEOUT", TIMEOUT.as_secs().to_string());
        run(psql)
    }

    /// Stops it as a crash would: running transactions are lost, connections break, the next start recovers.
    pub fn stop_immediately(&self) {
        self.daemon().take();
    }

    /// Starts it again on the same port and data, and waits until it accepts connections.
    #[track_caller]
    pub fn start_again(&self) {
        let mut running = self.daemon();
        assert!(running.is_none(), "it runs");
        let mut command = self.command("postgres");
        command.args(["-D", "data", "-p", &self.port.to_string()]);
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        if self.has_tls {
            command.args(["-c", "ssl=on", "-c", "ssl_ca_file=ca.crt"]);
        }
        // To a server, SIGQUIT is what `pg_ctl stop -m immediate` sends.
        let mut daemon = Daemon::spawn(command, self.folder.path(), Signal::QUIT);
        daemon.wait_until(|id| self.is_ready(id));
        *running = Some(daemon);
    }

    /// A crash and the start after it.
    #[track_caller]
    pub fn restart_immediately(&self) {
        self.stop_immediately();
        self.start_again();
    }

    /// Pauses all its processes: connections stay open and new ones are accepted, but nothing responds.
    #[track_caller]
    pub fn stall(&self) {
        self.daemon().as_ref().expect("it runs").stall();
    }

    /// Resumes it after [`stall`](Self::stall).
    #[track_caller]
    pub fn resume(&self) {
        self.daemon().as_ref().expect("it runs").resume();
    }

    fn url_of(&self, database: &str) -> String {
        format!("postgres://animals@127.0.0.1:{}/{database}", self.port)
    }

    fn daemon(&self) -> MutexGuard<'_, Option<Daemon>> {
        self.daemon.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server writes its state to the eighth line of the file with its process ID.
    fn is_ready(&self, id: u32) -> bool {
        let file = std::fs::read_to_string(self.data().join("postmaster.pid"));
        let file = file.unwrap_or_default();
        let mut lines = file.lines();
        lines.next() == Some(id.to_string().as_str())
            && lines.nth(6).map(str::trim).is_some_and(accepts_connections)
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Copies a cluster made once for all tests: `initdb` takes longer than all the rest.
    fn create_cluster(&self) {
        let template = self.template();
        if template.exists() {
            copy(&template, &self.data());
            self.chown();
            return;
        }
        self.chown();
        let mut initdb = self.command("initdb");
        initdb.args(INITDB);
        run(initdb);
        // Other tests may do the same. The first one to rename a complete copy wins.
        let folder = template.parent().expect("a folder");
        let own = TempDir::new_in(folder).expect("a folder");
        let made = own.path().join("data");
        copy(&self.data(), &made);
        let renamed = std::fs::rename(made, &template);
        assert!(renamed.is_ok() || template.exists(), "{renamed:?}");
    }

    /// In the target folder, from which the test runs.
    fn template(&self) -> PathBuf {
        let program = std::env::current_exe().expect("a program");
        let target = program
            .ancestors()
            .find(|folder| folder.join(".rustc_info.json").exists())
            .expect("a target folder");
        let version = self.binaries.parent().and_then(Path::file_name);
        let version = version.expect("a version").to_string_lossy();
        let folder = target.join("tmp");
        std::fs::create_dir_all(&folder).expect("a folder");
        folder.join(format!("postgres-template-utf8-{version}"))
    }

    /// Gives the folder to the user that runs the server.
    fn chown(&self) {
        if geteuid().is_root() {
            let mut chown = Command::new("chown");
            chown.args(["-R", USER]).arg(self.folder.path());
            run(chown);
        }
    }

    /// A program of PostgreSQL in the folder, as a user that PostgreSQL accepts, with an empty environment.
    fn command(&self, program: &str) -> Command {
        let program = self.binaries.join(program);
        let mut command = if geteuid().is_root() {
            let mut command = Command::new("setpriv");
            command
                .args(["--reuid", USER, "--regid", USER, "--clear-groups"])
                .arg(program);
            command
        } else {
            Command::new(program)
        };
        let path = std::env::var_os("PATH").unwrap_or_default();
        command.env_clear().env("PATH", path).env("LC_ALL", "C");
        command.current_dir(self.folder.path());
        command
    }
}

/// Where Debian has the programs of the newest version. They are not in the path.
fn binaries() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten();
    let newest = versions
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .map(|version| (version, format!("/usr/lib/postgresql/{version}/bin")))
        .filter(|(_, folder)| Path::new(folder).join("initdb").exists())
        .max();
    let (_, folder) = newest.expect("PostgreSQL is installed; ./test cluster does that");
    folder.into()
}

fn parent() -> PathBuf {
    let has_room = statvfs(MEMORY).is_ok_and(|it| it.f_bavail * it.f_frsize >= MIN_ROOM);
    match has_room {
        true => MEMORY.into(),
        false => std::env::temp_dir(),
    }
}

/// Whether this state, in the file with the process ID, is that of a server or a standby that accepts connections.
fn accepts_connections(state: &str) -> bool {
    ["ready", "standby"].contains(&state)
}

fn copy(from: &Path, to: &Path) {
    let mut copy = Command::new("cp");
    copy.arg("-a").args([from, to]);
    run(copy);
}

#[track_caller]
fn run(mut command: Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_committed_is_there_after_a_crash() {
        let postgres = Postgres::start();
        assert_eq!(postgres.psql("postgres", "select 1"), "1");
        let url = postgres.create_database("zoo");
        assert!(url.ends_with(&format!(":{}/zoo", postgres.port())), "{url}");
        postgres.psql(
            "zoo",
            "create table animal as select 'cat' as name, 3 as age",
        );
        postgres.stop_immediately();
        postgres.start_again();
        postgres.restart_immediately();
        assert_eq!(postgres.psql("zoo", "select * from animal"), "cat|3");
    }

    #[test]
    fn a_standby_has_all_that_was_committed_and_takes_writes_once_it_is_promoted() {
        let postgres = Postgres::start();
        let standby = postgres.standby();
        postgres.psql("postgres", "create table animal as select 'cat' as name");
        postgres.stop_immediately();
        standby.promote();
        standby.psql("postgres", "insert into animal values ('dog')");
        assert_eq!(standby.psql("postgres", "select count(*) from animal"), "2");
    }

    #[test]
    fn it_responds_to_nothing_while_it_is_stalled() {
        let postgres = Postgres::start();
        thread::scope(|scope| {
            let begun = scope.spawn(|| postgres.psql("postgres", "select pg_sleep(5)"));
            eventually(TIMEOUT, "a server process is at work", || {
                let sleeping = "select count(*) from pg_stat_activity where wait_event = 'PgSleep'";
                postgres.psql("postgres", sleeping) == "1"
            });
            postgres.stall();
            let new = scope.spawn(|| postgres.psql("postgres", "select 2"));
            thread::sleep(Duration::from_millis(5500));
            let early = begun.is_finished() || new.is_finished();
            postgres.resume();
            assert_eq!(begun.join().expect("a response"), "");
            assert_eq!(new.join().expect("a response"), "2");
            assert!(!early, "a stalled server responded");
        });
    }
}
