//! The OTLP exporter, with its failures counted and logged here.

use std::sync::Arc;

use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};

use super::delivery::Delivery;

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

    fn force_flush(&self) -> OTelSdkResult {
        self.otlp.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.otlp.set_resource(resource);
    }
}
