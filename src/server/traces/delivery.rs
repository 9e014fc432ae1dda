//! The delivery of spans: they wait in a queue, are exported or are dropped. Drops are counted. Failed
//! exports are logged when they begin and when they end; a full queue and rejected spans only the first time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use opentelemetry::Context;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{BatchSpanProcessor, Span, SpanData, SpanExporter, SpanProcessor};

use crate::mutex::lock;
use crate::trace::Dropped;

/// The spans of the process, shared by the queue, the exporter and the connection to the collector.
#[derive(Debug)]
pub(super) struct Delivery {
    waiting: AtomicUsize,
    capacity: usize,
    pub(super) dropped: Arc<Dropped>,
    /// Whether the last export failed.
    is_failing: AtomicBool,
    /// Why the last attempt failed. The SDK does not pass on errors of the connection.
    cause: Mutex<String>,
}

impl Delivery {
    /// No more spans than `capacity` may wait.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            waiting: AtomicUsize::new(0),
            capacity,
            dropped: Arc::default(),
            is_failing: AtomicBool::new(false),
            cause: Mutex::default(),
        }
    }

    /// Whether another span may wait. If not, it is dropped.
    pub(super) fn admit(&self) -> bool {
        let more = |waiting| (waiting < self.capacity).then_some(waiting + 1);
        let is_admitted = self.waiting.fetch_update(Relaxed, Relaxed, more).is_ok();
        if !is_admitted {
            if self.dropped.queue_full.get() == 0 {
                tracing::warn!("spans are dropped: the queue for the collector is full");
            }
            self.dropped.queue_full.add(1);
        }
        is_admitted
    }

    /// The process exits: spans that are still waiting will not be exported.
    fn abandon(&self) {
        let waiting = self.waiting.load(Relaxed);
        self.dropped.export_failed.add(waiting as u64);
    }

    /// An attempt has failed, and may be repeated.
    pub(super) fn attempt_failed(&self, cause: String) {
        *lock(&self.cause) = cause;
    }

    /// The collector has accepted an export, except for some of its spans. The message is not ours, so it may be of any length.
    pub(super) fn rejected(&self, spans: u64, message: &str) {
        if spans > 0 && self.dropped.rejected.get() == 0 {
            let message: String = message.chars().take(200).collect();
            tracing::warn!(?message, "the collector rejects spans");
        }
        self.dropped.rejected.add(spans);
    }

    /// An export of this many spans has ended.
    pub(super) fn ended(&self, spans: usize, is_exported: bool) {
        self.waiting.fetch_sub(spans, Relaxed);
        let was_failing = self.is_failing.swap(!is_exported, Relaxed);
        if is_exported {
            if was_failing {
                let [queue_full, export_failed, rejected] =
                    self.dropped.by_reason().map(|(_, n)| n);
                tracing::info!(
                    queue_full,
                    export_failed,
                    rejected,
                    "traces are exported again"
                );
            }
            return;
        }
        self.dropped.export_failed.add(spans as u64);
        if !was_failing {
            let cause = lock(&self.cause);
            tracing::warn!(cause = %*cause, "traces cannot be exported: spans are dropped");
        }
    }
}

/// The SDK's queue, with a limit of ours: what the SDK drops is not counted where we could read it.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) batches: BatchSpanProcessor,
    pub(super) delivery: Arc<Delivery>,
}

impl SpanProcessor for Queue {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.batches.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        if self.delivery.admit() {
            self.batches.on_end(span);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.batches.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        let result = self.batches.shutdown_with_timeout(timeout);
        self.delivery.abandon();
        result
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.batches.set_resource(resource);
    }
}

/// The OTLP exporter, with its failures counted and logged here.
#[derive(Debug)]
pub(super) struct Exporter {
    pub(super) otlp: opentelemetry_otlp::SpanExporter,
    pub(super) delivery: Arc<Delivery>,
}

impl SpanExporter for Exporter {
    /// Never fails for the SDK, which would log every failure.
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        let is_exported = self.otlp.export(batch).await.is_ok();
        self.delivery.ended(spans, is_exported);
        Ok(())
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.otlp.set_resource(resource);
    }
}
