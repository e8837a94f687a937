//! The log as JSON: an object per line, with the keys that kubelet gives its own (`logging.format: json`).
//!
//! Invariant: a line is valid JSON and one line, whatever it quotes.

use std::fmt;

use jiff::Timestamp;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::fmt::format::{FormatEvent, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::text::excerpt::one_line;

/// The most bytes of one value.
const MAX_VALUE: usize = 16 << 10;

/// Formats events as JSON.
pub(super) struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        writeln!(writer, "{}", line(event.metadata(), Timestamp::now(), fields.0))
    }
}

/// The object of an event: kubelet's keys first, then the event's own.
fn line(metadata: &Metadata<'_>, now: Timestamp, fields: Map<String, Value>) -> String {
    let mut object = Map::new();
    // Milliseconds, and three digits of what is left: exact in a float.
    let micros = now.as_microsecond();
    let millis = serde_json::Number::from_f64(to_f64(micros / 1000) + to_f64(micros % 1000) / 1000.0);
    object.insert("ts".into(), millis.into());
    if let (Some(file), Some(at)) = (metadata.file(), metadata.line()) {
        object.insert("caller".into(), format!("{}:{at}", file.trim_start_matches("src/")).into());
    }
    object.insert("level".into(), metadata.level().as_str().to_ascii_lowercase().into());
    match *metadata.level() {
        // As in kubelet, errors and warnings have no verbosity.
        Level::ERROR | Level::WARN => {}
        Level::INFO => drop(object.insert("v".into(), 0.into())),
        Level::DEBUG => drop(object.insert("v".into(), 4.into())),
        Level::TRACE => drop(object.insert("v".into(), 6.into())),
    }
    for (key, value) in fields {
        let key = match key.as_str() {
            "message" => "msg",
            "error" => "err",
            other => other,
        };
        object.insert(key.to_owned(), value);
    }
    Value::Object(object).to_string()
}

fn to_f64(number: i64) -> f64 {
    // Both parts are far below the limit of exact integers.
    i32::try_from(number).map_or_else(|_| number.to_string().parse().unwrap_or_default(), f64::from)
}

#[derive(Default)]
struct Fields(Map<String, Value>);

impl Visit for Fields {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().into(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().into(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name().into(), value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().into(), one_line(value, MAX_VALUE).into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::fmt::layer;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_event_is_an_object_on_one_line() {
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let layer = layer().event_format(JsonLines).with_writer(move || writer.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            tracing::info!(pod = %"default/a", attempt = 3_u32, ok = true, text = "two\nlines\u{2028}\u{1b}[2J", "it is \"so\"");
            tracing::warn!(error = "no", "cannot");
        });
        let text = String::from_utf8(buffer.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert_eq!(lines[0]["msg"], "it is \"so\"");
        assert_eq!(lines[0]["pod"], "default/a");
        assert_eq!(
            (&lines[0]["attempt"], &lines[0]["ok"], &lines[0]["v"]),
            (&3.into(), &true.into(), &0.into())
        );
        assert_eq!(lines[0]["text"], "two\\nlines\\u{2028}\\u{1b}[2J");
        assert!(lines[0]["ts"].as_f64().is_some_and(|ts| ts > 1e12));
        assert!(lines[0]["caller"].as_str().is_some_and(|caller| caller.starts_with("cli/log/json.rs:")));
        assert_eq!(
            (&lines[1]["err"], &lines[1]["level"], &lines[1]["v"]),
            (&"no".into(), &"warn".into(), &Value::Null)
        );
    }
}
