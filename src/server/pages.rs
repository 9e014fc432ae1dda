//! What lies outside `/v1`, for everyone: the docs, the OpenAPI document, health.

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderValue, LOCATION, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::http::request::Parts;

use super::Shared;
use crate::admin::health;
use crate::api::document::Document;
use crate::api::operation::OpenPage;
use crate::api::url::BaseUrl;
use crate::api::{Answer, ApiError, answer, docs, header};

/// The pages, made once.
#[derive(Debug)]
pub(super) struct Pages {
    document: Document,
    policy: HeaderValue,
}

impl Pages {
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

    /// One page.
    pub(super) fn show(
        &self,
        page: OpenPage,
        path: &str,
        head: &Parts,
        shared: &Shared,
    ) -> Result<Answer, ApiError> {
        match page {
            OpenPage::Root => {
                let mut answer = Answer::default();
                *answer.status_mut() = StatusCode::FOUND;
                let headers = answer.headers_mut();
                headers.insert(LOCATION, HeaderValue::from_static("/docs"));
                headers.insert(X_CONTENT_TYPE_OPTIONS, header::NOSNIFF);
                Ok(answer)
            }
            OpenPage::Docs => self.docs(path),
            OpenPage::OpenApiJson => Ok(document(header::JSON, &self.document.json)),
            OpenPage::OpenApiYaml => Ok(document(
                HeaderValue::from_static("application/yaml"),
                &self.document.yaml,
            )),
            OpenPage::Live => Ok(health::live()),
            OpenPage::Ready => health::ready(&shared.readiness, head.uri.query()),
        }
    }

    fn docs(&self, path: &str) -> Result<Answer, ApiError> {
        let asset =
            docs::asset(path).ok_or(ApiError::NotFound("There is nothing at this path."))?;
        let mut answer = answer::with_type(
            StatusCode::OK,
            HeaderValue::from_static(asset.content_type),
            asset.body,
        );
        let headers = answer.headers_mut();
        headers.insert(CONTENT_SECURITY_POLICY, self.policy.clone());
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        Ok(answer)
    }
}

fn document(content_type: HeaderValue, body: &Bytes) -> Answer {
    let mut answer = answer::with_type(StatusCode::OK, content_type, body.clone());
    answer
        .headers_mut()
        .insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    answer
}
