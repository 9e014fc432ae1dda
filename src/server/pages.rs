//! The pages outside `/v1`, which need no key: the docs, the OpenAPI document, health.

use bytes::Bytes;
use http::StatusCode;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderValue, LOCATION, REFERRER_POLICY,
};

use crate::api::document::Document;
use crate::api::operation::PublicPage;
use crate::api::url::BaseUrl;
use crate::api::{ApiError, docs};
use crate::health::{self, Readiness};
use crate::http::{Response, header};

/// The pages, built once.
#[derive(Debug)]
pub(super) struct OpenPages {
    document: Document,
    policy: HeaderValue,
}

impl OpenPages {
    pub(super) fn new(public: Option<&BaseUrl>, staging: Option<&BaseUrl>) -> Self {
        let origins: Vec<&str> = public
            .into_iter()
            .chain(staging)
            .map(BaseUrl::origin)
            .collect();
        Self {
            document: Document::new(public.map(BaseUrl::as_str), staging.map(BaseUrl::as_str)),
            policy: header::value(docs::content_security_policy(&origins)),
        }
    }

    /// Returns a page.
    pub(super) fn show(
        &self,
        page: PublicPage,
        path: &str,
        query: Option<&str>,
        readiness: &Readiness,
    ) -> Result<Response, ApiError> {
        match page {
            PublicPage::Root => {
                let docs = HeaderValue::from_static("/docs");
                Ok(Response::new(StatusCode::FOUND).with(LOCATION, docs))
            }
            PublicPage::Docs => self.docs(path),
            PublicPage::OpenApiJson => Ok(cached(header::JSON, &self.document.json)),
            PublicPage::OpenApiYaml => {
                let yaml = HeaderValue::from_static("application/yaml");
                Ok(cached(yaml, &self.document.yaml))
            }
            PublicPage::Live => Ok(health::live()),
            PublicPage::Ready => health::ready(readiness, query),
        }
    }

    fn docs(&self, path: &str) -> Result<Response, ApiError> {
        let asset =
            docs::asset(path).ok_or(ApiError::NotFound("There is no resource at this path."))?;
        let content_type = HeaderValue::from_static(asset.content_type);
        Ok(cached(content_type, &asset.body)
            .with(CONTENT_SECURITY_POLICY, self.policy.clone())
            .with(REFERRER_POLICY, HeaderValue::from_static("no-referrer")))
    }
}

/// A page that clients may cache and must revalidate (`no-cache`).
fn cached(content_type: HeaderValue, body: &Bytes) -> Response {
    Response::with_type(content_type, body.clone()).with(CACHE_CONTROL, header::NO_CACHE)
}
