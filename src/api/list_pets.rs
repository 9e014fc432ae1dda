//! `GET /pets`: a page of animals with a link to the next.

use super::url::LinkRoot;
use super::{Api, ApiError, link, query};
use crate::http::Response;

impl Api {
    pub(super) async fn list_pets(
        &self,
        query: Option<&str>,
        root: LinkRoot<'_>,
    ) -> Result<Response, ApiError> {
        let query = query::parse_pet_query(query, query::CURSOR_SOURCE)?;
        let page = self.store.page(query).await?;
        let (path, scope) = ("/v1/pets?limit=", query.scope());
        Ok(link::respond(page, root, path, query.limit, scope))
    }
}
