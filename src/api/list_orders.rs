//! `GET /store/orders`: a page of orders, and where the next one is. Beta.

use hyper::StatusCode;

use super::{Answer, Api, ApiError, answer, link, query};

impl Api {
    pub(super) async fn list_orders(&self, query: Option<&str>) -> Result<Answer, ApiError> {
        let query = query::of_orders(query)?;
        let page = self.store.order_page(query).await?;
        let mut answer = answer::json(StatusCode::OK, page.json);
        link::add_next(
            &mut answer,
            page.next,
            &self.base,
            "/store/orders",
            query.limit,
            None,
        );
        Ok(answer)
    }
}
