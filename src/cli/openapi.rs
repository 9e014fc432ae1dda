//! `animal-store openapi`: prints the OpenAPI document.

use super::outcome::Outcome;
use super::print;
use crate::api::document::Document;
use crate::api::url::BaseUrl;
use crate::config::ConfigFileOption;

#[derive(Debug, clap::Args)]
pub(super) struct OpenapiCommand {
    /// Print YAML instead of JSON
    #[arg(long)]
    yaml: bool,
    /// Print JSON (the default)
    #[arg(long, conflicts_with = "yaml")]
    json: bool,
    /// Public URL of the API, ending in /v1
    #[arg(long, value_name = "URL")]
    public_url: Option<BaseUrl>,
    /// URL of the staging environment, ending in /v1
    #[arg(long, value_name = "URL")]
    staging_url: Option<BaseUrl>,
    #[command(flatten)]
    _config_file: ConfigFileOption,
}

impl OpenapiCommand {
    pub(super) fn run(self) -> Outcome {
        let (public, staging) = (self.public_url.as_ref(), self.staging_url.as_ref());
        let document = Document::new(public.map(BaseUrl::as_str), staging.map(BaseUrl::as_str));
        let text = match self.yaml {
            true => document.yaml,
            false => document.json,
        };
        print::bytes(&text)
    }
}
