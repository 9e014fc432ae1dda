//! The exposition formats of Prometheus: its own text format, and OpenMetrics on request. They differ in the names of counters and in
//! the last line.

use std::fmt::{self, Display, Write};

use http::header::HeaderValue;

use crate::counter::Histogram;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExpositionFormat {
    /// Version 0.0.4.
    Text,
    /// Version 1.0.0.
    OpenMetrics,
}

const OPEN_METRICS: &str = "application/openmetrics-text";

impl ExpositionFormat {
    /// Returns the format that a request accepts: OpenMetrics if it is named and not of lower quality than plain text.
    pub(super) fn accepted<'a>(accept: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut open_metrics = 0;
        let mut text = 0;
        let values = accept.map(|value| std::str::from_utf8(value).unwrap_or_default());
        for range in values.flat_map(|value| value.split(',')) {
            let mut parts = range.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default();
            let quality = parts.find_map(|part| part.strip_prefix(['q', 'Q'])?.strip_prefix('='));
            let quality = quality.map_or(1.0, |text| text.parse().unwrap_or(0.0));
            let thousandths = (quality * 1000.0) as u32;
            if name.eq_ignore_ascii_case(OPEN_METRICS) {
                open_metrics = open_metrics.max(thousandths);
            } else if name.eq_ignore_ascii_case("text/plain") {
                text = text.max(thousandths);
            }
        }
        if open_metrics > 0 && open_metrics >= text {
            Self::OpenMetrics
        } else {
            Self::Text
        }
    }

    pub(super) const fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        })
    }
}

/// Adds metrics to an exposition. A row has the kind of a metric, its name, its help text, and its value or samples.
macro_rules! metrics {
    ($out:ident; $($kind:ident $name:literal $help:literal $value:expr;)+) => {
        $($out.$kind($name, $help, $value);)+
    };
}
pub(super) use metrics;

/// An exposition under construction. Names, labels and help texts are constants that need no escaping.
pub(super) struct Exposition {
    format: ExpositionFormat,
    text: String,
}

impl Exposition {
    pub(super) fn new(format: ExpositionFormat) -> Self {
        Self {
            format,
            text: String::with_capacity(16 * 1024),
        }
    }

    /// A counter with a sample for each set of labels. Its name ends in `_total`.
    pub(super) fn counters<'a, L: AsRef<[(&'a str, &'a str)]>>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (L, impl Display)>,
    ) {
        let family = match self.format {
            ExpositionFormat::Text => name,
            ExpositionFormat::OpenMetrics => name.strip_suffix("_total").unwrap_or(name),
        };
        self.family(family, help, "counter");
        for (labels, value) in samples {
            self.sample(name, labels.as_ref(), value);
        }
    }

    /// A counter without labels.
    pub(super) fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.counters(name, help, [([], value)]);
    }

    /// A gauge with a sample for each set of labels.
    pub(super) fn gauges<'a, L: AsRef<[(&'a str, &'a str)]>>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (L, f64)>,
    ) {
        self.family(name, help, "gauge");
        for (labels, value) in samples {
            self.sample(name, labels.as_ref(), value);
        }
    }

    /// A gauge without labels.
    pub(super) fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.gauges(name, help, [([], value)]);
    }

    /// A histogram for each set of labels. Its values are divided by `units`.
    pub(super) fn histograms<'a, 'h, const N: usize, L: AsRef<[(&'a str, &'a str)]>>(
        &mut self,
        name: &str,
        help: &str,
        units: f64,
        histograms: impl IntoIterator<Item = (L, &'h Histogram<N>)>,
    ) {
        self.family(name, help, "histogram");
        for (labels, histogram) in histograms {
            let labels = labels.as_ref();
            let mut count = 0;
            for (bound, in_bucket) in histogram.buckets() {
                count += in_bucket;
                let bound = bound.map_or("+Inf".to_owned(), |bound| {
                    format!("{:?}", bound as f64 / units)
                });
                let mut labels = labels.to_vec();
                labels.push(("le", &bound));
                self.sample(&format!("{name}_bucket"), &labels, count);
            }
            let sum = histogram.sum() as f64 / units;
            self.sample(&format!("{name}_sum"), labels, sum);
            self.sample(&format!("{name}_count"), labels, count);
        }
    }

    pub(super) fn finish(mut self) -> String {
        if self.format == ExpositionFormat::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }

    fn family(&mut self, name: &str, help: &str, kind: &str) {
        self.write(format_args!(
            "# HELP {name} {help}.\n# TYPE {name} {kind}\n"
        ));
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.text.push_str(name);
        for (index, (label, text)) in labels.iter().enumerate() {
            let before = if index == 0 { '{' } else { ',' };
            self.write(format_args!("{before}{label}=\"{text}\""));
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        self.write(format_args!(" {value}\n"));
    }

    fn write(&mut self, text: fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = self.text.write_fmt(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(text: &str) -> ExpositionFormat {
        ExpositionFormat::accepted([text.as_bytes()].into_iter())
    }

    #[test]
    fn open_metrics_is_sent_where_it_is_accepted_and_preferred() {
        assert_eq!(
            ExpositionFormat::accepted([].into_iter()),
            ExpositionFormat::Text
        );
        for text in [
            "*/*",
            "text/plain",
            "application/openmetrics-text;q=0",
            "application/openmetrics-text;Q=0",
            "application/openmetrics-text;q=0.3,text/plain;version=0.0.4;q=0.5",
        ] {
            assert_eq!(accepts(text), ExpositionFormat::Text, "{text}");
        }
        for text in [
            "application/openmetrics-text",
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
        ] {
            assert_eq!(accepts(text), ExpositionFormat::OpenMetrics, "{text}");
        }
    }

    fn page(format: ExpositionFormat) -> String {
        let mut page = Exposition::new(format);
        page.counters("a_total", "As", [([("b", "c"), ("d", "e")], 7)]);
        page.gauge("g", "Gs", 0.5);
        let histogram = Histogram::new([1_000, 2_000]);
        histogram.record(500);
        histogram.record(5_000);
        page.histograms("h_seconds", "Hs", 1e3, [([], &histogram)]);
        page.finish()
    }

    #[test]
    fn the_formats_differ_in_the_name_of_a_counter_and_in_the_end() {
        let rest = "a_total{b=\"c\",d=\"e\"} 7\n\
                    # HELP g Gs.\n# TYPE g gauge\ng 0.5\n\
                    # HELP h_seconds Hs.\n# TYPE h_seconds histogram\n\
                    h_seconds_bucket{le=\"1.0\"} 1\nh_seconds_bucket{le=\"2.0\"} 1\nh_seconds_bucket{le=\"+Inf\"} 2\n\
                    h_seconds_sum 5.5\nh_seconds_count 2\n";
        assert_eq!(
            page(ExpositionFormat::Text),
            format!("# HELP a_total As.\n# TYPE a_total counter\n{rest}")
        );
        assert_eq!(
            page(ExpositionFormat::OpenMetrics),
            format!("# HELP a As.\n# TYPE a counter\n{rest}# EOF\n")
        );
    }
}
