//! `GET /store/orders`: a page of orders with a link to the next. Beta.

use super::url::LinkRoot;
use super::{Api, ApiError, link, query};
use crate::http::Response;
use crate::page::Scope;

impl Api {
    pub(super) async fn list_orders(
        &self,
        query: Option<&str>,
        root: LinkRoot<'_>,
    ) -> Result<Response, ApiError> {
        let query = query::parse_order_query(query, query::CURSOR_SOURCE)?;
        let page = self.store.order_page(query).await?;
        let (path, scope) = ("/v1/store/orders?limit=", Scope::Orders);
        Ok(link::respond(page, root, path, query.limit, scope))
    }
}
