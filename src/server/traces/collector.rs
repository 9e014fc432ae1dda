//! The connection to the collector.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use opentelemetry_http::{HttpClient, HttpError, Request, Response};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;
use tokio::runtime::{Builder, Runtime};

use super::delivery::Delivery;
use crate::http::send;
use crate::mutex::lock;
use crate::tls::ClientTls;

/// Sends batches from the thread of the SDK, which has no runtime and sends one at a time.
#[derive(Debug)]
pub(super) struct Collector {
    runtime: Mutex<Runtime>,
    timeout: Duration,
    tls: Option<ClientTls>,
    delivery: Arc<Delivery>,
}

impl Collector {
    pub(super) fn new(
        timeout: Duration,
        tls: Option<ClientTls>,
        delivery: Arc<Delivery>,
    ) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Self {
            runtime: Mutex::new(runtime),
            timeout,
            tls,
            delivery,
        })
    }

    /// Sends a request. The error is the cause. It blocks, as the thread of the SDK does anyway.
    fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, String> {
        let runtime = lock(&self.runtime);
        let sending = async {
            let sending = send(request, self.tls.as_ref());
            tokio::time::timeout(self.timeout, sending).await
        };
        match runtime.block_on(sending) {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => {
                let explained = self.tls.as_ref().and_then(|tls| tls.explain(&error));
                Err(explained.unwrap_or_else(|| error.to_string()))
            }
            Err(_) => Err(format!("no response within {:?}", self.timeout)),
        }
    }
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let response = self.send(request).inspect_err(|cause| {
            self.delivery.attempt_failed(cause.clone());
        })?;
        if !response.status().is_success() {
            self.delivery.attempt_failed(response.status().to_string());
            return Ok(response);
        }
        // Any other body, such as that of a proxy, means that nothing was rejected.
        let decoded = ExportTraceServiceResponse::decode(&**response.body()).unwrap_or_default();
        if let Some(partial) = decoded.partial_success {
            let spans = u64::try_from(partial.rejected_spans).unwrap_or(0);
            self.delivery.rejected(spans, &partial.error_message);
        }
        // Without the body: the SDK would log the message of every response.
        Ok(response.map(|_| Bytes::new()))
    }
}
