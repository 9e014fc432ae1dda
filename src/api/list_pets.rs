//! `GET /pets`: a page of animals, and where the next one is.

use super::url::LinkBase;
use super::{Answer, Api, ApiError, link, query};

impl Api {
    pub(super) async fn list_pets(
        &self,
        query: Option<&str>,
        base: LinkBase<'_>,
    ) -> Result<Answer, ApiError> {
        let query = query::of_pets(query)?;
        let page = self.store.page(query).await?;
        link::answer(page, base, "/v1/pets?limit=", query.limit, query.scope())
    }
}
