//! `GET /pets`: a page of animals, and where the next one is.

use hyper::StatusCode;

use super::{Answer, Api, ApiError, answer, link, query};

impl Api {
    pub(super) async fn list_pets(&self, query: Option<&str>) -> Result<Answer, ApiError> {
        let query = query::of_pets(query)?;
        let page = self.store.page(query).await?;
        let mut answer = answer::json(StatusCode::OK, page.json);
        link::add_next(
            &mut answer,
            page.next,
            &self.base,
            "/pets",
            query.limit,
            query.status,
        );
        Ok(answer)
    }
}
