//! `/metrics`: the counters of all layers, summed when they are requested.

use http::header::{ACCEPT, CACHE_CONTROL};

use super::AdminSources;
use super::exposition::{Exposition, ExpositionFormat, metrics};
use super::process;
use crate::health::CheckState;
use crate::http::{Head, Response, header};
use crate::metrics::{BackgroundTask, OperationLabel, WorkerMetrics};
use crate::trace;

impl AdminSources {
    /// Returns the metrics in the format that the request accepts.
    pub(super) fn exposition(&self, head: &Head<'_>) -> Response {
        let format = ExpositionFormat::accepted(head.all(&ACCEPT));
        let mut out = Exposition::new(format);
        metrics! { out;
            gauges "animal_store_build_info" "Version of the server" [([("version", env!("CARGO_PKG_VERSION"))], 1.0)];
        }
        self.ready(&mut out);
        let total = self.metrics.total();
        describe_requests(&total, &mut out);
        metrics! { out;
            gauge "animal_store_max_connections" "Limit on open connections" self.max_connections as f64;
        }
        self.writes(&mut out);
        self.cache(&mut out);
        self.background(&mut out);
        self.losses(&mut out);
        self.tls(&total, &mut out);
        self.shared(&mut out);
        process::describe(&mut out, self.started);

        let text = out.finish().into();
        Response::with_type(format.content_type(), text).with(CACHE_CONTROL, header::NO_STORE)
    }

    fn ready(&self, out: &mut Exposition) {
        let is_ready = f64::from(u8::from(self.readiness.is_ready()));
        let states = self.readiness.states();
        let samples = states.iter().flat_map(|(check, state)| {
            CheckState::NAMES.map(|name| {
                let labels = [("check", *check), ("state", name)];
                (labels, f64::from(u8::from(name == *state)))
            })
        });
        metrics! { out;
            gauge  "animal_store_ready"       "Whether /readyz responds with 200"                                 is_ready;
            gauges "animal_store_check_state" "1 for the state that a check of /readyz has, and 0 for the others" samples;
        }
    }

    fn writes(&self, out: &mut Exposition) {
        let writer = &self.store.writer().state;
        metrics! { out;
            counter "animal_store_commits_total"         "Committed transactions: of all writes with the embedded database, of creations with PostgreSQL" writer.commits.get();
            counter "animal_store_commit_failures_total" "Failed transactions: of all writes with the embedded database, of creations with PostgreSQL" writer.failed.get();
        }
        out.histograms(
            "animal_store_commit_rows",
            "Animals created per transaction",
            1.0,
            [([], &writer.rows)],
        );
        metrics! { out;
            gauge   "animal_store_waiting_writes"        "Creations waiting for a transaction" writer.waiting() as f64;
            counter "animal_store_writes_rejected_total" "Creations rejected with 503 because too many were waiting" writer.rejected.get();
        }
        if let Some(bytes) = self.store.wal_bytes() {
            metrics! { out;
                gauge "animal_store_wal_bytes" "Size of the write-ahead log of the embedded database" bytes as f64;
            }
        }
    }

    fn cache(&self, out: &mut Exposition) {
        let cached = self.store.cached();
        let entries = cached.map(|(kind, entries, _)| ([("kind", kind)], entries as f64));
        let bytes = cached.map(|(kind, _, bytes)| ([("kind", kind)], bytes as f64));
        metrics! { out;
            gauges "animal_store_cache_entries" "Entries in the cache"                    entries;
            gauges "animal_store_cache_bytes"   "Memory used by the entries in the cache" bytes;
        }
    }

    fn background(&self, out: &mut Exposition) {
        let metrics = &self.metrics;
        let keys_age = metrics.keys_current().1.as_secs_f64();
        let failures = BackgroundTask::ALL
            .into_iter()
            .zip(&metrics.background_failures)
            .map(|(task, count)| ([("task", task.as_str())], count.get()));
        metrics! { out;
            gauge    "animal_store_keys_age_seconds" "Time since the keys in memory were last synchronized with the store" keys_age;
            counters "animal_store_background_failures_total" "Failed runs of background tasks" failures;
        }
        if let Some(interval) = self.backup_interval {
            let last = metrics.last_backup_at.get() as f64 / 1e3;
            metrics! { out;
                gauge "animal_store_backup_interval_seconds" "Interval at which backups are made" interval.as_secs_f64();
                gauge "animal_store_backup_last_success_timestamp_seconds"
                    "When the last backup was made, in Unix time; 0 before the first one" last;
            }
        }
    }

    /// What the log and the traces have lost.
    fn losses(&self, out: &mut Exposition) {
        metrics! { out;
            counter  "animal_store_log_lines_lost_total"
                "Log lines lost because standard error was not read in time or could not be written" self.lost_lines.get();
        }
        if let Some(dropped) = trace::dropped() {
            let dropped = dropped.map(|(reason, count)| ([("reason", reason)], count));
            metrics! { out;
                counters "animal_store_spans_dropped_total" "Spans that were not delivered to the trace collector" dropped;
            }
        }
    }

    /// Nothing if the listeners have no certificate.
    fn tls(&self, total: &WorkerMetrics, out: &mut Exposition) {
        let expiry @ 1.. = self.metrics.certificate_expires_at.get() else {
            return;
        };
        metrics! { out;
            gauge   "animal_store_tls_certificate_expiry_timestamp_seconds"
                "When the certificate of the listeners expires, in Unix time" expiry as f64 / 1e3;
            counter "animal_store_tls_handshake_failures_total"
                "TLS handshakes that failed or took too long" total.failed_handshakes.get();
            counter "animal_store_http2_streams_rejected_total"
                "Requests over HTTP/2 rejected with 503 because too many were in flight, in total or from one address" total.rejected_streams.get();
        }
    }

    /// The servers that several nodes share.
    fn shared(&self, out: &mut Exposition) {
        if self.store.is_shared() {
            metrics! { out;
                gauge "animal_store_clock_offset_seconds"
                    "Offset of the local clock from that of the database, which is used instead" self.clock.ahead() as f64 / 1e3;
            }
        }
        if let Some(redis) = &self.redis {
            let is_up = f64::from(u8::from(redis.is_healthy()));
            metrics! { out;
                gauge   "animal_store_redis_up" "Whether Redis responds in time; if 0, this node enforces limits without it" is_up;
                counter "animal_store_redis_outages_total" "Times that Redis became slow or unavailable" redis.outages.get();
            }
        }
    }
}

fn describe_requests(metrics: &WorkerMetrics, out: &mut Exposition) {
    let requests: Vec<_> = metrics
        .requests()
        .map(|(label, status, count)| (label.name(), status.to_string(), count))
        .collect();
    out.counters(
        "animal_store_requests_total",
        "Requests by operation and status",
        requests.iter().map(|(operation, status, count)| {
            ([("operation", *operation), ("status", status)], *count)
        }),
    );
    out.histograms(
        "animal_store_request_duration_seconds",
        "Time from the request head to the response",
        1e6,
        OperationLabel::all()
            .zip(&metrics.durations)
            .map(|(label, durations)| ([("operation", label.name())], durations)),
    );
    let rejections = metrics.rejections();
    let rejections = rejections.map(|(reason, count)| ([("reason", reason)], count));
    let connections = metrics.rejected_connections();
    let connections = connections.map(|(reason, count)| ([("reason", reason)], count));
    metrics! { out;
        counters "animal_store_rejected_total" "Requests rejected with 429, by reason" rejections;
        counters "animal_store_connections_rejected_total"
            "Rejected connections, by the limit that was reached: all connections, or those of one address" connections;
        counter  "animal_store_bans_total"        "Bans imposed"         metrics.bans.get();
        counter  "animal_store_connections_total" "Accepted connections" metrics.connections.get();
        gauge    "animal_store_open_connections"  "Open connections"     metrics.open_connections.get() as f64;
    }
}
