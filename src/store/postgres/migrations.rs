//! The migrations, and what each means for nodes of other versions.

use crate::fault::Fault;

#[derive(Clone, Copy, Debug)]
pub(super) struct Migration {
    pub(super) script: &'static str,
    /// Whether running nodes of the format before it cannot continue to serve. It is rejected while there are any.
    pub(super) breaks_older_nodes: bool,
}

const fn compatible(script: &'static str) -> Migration {
    Migration {
        script,
        breaks_older_nodes: false,
    }
}

/// One for each format, starting with format 1.
const MIGRATIONS: [Migration; 5] = [
    compatible(include_str!("migrations/0001_first.sql")),
    compatible(include_str!("migrations/0002_use_batches.sql")),
    compatible(include_str!("migrations/0003_deployment.sql")),
    compatible(include_str!("migrations/0004_nodes.sql")),
    compatible(include_str!("migrations/0005_orders_listed.sql")),
];

/// The first format in which nodes are registered.
pub(super) const FIRST_FORMAT_WITH_NODES: i64 = 4;

pub(crate) const CURRENT_FORMAT: i64 = MIGRATIONS.len() as i64;

/// All migrations, each with its format. A test may simulate a later version, which has one more.
pub(super) fn migrations() -> impl Iterator<Item = (i64, Migration)> {
    (1..).zip(MIGRATIONS.into_iter().chain(later_migration()))
}

pub(super) fn current_format() -> i64 {
    CURRENT_FORMAT + i64::from(later_migration().is_some())
}

/// The migration that a later version adds.
fn later_migration() -> Option<Migration> {
    let breaks_older_nodes = Fault::LaterBreakingVersion.is_enabled();
    (breaks_older_nodes || Fault::LaterVersion.is_enabled()).then_some(Migration {
        script: "CREATE TABLE later (id BIGINT); CREATE INDEX later_by_id ON later (id)",
        breaks_older_nodes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_for_operators_says_of_each_format_what_it_means_for_older_nodes() {
        let page = include_str!("../../../docs/operating.md");
        let rows = page
            .lines()
            .skip_while(|line| !line.starts_with("| format on PostgreSQL |"));
        let rows: Vec<_> = rows
            .skip(2)
            .take_while(|line| line.starts_with('|'))
            .collect();
        let expected = migrations().map(|(format, migration)| {
            let older = match migration.breaks_older_nodes {
                _ if format == 1 => "none",
                false => "continue",
                true => "must stop",
            };
            format!("| {format} | {older} |")
        });
        assert_eq!(rows, expected.collect::<Vec<_>>());
    }
}
