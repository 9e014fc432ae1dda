//! How PostgreSQL executes the statements of nodes, whatever the distribution of the data.

use std::time::Duration;

use harness::eventually;

use crate::{Cluster, rex};

/// An idle session reports what it has read after ten seconds.
const STATISTICS_TIMEOUT: Duration = Duration::from_secs(20);

/// A statistic of a table.
fn statistic(cluster: &Cluster, table: &str, column: &str) -> u64 {
    let select = format!("SELECT {column} FROM pg_stat_user_tables WHERE relname = '{table}'");
    let number = cluster.postgres.psql("postgres", &select);
    number.parse().expect("a number")
}

#[test]
fn a_page_of_one_status_reads_no_animals_of_another() {
    let cluster = Cluster::start();
    let psql = |sql: &str| cluster.postgres.psql("postgres", sql);
    // As after some years: the old animals are sold, the new ones are available.
    psql(
        "INSERT INTO pets SELECT id, 'Rex', 1, CASE WHEN id <= 60000 THEN 'sold' ELSE 'available' END
         FROM generate_series(1, 100000) AS id",
    );
    psql("VACUUM ANALYZE pets");
    let client = &cluster.clients(&cluster.large_key())[0];

    let available = client.get("/v1/pets?status=available&limit=2").json();
    assert_eq!(available[0]["id"], 60_001, "{available}");
    assert_eq!(available[1]["id"], 60_002, "{available}");
    let sold = client.get("/v1/pets?status=sold&limit=2").json();
    assert_eq!(sold[1]["id"], 2, "{sold}");

    let read = || statistic(&cluster, "pets", "seq_tup_read + idx_tup_fetch");
    eventually(STATISTICS_TIMEOUT, "statistics", || read() > 0);
    let read = read();
    assert!(read < 1_000, "{read} rows were read");
}

#[test]
fn a_retry_is_found_without_reading_all_records_even_if_there_were_none_at_first() {
    let cluster = Cluster::start();
    let psql = |sql: &str| cluster.postgres.psql("postgres", sql);
    let client = &cluster.clients(&cluster.large_key())[0];
    let create = |number: usize| {
        let key = format!("retry-{number}");
        let request = client.request("POST", "/v1/pets");
        let created = request.header("Idempotency-Key", &key).json(&rex()).send();
        assert_eq!(created.status, 201, "{created}");
    };
    psql("VACUUM ANALYZE idempotency");
    // Enough that a prepared statement gets a plan for all values.
    (0..20).for_each(create);
    psql(
        "INSERT INTO idempotency (api_key_id, idempotency_key, fingerprint, pet_id, created_at)
         SELECT 1, sha256(number::text::bytea), sha256(''), 1, (extract(epoch FROM now()) * 1000)::int8
         FROM generate_series(1, 20000) AS number",
    );
    (20..30).for_each(create);
    eventually(STATISTICS_TIMEOUT, "statistics", || {
        statistic(&cluster, "idempotency", "n_tup_ins") == 20_030
    });
    let read = statistic(&cluster, "idempotency", "seq_tup_read");
    assert!(read < 20_000, "{read} rows were read");
}
