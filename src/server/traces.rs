//! The export of traces, configured by the standard environment variables of OpenTelemetry. Only in builds with the feature `otel`.

#[cfg(feature = "otel")]
mod collector;
#[cfg(feature = "otel")]
mod delivery;
#[cfg(feature = "otel")]
mod settings;

#[cfg(feature = "otel")]
pub(crate) use settings::Traces;

/// No traces, in a build without them.
#[cfg(not(feature = "otel"))]
pub(crate) struct Traces;

#[cfg(not(feature = "otel"))]
impl Traces {
    #[expect(clippy::unnecessary_wraps, reason = "it fails in a build with traces")]
    pub(crate) fn from_environment() -> Result<Self, std::convert::Infallible> {
        Ok(Self)
    }

    #[expect(clippy::unnecessary_wraps, reason = "it fails in a build with traces")]
    pub(crate) fn start(self) -> anyhow::Result<()> {
        Ok(())
    }
}
