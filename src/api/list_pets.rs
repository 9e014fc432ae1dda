//! `GET /pets`: a page of animals, and where the next one is.

use std::fmt::Write;

use hyper::StatusCode;
use hyper::header::LINK;

use super::{Answer, Api, ApiError, answer, header, query};
use crate::page::{Cursor, PetQuery};

impl Api {
    pub(super) async fn list_pets(&self, query: Option<&str>) -> Result<Answer, ApiError> {
        let query = query::read(query)?;
        let page = self.store.page(query).await?;
        let mut answer = answer::json(StatusCode::OK, page.json);
        if let Some(next) = page.next {
            answer
                .headers_mut()
                .insert(LINK, header::value(self.next_link(query, next)));
        }
        Ok(answer)
    }

    fn next_link(&self, query: PetQuery, next: Cursor) -> String {
        let mut link = format!("<{}/pets?limit={}", self.base, query.limit);
        // Writing to a String cannot fail.
        if let Some(status) = query.status {
            let _ = write!(link, "&status={}", status.word());
        }
        let _ = write!(link, "&cursor={next}>; rel=\"next\"");
        link
    }
}
