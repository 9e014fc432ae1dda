//! `/metrics`: what the layers have counted, in the format Prometheus reads.

use std::fmt;
use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, HeaderValue};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::api::{Answer, ApiError, answer, header};
use crate::limit::redis::Health;
use crate::server::tallies::{Subject, Tallies, Task};
use crate::store::Store;
use crate::tally::{Counter, Histogram};

/// The page.
#[derive(Debug)]
pub(super) struct Metrics(Registry);

impl Metrics {
    pub(super) fn new(
        store: Arc<Store>,
        tallies: Arc<Tallies>,
        redis: Option<Arc<Health>>,
    ) -> Self {
        let mut registry = Registry::with_prefix("animal_store");
        registry.register_collector(Box::new(Counted {
            store,
            tallies,
            redis,
        }));
        Self(registry)
    }

    pub(super) fn page(&self) -> Result<Answer, ApiError> {
        let mut text = String::new();
        encode(&mut text, &self.0).map_err(|error| ApiError::Internal {
            cause: error.to_string(),
        })?;
        let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        let content_type = HeaderValue::from_static(content_type);
        let mut answer = answer::with_type(StatusCode::OK, content_type, text.into());
        answer.headers_mut().insert(CACHE_CONTROL, header::NO_STORE);
        Ok(answer)
    }
}

/// Reads the counters when the page is asked for; nobody else pays for them.
#[derive(Debug)]
struct Counted {
    store: Arc<Store>,
    tallies: Arc<Tallies>,
    redis: Option<Arc<Health>>,
}

impl Collector for Counted {
    fn encode(&self, mut page: DescriptorEncoder<'_>) -> fmt::Result {
        let (tallies, commits) = (&self.tallies, self.store.commits());

        let mut requests = describe(
            &mut page,
            "requests",
            "Requests answered",
            MetricType::Counter,
        )?;
        for (subject, status, count) in tallies.requests() {
            labelled(
                &mut requests,
                &[
                    ("operation", subject.name()),
                    ("status", &status.to_string()),
                ],
                count,
            )?;
        }
        let mut durations = describe(
            &mut page,
            "request_duration_seconds",
            "Time from a head to its answer",
            MetricType::Histogram,
        )?;
        for (subject, histogram) in Subject::ALL.into_iter().zip(&tallies.durations) {
            let labels = [("operation", subject.name())];
            histogram_of(&mut durations.encode_family(&labels)?, histogram, 1e6)?;
        }
        let mut refused = describe(
            &mut page,
            "refused",
            "Requests answered 429, by reason",
            MetricType::Counter,
        )?;
        for (reason, count) in tallies.refusals() {
            labelled(&mut refused, &[("reason", reason)], count)?;
        }
        plain(&mut page, "bans", "Bans begun", &tallies.bans)?;
        plain(
            &mut page,
            "connections",
            "Connections accepted",
            &tallies.connections,
        )?;
        plain(
            &mut page,
            "commits",
            "Transactions committed",
            &commits.done,
        )?;
        plain(
            &mut page,
            "writes_refused",
            "Writes answered 503: too many waited",
            &commits.refused,
        )?;
        let mut rows = describe(
            &mut page,
            "commit_rows",
            "Animals in each transaction",
            MetricType::Histogram,
        )?;
        histogram_of(&mut rows, &commits.rows, 1.0)?;
        let mut failures = describe(
            &mut page,
            "background_failures",
            "Runs of background tasks that failed",
            MetricType::Counter,
        )?;
        for (task, count) in Task::ALL.into_iter().zip(&tallies.background_failures) {
            labelled(&mut failures, &[("task", task.name())], count.get())?;
        }
        if let Some(redis) = &self.redis {
            describe(
                &mut page,
                "redis_up",
                "Whether Redis answers in time; 0 means that limits hold for this node alone",
                MetricType::Gauge,
            )?
            .encode_gauge(&i64::from(redis.is_well()))?;
            plain(
                &mut page,
                "redis_falls",
                "How often Redis was late or gone",
                &redis.falls,
            )?;
        }
        Ok(())
    }
}

fn describe<'a>(
    page: &'a mut DescriptorEncoder<'_>,
    name: &'a str,
    help: &str,
    kind: MetricType,
) -> Result<MetricEncoder<'a>, fmt::Error> {
    page.encode_descriptor(name, help, None, kind)
}

fn labelled(
    metric: &mut MetricEncoder<'_>,
    labels: &impl EncodeLabelSet,
    count: u64,
) -> fmt::Result {
    metric
        .encode_family(labels)?
        .encode_counter::<NoLabelSet, _, u64>(&count, None)
}

fn plain(
    page: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    counter: &Counter,
) -> fmt::Result {
    describe(page, name, help, MetricType::Counter)?
        .encode_counter::<NoLabelSet, _, u64>(&counter.get(), None)
}

fn histogram_of<const N: usize>(
    metric: &mut MetricEncoder<'_>,
    counted: &Histogram<N>,
    units: f64,
) -> fmt::Result {
    let bound = |bound: Option<u64>| bound.map_or(f64::INFINITY, |bound| bound as f64 / units);
    let buckets: Vec<(f64, u64)> = counted
        .buckets()
        .map(|(upper, count)| (bound(upper), count))
        .collect();
    let count = buckets.iter().map(|(_, count)| count).sum();
    metric.encode_histogram::<NoLabelSet>(counted.sum() as f64 / units, count, &buckets, None)
}
