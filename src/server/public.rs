//! The resources outside `/v1`, which need no key: the docs, the OpenAPI document, health.

use http::StatusCode;
use http::header::{CONTENT_SECURITY_POLICY, HeaderValue, LOCATION, REFERRER_POLICY};

use crate::api::ApiError;
use crate::api::docs::{self, Docs};
use crate::api::document::Document;
use crate::api::operation::PublicResource;
use crate::api::url::BaseUrl;
use crate::health::{self, Readiness};
use crate::http::{Asset, Head, Response, header};

/// The docs and the OpenAPI document, built once.
pub(super) struct PublicResources {
    docs: Docs,
    json: Asset,
    yaml: Asset,
    policy: HeaderValue,
    /// Where `/docs` is: a proxy may have it below another path.
    docs_url: HeaderValue,
}

impl PublicResources {
    /// `local` is the URL of this server on this machine. The docs name it if there is no public one.
    pub(super) fn new(
        public: Option<&BaseUrl>,
        staging: Option<&BaseUrl>,
        local: &BaseUrl,
    ) -> Self {
        let document = Document::new(public.map(BaseUrl::as_str), staging.map(BaseUrl::as_str));
        Self {
            docs: Docs::new(public.unwrap_or(local)),
            json: Asset::new("application/json", document.json),
            yaml: Asset::new("application/yaml", document.yaml),
            policy: header::value(docs::content_security_policy(public)),
            docs_url: header::value(format!("{}/docs", public.map_or("", BaseUrl::root))),
        }
    }

    pub(super) fn show(
        &self,
        resource: PublicResource,
        path: &str,
        head: &Head<'_>,
        readiness: &Readiness,
    ) -> Result<Response, ApiError> {
        match resource {
            PublicResource::Root => {
                Ok(Response::new(StatusCode::FOUND).with(LOCATION, self.docs_url.clone()))
            }
            PublicResource::Docs => self.docs(path, head),
            PublicResource::OpenApiJson => Ok(self.json.respond(head)),
            PublicResource::OpenApiYaml => Ok(self.yaml.respond(head)),
            PublicResource::Liveness => Ok(health::liveness()),
            PublicResource::Readiness => health::readiness(readiness, head.query),
        }
    }

    /// Whether there is a resource at this path. A route takes every path below `/docs/` for one of the docs, but only their files exist.
    pub(super) fn has(&self, path: &str) -> bool {
        !path.starts_with("/docs/") || path == "/docs/" || self.docs.asset(path).is_some()
    }

    fn docs(&self, path: &str, head: &Head<'_>) -> Result<Response, ApiError> {
        let asset = self
            .docs
            .asset(path)
            .ok_or(ApiError::NotFound("There is no resource at this path."))?;
        Ok(asset
            .respond(head)
            .with(CONTENT_SECURITY_POLICY, self.policy.clone())
            .with(REFERRER_POLICY, HeaderValue::from_static("no-referrer")))
    }
}
