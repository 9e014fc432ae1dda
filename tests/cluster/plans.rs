//! How PostgreSQL executes the statements of nodes, whatever the distribution of the data.

use std::time::Duration;

use harness::eventually;

use crate::Cluster;

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
    psql("SELECT pg_stat_reset()");
    let client = &cluster.clients(&cluster.large_key())[0];

    let available = client.get("/v1/pets?status=available&limit=2").json();
    assert_eq!(available[0]["id"], 60_001, "{available}");
    assert_eq!(available[1]["id"], 60_002, "{available}");
    let sold = client.get("/v1/pets?status=sold&limit=2").json();
    assert_eq!(sold[1]["id"], 2, "{sold}");

    let read =
        "SELECT coalesce(sum(idx_tup_read), 0) FROM pg_stat_user_indexes WHERE relname = 'pets'";
    let scanned = "SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'pets'";
    let read = || psql(read).parse::<u64>().expect("a number");
    eventually(Duration::from_secs(10), "statistics", || read() > 0);
    let (read, scanned) = (read(), psql(scanned));
    assert!(read < 1_000, "{read} rows were read");
    assert_eq!(scanned, "0");
}
