//! `GET /pets`: a page of animals, and where the next one is.

use super::{Answer, Api, ApiError, link, query};

impl Api {
    pub(super) async fn list_pets(&self, query: Option<&str>) -> Result<Answer, ApiError> {
        let query = query::of_pets(query)?;
        let page = self.store.page(query).await?;
        Ok(link::answer(
            page,
            &self.base,
            "/pets",
            query.limit,
            query.status,
        ))
    }
}
